// One of the compared servers, in a process of its own: `serve.js KIND`.
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { answerOrders } from "./child.js";
import { fanOuts } from "./fan-out.js";
import { simulatedTicks } from "./simulated-ticks.js";

/** "Send so many ticks." */
export interface ServeOrder {
  readonly ticks: number;
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
const fanOut = await start(simulatedTicks());

async function run({ ticks }: ServeOrder): Promise<ServeReply> {
  const cpuBefore = process.cpuUsage();
  const begun = performance.now();
  for (let tick = 0; tick < ticks; tick++) {
    fanOut.publish();
    await turn();
    // Readers that don't keep up are waited for without burning time that would be counted.
    while (!fanOut.settled()) await sleep(1);
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  return { ms: performance.now() - begun, cpuMicros: user + system };
}

answerOrders<ServeOrder, ServeReply>({ port: fanOut.port }, run);
