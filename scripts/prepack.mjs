// npm pack: installs and builds what is missing, then copies what users need of the build to lib/.
import "./check-node.mjs";

import("./bootstrap.mjs").then((bootstrap) => bootstrap.prepack());
