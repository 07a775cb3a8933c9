import { Readable } from "node:stream";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { firstIdOfBlock } from "../../src/domain/block-position.js";
import {
  type BookUpdate,
  changesPerSegment,
  decodeKeyframe,
  decodeSegment,
  decodeUpdate,
} from "../../src/domain/book-history.js";
import type { ChangedLevel } from "../../src/domain/order-book.js";
import { OrderBooks } from "../../src/domain/order-book.js";
import { BlockFold } from "../../src/loader/block-fold.js";
import { FrameSplitter } from "../../src/loader/frames.js";
import { prunedSegmentsMax } from "../../src/loader/history-fold.js";
import { LedgerTextWriter } from "../../src/loader/ledger-text.js";
import { type LoadOptions, load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { Network, networkDefaults } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import {
  firstChangesPart,
  fromParts,
  readBookChanges,
  readBookHistories,
  readPastFigures,
  readSegmentParts,
  readSegments,
  type SegmentRow,
  segmentStates,
} from "../../src/store/history-table.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { renderFinding } from "../../src/verify/findings.js";
import { verify } from "../../src/verify/verify.js";
import { newDatabaseUrl } from "../support/database.js";
import { dump, emptyStore } from "../support/dump.js";
import { level, VenueRecording } from "../support/venue-recording.js";

const log = createLog("silent");
const { url } = newDatabaseUrl();
let store: Database;

beforeAll(async () => {
  await migrate(url, log);
  store = openDatabase(url, { connectionsMax: 3 });
});
beforeEach(() => emptyStore(store));
afterAll(async () => {
  await store.close();
  await dropDatabase(url);
});

function loadBytes(bytes: Uint8Array, options: Partial<LoadOptions> = {}) {
  return load({ database: url, sources: [streamSource(Readable.from([bytes]), "test")], log, ...options });
}

async function findings(): Promise<string[]> {
  return (await verify(store)).findings.listed.map(renderFinding);
}

/** A segment with what is in it. */
interface Segment {
  readonly row: SegmentRow;
  readonly keyframe: readonly ChangedLevel[];
  readonly updates: readonly BookUpdate[];
}

async function segmentsOf(marketId: string): Promise<Segment[]> {
  return store.withConnection(async (connection) => {
    const rows = await readSegments(connection, marketId, 0n, 100_000);
    const changes = (await readBookChanges(connection)).filter((row) => row.marketId === marketId);
    const segments: Segment[] = [];
    for (const row of rows) {
      const parts = await readSegmentParts(connection, row, row.firstSequence + 1n);
      const content = (from: number, to: number) => {
        const bodies = parts.filter(({ part }) => part >= from && part < to).map(({ body }) => body);
        return bodies.length === 0 ? new Uint8Array() : fromParts(bodies);
      };
      const keyframe = content(0, firstChangesPart);
      const updates =
        row.digest === undefined
          ? changes.map(({ streamSequence, body }) => decodeUpdate(streamSequence, body))
          : [...decodeSegment(row, content(firstChangesPart, Number.POSITIVE_INFINITY))];
      segments.push({ row, keyframe: keyframe.length === 0 ? [] : decodeKeyframe(keyframe), updates });
    }
    return segments;
  });
}

/** Segments as text, without what a test has no need to say. */
async function outline(marketId = "m"): Promise<string[]> {
  const names = Object.fromEntries(Object.entries(segmentStates).map(([name, state]) => [state, name]));
  return (await segmentsOf(marketId)).map(({ row, keyframe, updates }) => {
    const levels = keyframe.map(({ side, price, volume }) => `${side === 1 ? "buy" : "sell"} ${volume}@${price}`);
    const heights = updates.map(({ height }) => height);
    return `${names[row.state]} at ${row.height} [${levels}] changes ${heights}`;
  });
}

const base = { bids: [level("1.00", "1")], asks: [level("2.00", "1")] };

describe("a venue's market", () => {
  test("is stale before its first snapshot, after a gap, and whole again after the next", async () => {
    const venue = new VenueRecording().define();
    venue.snapshot({ ...base, sequenceNumber: 1n }); // block 2
    venue.delta({ bids: [level("1.01", "2")], sequenceNumber: 2n });
    venue.delta({ bids: [level("1.02", "2")], sequenceNumber: 9n }); // block 4: a gap
    venue.delta({ bids: [level("1.03", "2")], sequenceNumber: 10n });
    venue.snapshot({ ...base, sequenceNumber: 20n }); // block 6
    venue.delta({ asks: [level("2.00", "0")], sequenceNumber: 21n });
    await loadBytes(venue.bytes());
    expect(await outline()).toEqual([
      "stale at 1 [] changes ",
      "whole at 2 [buy 1000@100,sell 1000@200] changes 3",
      "stale at 4 [] changes ",
      "whole at 6 [buy 1000@100,sell 1000@200] changes 7",
    ]);
    expect(await findings()).toEqual([]);
  });

  test("that becomes stale and whole in one block goes on", async () => {
    const venue = new VenueRecording().define().snapshot({ ...base, sequenceNumber: 1n });
    const gap = { marketId: "m", bids: [level("1.02", "2")], sequenceNumber: 9n };
    venue.tell(
      { case: "bookDelta", value: gap },
      { case: "bookSnapshot", value: { marketId: "m", ...base, bids: [], sequenceNumber: 20n } },
    );
    await loadBytes(venue.bytes());
    expect((await outline()).at(-1)).toBe("whole at 2 [buy 1000@100,sell 1000@200] changes 3");
    expect((await segmentsOf("m")).at(-1)?.updates[0]?.levels).toEqual([
      { side: 1, price: "100", volume: 0n, numberOfOrders: 0n },
    ]);
  });

  test("with other decimals begins anew, and remembers those of before", async () => {
    const venue = new VenueRecording().define().snapshot(base).define({ priceDecimals: 3 }).snapshot(base);
    await loadBytes(venue.bytes());
    const decimals = (await segmentsOf("m")).map(({ row }) => [row.state, row.priceDecimals, row.sizeDecimals]);
    const { stale, whole } = segmentStates;
    expect(decimals).toEqual([
      [stale, 2n, 3n],
      [whole, 2n, 3n],
      [stale, 3n, 3n],
      [whole, 3n, 3n],
    ]);
    expect(await findings()).toEqual([]);
  });
});

/** Blocks of a venue whose book changes at random: `levels` a side at most, `changes` a block. */
function randomVenue(blocks: number, changes = 8, seed = 1): VenueRecording {
  let state = seed;
  const random = (below: number) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
  const venue = new VenueRecording().define().snapshot(base);
  const side = (from: number) =>
    Array.from({ length: random(changes + 1) }, () => level(`${from + random(40)}`, `${random(4)}`, BigInt(random(3))));
  const distinct = (levels: ReturnType<typeof side>) => [...new Map(levels.map((each) => [each.price, each])).values()];
  for (let block = 0; block < blocks; block++) venue.delta({ bids: distinct(side(10)), asks: distinct(side(60)) });
  return venue;
}

test("segments are sealed at 1,024 to 4,096 changes, by the levels of their keyframe, and each leads to the next", async () => {
  await loadBytes(randomVenue(1_000).bytes());
  const segments = await segmentsOf("m");
  expect(segments.length).toBeGreaterThan(5);
  for (const [index, { row, keyframe, updates }] of segments.entries()) {
    if (row.state === segmentStates.stale) continue;
    expect(row.keyframeLevels).toBe(keyframe.length);
    const limit = changesPerSegment(keyframe.length);
    const changes = updates.map(({ levels }) => levels.length);
    const all = changes.reduce((sum, count) => sum + count, 0);
    const next = segments[index + 1]?.row;
    if (next === undefined) expect(all).toBeLessThan(limit);
    else {
      expect(all).toBeGreaterThanOrEqual(limit);
      expect(all - (changes.at(-1) ?? 0)).toBeLessThan(limit);
      expect(updates.at(-1)?.streamSequence).toBe(next.firstSequence);
    }
  }
  const stored = await store.withConnection(readBookChanges);
  expect(stored).toHaveLength(segments.at(-1)?.updates.length ?? -1);
  expect(await findings()).toEqual([]);
});

/** A book as its segments say that it was. */
class PastBook {
  readonly levels = new Map<string, ChangedLevel>();
  published = 0n;

  constructor(readonly segments: readonly Segment[]) {}

  /** Moves to the next block, which ends there. False: the market is not announced yet. */
  moveTo(sequence: bigint, blockTimeNs: bigint): boolean {
    for (const { updates } of this.segments) {
      const update = updates.find(({ streamSequence }) => streamSequence === sequence);
      if (update === undefined) continue;
      this.#put(update.levels);
      this.published = blockTimeNs - (blockTimeNs % 1_000n) + update.numberOffset;
    }
    const started = this.segments.find(({ row }) => row.firstSequence === sequence);
    if (started !== undefined) {
      this.levels.clear();
      this.#put(started.keyframe);
      this.published = started.row.publishedSequenceNumber;
    }
    const [first] = this.segments;
    return first !== undefined && first.row.firstSequence <= sequence;
  }

  #put(levels: readonly ChangedLevel[]): void {
    for (const each of levels) {
      const key = `${each.side} ${each.price}`;
      if (each.volume === 0n && each.numberOfOrders === 0n) this.levels.delete(key);
      else this.levels.set(key, each);
    }
  }
}

