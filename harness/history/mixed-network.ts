import { createHash } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { VenueEventInit } from "../../examples/venues/recording.js";
import { VenueBusEventSchema } from "../../gen/marketd/events/v1/venue_pb.js";
import { BusEventSchema } from "../../gen/vega/events/v1/events_pb.js";
import { Network } from "../../src/simulator/network.js";
import type { RandomSource } from "../chaos/random-source.js";
import { framesOf, recordingOf } from "../support/frames.js";
import { type BookShape, RandomBook } from "./random-book.js";

/** Above the numbers of the simulated network's own events in a block, and low enough for blocks 5 ms apart. */
const firstVenueNumber = 3_000;

/** Books that fail in different ways. Small ones are sealed every 256 changes. */
const shapes: readonly BookShape[] = [
  { name: "small", levels: 6, changesMax: 4, priceDecimals: 2, busy: 0.9 },
  {
    name: "checked",
    levels: 12,
    changesMax: 5,
    priceDecimals: 2,
    busy: 0.6,
    depthMax: 10,
    fails: 0.01,
    isChecked: true,
  },
  { name: "flaky", levels: 8, changesMax: 3, priceDecimals: 4, busy: 0.6, fails: 0.02, redefines: 0.01 },
  { name: "huge-prices", levels: 9, changesMax: 6, priceDecimals: 30, priceDigits: 76, busy: 0.3, redefines: 0.005 },
  { name: "wide", levels: 700, changesMax: 3, priceDecimals: 2, busy: 0.8, deltasMax: 1 },
  { name: "deep", levels: 1_000, changesMax: 40, priceDecimals: 0, busy: 0.3 },
  { name: "quiet", levels: 30, changesMax: 10, priceDecimals: 2, busy: 0.02 },
  { name: "unnumbered", levels: 10, changesMax: 8, priceDecimals: 5, busy: 0.4, isUnnumbered: true, redefines: 0.004 },
];

/** Share of the blocks that come in two, the second with the height of the first. */
const repeatedShare = 0.03;

/** Blocks after which another market is announced. */
const announcementBlocks = 90;
const marketsMax = 16;

/** A chain with the orders of a simulated network and the levels of venues' books in the same blocks. */
export class MixedNetwork {
  readonly chainId: string;
  readonly #network: Network;
  readonly #random: RandomSource;
  readonly #books: RandomBook[] = [];
  readonly #redefineEvery: number;
  #sequence = 0n;

  /** @param simulatedMarkets markets made of orders */
  constructor(seed: number, random: RandomSource, simulatedMarkets: number) {
    this.#network = new Network({
      seed,
      markets: simulatedMarkets,
      parties: 20,
      ordersPerBlock: 6,
      entriesPerBlock: 0,
    });
    this.chainId = this.#network.chainId;
    this.#random = random;
    this.#redefineEvery = 40 + random.below(80);
    for (const shape of shapes) this.#announce(shape);
  }

  /** Markets of books of at least 400 levels a side with at most 3 changes an update. */
  get wideMarkets(): string[] {
    return this.#books.filter(({ shape }) => shape.name === "wide").map(({ marketId }) => marketId);
  }

  /** The frames of one more block. */
  nextBlock(timeNs: bigint): Buffer {
    const height = this.#network.height + 1;
    if (height % this.#redefineEvery === 0) this.#network.redefine();
    if (height % announcementBlocks === 0 && this.#books.length < marketsMax) this.#announce(this.#random.pick(shapes));
    const bodies = framesOf(this.#network.nextBlock(timeNs)).map(({ body }) => body);
    const last = bodies.pop();
    if (last === undefined || fromBinary(BusEventSchema, last).event.case !== "endBlock") {
      throw new Error("the simulated network's block has no end");
    }
    const events = this.#books.flatMap((book) => book.next());
    events.forEach((event, index) => void bodies.push(this.#venueEvent(height, firstVenueNumber + index, event)));
    const [begin = last] = bodies;
    const middle = 1 + this.#random.below(bodies.length);
    if (this.#random.next() < repeatedShare) bodies.splice(middle, 0, last, begin);
    return recordingOf([...bodies, last].map((body) => ({ sequence: ++this.#sequence, body })));
  }

  #announce(shape: BookShape): void {
    const marketId = createHash("sha256").update(`${this.chainId} ${this.#books.length}`).digest("hex");
    this.#books.push(new RandomBook(marketId, shape, this.#random));
  }

  #venueEvent(height: number, n: number, event: VenueEventInit): Uint8Array {
    const busEvent = { id: `${height}-${n}`, chainId: this.chainId };
    const value = { event: { case: "venueEvent" as const, value: { event } } };
    return toBinary(VenueBusEventSchema, create(VenueBusEventSchema, { ...busEvent, ...value }));
  }
}
