import { fromBinary, fromJsonString } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ObserveMarketsDepthUpdatesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import {
  MarketHistoryState,
  type ReplayMarketsDepthResponse,
  ReplayMarketsDepthResponseSchema,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import { DepthBook, type DepthUpdate } from "../../src/domain/depth-book.js";
import { unavailable } from "../../src/domain/failure.js";
import { parseResumeToken } from "../../src/domain/resume-token.js";
import { entryAt, type PublishedAt } from "../../src/history/resume.js";
import { Hub } from "../../src/live/hub.js";
import { liveLimits } from "../../src/live/limits.js";
import { LiveState } from "../../src/live/live-state.js";
import { depthStream, replayStream, type StreamKind } from "../../src/live/stream-kind.js";
import type { Subscriber } from "../../src/live/subscriber.js";
import { createLog } from "../../src/telemetry/log.js";
import { tries } from "../support/tries.js";
import { bookText, type LevelChange, ModelNetwork } from "./model-network.js";

const marketIds = ["market-a", "market-b", "market-c"];
const kinds: readonly StreamKind[] = [depthStream, replayStream];

type Step =
  | { readonly kind: "block"; readonly levels: readonly LevelChange[] }
  | { readonly kind: "announce"; readonly marketId: string }
  | { readonly kind: "poll" | "restart"; readonly process: number }
  | { readonly kind: "prune" }
  | { readonly kind: "take"; readonly reader: number; readonly parts: number }
  | { readonly kind: "reconnect"; readonly reader: number; readonly process: number };

const level: fc.Arbitrary<LevelChange> = fc.record({
  marketId: fc.constantFrom(...marketIds),
  side: fc.constantFrom(1 as const, 2 as const),
  price: fc.constantFrom("9", "10", "100000000000000000000000000"),
  volume: fc.bigInt(0n, 2n),
});
const process = fc.nat(1);
const reader = fc.nat(5);

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("block" as const),
      levels: fc.uniqueArray(level, { maxLength: 4, selector: (l) => `${l.marketId} ${l.side} ${l.price}` }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("announce" as const), marketId: fc.constantFrom(...marketIds) }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("poll" as const), process }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("restart" as const), process }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("prune" as const) }) },
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constant("take" as const), reader, parts: fc.integer({ min: 1, max: 9 }) }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("reconnect" as const), reader, process }) },
);

/** A process that follows the network by steps of the test. */
class Process {
  state: LiveState;
  hub: Hub;

  constructor(readonly network: ModelNetwork) {
    const limits = { ...liveLimits, messageBytesMax: 1_500, tombstonesSpareMax: 3 };
    const changes = network.changes(undefined);
    this.state = new LiveState(changes.progress, limits);
    this.state.apply(changes);
    this.hub = new Hub(this.state, createLog("silent"), { messages: 0 });
  }

  poll(): void {
    if (this.network.progress.streamSequence === this.state.progress.streamSequence) return;
    this.hub.publish(this.state.apply(this.network.changes(this.state.progress)));
  }

  end(): void {
    this.hub.end(unavailable("the process ends", "OVER", 1));
  }
}

/** A reader that keeps its books over broken connections. */
class Reader {
  readonly books = new Map<string, DepthBook>();
  /** What it was last sent of each market, and the same when it got its last token. */
  #sent = new Map<string, bigint>();
  #atToken = new Map<string, bigint>();
  /** Markets that the connection's first messages brought whole, and those that their status names. */
  readonly #broughtWhole = new Set<string>();
  readonly #named = new Set<string>();
  token = "";
  stream: Subscriber | undefined;
  wholeBooks = 0;
  #isFirst = true;
  caughtUp = 0;

  constructor(
    readonly network: ModelNetwork,
    readonly kind: StreamKind,
    readonly ids: readonly string[],
  ) {}

  connect(stream: Subscriber): void {
    this.stream?.close();
    this.stream = stream;
    this.#sent = new Map(this.#atToken);
    this.#isFirst = true;
    this.#broughtWhole.clear();
    this.#named.clear();
    this.caughtUp = 0;
  }