const byText = (a: ChangedLevel, b: ChangedLevel) => (`${a.side} ${a.price}` < `${b.side} ${b.price}` ? -1 : 1);

test("the past is that of an independent fold of the events", async () => {
  const network = new Network({ ...networkDefaults, seed: 4, parties: 20, ordersPerBlock: 60, markets: 3 });
  const recording = Buffer.concat(Array.from({ length: 120 }, () => network.nextBlock()));
  await loadBytes(recording, { transactionRowsMax: 700 });
  const books = new OrderBooks();
  const ledger = new LedgerTextWriter([], []);
  const fold = new BlockFold({ progress: undefined, position: 0, books, ledger });
  const histories = await store.withConnection((connection) => readBookHistories(connection));
  expect(histories.length).toBe(3);
  const pasts = new Map<string, PastBook>();
  for (const { marketId } of histories) pasts.set(marketId, new PastBook(await segmentsOf(marketId)));
  let compared = 0;
  for (const frame of new FrameSplitter("test").frames(recording)) {
    if (fold.apply(frame) !== "block_end") continue;
    const { timeNs } = fold.take().reached;
    for (const [marketId, past] of pasts) {
      if (!past.moveTo(frame.sequence, timeNs)) continue;
      const live = books.find(marketId);
      expect([...past.levels.values()].sort(byText)).toEqual((live?.levels() ?? []).sort(byText));
      expect(past.published).toBe(live?.published ?? 0n);
      compared++;
    }
  }
  expect(compared).toBeGreaterThan(300);
});

