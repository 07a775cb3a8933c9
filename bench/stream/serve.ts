// One of the compared servers, in a process of its own: `serve.js KIND`.
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { answerOrders } from "./child.js";
import { fanOuts } from "./fan-out.js";
import { simulatedTicks } from "./simulated-ticks.js";

/** "Send ticks for so long." */
export interface ServeOrder {
  readonly ms: number;
}

/** What that came to. */
export interface ServeReply {
  readonly ticks: number;
  readonly ms: number;
  /** CPU time of all threads of this process. */
  readonly cpuMicros: number;
}

/** Blocks before the first reader comes, so that the books are full. */
const warmUpBlocks = 200;
const tickCount = 500;

const [kind = ""] = process.argv.slice(2);
const start = fanOuts[kind];
if (start === undefined) throw new Error(`no server "${kind}"`);
const fanOut = await start(simulatedTicks(warmUpBlocks, tickCount));

async function run({ ms }: ServeOrder): Promise<ServeReply> {
  const cpuBefore = process.cpuUsage();
  const begun = performance.now();
  let ticks = 0;
  while (performance.now() - begun < ms) {
    fanOut.publish();
    ticks++;
    await turn();
    // Readers that don't keep up are waited for without burning time that would be counted.
    while (!fanOut.settled()) await sleep(1);
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  return { ticks, ms: performance.now() - begun, cpuMicros: user + system };
}

answerOrders<ServeOrder, ServeReply>({ port: fanOut.port }, run);
