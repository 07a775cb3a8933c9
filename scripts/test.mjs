// npm test: installs and builds what is missing, then is `vitest run`, with the same arguments. With `--watch` first it
// is `vitest watch`.
import "./check-node.mjs";

import("./bootstrap.mjs").then((bootstrap) => bootstrap.test(process.argv.slice(2)));
