import fc from "fast-check";
import { expect, test } from "vitest";
import { unavailable } from "../../src/domain/failure.js";
import { Hub } from "../../src/live/hub.js";
import { liveLimits } from "../../src/live/limits.js";
import { LiveState } from "../../src/live/live-state.js";
import { createLog } from "../../src/telemetry/log.js";
import { tries } from "../support/tries.js";
import { type LevelChange, ModelNetwork } from "./model-network.js";
import { StreamReader } from "./stream-reader.js";

const marketIds = ["market-a", "market-b", "market-c"];
const prices = ["9", "10", "100000000000000000000000000"];

type Step =
  | { readonly kind: "block"; readonly levels: readonly LevelChange[]; readonly quiet: readonly string[] }
  | { readonly kind: "announce"; readonly marketId: string }
  | { readonly kind: "poll" | "prune" }
  | { readonly kind: "open"; readonly marketIds: readonly string[] }
  | { readonly kind: "take" | "close"; readonly reader: number };

const level: fc.Arbitrary<LevelChange> = fc.record({
  marketId: fc.constantFrom(...marketIds),
  side: fc.constantFrom(1 as const, 2 as const),
  price: fc.constantFrom(...prices),
  volume: fc.bigInt(0n, 2n),
});

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("block" as const),
      levels: fc.uniqueArray(level, { maxLength: 5, selector: (l) => `${l.marketId} ${l.side} ${l.price}` }),
      quiet: fc.uniqueArray(fc.constantFrom(...marketIds), { maxLength: 2 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("announce" as const), marketId: fc.constantFrom(...marketIds) }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("poll" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("prune" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("open" as const),
      marketIds: fc.array(fc.constantFrom(...marketIds), { maxLength: 3 }),
    }),
  },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant("take" as const), reader: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("close" as const), reader: fc.nat(5) }) },
);

/** A service over a model, without a database: the tail's looks are steps like any other. */
class Run {
  readonly network = new ModelNetwork();
  readonly #state: LiveState;
  readonly #hub: Hub;
  #prunes = 0;
  readonly #readers: { readonly reader: StreamReader; readonly ids: readonly string[] | undefined }[] = [];

  readonly #remembersAll: boolean;

  constructor(tombstonesSpareMax: number, messageBytesMax: number) {
    this.#remembersAll = tombstonesSpareMax > 100;
    const limits = { ...liveLimits, tombstonesSpareMax, messageBytesMax };
    this.network.add({ announce: marketIds.slice(0, 2) });
    const changes = this.network.changes(undefined);
    this.#state = new LiveState(changes.progress, limits);
    this.#state.apply(changes);
    this.#hub = new Hub(this.#state, createLog("silent"), { messages: 0 });
  }

  run(one: Step): void {
    switch (one.kind) {
      case "block":
        this.network.add({ levels: one.levels, quiet: one.quiet });
        break;
      case "announce":
        this.network.add({ announce: [one.marketId] });
        break;
      case "prune":
        this.network.prune();
        this.#prunes++;
        break;
      case "poll":
        this.poll();
        break;
      case "open":
        this.#open(one.marketIds);
        break;
      case "take":
        this.#readers[one.reader]?.reader.take();
        break;
      case "close":
        this.#readers[one.reader]?.reader.stream.close();
        break;
    }
  }

  poll(): void {
    if (this.network.progress.streamSequence === this.#state.progress.streamSequence) return;
    this.#hub.publish(this.#state.apply(this.network.changes(this.#state.progress)));
  }

  /** In the end everybody reads, and holds what is true. */
  finish(): void {
    this.poll();
    for (const { reader, ids } of this.#readers) {
      if (reader.stream.ended) continue;
      reader.drain();
      for (const marketId of ids ?? this.network.announced) {
        const published = this.network.depth(marketId)?.publishedSequenceNumber ?? 0n;
        expect(reader.sent.get(marketId), marketId).toBe(published);
      }
      expect([...reader.books.keys()].sort()).toEqual([...(ids ?? this.network.announced)].sort());
      expect(reader.take()).toBe(0);
      // Only a service that lost track sends a whole book again.
      if (this.#remembersAll) expect(reader.wholeBooks).toBeLessThanOrEqual(reader.books.size * (1 + this.#prunes));
    }
    for (const { reader } of this.#readers) reader.stream.close();
    expect(this.#hub.counts()).toEqual({ subscribers: 0, lagging: 0 });
    this.#hub.end(unavailable("the test is over", "OVER", 1));
  }

  #open(ids: readonly string[]): void {
    const known = this.#state.announced.map((market) => market.id);
    const wanted = [...new Set(ids)].filter((id) => known.includes(id));
    if (ids.length > 0 && wanted.length === 0) return;
    const all = ids.length === 0;
    const markets = all ? undefined : wanted.map((id) => this.#state.requireMarket(id));
    const reader = new StreamReader(this.#hub.open(markets, { clientAddress: "client" }), () => this.network);
    this.#readers.push({ reader, ids: all ? undefined : wanted });
  }
}

test("a reader that folds a stream holds the right book, however slowly it reads", () => {
  const limits = fc.record({ tombstones: fc.constantFrom(0, 1, 1024), bytes: fc.constantFrom(1, 1500, 1 << 20) });
  fc.assert(
    fc.property(limits, fc.array(step, { maxLength: 60 }), ({ tombstones, bytes }, steps) => {
      const run = new Run(tombstones, bytes);
      for (const one of steps) run.run(one);
      run.finish();
    }),
    { numRuns: tries(3_000) },
  );
});
