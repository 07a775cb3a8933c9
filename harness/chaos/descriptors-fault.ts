import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { freePort } from "../../test/support/free-port.js";
import { startChild } from "./children.js";
import { DatabaseServer } from "./database-server.js";
import type { Fault } from "./fault.js";
import { HttpClient } from "./http-client.js";
import { serveArguments } from "./marketd.js";
import type { World } from "./world.js";

const descriptors = 150;
const clientsCount = 600;
const startMaxMs = 20_000;
const probes = 20;

/**
 * A service of its own that may open few files, and more clients than that. When they have gone, everybody must be
 * served again.
 */
export function descriptorsExhausted(world: World): Fault {
  let cramped: { readonly port: number; readonly child: ChildProcess } | undefined;
  const sockets: Socket[] = [];
  return {
    name: "descriptors exhausted",
    excuses: [],
    holdMs: [1_000, 2_000],
    inject: async () => {
      cramped = await startCramped(world);
      const { port } = cramped;
      await world.within(startMaxMs, () => world.isReady(port));
      for (let client = 0; client < clientsCount; client++) sockets.push(askAndStay(port));
    },
    heal: () => {
      for (const socket of sockets.splice(0)) socket.destroy();
    },
    isWell: () => cramped !== undefined && servesEveryone(cramped.port),
    restore: async () => {
      if (cramped === undefined) return;
      const { child } = cramped;
      const ended = once(child, "close");
      child.kill("SIGTERM");
      const killer = setTimeout(() => child.kill("SIGKILL"), 5_000);
      await ended;
      clearTimeout(killer);
    },
  };
}

async function startCramped({ settings, serviceProxy }: World) {
  const port = await freePort();
  const args = serveArguments(DatabaseServer.url(serviceProxy.port), port);
  const script = `ulimit -n ${descriptors}; exec "$@"`;
  const child = startChild("/bin/sh", ["-c", script, "sh", process.execPath, settings.program, ...args], {
    stdio: "ignore",
  });
  return { port, child };
}

function askAndStay(port: number): Socket {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  socket.on("data", () => {});
  socket.write("GET /healthz HTTP/1.1\r\nHost: chaos\r\n\r\n");
  return socket;
}

/** Whether so many clients, one after the other and each with a connection of its own, are answered. */
async function servesEveryone(port: number): Promise<boolean> {
  const client = new HttpClient(port, false);
  try {
    for (let probe = 0; probe < probes; probe++) {
      const { status } = await client.exchange({ path: "/markets/data", deadlineMs: 500 });
      if (status !== 200) return false;
    }
    return true;
  } catch {
    return false;
  }
}
