// npm run bench -- history [--part replay|books|resumes] [--changes N] [--seconds N] [--requests N] [--resumes N]
// The past of books: how fast a service on one core replays it, how late blocks are that play as they happened, how long
// a past book of 2,000 levels takes, and how many bytes a resumed stream takes against whole books. The service has the
// first core; the readers have the second, and the database what is left.
import { get, type IncomingMessage } from "node:http";
import { parseArgs } from "node:util";
import { Caller } from "./history/caller.js";
import { committed, loadMarket, MarketBlocks, type MarketShape, marketId } from "./history/dataset.js";
import { openBenchServer } from "./ledger/place.js";
import { ServiceProcess } from "./unary/service-process.js";

const { values } = parseArgs({
  options: {
    part: { type: "string" },
    changes: { type: "string", default: "600000" },
    seconds: { type: "string", default: "30" },
    requests: { type: "string", default: "3000" },
    resumes: { type: "string", default: "100" },
  },
});

const parts = ["replay", "books", "resumes"] as const;

function isPart(name: (typeof parts)[number]): boolean {
  return values.part === undefined || values.part === name;
}

if (!parts.some(isPart)) throw new Error(`--part ${values.part} is none of ${parts.join(", ")}`);

const rounds = 3;
const bufferPoolGib = 1;
const replayPath = "/api/v2/stream/markets/depth/replay";
const manyChanges = 20;
/** What is to be reached. */
const aims = { manyPerSecond: 200_000, onePerSecond: 50_000, latenessMs: 5, bookMs: 10, resumeShare: 0.1 };
const bookShape: MarketShape = { levels: 1_000, changes: 3, blockMs: 40 };
/** Some more than seal a segment of such a book. */
const bookBlocks = 8_000;
const unsealedMax = 4_096;
const warmUpRequests = 300;
const breakBlocksMax = 50;

const server = await openBenchServer(undefined, bufferPoolGib);
const ratios: Record<string, number> = {};

function quantile(numbers: readonly number[], part: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

function ratio(name: string, value: number): void {
  ratios[name] = Math.round(value * 1_000) / 1_000;
}

function open(url: string, headers: Record<string, string> = {}): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    get(url, { headers }, (response) => {
      if (response.statusCode === 200) resolve(response);
      else response.on("data", (text) => reject(new Error(`${response.statusCode}: ${String(text)}`)));
    }).on("error", reject);
  });
}

async function bytesOf(response: IncomingMessage): Promise<number> {
  let bytes = 0;
  for await (const chunk of response) bytes += (chunk as Buffer).length;
  return bytes;
}

/** Changes a second that a replay of every update brings, the median of some rounds. */
async function replaySpeed(name: string, changes: number, aim: number): Promise<void> {
  const url = server.databaseUrl(`history_${name}`);
  const market = new MarketBlocks({ levels: 200, changes, blockMs: 20 });
  const updates = Math.ceil(Number(values.changes) / changes);
  const feed = await loadMarket(url, market, updates);
  await feed.stop();
  const service = await ServiceProcess.start("ours", url, 1);
  try {
    const path = `${service.url}${replayPath}?market_ids=${marketId}&from_block_height=1&until_block_height=${market.height + 1}&every_update=true`;
    const perSecond: number[] = [];
    for (let round = 0; round <= rounds; round++) {
      const [startedAt, usedMicros] = [performance.now(), await service.cpuMicros()];
      const bytes = await bytesOf(await open(path));
      const cpuSeconds = ((await service.cpuMicros()) - usedMicros) / 1e6;
      const rate = (updates * changes * 1_000) / (performance.now() - startedAt);
      // The first one warms up.
      if (round > 0) perSecond.push(rate);
      if (round === rounds) {
        const perCpuSecond = Math.round((updates * changes) / cpuSeconds).toLocaleString("en");
        console.log(`  ${(bytes / 2 ** 20).toFixed(0)} MiB of JSON; ${perCpuSecond} changes a second of CPU time`);
      }
    }
    const median = quantile(perSecond, 0.5);
    console.log(`replay at ${changes} changes an update: ${Math.round(median).toLocaleString("en")} changes a second`);
    ratio(`replay_${name}_vs_${aim}`, median / aim);
  } finally {
    await service.stop();
  }
}

/** The messages of a stream of JSON lines, with the time at which each came. */
async function* lines(response: IncomingMessage): AsyncGenerator<{ readonly text: string; readonly at: number }> {
  let held = "";
  for await (const chunk of response) {
    const at = performance.now();
    const parts = (held + String(chunk)).split("\n");
    held = parts.pop() ?? "";
    for (const text of parts) yield { text, at };
  }
}