test("every trade is kept at its place, also in a block that goes on after a restart", async () => {
  const trade = (id: string) => ({ case: "trade" as const, value: { marketId: "m", id, price: "1", size: "1" } });
  const venue = new VenueRecording().define().tell(trade("a"), trade("b"), trade("c")).tell(trade("d"));
  await loadBytes(venue.bytes());
  // The block once more, as after a protocol upgrade.
  venue.begin(3, 3_000_000_000n).venue(trade("e")).end();
  await loadBytes(venue.bytes());
  const trades = await store.query("SELECT id, trade_id FROM trade ORDER BY id");
  const at = (height: bigint, position: bigint, id: string) => ({
    id: firstIdOfBlock(height) + position,
    trade_id: id,
  });
  expect(trades).toEqual([at(2n, 0n, "a"), at(2n, 1n, "b"), at(2n, 2n, "c"), at(3n, 0n, "d"), at(3n, 1n, "e")]);
  expect(await findings()).toEqual([]);
});

describe("a gap", () => {
  const trade = (id: string) => ({ case: "trade" as const, value: { marketId: "m", id, price: "1", size: "1" } });

  test("of blocks that were loaded with off is recorded, and the books begin anew after it", async () => {
    const venue = new VenueRecording()
      .define()
      .snapshot(base)
      .delta({ bids: [level("1.01", "2")] });
    await loadBytes(venue.bytes());
    const kept = venue.sequence - 1n;
    venue
      .delta({ bids: [level("1.02", "2")] })
      .tell(trade("lost"))
      .tell(trade("last"));
    await loadBytes(venue.bytes(), { keepBooks: "off" });
    expect(await findings()).toEqual([]);
    venue.delta({ bids: [level("1.03", "2")] });
    await loadBytes(venue.bytes());
    const expected = [
      "stale at 1 [] changes ",
      "whole at 2 [buy 1000@100,sell 1000@200] changes 3",
      "notKept at 3 [] changes ",
      "whole at 6 [buy 2000@102,buy 2000@101,buy 1000@100,sell 1000@200] changes 7",
    ];
    expect(await outline()).toEqual(expected);
    expect((await segmentsOf("m"))[2]?.row.firstSequence).toBe(kept + 1n);
    // Trades are kept whether or not books are.
    const trades = await store.query("SELECT id, trade_id FROM trade ORDER BY id");
    expect(trades).toEqual([
      { id: firstIdOfBlock(5n), trade_id: "lost" },
      { id: firstIdOfBlock(6n), trade_id: "last" },
    ]);
    expect(await findings()).toEqual([]);
    await loadBytes(venue.tell(trade("next")).bytes());
    expect(await outline()).toEqual(expected);
    expect(await findings()).toEqual([]);
  });

  test.each([
    { what: "which changed a book", changes: true, height: 3n },
    { what: "which changed none", changes: false, height: 2n },
  ])(
    "begins behind the last kept block, $what and is loaded once more without its past",
    async ({ changes, height }) => {
      const venue = new VenueRecording().define().snapshot(base);
      const before = venue.sequence - 1n;
      if (changes) venue.delta({ bids: [level("1.01", "2")] });
      else venue.tell(trade("first"));
      await loadBytes(venue.bytes());
      const kept = venue.sequence - 1n;
      venue.begin(3, 3_000_000_000n).venue(trade("again")).end();
      await loadBytes(venue.bytes(), { keepBooks: "off" });
      await loadBytes(venue.delta({ bids: [level("1.02", "2")] }).bytes());
      const gap = (await segmentsOf("m")).find(({ row }) => row.state === segmentStates.notKept)?.row;
      const firstSequence = (changes ? kept : before) + 1n;
      expect(gap).toMatchObject({ height, timeNs: height * 1_000_000_000n, firstSequence });
      expect(await findings()).toEqual([]);
    },
  );

  test("before the first block that is kept is none, and what will be kept is logged", async () => {
    const venue = new VenueRecording()
      .define()
      .snapshot(base)
      .delta({ bids: [level("1.01", "2")] });
    await loadBytes(venue.bytes(), { keepBooks: "off" });
    expect(await store.withConnection(readPastFigures)).toMatchObject({
      oldestTimeNs: undefined,
      newestTimeNs: undefined,
    });
    venue.delta({ bids: [level("1.02", "2")] });
    const lines: string[] = [];
    await loadBytes(venue.bytes(), {
      log: { ...log, info: (text: unknown) => lines.push(String(text)) } as typeof log,
    });
    expect(await outline()).toEqual([
      "notKept at 0 [] changes ",
      "whole at 3 [buy 2000@101,buy 1000@100,sell 1000@200] changes 4",
    ]);
    expect(lines).toContainEqual(
      expect.stringMatching(/^from block 3 on, the past of 1 books and every trade are kept: about/),
    );
    expect(await store.withConnection(readPastFigures)).toMatchObject({
      ...{ oldestTimeNs: 3_000_000_000n, newestTimeNs: 4_000_000_000n },
    });
    expect(await findings()).toEqual([]);
  });
});

