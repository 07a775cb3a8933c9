import { once } from "node:events";
import { createServer } from "node:net";

/** Below the ports that a system chooses itself, for connections and for servers that ask for any port. */
const [lowest, highest] = [10_000, 32_000];

/** Ports of each worker of a test run, whose tests ask for fewer. */
const portsPerWorker = 500;

const workers = (highest - lowest) / portsPerWorker;
const first = lowest + portsPerWorker * (Number(process.env["VITEST_POOL_ID"] ?? 0) % workers);
let next = Math.floor(Math.random() * portsPerWorker);

/** The only port of the range that `fetch` and browsers refuse to connect to ("bad port"). */
const blockedByFetch = 10_080;

/** A loopback port where nothing listens. No other caller is given it, also while what listens there is down. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = first + (next++ % portsPerWorker);
    if (port === blockedByFetch) continue;
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