/** How late blocks come at a speed of 1, against the one that came earliest for its time. */
async function lateness(service: ServiceProcess): Promise<void> {
  const seconds = Number(values.seconds);
  const blocks = Math.ceil((seconds * 1_000) / bookShape.blockMs);
  const range = `from_block_height=2&until_block_height=${2 + blocks}`;
  const response = await open(`${service.url}${replayPath}?market_ids=${marketId}&${range}&speed=1`);
  const offsets: number[] = [];
  for await (const { text, at } of lines(response)) {
    const { result } = JSON.parse(text) as { result: { block?: { timestamp: string }; update: unknown[] } };
    if (result.block !== undefined && result.update.length > 0) {
      offsets.push(at - Number(BigInt(result.block.timestamp) / 1_000n) / 1_000);
    }
  }
  // The first message is the whole books, as soon as they are read.
  const inTime = offsets.slice(1);
  const earliest = Math.min(...inTime);
  const late = inTime.map((offset) => offset - earliest);
  const p99 = quantile(late, 0.99);
  console.log(
    `blocks at speed 1: ${late.length}, late by ${quantile(late, 0.5).toFixed(2)} ms at the median, ` +
      `${p99.toFixed(2)} ms at the 99th percentile, ${quantile(late, 1).toFixed(2)} ms at most`,
  );
  ratio("five_ms_vs_lateness_p99", aims.latenessMs / p99);
}

/** How long past books take, one at a time over one connection. */
async function pastBooks(service: ServiceProcess, newest: number): Promise<void> {
  const caller = await Caller.open(service.url);
  const tail = Math.floor(unsealedMax / bookShape.changes);
  const ranges = { any: newest - 2, newest: Math.min(tail, newest - 2) };
  for (const [name, blocks] of Object.entries(ranges)) {
    const times: number[] = [];
    const usedMicros = await service.cpuMicros();
    for (let request = -warmUpRequests; request < Number(values.requests); request++) {
      const height = newest - Math.floor(Math.random() * blocks);
      const ms = await caller.get(`/api/v2/market/depth/${marketId}/at?block_height=${height}`);
      if (request >= 0) times.push(ms);
    }
    const p99 = quantile(times, 0.99);
    const cpuMs = ((await service.cpuMicros()) - usedMicros) / 1_000 / (times.length + warmUpRequests);
    console.log(
      `a book of ${2 * bookShape.levels} levels at ${name} block${name === "any" ? "" : "s"}: ` +
        `${quantile(times, 0.5).toFixed(2)} ms at the median, ${p99.toFixed(2)} ms at the 99th percentile, ${cpuMs.toFixed(2)} ms of CPU time`,
    );
    ratio(`ten_ms_vs_${name}_book_p99`, aims.bookMs / p99);
  }
  caller.close();
}

/** The first event of a depth stream that has an id. */
async function firstEvent(service: ServiceProcess, lastEventId?: string): Promise<{ id: string; bytes: number }> {
  const headers = {
    accept: "text/event-stream",
    ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
  };
  const path = `/api/v2/stream/markets/depth/updates?market_ids=${marketId}`;
  const response = await open(`${service.url}${path}`, headers);
  let text = "";
  try {
    for await (const chunk of response) {
      text += String(chunk);
      const id = /^id: ?(.*)\n(?:.*\n)*\n/m.exec(text)?.[1];
      if (id !== undefined) return { id, bytes: text.length };
    }
  } finally {
    response.destroy();
  }
  throw new Error("the stream ended before an event");
}

/** Bytes of a resumed stream's first message over those of the whole book, after breaks of up to 50 blocks. */
async function resumes(
  service: ServiceProcess,
  url: string,
  market: MarketBlocks,
  feed: Awaited<ReturnType<typeof loadMarket>>,
) {
  const shares: number[] = [];
  for (let resume = 0; resume < Number(values.resumes); resume++) {
    const whole = await firstEvent(service);
    const breakBlocks = 1 + (resume % breakBlocksMax);
    for (let block = 0; block < breakBlocks; block++) await feed.write(market.next());
    await committed(url, feed, market.height);
    // The service polls the database.
    await new Promise((resolve) => setTimeout(resolve, 400));
    shares.push((await firstEvent(service, whole.id)).bytes / whole.bytes);
  }
  const median = quantile(shares, 0.5);
  console.log(
    `${shares.length} resumes after up to ${breakBlocksMax} blocks: ${(100 * median).toFixed(1)}% of the whole book's ` +
      `bytes at the median, ${(100 * quantile(shares, 1)).toFixed(1)}% at most`,
  );
  ratio("tenth_vs_resume_bytes", aims.resumeShare / median);
}

try {
  if (isPart("replay")) {
    await replaySpeed("many", manyChanges, aims.manyPerSecond);
    await replaySpeed("one", 1, aims.onePerSecond);
  }
  const url = server.databaseUrl("history_book");
  const market = new MarketBlocks(bookShape);
  const feed = await loadMarket(url, market, bookBlocks);
  const service = await ServiceProcess.start("ours", url, 1);
  try {
    if (isPart("replay")) await lateness(service);
    if (isPart("books")) await pastBooks(service, market.height);
    if (isPart("resumes")) await resumes(service, url, market, feed);
  } finally {
    await service.stop();
    await feed.stop();
  }
  console.log(JSON.stringify({ name: "history", ratios }));
} finally {
  await server.close();
}