  /** Takes once, and sees the first `parts` messages; a connection that breaks then is opened anew. */
  take(parts: number): number {
    const responses = this.stream?.take() ?? [];
    for (const response of responses.slice(0, parts)) {
      const isReplay = this.kind === replayStream;
      const schema = isReplay ? ReplayMarketsDepthResponseSchema : ObserveMarketsDepthUpdatesResponseSchema;
      const message = fromBinary(schema, response.binary());
      expect(fromJsonString(schema, Buffer.from(response.json()).toString())).toEqual(message);
      for (const update of message.update) this.#check(update);
      if (message.$typeName === ReplayMarketsDepthResponseSchema.typeName) {
        this.#checkReplay(message as ReplayMarketsDepthResponse, response.eventId);
      }
      const { eventId } = response;
      if (eventId === undefined) continue;
      this.#isFirst = false;
      this.token = eventId;
      this.#atToken = new Map(this.#sent);
    }
    if (parts < responses.length) this.stream?.close();
    return responses.length;
  }

  #checkReplay(message: ReplayMarketsDepthResponse, eventId = ""): void {
    const { status, update, block, resumeToken, caughtUp } = message;
    expect(resumeToken).toBe(eventId);
    expect(block !== undefined).toBe(resumeToken !== "");
    if (caughtUp) this.caughtUp++;
    for (const { marketId, state } of status) {
      expect(state).not.toBe(MarketHistoryState.UNSPECIFIED);
      this.#named.add(marketId);
    }
    for (const { marketId, previousSequenceNumber } of update) {
      if (previousSequenceNumber === 0n) this.#broughtWhole.add(marketId);
    }
    if (this.#isFirst && block !== undefined) expect(this.#named).toEqual(this.#broughtWhole);
  }

  get isWhole(): boolean {
    return !this.#isFirst;
  }

  /** After everything was taken, each book is that of the network. */
  finish(announced: readonly string[]): void {
    const ids = this.ids.length === 0 ? announced : this.ids;
    expect([...this.books.keys()].sort()).toEqual([...ids].sort());
    for (const id of ids) {
      expect(this.#sent.get(id), id).toBe(this.network.depth(id)?.publishedSequenceNumber ?? 0n);
      expect(bookText(this.books.get(id) ?? new DepthBook(id)), id).toEqual(this.network.now(id));
    }
  }

  #check(update: DepthUpdate): void {
    const { marketId, previousSequenceNumber: previous, sequenceNumber } = update;
    let book = this.books.get(marketId);
    if (previous === 0n) {
      this.wholeBooks++;
      const held = book?.sequenceNumber;
      if (held === undefined || held < sequenceNumber) book = new DepthBook(marketId);
    } else {
      expect(previous, `previous of ${marketId}`).toBe(this.#sent.get(marketId));
      expect(sequenceNumber).toBeGreaterThan(previous);
    }
    book ??= new DepthBook(marketId);
    this.books.set(marketId, book);
    // A part of a batch may have come before its token: then the book is known already.
    expect(["applied", "known"]).toContain(book.apply(update));
    this.#sent.set(marketId, sequenceNumber);
    const at = this.network.at(marketId, book.sequenceNumber ?? 0n);
    expect(bookText(book), `${marketId} at ${book.sequenceNumber}`).toEqual(at);
  }
}

/** Two processes over one network, and readers that go from one to the other. */
class Run {
  readonly network = new ModelNetwork();
  readonly processes: Process[];
  readonly readers: Reader[] = [];
  /** What markets had published at each block, and when they were last announced. */
  readonly #published = new Map<bigint, ReadonlyMap<string, bigint>>();
  readonly #announcedAt = new Map<string, bigint>();
  resumed = 0;

  constructor() {
    this.#announce("market-a");
    this.#announce("market-b");
    this.processes = [new Process(this.network), new Process(this.network)];
    for (const kind of kinds) {
      for (const ids of [[], ["market-a"], ["market-b", "market-a"]]) {
        const reader = new Reader(this.network, kind, ids);
        this.readers.push(reader);
        reader.connect(this.#open(this.#process(0), reader));
      }
    }
  }

  async run(one: Step): Promise<void> {
    switch (one.kind) {
      case "block":
        this.network.add({ levels: one.levels });
        this.#note();
        break;
      case "announce":
        this.#announce(one.marketId);
        break;
      case "poll":
        this.#process(one.process).poll();
        break;
      case "restart":
        this.#process(one.process).end();
        this.processes[one.process] = new Process(this.network);
        break;
      case "prune":
        this.network.prune();
        break;
      case "take":
        this.readers[one.reader]?.take(one.parts);
        break;
      case "reconnect":
        await this.#reconnect(this.readers[one.reader], this.#process(one.process));
        break;
    }
  }

  async finish(): Promise<void> {
    for (const process of this.processes) process.poll();
    for (const reader of this.readers) {
      if (reader.stream?.ended ?? true) await this.#reconnect(reader, this.#process(0));
    }
    for (const process of this.processes) process.poll();
    for (const reader of this.readers) {
      while (reader.take(99) > 0) {}
      reader.finish(this.network.announced);
      if (reader.kind === replayStream) expect(reader.caughtUp).toBe(reader.isWhole ? 1 : 0);
      reader.stream?.close();
    }
    for (const process of this.processes) process.end();
  }

  #process(index: number): Process {
    const process = this.processes[index];
    if (process === undefined) throw new Error("no such process");
    return process;
  }

