import { crc32 } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ChecksumAlgorithm } from "../../gen/marketd/events/v1/venue_pb.js";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import { Side } from "../../gen/vega/vega_pb.js";
import { type LoadOptions, load } from "../../src/loader/load.js";
import { type LoadSummary, renderSummary } from "../../src/loader/load-summary.js";
import { streamSource } from "../../src/loader/source.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { dump, emptyStore } from "../support/dump.js";
import { inChunks } from "../support/recording.js";
import { level, VenueRecording } from "../support/venue-recording.js";

const log = createLog("silent");
let url: string;
let store: Database;

beforeAll(async () => {
  url = newDatabaseUrl().url;
  await migrate(url, log);
  store = openDatabase(url, { connectionsMax: 2 });
});

beforeEach(() => emptyStore(store));

afterAll(async () => {
  await store.withConnection((connection) => connection.run(`DROP DATABASE ${new URL(url).pathname.slice(1)}`));
  await store.close();
});

function loadBytes(bytes: Uint8Array, options: Partial<LoadOptions> = {}): Promise<LoadSummary> {
  return load({ database: url, sources: [streamSource(inChunks(bytes), "test")], log, ...options });
}

/** A market's levels, `side price volume orders`, best first; with those that vanished. */
async function levels(marketId = "m"): Promise<string[]> {
  const rows = await store.query<{ side: number; price: string; volume: bigint; number_of_orders: bigint }>(
    `SELECT side, price, volume, number_of_orders FROM price_level WHERE market_id = '${marketId}'`,
  );
  return rows.map((row) => `${row.side} ${row.price} ${row.volume} ${row.number_of_orders}`).sort();
}

async function venueMarket(): Promise<object | undefined> {
  const rows = await store.query("SELECT venue_sequence, stale FROM venue_market WHERE market_id = 'm'");
  return rows[0];
}

async function depth(): Promise<object | undefined> {
  const rows = await store.query("SELECT sequence_number, published_sequence_number FROM market_depth");
  return rows[0];
}

describe("markets, books and trades", () => {
  it("a definition makes a market that clients can be told of, stale until its first snapshot", async () => {
    await loadBytes(new VenueRecording().define({ code: "M", name: "Market", tags: ["quote:EUR"] }).bytes());
    const [row] = await store.query<{ body: Uint8Array }>("SELECT body FROM market WHERE market_id = 'm'");
    expect(fromBinary(MarketSchema, row?.body ?? new Uint8Array())).toMatchObject({
      id: "m",
      decimalPlaces: 2n,
      positionDecimalPlaces: 3n,
      tradableInstrument: { instrument: { id: "m", code: "M", name: "Market", metadata: { tags: ["quote:EUR"] } } },
    });
    expect(await venueMarket()).toEqual({ venue_sequence: null, stale: 1 });
    expect(await depth()).toEqual({ sequence_number: 1_000_000_002n, published_sequence_number: 0n });
  });

  it("prices and sizes are scaled, numbers of orders kept, and of equal prices the last one counts", async () => {
    const bids = [level("0.250", "1.5", 4n), level("10", "2"), level("10.00", "3")];
    await loadBytes(
      new VenueRecording()
        .define()
        .snapshot({ bids, asks: [level("10.01", "0.001")] })
        .bytes(),
    );
    expect(await levels()).toEqual(["1 1000 3000 0", "1 25 1500 4", "2 1001 1 0"]);
    expect(await venueMarket()).toEqual({ venue_sequence: null, stale: 0 });
    expect(await depth()).toEqual({ sequence_number: 2_000_000_002n, published_sequence_number: 2_000_000_002n });
  });

  it("a delta sets its levels, and a snapshot in the middle drops those that it lacks", async () => {
    const venue = new VenueRecording()
      .define()
      .snapshot({ bids: [level("3", "1"), level("2", "1")], asks: [level("4", "1")] })
      .delta({ bids: [level("3", "0"), level("1", "7")], asks: [level("4", "2", 9n), level("99", "0")] });
    await loadBytes(venue.bytes());
    expect(await levels()).toEqual(["1 100 7000 0", "1 200 1000 0", "1 300 0 0", "2 400 2000 9"]);
    await loadBytes(venue.snapshot({ bids: [level("2", "1")] }).bytes());
    expect(await levels()).toEqual(["1 100 0 0", "1 200 1000 0", "1 300 0 0", "2 400 0 0"]);
  });

  it("levels beyond the venue's depth fall off", async () => {
    const venue = new VenueRecording()
      .define({ depthMax: 2 })
      .snapshot({ bids: [level("1", "1"), level("2", "1")], asks: [level("9", "1"), level("8", "1")] })
      .delta({ bids: [level("3", "1")], asks: [level("10", "1"), level("7", "1")] });
    await loadBytes(venue.bytes());
    expect(await levels()).toEqual([
      "1 100 0 0",
      "1 200 1000 0",
      "1 300 1000 0",
      "2 700 1000 0",
      "2 800 1000 0",
      "2 900 0 0",
    ]);
  });

  it("the last trade is scaled, with the block's time", async () => {
    const trade = (price: string) => ({
      case: "trade" as const,
      value: { marketId: "m", id: price === "2.25" ? "t" : "", price, size: "1.25", aggressor: Side.SELL },
    });
    const venue = new VenueRecording().define().tell(trade("2.5"), trade("2.25"));
    await loadBytes(venue.bytes());
    const columns = "trade_id, price, size, aggressor, time_ns, type, buyer_maker_fee";
    expect(await store.query(`SELECT ${columns} FROM last_trade`)).toEqual([
      {
        ...{ trade_id: "t", price: "225", size: 1_250n, aggressor: Side.SELL },
        ...{ time_ns: 2_000_000_000n, type: 1, buyer_maker_fee: "0" },
      },
    ]);
    await loadBytes(venue.tell(trade("2.5")).bytes());
    expect(await store.query("SELECT trade_id FROM last_trade")).toEqual([{ trade_id: "3-2" }]);
  });
});

