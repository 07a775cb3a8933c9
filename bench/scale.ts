// npm run bench -- scale [--markets N] [--levels N] [--changes N] [--streams N] [--connections N,N…] [--workers N]
//   [--blocks-per-second N] [--seconds N]
// Many large books: loading them, the start of `serve`, its memory, depth responses and the first message of streams.
// Then streams of one market each, while every block changes every book: how old updates are when they come, from the
// write of a block into the pipe of `marketd load`. Loader, database, workers and readers share all cores.
import { Agent, get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { openDatabase } from "../src/store/database.js";
import { migrate } from "../src/store/migrate.js";
import { createLog } from "../src/telemetry/log.js";
import { openBenchServer } from "./ledger/place.js";
import { Feed } from "./scale/feed.js";
import { subscribe } from "./scale/update-reader.js";
import { VenueBlocks } from "./scale/venue-blocks.js";
import { Child } from "./stream/child.js";
import { nowMs, openReader } from "./stream/light-reader.js";
import type { Ages, ReadOrder, ReadReply } from "./stream/read.js";
import { cpuMicrosOf, databasePidOf, residentMibOf } from "./unary/process-usage.js";
import { depthPath } from "./unary/sample.js";
import { ServiceProcess } from "./unary/service-process.js";

const { values } = parseArgs({
  options: {
    markets: { type: "string", default: "1000" },
    levels: { type: "string", default: "1000" },
    changes: { type: "string", default: "10" },
    streams: { type: "string", default: "10000" },
    connections: { type: "string", default: "100,10000" },
    workers: { type: "string", default: "2" },
    "blocks-per-second": { type: "string", default: "2" },
    seconds: { type: "string", default: "60" },
  },
});

const startRounds = 3;
const firstMessages = 200;
const bufferPoolGib = 1;
/** Blocks before those that count. */
const warmUpBlocks = 4;
const settleMs = 2_000;
const depthPauseMs = 50;
const address = "127.0.0.2";
const agent = new Agent({ keepAlive: true, maxSockets: 1 });

function quantiles(numbers: readonly number[]): string {
  const sorted = numbers.toSorted((a, b) => a - b);
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
  return `median ${at(0.5).toFixed(1)} ms, p99 ${at(0.99).toFixed(1)} ms, slowest ${at(1).toFixed(1)} ms`;
}

/** Milliseconds until a depth response is there. */
function depthMs(url: string, marketId: string): Promise<number> {
  const startedAt = nowMs();
  return new Promise((resolve, reject) => {
    get(`${url}${depthPath(marketId)}`, { agent }, (response) => {
      response.resume();
      response.on("error", reject);
      response.on("end", () => {
        if (response.statusCode === 200) resolve(nowMs() - startedAt);
        else reject(new Error(`depth was answered ${response.statusCode}`));
      });
    }).on("error", reject);
  });
}

/** Milliseconds from connecting until the whole book of a market is there. */
async function firstMessageMs(port: number, marketId: string): Promise<number> {
  const startedAt = nowMs();
  let found = (_at: number): void => {};
  const received = new Promise<number>((resolve) => {
    found = resolve;
  });
  const reader = openReader(
    "grpc",
    port,
    address,
    1,
    subscribe([marketId], (_sequence, _previous, at) => found(at)),
  );
  const at = await received;
  reader.socket.destroy();
  return at - startedAt;
}

async function loadBooks(url: string, blocks: VenueBlocks, feed: Feed): Promise<void> {
  const books = [...blocks.books()];
  const startedAt = performance.now();
  for (const block of books) await feed.write(block);
  const database = openDatabase(url, { connectionsMax: 1 });
  await feed.committed(database, blocks.height);
  await database.close();
  const seconds = (performance.now() - startedAt) / 1_000;
  const levels = 2 * Number(values.markets) * Number(values.levels);
  const loader = `marketd load has ${residentMibOf(feed.pid).toFixed(0)} MiB`;
  console.log(`loaded ${levels.toLocaleString("en")} levels in ${seconds.toFixed(1)} s; ${loader}`);
}

async function measureStarts(url: string): Promise<void> {
  for (const workers of new Set([1, Number(values.workers)])) {
    const ready: number[] = [];
    let resident: number[] = [];
    for (let round = 0; round < startRounds; round++) {
      const startedAt = performance.now();
      const service = await ServiceProcess.start("ours", url, workers, { everyCore: true });
      ready.push(performance.now() - startedAt);
      resident = service.residentMib();
      await service.stop();
    }
    const memory = resident.map((mib) => mib.toFixed(0)).join(" and ");
    console.log(`start with ${workers} workers: ${quantiles(ready)}; resident ${memory} MiB`);
  }
}

async function measureReads(url: string, { marketIds }: VenueBlocks): Promise<void> {
  const service = await ServiceProcess.start("ours", url, 1, { everyCore: true });
  for (const name of ["encoded", "cached"]) {
    const times: number[] = [];
    for (const marketId of marketIds) times.push(await depthMs(service.url, marketId));
    console.log(`depth of every market, ${name}: ${quantiles(times)}`);
  }
  const times: number[] = [];
  for (const marketId of marketIds.slice(0, firstMessages)) times.push(await firstMessageMs(service.port, marketId));
  console.log(`first message of a stream: ${quantiles(times)}`);
  await service.stop();
}

/** Streams on so many connections. */
async function measureStreams(url: string, connections: number, blocks: VenueBlocks, feed: Feed): Promise<Ages> {
  const streams = Number(values.streams);
  const flags = ["--streams-per-address-max", String(streams)];
  const service = await ServiceProcess.start("ours", url, Number(values.workers), { everyCore: true, flags });
  const [readers] = await Child.start<ReadOrder, ReadReply, object>("read", [], undefined);
  try {
    const openedAt = performance.now();
    await readers.ask({
      kind: "open",
      protocol: "grpc",
      port: service.port,
      connections,
      streamsPerConnection: streams / connections,
      markets: blocks.marketIds,
    });
    await untilQuiet(readers);
    const opening = ((performance.now() - openedAt - settleMs) / 1_000).toFixed(1);
    const upcoming = upcomingBlocks(blocks);
    const cores = coresOf({
      workers: service.workerPids,
      loader: [feed.pid],
      database: [await databasePidOf(url)],
      readers: [readers.pid],
    });
    const depths: number[] = [];
    const ages = await feedStreams(upcoming, feed, readers, async () => {
      depths.push(await depthMs(service.url, blocks.marketIds[depths.length % blocks.marketIds.length] ?? ""));
    });
    const memory = service.residentMib().map((mib) => mib.toFixed(0));
    console.log(
      `${streams} streams on ${connections} connections, opened with their books in ${opening} s; ` +
        `${ages.updates} updates, ${ages.merged} of several blocks\n` +
        `  age: median ${ages.median.toFixed(0)} ms, p99 ${ages.p99.toFixed(0)} ms, oldest ${ages.max.toFixed(0)} ms\n` +
        `  depth meanwhile: ${quantiles(depths)}\n` +
        `  cores: ${cores()}; workers resident ${memory.join(" and ")} MiB`,
    );
    return ages;
  } finally {
    readers.stop();
    await service.stop();
  }
}

/** How many cores processes use from now on, as text, whenever it is called. */
function coresOf(processes: Readonly<Record<string, readonly number[]>>): () => string {
  const micros = () => Object.values(processes).map((pids) => pids.reduce((sum, pid) => sum + cpuMicrosOf(pid), 0));
  const [before, startedAt] = [micros(), performance.now()];
  return () => {
    const elapsedMicros = (performance.now() - startedAt) * 1e3;
    const cores = micros().map((now, i) => (now - (before[i] ?? 0)) / elapsedMicros);
    return Object.keys(processes)
      .map((name, i) => `${name} ${cores[i]?.toFixed(2)}`)
      .join(", ");
  };
}

/** Resolves when the readers have got nothing for a while. */
async function untilQuiet(readers: Child<ReadOrder, ReadReply>): Promise<void> {
  for (let before = ""; ; ) {
    const { least, most, lost } = await readers.ask({ kind: "bytes" });
    if (lost > 0) throw new Error(`${lost} connections were lost`);
    if (before === `${least} ${most}`) return;
    before = `${least} ${most}`;
    await sleep(settleMs);
  }
}

interface UpcomingBlock {
  readonly block: Buffer;
  readonly height: number;
}

/** Makes the blocks beforehand: the processor is then left to what is measured. */
function upcomingBlocks(blocks: VenueBlocks): UpcomingBlock[] {
  const length = warmUpBlocks + Math.ceil(Number(values["blocks-per-second"]) * Number(values.seconds));
  return Array.from({ length }, () => {
    const block = blocks.next();
    return { block, height: blocks.height };
  });
}

/** Writes blocks at their times, while `meanwhile` runs again and again. */
async function feedStreams(
  upcoming: readonly UpcomingBlock[],
  feed: Feed,
  readers: Child<ReadOrder, ReadReply>,
  meanwhile: () => Promise<void>,
): Promise<Ages> {
  const rate = Number(values["blocks-per-second"]);
  const writtenAt: number[] = [];
  const done = new AbortController();
  const others = (async () => {
    while (!done.signal.aborted) {
      await meanwhile();
      await sleep(depthPauseMs);
    }
  })();
  const startedAt = nowMs();
  for (const [i, { block, height }] of upcoming.entries()) {
    await sleep(startedAt + (i * 1_000) / rate - nowMs());
    if (i === warmUpBlocks) await readers.ask({ kind: "mark" });
    writtenAt[height] = i < warmUpBlocks ? 0 : nowMs();
    await feed.write(block);
  }
  await sleep(settleMs);
  done.abort();
  await others;
  const { ages, lost } = await readers.ask({ kind: "ages", writtenAt: Array.from(writtenAt, (at) => at ?? 0) });
  if (ages === undefined || lost > 0) throw new Error(`${lost} connections were lost`);
  return ages;
}

const server = await openBenchServer(undefined, bufferPoolGib);
const url = server.databaseUrl("scale");
const blocks = new VenueBlocks({
  markets: Number(values.markets),
  levels: Number(values.levels),
  changes: Number(values.changes),
});
await migrate(url, createLog("error"));
const feed = new Feed(url);
try {
  await loadBooks(url, blocks, feed);
  await measureStarts(url);
  await measureReads(url, blocks);
  const ratios: [string, number][] = [];
  for (const connections of values.connections.split(",")) {
    const { p99 } = await measureStreams(url, Number(connections), blocks, feed);
    ratios.push([`second_vs_p99_on_${connections}`, Math.round(1e6 / p99) / 1e3]);
  }
  console.log(JSON.stringify({ name: "scale", ratios: Object.fromEntries(ratios) }));
} finally {
  await feed.stop();
  await server.close();
}
