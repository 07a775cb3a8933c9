import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

// A process that only says that it is ready: how long the machine itself takes for a call of health at this moment.
const server = createServer((_, response) => response.end("ready"));
server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
process.once("disconnect", () => process.exit());