describe("updates that are wrong or missing", () => {
  const numbered = () => new VenueRecording().define().snapshot({ bids: [level("1", "1")], sequenceNumber: 10n });
  const cases: [string, () => VenueRecording, object, string[], object][] = [
    [
      "the next in the chain is applied",
      () => numbered().delta({ bids: [level("1", "2")], previousSequenceNumber: 10n, sequenceNumber: 15n }),
      { venue_sequence: 15n, stale: 0 },
      ["1 100 2000 0"],
      { applied: 2, old: 0, ignored: 0, stale: 0 },
    ],
    [
      "one that overlaps with the book is applied",
      () => numbered().delta({ bids: [level("1", "2")], previousSequenceNumber: 7n, sequenceNumber: 11n }),
      { venue_sequence: 11n, stale: 0 },
      ["1 100 2000 0"],
      { applied: 2, old: 0, ignored: 0, stale: 0 },
    ],
    [
      "numbers may rise by one without a previous number",
      () => numbered().delta({ sequenceNumber: 11n }).delta({ sequenceNumber: 13n }),
      { venue_sequence: 11n, stale: 1 },
      ["1 100 1000 0"],
      { applied: 2, old: 0, ignored: 0, stale: 1 },
    ],
    [
      "one that is no newer than the book is passed over",
      () =>
        numbered()
          .delta({ bids: [level("1", "2")], previousSequenceNumber: 8n, sequenceNumber: 10n })
          .delta({ bids: [level("1", "3")], previousSequenceNumber: 10n, sequenceNumber: 11n })
          .delta({ bids: [level("1", "4")], previousSequenceNumber: 10n, sequenceNumber: 11n }),
      { venue_sequence: 11n, stale: 0 },
      ["1 100 3000 0"],
      { applied: 2, old: 2, ignored: 0, stale: 0 },
    ],
    [
      "a gap makes the market stale, and what comes then is ignored",
      () =>
        numbered()
          .delta({ bids: [level("1", "2")], previousSequenceNumber: 11n, sequenceNumber: 12n })
          .delta({ bids: [level("1", "3")], previousSequenceNumber: 10n, sequenceNumber: 13n }),
      { venue_sequence: 10n, stale: 1 },
      ["1 100 1000 0"],
      { applied: 1, old: 0, ignored: 1, stale: 1 },
    ],
    [
      "one without a number does not go on from a book that has one",
      () => numbered().delta({ bids: [level("1", "2")] }),
      { venue_sequence: 10n, stale: 1 },
      ["1 100 1000 0"],
      { applied: 1, old: 0, ignored: 0, stale: 1 },
    ],
    [
      "nor one with a number from a book without",
      () =>
        new VenueRecording()
          .define()
          .snapshot({})
          .delta({ bids: [level("1", "2")], sequenceNumber: 1n }),
      { venue_sequence: null, stale: 1 },
      [],
      { applied: 1, old: 0, ignored: 0, stale: 1 },
    ],
    [
      "a snapshot heals, and begins another chain",
      () =>
        numbered()
          .delta({ previousSequenceNumber: 11n, sequenceNumber: 12n })
          .snapshot({ asks: [level("5", "1")], sequenceNumber: 3n })
          .delta({ asks: [level("6", "1")], previousSequenceNumber: 3n, sequenceNumber: 4n }),
      { venue_sequence: 4n, stale: 0 },
      ["1 100 0 0", "2 500 1000 0", "2 600 1000 0"],
      { applied: 3, old: 0, ignored: 0, stale: 1 },
    ],
    [
      "deltas before the first snapshot are ignored",
      () => new VenueRecording().define().delta({ bids: [level("1", "2")] }),
      { venue_sequence: null, stale: 1 },
      [],
      { applied: 0, old: 0, ignored: 1, stale: 0 },
    ],
    [
      "the same definition again changes nothing",
      () => numbered().define().delta({ sequenceNumber: 11n }),
      { venue_sequence: 11n, stale: 0 },
      ["1 100 1000 0"],
      { applied: 2, old: 0, ignored: 0, stale: 0 },
    ],
    [
      "other decimals make the market stale",
      () => numbered().define({ priceDecimals: 3 }),
      { venue_sequence: 10n, stale: 1 },
      ["1 100 1000 0"],
      { applied: 1, old: 0, ignored: 0, stale: 1 },
    ],
  ];

  it.each(cases)("%s", async (_, recording, market, book, counts) => {
    const summary = await loadBytes(recording().bytes());
    expect(await venueMarket()).toEqual(market);
    expect(await levels()).toEqual(book);
    expect(summary.venues).toEqual(counts);
  });

  function telling(warnings: string[]): typeof log {
    return Object.assign(createLog("silent"), { warn: (text: string) => warnings.push(text) });
  }

  it("the log says when a market is no longer stale, also after another start", async () => {
    const warnings: string[] = [];
    const first = numbered().delta({ previousSequenceNumber: 11n, sequenceNumber: 12n });
    await loadBytes(first.bytes(), { log: telling(warnings) });
    const healed = first.delta({ sequenceNumber: 13n }).snapshot({ sequenceNumber: 14n });
    await loadBytes(healed.bytes(), { log: telling(warnings) });
    expect(warnings).toEqual([
      "market m is stale from event 8 on: updates are missing: one follows 11, and the book is at 10",
      "market m is no longer stale from event 14 on",
    ]);
  });

  it("the log says that a corrected definition was loaded before, and what to do", async () => {
    const warnings: string[] = [];
    const original = () => new VenueRecording().define({ sizeDecimals: 2 }).define({ sizeDecimals: 3 });
    await loadBytes(original().bytes());
    // The last definition of a market is the one that counts.
    await loadBytes(original().snapshot({}).bytes(), { log: telling(warnings) });
    expect(warnings).toEqual([]);
    const corrected = new VenueRecording().define({ sizeDecimals: 2 }).define({ sizeDecimals: 8 }).snapshot({});
    await loadBytes(corrected.bytes(), { log: telling(warnings) });
    expect(warnings).toEqual([
      'event 5 defines market "m" with size_decimals 8 and not 3, but was loaded before and is skipped: write a new market_definition and a book_snapshot after the last event, or load into an empty database',
    ]);
  });

  it("the summary counts them, and the log says which market and why", async () => {
    const warnings: string[] = [];
    const recording = numbered()
      .delta({ previousSequenceNumber: 11n, sequenceNumber: 12n })
      .delta({ sequenceNumber: 13n });
    const summary = await loadBytes(recording.bytes(), { log: telling(warnings) });
    expect(warnings).toEqual([
      "market m is stale from event 8 on: updates are missing: one follows 11, and the book is at 10",
    ]);
    expect(renderSummary(summary)).toContain(
      "venues: 1 book update, 0 older than their book, 1 of stale markets; markets became stale 1 time",
    );
  });

  const digits = (text: string) => crc32(text);
  const checksums: [string, ChecksumAlgorithm, string][] = [
    ["of 10, as digits", ChecksumAlgorithm.CRC32_OF_10, "1001500" + "10102000" + "502500"],
    ["of 25", ChecksumAlgorithm.CRC32_OF_25, "0.50:2.500:10.01:0.500:10.10:2.000"],
    ["of 25, shortest", ChecksumAlgorithm.CRC32_OF_25_SHORTEST, "0.5:2.5:10.01:0.5:10.1:2"],
  ];

  it.each(checksums)("the venue's checksum %s", async (_, checksumAlgorithm, text) => {
    const book = { bids: [level("0.5", "2.5")], asks: [level("10.1", "2"), level("10.01", "0.5")] };
    const checksum = digits(text);
    const venue = new VenueRecording()
      .define({ checksumAlgorithm })
      .snapshot({ ...book, checksum })
      .delta({ checksum });
    expect((await loadBytes(venue.bytes())).venues).toEqual({ applied: 2, old: 0, ignored: 0, stale: 0 });
    venue.delta({ bids: [level("0.5", "2.6")], checksum });
    expect((await loadBytes(venue.bytes())).venues).toMatchObject({ applied: 1, stale: 1 });
    expect(await venueMarket()).toMatchObject({ stale: 1 });
    venue.snapshot({ ...book, checksum: (checksum ^ 1) >>> 0 });
    expect((await loadBytes(venue.bytes())).venues).toMatchObject({ applied: 1, stale: 1 });
    venue.snapshot({ ...book, checksum });
    await loadBytes(venue.bytes());
    expect(await venueMarket()).toMatchObject({ stale: 0 });
  });

  it("one side longer than the other, and more than 25 levels", async () => {
    const asks = Array.from({ length: 30 }, (_, index) => level(`${index + 2}`, "1"));
    const text = ["1:1", ...asks.slice(0, 25).map(({ price }) => `${price}:1`)].join(":");
    const checksumAlgorithm = ChecksumAlgorithm.CRC32_OF_25_SHORTEST;
    const venue = new VenueRecording().define({ checksumAlgorithm, priceDecimals: 0, sizeDecimals: 0 });
    venue.snapshot({ asks, bids: [level("1", "1")], checksum: crc32(text) });
    expect((await loadBytes(venue.bytes())).venues).toMatchObject({ applied: 1, stale: 0 });
  });
});

