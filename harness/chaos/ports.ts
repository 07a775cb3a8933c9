import { once } from "node:events";
import { createServer, type Server } from "node:net";

/** The port that a server listens on. */
export function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("a listening server has a port");
  return address.port;
}

/** A loopback port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const port = portOf(server);
  server.close();
  await once(server, "close");
  return port;
}
