import { once } from "node:events";
import { createServer, type Server } from "node:net";

/** The port that a server listens on. */
export function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("a listening server has a port");
  return address.port;
}

/** Ports below those that systems give to outgoing connections. */
const lowestPort = 15_000;
const highestPort = 32_000;

/**
 * A loopback port that was free a moment ago. It stays free while what listens on it is down: no outgoing connection is
 * given it.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = lowestPort + Math.floor(Math.random() * (highestPort - lowestPort));
    const server = createServer();
    try {
      await once(server.listen(port, "127.0.0.1"), "listening");
    } catch {
      continue;
    }
    server.close();
    await once(server, "close");
    return port;
  }
}