it("however a recording is cut, and whenever the loader is started again, the rows are the same", async () => {
  const venue = new VenueRecording().define({ depthMax: 2 });
  for (let round = 0n; round < 4n; round++) {
    const sequenceNumber = 10n * round;
    venue.snapshot({ bids: [level(`${round + 1n}`, "1"), level("9", "2")], sequenceNumber });
    venue.delta({ bids: [level("5", `${round}`), level("7", "3")], sequenceNumber: sequenceNumber + 1n });
    venue.delta({ asks: [level("11", "1")], sequenceNumber: sequenceNumber + 3n });
    venue.delta({ asks: [level("12", "1")], sequenceNumber: sequenceNumber + 4n });
  }
  await loadBytes(venue.bytes());
  const whole = await dump(url);
  await emptyStore(store);
  const blocks = venue.frames.length / 3;
  for (let block = 1; block <= blocks; block++) {
    await loadBytes(Buffer.concat(venue.frames.slice(0, 3 * block)));
  }
  expect(await dump(url)).toEqual(whole);
});

describe("what cannot be is refused", () => {
  it("and the blocks before it are kept", async () => {
    await expect(
      loadBytes(
        new VenueRecording()
          .define()
          .delta({ bids: [level("1.001", "1")] })
          .bytes(),
      ),
    ).rejects.toThrow("event 5 has book_delta.bids.price");
    expect(await venueMarket()).toEqual({ venue_sequence: null, stale: 1 });
  });

  it("an order in a venue's market, and a venue's definition of a market of orders", async () => {
    const order = () =>
      new VenueRecording().define().block(2, 2_000_000_000n, (r) => r.order({ id: "o", marketId: "m" }));
    await expect(loadBytes(order().bytes())).rejects.toThrow(
      'event 5 has order for market "m", which has venue events',
    );
    const created = () => new VenueRecording().define().block(2, 2_000_000_000n, (r) => r.market("m"));
    await expect(loadBytes(created().bytes())).rejects.toThrow("event 5 has market_created for market");
    const orders = new VenueRecording();
    orders.sequence = 4n;
    orders.block(2, 2_000_000_000n, (r) => r.order({ id: "o", marketId: "n" }));
    orders.begin(3, 3_000_000_000n).venue({ case: "marketDefinition", value: { marketId: "n" } });
    await expect(loadBytes(orders.end().bytes())).rejects.toThrow(
      'event 8 defines market "n" as a venue\'s, but its book is made of orders',
    );
  });
});