  #announce(marketId: string): void {
    this.network.add({ announce: [marketId] });
    this.#announcedAt.set(marketId, this.network.progress.streamSequence);
    this.#note();
  }

  #note(): void {
    const numbers = marketIds.map((id) => [id, this.network.depth(id)?.publishedSequenceNumber ?? 0n] as const);
    this.#published.set(this.network.progress.streamSequence, new Map(numbers));
  }

  #open({ hub, state }: Process, reader: Reader, entry?: Awaited<ReturnType<typeof entryAt>>): Subscriber {
    const markets = reader.ids.length === 0 ? undefined : reader.ids.map((id) => state.requireMarket(id));
    return hub.open(markets, { clientAddress: "client", kind: reader.kind, entry });
  }

  async #reconnect(reader: Reader | undefined, process: Process): Promise<void> {
    if (reader === undefined) return;
    const place = reader.token === "" ? undefined : parseResumeToken(reader.token);
    if (place === undefined) return reader.connect(this.#open(process, reader));
    if (process.state.progress.streamSequence < place.streamSequence) process.poll();
    const entry = await entryAt(process.state, place, reader.ids, this.#publishedAt(process));
    if (entry !== undefined) this.resumed++;
    reader.connect(this.#open(process, reader, entry));
  }

  /** Blocks come and are seen while the process waits for its database. */
  #publishedAt(process: Process): PublishedAt {
    return async (streamSequence, all, changed) => {
      const asOf = process.state.progress.streamSequence;
      const beginsAnew = all.filter((id) => (this.#announcedAt.get(id) ?? 0n) > streamSequence);
      const numbers = changed.map((id) => [id, this.#published.get(streamSequence)?.get(id)] as const);
      const numbersAt = new Map([...numbers, ...beginsAnew.map((id) => [id, undefined] as const)]);
      this.network.add({
        levels: [{ marketId: "market-a", side: 1, price: "9", volume: this.network.progress.height }],
      });
      this.#note();
      process.poll();
      return { numbers: numbersAt, asOf };
    };
  }
}

test("a reader that resumes at any process gets what it misses, once", async () => {
  let resumed = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
      const run = new Run();
      for (const one of steps) await run.run(one);
      await run.finish();
      resumed += run.resumed;
    }),
    { numRuns: tries(1_500) },
  );
  expect(resumed).toBeGreaterThan(1_000);
});

test("readers that resume together from different updates of one market each get what they miss", async () => {
  const run = new Run();
  const levels: LevelChange[] = ["9", "10", "11", "12"].map((price) => {
    return { marketId: "market-a", side: 2, price, volume: 1n };
  });
  const take = (reader: number): Step => ({ kind: "take", reader, parts: 9 });
  const change = (volume: bigint): Step => {
    return { kind: "block", levels: [{ marketId: "market-a", side: 2, price: "9", volume }] };
  };
  const steps: Step[] = [
    { kind: "block", levels },
    { kind: "poll", process: 0 },
    { kind: "poll", process: 1 },
    change(2n),
    { kind: "poll", process: 0 },
    take(0),
    take(1),
    change(3n),
    { kind: "poll", process: 0 },
    // The second reader has an update that the first one lacks. To the other process both are changes of one snapshot.
    take(1),
    change(4n),
    { kind: "poll", process: 1 },
    { kind: "reconnect", reader: 0, process: 1 },
    { kind: "reconnect", reader: 1, process: 1 },
    take(0),
    take(1),
  ];
  for (const one of steps) await run.run(one);
  expect(run.resumed).toBe(2);
  await run.finish();
});
