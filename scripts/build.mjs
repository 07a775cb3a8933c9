// npm run build: compiles into dist/, if anything that goes into it has changed. With --tools, benches and harnesses too.
import "./check-node.mjs";

import("./bootstrap.mjs").then((bootstrap) => bootstrap.build(process.argv.slice(2)));
