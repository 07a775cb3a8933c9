// npm run bench -- NAME: installs and builds what is missing, then is bench/NAME.ts, with the further arguments.
import "./check-node.mjs";

import("./bootstrap.mjs").then((bootstrap) => bootstrap.bench(process.argv.slice(2)));
