import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { DepthBook } from "../../src/domain/depth-book.js";
import { Live } from "../../src/live/live.js";
import type { Subscriber } from "../../src/live/subscriber.js";
import { load } from "../../src/loader/load.js";
import type { LoadSummary } from "../../src/loader/load-summary.js";
import { fileSource, streamSource } from "../../src/loader/source.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { newDatabaseUrl } from "../support/database.js";
import { framesOf } from "../support/kafka-broker.js";
import { inChunks } from "../support/recording.js";
import { tries } from "../support/tries.js";
import { bookText } from "./model-network.js";

const log = createLog("silent");
const path = process.env["MARKETD_RECORDING"] ?? "";
const { url } = path === "" ? { url: "" } : newDatabaseUrl();

/** Loads block by block at first, then some blocks at once. */
async function loadAll(): Promise<LoadSummary> {
  const frames = framesOf(gunzipSync(readFileSync(path)));
  const first = Buffer.concat(frames.slice(0, tries(frames.length)));
  await load({ database: url, sources: [streamSource(inChunks(first), "first")], blockByBlock: true, log });
  return load({ database: url, sources: [await fileSource(path)], transactionRowsMax: 100, log });
}

/** Folds what a stream brings. */
class Folder {
  readonly books = new Map<string, DepthBook>();
  readonly sent = new Map<string, bigint>();
  updates = 0;

  constructor(readonly stream: Subscriber) {}

  take(): number {
    const responses = this.stream.take();
    for (const update of responses.flatMap((response) => response.message().update)) {
      const book = this.books.get(update.marketId) ?? new DepthBook(update.marketId);
      this.books.set(update.marketId, book);
      expect(update.previousSequenceNumber).toBe(this.sent.get(update.marketId) ?? 0n);
      expect(book.apply(update)).toBe("applied");
      this.sent.set(update.marketId, update.sequenceNumber);
      this.updates++;
    }
    return responses.length;
  }
}

describe.skipIf(path === "")("the recording of a real network, followed as it is loaded", () => {
  let database: Database;
  let live: Live;

  beforeAll(async () => {
    await migrate(url, log);
    database = openDatabase(url);
    live = await Live.start({ database, log, metrics: createMetrics(), limits: { pollIntervalMs: 1 } });
  });

  afterAll(async () => {
    await live.stop();
    await database.close();
  });

  test("folding a stream gives every depth response's levels, to a reader that was there from the first block on", async () => {
    const loaded = loadAll();
    await vi.waitFor(() => expect(live.ready).toBe(true), { timeout: 10_000, interval: 1 });
    const [quick, slow] = [
      new Folder(live.observe([], { clientAddress: "client" })),
      new Folder(live.observe([], { clientAddress: "client" })),
    ];
    quick.stream.onReady(() => {
      while (quick.take() > 0) {}
      // Every depth response, at every snapshot: the book as folded so far is the one that it shows.
      for (const market of live.state().announced) {
        const depth = market.depth(0n).message();
        expect(depth.sequenceNumber).toBeGreaterThanOrEqual(quick.sent.get(market.id) ?? 0n);
        expect(bookText(quick.books.get(market.id) ?? { buy: [], sell: [] })).toEqual(bookText(depth));
      }
    });
    while (quick.take() > 0) {}
    slow.take();
    const summary = await loaded;
    await expect.poll(() => live.state().progress.streamSequence).toBe(summary.progress?.streamSequence);
    while (slow.take() > 0) {}
    // What its listener expected in vain would have ended it.
    expect(quick.stream.ended).toBe(false);
    expect(live.state().announced).toHaveLength(16);
    const depths = live.state().announced.map((market) => market.depth(0n).message());
    for (const depth of depths) {
      const text = bookText(depth);
      expect(bookText(quick.books.get(depth.marketId) ?? { buy: [], sell: [] })).toEqual(text);
      expect(bookText(slow.books.get(depth.marketId) ?? { buy: [], sell: [] })).toEqual(text);
    }
    expect(depths.filter((depth) => depth.buy.length + depth.sell.length > 0)).toHaveLength(2);
    expect(depths.filter((depth) => depth.lastTrade !== undefined)).toHaveLength(10);
    expect(depths.filter((depth) => depth.sequenceNumber > 0n)).toHaveLength(11);
    expect([...quick.sent.values()].filter((sequence) => sequence > 0n)).toHaveLength(10);
    expect(quick.updates).toBeGreaterThanOrEqual(slow.updates);
  });
});
