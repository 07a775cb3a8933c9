// npm run bench -- mixed [--seconds N] [--rounds N] [--streams N]
// How long a depth GET takes at half the top rate, while depth streams run beside it and a loader writes five blocks a
// second; and while readers of the past take all that they are given besides. The service has the first core; all else
// shares the second, where the requests go first: what they wait for is to be the service.
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { eventLoopTimerMs } from "../src/telemetry/metrics.js";
import type { MarketOrder } from "./mixed/market.js";
import type { PastOrder, PastReply } from "./mixed/past-readers.js";
import { callers, type SteadyResult, steadyLoad } from "./mixed/steady-load.js";
import { Child } from "./stream/child.js";
import type { ReadOrder, ReadReply } from "./stream/read.js";
import { loadHttp, missingPrograms } from "./unary/load.js";
import { marketStoreBlocks } from "./unary/market-store.js";
import { takeSample } from "./unary/sample.js";
import { ServiceProcess } from "./unary/service-process.js";

const aimMs = 10;
/** Readers of the past have connected, and read, so long before callers connect. */
const settleMs = 2_000;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "30" },
    rounds: { type: "string", default: "3" },
    streams: { type: "string", default: "1000" },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const streams = Number(values.streams);

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

function print(name: string, { perSecond, median, p99, slowest }: SteadyResult, lateness: number): void {
  const times = [median, p99, slowest, lateness].map((ms) => ms.toFixed(2).padStart(9)).join("");
  console.log(`  ${name.padEnd(24)}${String(Math.round(perSecond)).padStart(8)}${times}`);
}

/** The longest that one of a hundred of the service's own timers was late since this was last asked, in milliseconds. */
async function ownLateness(service: ServiceProcess): Promise<number> {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  return Number(/^marketd_nodejs_eventloop_lag_p99_seconds (\S+)/m.exec(text)?.[1]) * 1000 - eventLoopTimerMs;
}

/** Half over gRPC, ten on a connection, and half as lines, one on each. */
async function openStreams(readers: Child<ReadOrder, ReadReply>, port: number): Promise<void> {
  const half = Math.floor(streams / 2);
  const open = { kind: "open", port } as const;
  await readers.ask({ ...open, protocol: "lines", connections: half, streamsPerConnection: 1 });
  const connections = Math.ceil((streams - half) / 10);
  await readers.ask({ ...open, protocol: "grpc", connections, streamsPerConnection: 10 });
}

async function run(): Promise<void> {
  const [market, { url }] = await Child.start<MarketOrder, object, { url: string }>("../mixed/market", [], 1);
  const service = await ServiceProcess.start("ours", url, 1);
  const [readers] = await Child.start<ReadOrder, ReadReply, object>("read", ["background"], 1);
  const [past] = await Child.start<PastOrder, PastReply, object>("../mixed/past-readers", [], 1);
  const { port } = service;
  try {
    const { marketId } = await takeSample(service.url);
    await loadHttp(port, marketId, 2);
    const topRate = (await loadHttp(port, marketId, 3)).perSecond;
    console.log(`top rate of a depth GET alone: ${Math.round(topRate)} a second over 64 connections`);
    console.log(`half of it by ${callers} callers, milliseconds:`);
    console.log(`  ${"".padEnd(24)}    rate   median      p99  slowest  service's event loop late, p99`);
    await steadyLoad(port, marketId, topRate / 2, 3);
    await ownLateness(service);
    print("alone", await steadyLoad(port, marketId, topRate / 2, seconds), await ownLateness(service));
    await openStreams(readers, port);
    await market.ask("begin");
    const measure = async (name: string): Promise<number> => {
      await ownLateness(service);
      const before = await readers.ask({ kind: "bytes" });
      const result = await steadyLoad(port, marketId, topRate / 2, seconds);
      const after = await readers.ask({ kind: "bytes" });
      if (after.lost > 0 || after.least <= before.least) throw new Error("a stream got nothing");
      print(name, result, await ownLateness(service));
      return result.p99;
    };
    const p99s: Record<"streams" | "past", number[]> = { streams: [], past: [] };
    for (let round = 1; round <= rounds; round++) {
      p99s.streams.push(await measure(`beside ${streams} streams, ${round}`));
      await past.ask({ kind: "begin", port, marketId, height: marketStoreBlocks });
      await sleep(settleMs);
      p99s.past.push(await measure(`and the past, ${round}`));
      const { replays, books, bytes } = await past.ask({ kind: "end" });
      if (bytes === 0) throw new Error("readers of the past got nothing");
      console.log(`    ${replays} replays, ${books} books, ${(bytes / 2 ** 20).toFixed(0)} MiB`);
    }
    const ratio = (values: readonly number[]) => Math.round((aimMs / median(values)) * 1000) / 1000;
    const ratios = { ten_ms_vs_p99: ratio(p99s.streams), ten_ms_vs_p99_beside_past: ratio(p99s.past) };
    console.log(JSON.stringify({ name: "mixed", ratios }));
  } finally {
    readers.stop();
    past.stop();
    await service.stop();
    await market.ask("end");
  }
}

if (missingPrograms().length > 0) {
  console.error("bench mixed needs wrk (Debian: apt-get install wrk nghttp2-client)");
  process.exitCode = 1;
} else {
  await run();
}
