// npm run demo: installs and builds what is missing, then is `bin/marketd demo`, with the same arguments.
import "./check-node.mjs";

import("./bootstrap.mjs").then((bootstrap) => bootstrap.demo(process.argv.slice(2)));
