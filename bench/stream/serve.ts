// One of the compared servers, in a process of its own: `serve.js KIND`.
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { serveOrders } from "./child.js";
import { fanOuts } from "./fan-out.js";
import { simulatedBlocks } from "./simulated-blocks.js";

/** "Send so many blocks." */
export interface ServeOrder {
  /** By the name that earlier checkouts, which `--against` measures, give it. */
  readonly blocks: number;
}

/** What that came to. */
export interface ServeReply {
  readonly ms: number;
  /** CPU time of all threads of this process. */
  readonly cpuMicros: number;
}

const [kind = ""] = process.argv.slice(2);
const start = fanOuts[kind];
if (start === undefined) throw new Error(`no server "${kind}"`);
const fanOut = await start(simulatedBlocks());

async function run({ blocks }: ServeOrder): Promise<ServeReply> {
  const cpuBefore = process.cpuUsage();
  const started = performance.now();
  for (let block = 0; block < blocks; block++) {
    fanOut.publish();
    await turn();
    // Readers that don't keep up are waited for without burning time that would be counted.
    while (!fanOut.settled()) await sleep(1);
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  return { ms: performance.now() - started, cpuMicros: user + system };
}

serveOrders<ServeOrder, ServeReply>({ port: fanOut.port }, run);
