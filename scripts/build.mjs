// npm run build: compiles into dist/, if anything that goes into it has changed.
import "./check-node.mjs";

import("./bootstrap.mjs").then((bootstrap) => bootstrap.build());
