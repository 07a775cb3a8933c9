// npm run conformance (attack, chaos, cluster, history): installs and builds what is missing, then runs harness/NAME.ts.
import "./check-node.mjs";

import("./bootstrap.mjs").then((bootstrap) => bootstrap.harness(process.argv.slice(2)));
