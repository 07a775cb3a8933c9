import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { Network } from "../../src/simulator/network.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { ServiceProcess } from "../e2e/service-process.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { tries } from "../support/tries.js";
import { ScaleReader } from "./scale-reader.js";

const readersTotal = 500;
const stalledTotal = 100;
const residentGrowthMax = 64 * 1024 * 1024;
/** From the loader's end to the last reader, all of it on two cores with the reading of five hundred streams. */
const atOnceMs = 2_000;
const historyBlocks = 60;
/** A long run sets more. */
const replayedBlocks = Number(process.env["MARKETD_SCALE_BLOCKS"] ?? tries(400));

const log = createLog("silent");
const network = new Network({ seed: 7, markets: 12, parties: 60, ordersPerBlock: 40, entriesPerBlock: 0 });
const readers: ScaleReader[] = [];
let databaseUrl: string;
let service: ServiceProcess;

beforeAll(async () => {
  databaseUrl = newDatabaseUrl().url;
  await migrate(databaseUrl, log);
  await replay(historyBlocks);
  // Silence is not broken meanwhile, so that every message is an update.
  service = new ServiceProcess(databaseUrl, await freePort(), "--heartbeat-ms", "3600000");
  await service.start();
});

afterAll(async () => {
  for (const reader of readers) reader.leave();
  await service?.kill();
});

/** Loads the network's next blocks, one transaction each, as fast as it goes. */
async function replay(blocks: number): Promise<void> {
  const frames = Array.from({ length: blocks }, () => network.nextBlock());
  const sources = [streamSource(Readable.from(frames, { objectMode: false }), "a simulated network")];
  await load({ database: databaseUrl, sources, blockByBlock: true, log });
}

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  const value = new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, "m").exec(text)?.[1];
  if (value === undefined) throw new Error(`no metric ${name}`);
  return Number(value);
}

/** Every market's book as the service answers it, and the newest sequence number among them. */
async function truth(marketIds: Iterable<string>): Promise<Map<string, string>> {
  const books = new Map<string, string>();
  for (const id of marketIds) {
    const depth = (await (await fetch(`${service.url}/api/v2/market/depth/${id}/latest`)).json()) as {
      buy: object[];
      sell: object[];
    };
    books.set(id, JSON.stringify({ buy: depth.buy, sell: depth.sell }));
  }
  return books;
}

function held(reader: ScaleReader): Map<string, string> {
  const side = (levels: readonly { price: string; numberOfOrders: bigint; volume: bigint }[]) =>
    levels.map(({ price, numberOfOrders, volume }) => ({
      price,
      numberOfOrders: String(numberOfOrders),
      volume: String(volume),
    }));
  return new Map(
    [...reader.books].map(([id, { buy, sell }]) => [id, JSON.stringify({ buy: side(buy), sell: side(sell) })]),
  );
}

test(
  "500 readers, of which 100 have stopped, while a recording replays: no memory, no delay, and right at once",
  async () => {
    for (let i = 0; i < readersTotal; i++) readers.push(new ScaleReader(service.url, i % 2 === 0 ? "grpc" : "lines"));
    const stalled = readers.slice(0, stalledTotal);
    const reading = readers.slice(stalledTotal);
    await expect.poll(() => readers.filter((reader) => reader.messages === 0).length, { timeout: 10_000 }).toBe(0);
    await sleep(500);
    const residentIdle = await metric("marketd_process_resident_memory_bytes");
    for (const reader of stalled) reader.stall();

    let residentMost = 0;
    let loading = true;
    const watching = (async () => {
      while (loading) {
        residentMost = Math.max(residentMost, await metric("marketd_process_resident_memory_bytes"));
        await sleep(100);
      }
    })();
    await replay(replayedBlocks);
    const loadedAt = performance.now();
    loading = false;
    const all = await depthsOf(readers[stalledTotal]);
    await expect.poll(() => behind(reading, all).length, { timeout: 10_000, interval: 5 }).toBe(0);
    const lastMs = performance.now() - loadedAt;
    await watching;
    residentMost = Math.max(residentMost, await metric("marketd_process_resident_memory_bytes"));
    await expect.poll(() => metric("marketd_depth_stream_lagging"), { timeout: 10_000 }).toBe(stalledTotal);

    const messagesBefore = await metric("marketd_depth_stream_messages_total");
    for (const reader of stalled) reader.goOn();
    await expect.poll(() => behind(stalled, all).length, { timeout: 10_000, interval: 5 }).toBe(0);
    // What was written before, and then one message with all the rest.
    const messages = async () => (await metric("marketd_depth_stream_messages_total")) - messagesBefore;
    // Metrics may be a second old.
    await expect.poll(messages, { timeout: 5_000 }).toBe(stalledTotal);
    expect(readers.map((reader) => reader.problem).filter((problem) => problem !== undefined)).toEqual([]);

    process.stderr.write(
      `replayed ${replayedBlocks} blocks; readers got ${reading[0]?.messages} messages, stalled ones ${stalled[0]?.messages};` +
        ` the last reader was there ${Math.round(lastMs)} ms after the loader's end;` +
        ` resident memory ${mebibytes(residentIdle)} MiB idle, ${mebibytes(residentMost)} MiB at most\n`,
    );
    expect(lastMs).toBeLessThan(atOnceMs);
    expect(residentMost - residentIdle).toBeLessThan(residentGrowthMax);
  },
  60_000 + replayedBlocks * 100,
);

/** The books at the end, once the service has them. */
async function depthsOf(reader: ScaleReader | undefined): Promise<Map<string, string>> {
  await expect
    .poll(() => metric("marketd_block_height"), { timeout: 10_000, interval: 5 })
    .toBe(historyBlocks + replayedBlocks);
  return await truth(reader?.books.keys() ?? []);
}

/** Readers that do not hold these books yet. */
function behind(some: readonly ScaleReader[], books: ReadonlyMap<string, string>): ScaleReader[] {
  return some.filter((reader) => {
    const own = held(reader);
    return [...books].some(([id, book]) => own.get(id) !== book);
  });
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 1024 / 1024);
}
