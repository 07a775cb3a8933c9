// npm run bench -- mixed [--seconds N] [--rounds N] [--streams N]
// How long a depth GET takes at half the top rate, while depth streams run beside it and a loader writes five blocks a
// second. The service has the first core; streams' readers, requests and loader share the second.
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { load } from "../src/loader/load.js";
import { streamSource } from "../src/loader/source.js";
import { Network, networkDefaults } from "../src/simulator/network.js";
import { createLog } from "../src/telemetry/log.js";
import type { OpenLoopOrder, OpenLoopReply } from "./mixed/open-loop.js";
import { Child } from "./stream/child.js";
import type { ReadOrder, ReadReply } from "./stream/read.js";
import { loadHttp, missingPrograms } from "./unary/load.js";
import { marketStoreBlocks, withMarketStore } from "./unary/market-store.js";
import { depthPath, takeSample } from "./unary/sample.js";
import { ServiceProcess } from "./unary/service-process.js";

const blocksPerSecond = 5;
const connections = 256;
const aimMs = 10;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "10" },
    rounds: { type: "string", default: "3" },
    streams: { type: "string", default: "1000" },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const streams = Number(values.streams);

/** The network goes on from where the store is, until it is told to end. */
async function* blocks(signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const network = new Network(networkDefaults);
  network.skipTo(marketStoreBlocks);
  const startedAt = performance.now();
  for (let n = 1; !signal.aborted; n++) {
    yield network.nextBlock();
    const due = startedAt + (n * 1000) / blocksPerSecond;
    await sleep(Math.max(0, due - performance.now()), undefined, { signal }).catch(() => {});
  }
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

function print(name: string, perSecond: number, reply: OpenLoopReply): void {
  const times = [reply.median, reply.p99, reply.p999, reply.slowest, reply.sentLateP99];
  const columns = times.map((ms) => ms.toFixed(2).padStart(8)).join("");
  console.log(
    `  ${name.padEnd(24)}${String(Math.round(perSecond)).padStart(8)}${columns}${String(reply.failed).padStart(8)}`,
  );
}

async function run(databaseUrl: string): Promise<void> {
  const service = await ServiceProcess.start("ours", databaseUrl, 1);
  const [readers] = await Child.start<ReadOrder, ReadReply, object>("read", [], 1);
  const [caller] = await Child.start<OpenLoopOrder, OpenLoopReply, object>("../mixed/open-loop", [], 1);
  const stopping = new AbortController();
  try {
    const { marketId } = await takeSample(service.url);
    const path = depthPath(marketId);
    await loadHttp(service.port, marketId, 2);
    const topRate = (await loadHttp(service.port, marketId, 3)).perSecond;
    console.log(`top rate of a depth GET alone: ${Math.round(topRate)} a second, by wrk with 64 connections`);
    console.log("milliseconds from when each request was due");
    console.log(`  ${"".padEnd(24)}    rate  median     p99   p99.9 slowest  sent late p99  failed`);
    const perSecond = topRate / 2;
    const order = { port: service.port, paths: [path], perSecond, seconds, connections };
    await caller.ask({ ...order, seconds: 2 });
    print("alone", perSecond, await caller.ask(order));
    const half = Math.floor(streams / 2);
    const open = { kind: "open", port: service.port } as const;
    await readers.ask({ ...open, protocol: "lines", connections: half, streamsPerConnection: 1 });
    await readers.ask({
      ...open,
      protocol: "grpc",
      connections: Math.ceil((streams - half) / 10),
      streamsPerConnection: 10,
    });
    const sources = [streamSource(blocks(stopping.signal), "the simulated network")];
    const following = load({
      database: databaseUrl,
      sources,
      blockByBlock: true,
      log: createLog("warn"),
      signal: stopping.signal,
    });
    const p99s: number[] = [];
    for (let round = 1; round <= rounds; round++) {
      const before = await readers.ask({ kind: "bytes" });
      const reply = await caller.ask(order);
      const after = await readers.ask({ kind: "bytes" });
      if (after.lost > 0 || after.least <= before.least) throw new Error("a stream got nothing");
      print(`beside ${streams} streams, ${round}`, perSecond, reply);
      p99s.push(reply.failed > 0 ? Number.POSITIVE_INFINITY : reply.p99);
    }
    stopping.abort();
    await following;
    const ratio = Math.round((aimMs / median(p99s)) * 1000) / 1000;
    console.log(JSON.stringify({ name: "mixed", ratios: { ten_ms_vs_p99: ratio } }));
  } finally {
    stopping.abort();
    caller.stop();
    readers.stop();
    await service.stop();
  }
}

if (missingPrograms().length > 0) {
  console.error("bench mixed needs wrk (Debian: apt-get install wrk nghttp2-client)");
  process.exitCode = 1;
} else {
  await withMarketStore(run);
}