describe("what is older than is kept", () => {
  test("goes, in transactions of bounded size, and the state at the edge stays", async () => {
    const blocks = 1_100;
    const venue = randomVenue(blocks, 100);
    await loadBytes(venue.bytes());
    const all = await segmentsOf("m");
    const total = all.length;
    expect(total).toBeGreaterThan(prunedSegmentsMax + 10);
    const keepNs = 100_000_000_000n;
    for (let more = 0; more < 4; more++) {
      const before = (await segmentsOf("m")).length;
      await loadBytes(venue.delta({ bids: [level("5", `${more + 1}`)] }).bytes(), { keepBooks: keepNs });
      const after = (await segmentsOf("m")).length;
      expect(before - after).toBeLessThanOrEqual(prunedSegmentsMax);
      expect(await findings()).toEqual([]);
    }
    const [oldest, second] = await segmentsOf("m");
    const edge = BigInt(blocks + 6) * 1_000_000_000n - keepNs;
    expect(oldest?.row.timeNs).toBeLessThanOrEqual(edge);
    expect(second?.row.timeNs).toBeGreaterThan(edge);
    expect(
      await store.query("SELECT market_id FROM book_segment_part WHERE first_sequence < ?", [
        oldest?.row.firstSequence ?? 0n,
      ]),
    ).toEqual([]);
    // What stays is what was there before.
    expect((await segmentsOf("m")).slice(0, 3)).toEqual(
      all.filter(({ row }) => row.timeNs >= (oldest?.row.timeNs ?? 0n)).slice(0, 3),
    );
  });
});

test("rows are the same for random batches and restarts", async () => {
  const venue = randomVenue(350, 20, 7);
  const frames = venue.frames;
  await loadBytes(venue.bytes());
  const whole = await dump(url);
  for (const rows of [3, 50, 900]) {
    await emptyStore(store);
    for (let block = rows; ; block += 97) {
      const end = Math.min(3 * block, frames.length);
      await loadBytes(Buffer.concat(frames.slice(0, end)), { transactionRowsMax: rows });
      if (end === frames.length) break;
    }
    expect(await dump(url)).toEqual(whole);
  }
});
