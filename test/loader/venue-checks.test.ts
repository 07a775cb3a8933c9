import { create, type DescField, fromBinary, toBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { VenueBusEventSchema } from "../../gen/marketd/events/v1/venue_pb.js";
import { BusEventSchema } from "../../gen/vega/events/v1/events_pb.js";
import { OrderBooks } from "../../src/domain/order-book.js";
import { BlockFold } from "../../src/loader/block-fold.js";
import { FrameSplitter } from "../../src/loader/frames.js";
import { LedgerTextWriter } from "../../src/loader/ledger-text.js";
import { level, VenueRecording } from "../support/venue-recording.js";

describe("what cannot be is refused", () => {
  const defined = () => new VenueRecording().define();
  const takes = {
    price:
      'it takes a decimal number above 0 of at most 2 decimals, as price_decimals of market "m" says, below 2^256 when scaled',
    size: 'it takes a decimal number of at most 3 decimals, as size_decimals of market "m" says, below 2^64 when scaled',
  };
  const bid = (price: string, size: string) => () => defined().delta({ bids: [level(price, size)] });
  const cases: [string, () => VenueRecording, string][] = [
    [
      "a price with too many decimals",
      bid("1.0010", "1"),
      `event 5 has book_delta.bids.price "1.0010"; ${takes.price}; before it, write a market_definition with price_decimals of at least 3, then a book_snapshot`,
    ],
    ["a price of 0", bid("0.00", "1"), `event 5 has book_delta.bids.price "0.00"; ${takes.price}`],
    ["a negative price", bid("-1", "1"), `event 5 has book_delta.bids.price "-1"; ${takes.price}`],
    ["a price in scientific notation", bid("1e2", "1"), `event 5 has book_delta.bids.price "1e2"; ${takes.price}`],
    [
      "a price that is too large",
      bid("9".repeat(77), "1"),
      `has book_delta.bids.price "${"9".repeat(77)}"; ${takes.price}`,
    ],
    [
      "a size with too many decimals",
      bid("1", "0.0001"),
      `event 5 has book_delta.bids.size "0.0001"; ${takes.size}; before it, write a market_definition with size_decimals of at least 4, then a book_snapshot`,
    ],
    [
      "a size that is too large",
      bid("1", "18446744073709551.616"),
      `event 5 has book_delta.bids.size "18446744073709551.616"; ${takes.size}`,
    ],
    [
      "a level of a snapshot",
      () => defined().snapshot({ asks: [level("x", "1")] }),
      `event 5 has book_snapshot.asks.price "x"; ${takes.price}`,
    ],
    [
      "an unknown market",
      () => defined().delta({ marketId: "n" }),
      'event 5 has a book_delta of market "n", which no market_definition has named yet',
    ],
    [
      "a trade of an unknown market",
      () => defined().tell({ case: "trade", value: { marketId: "n", price: "1", size: "1" } }),
      'event 5 has a trade of market "n", which no market_definition has named yet',
    ],
    [
      "a trade that does not fit",
      () => defined().tell({ case: "trade", value: { marketId: "m", price: "1.125", size: "1" } }),
      `event 5 has trade.price "1.125"; ${takes.price}`,
    ],
    [
      "a checksum without an algorithm",
      () => defined().snapshot({ checksum: 1 }),
      'event 5 has book_snapshot.checksum, but the definition of market "m" names no checksum_algorithm',
    ],
    [
      "an algorithm that is none",
      () => defined().define({ marketId: "n", checksumAlgorithm: Number("9") }),
      'event 5 has market_definition.checksum_algorithm "9"; it takes a number of marketd\'s ChecksumAlgorithm',
    ],
    [
      "too many decimals",
      () => defined().define({ marketId: "n", sizeDecimals: 31 }),
      'event 5 has market_definition.size_decimals "31"; it takes 0 to 30',
    ],
    [
      "a market without an id",
      () => defined().define({ marketId: "" }),
      'event 5 has market_definition.market_id "", which is empty; give an identifier',
    ],
  ];

  it.each(cases)("%s", (_, recording, message) => {
    const books = OrderBooks.restore([], []);
    const fold = new BlockFold({ progress: undefined, position: 0, books, ledger: new LedgerTextWriter([], []) });
    const frames = new FrameSplitter("test").frames(recording().bytes());
    expect(() => {
      for (const frame of frames) fold.apply(frame);
    }).toThrow(message);
  });
});

it("a trade without an id does not take one from its event that is too long", () => {
  const recording = new VenueRecording().define().block(2, 2_000_000_000n, (r) => {
    const trade = { case: "trade" as const, value: { marketId: "m", price: "1", size: "1" } };
    const event = { case: "venueEvent" as const, value: { event: trade } };
    const message = create(VenueBusEventSchema, { id: `${"0".repeat(128)}-2`, chainId: "test-chain", event });
    r.frame(toBinary(VenueBusEventSchema, message));
  });
  const books = OrderBooks.restore([], []);
  const fold = new BlockFold({ progress: undefined, position: 0, books, ledger: new LedgerTextWriter([], []) });
  expect(() => {
    for (const frame of new FrameSplitter("test").frames(recording.bytes())) fold.apply(frame);
  }).toThrow(/^event 5 has trade\.id "0{80}"… \(130 characters\), which /);
});

describe("a book of too many levels makes its market stale, and the load goes on", () => {
  const many = (count: number, from = 1) => Array.from({ length: count }, (_, i) => level(`${from + i}`, "1"));
  const first = () => new VenueRecording().define().define({ marketId: "n" });
  const whole = (recording: VenueRecording) => recording.snapshot({ asks: many(100_000), sequenceNumber: 1n });
  const cases: [string, (recording: VenueRecording) => VenueRecording, string[]][] = [
    ["as many as may be", whole, []],
    [
      "a snapshot",
      (r) => whole(r).snapshot({ bids: many(100_001), sequenceNumber: 2n }),
      ["market m is stale from event 11 on: a snapshot has 100001 levels a side, more than 100000"],
    ],
    [
      "the first snapshot",
      (r) => r.snapshot({ bids: many(100_001) }),
      ["market m is stale from event 8 on: a snapshot has 100001 levels a side, more than 100000"],
    ],
    [
      "a delta",
      (r) => whole(r).delta({ bids: many(100_001), sequenceNumber: 2n }),
      ["market m is stale from event 11 on: a delta has 100001 levels a side, more than 100000"],
    ],
    [
      "a delta that adds a level to the book",
      (r) => whole(r).delta({ asks: many(1, 200_000), bids: many(3), sequenceNumber: 2n }),
      ["market m is stale from event 11 on: the book has 100001 levels a side, more than 100000"],
    ],
  ];

  it.each(cases)("%s", (_, recording, reasons) => {
    const books = OrderBooks.restore([], []);
    const told: string[] = [];
    const ledger = new LedgerTextWriter([], []);
    const fold = new BlockFold({
      progress: undefined,
      position: 0,
      books,
      ledger,
      onNotice: (text) => told.push(text),
    });
    const last = { marketId: "n", bids: [level("1", "1")] };
    for (const frame of new FrameSplitter("test").frames(recording(first()).snapshot(last).bytes())) fold.apply(frame);
    expect(told).toEqual(reasons);
    const states = [...fold.take().venueMarkets.values()].map(({ marketId, stale }) => [marketId, stale]);
    expect(states).toEqual([
      ["m", reasons.length > 0],
      ["n", false],
    ]);
  });
});

describe("what a venue writes is a BusEvent", () => {
  it("with the same fields, but for 10001", () => {
    const facts = ({ name, number, fieldKind, scalar, message }: DescField) => ({
      ...{ name, number, fieldKind, scalar, message: message?.typeName },
    });
    const own = VenueBusEventSchema.fields.filter(({ number }) => number !== 10_001);
    const theirs = own.flatMap(({ name }) => BusEventSchema.fields.find((field) => field.name === name) ?? []);
    expect(own.map(facts)).toEqual(theirs.map(facts));
    expect(BusEventSchema.fields.some(({ number }) => number === 10_001)).toBe(false);
  });

  it("that programs without field 10001 read, and pass over", () => {
    const [, definition] = [...new FrameSplitter("test").frames(new VenueRecording().define().bytes())].map(
      ({ body }) => fromBinary(BusEventSchema, body),
    );
    expect(definition).toMatchObject({ id: "1-2", chainId: "test-chain", event: { case: undefined } });
    expect(definition?.$unknown?.map(({ no }) => no)).toEqual([10_001]);
  });
});
