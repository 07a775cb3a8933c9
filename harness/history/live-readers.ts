import { setTimeout as delay } from "node:timers/promises";
import { Book } from "../chaos/book.js";
import { CallFailure } from "../chaos/call-failure.js";
import type { MarketPast, PublishedUpdate } from "./market-past.js";
import { isRefusal } from "./past-questions.js";
import { events } from "./replay-client.js";
import { enterFailure, isSaid, type ReplayContext, randomAddress, Silence } from "./replay-readers.js";
import { type DepthUpdate, setLevels } from "./replayed-books.js";
import { errorText } from "./service-error.js";

const connectionMaxMs = 5_000;
const retryMs = 100;
/** How long a service may not poll the database, or its replica stand still. */
const pollNsMax = 5_000_000_000n;
const kind = "depth stream resumed by Last-Event-ID";

interface Held {
  readonly book: Book;
  /** Blocks of which one is that of the book: its number may be older, and the service behind the network. */
  readonly between: readonly [number, number];
  readonly sequenceNumber: bigint;
}

/** A browser's reader of the live depth stream: server-sent events, resumed by `Last-Event-ID` at any service. */
export class LiveReader {
  readonly #held = new Map<string, Held>();
  #lastEventId: string | undefined;
  /** As of the last event id. */
  #numbers: ReadonlyMap<string, bigint> = new Map();
  /** Markets that were not updated since the connection began. */
  #resumed = new Set<string>();

  constructor(private readonly context: ReplayContext) {}

  async run(): Promise<void> {
    const { context } = this;
    while (!context.signal.aborted) {
      await this.#connect();
      await delay(context.random.next() * retryMs);
    }
  }

  async #connect(): Promise<void> {
    const { context } = this;
    const { random, tally } = context;
    const service = random.pick(context.services);
    const place = `${service.name}, after "${this.#lastEventId}"`;
    const silence = new Silence();
    const timer = setTimeout(() => silence.end(), connectionMaxMs * random.next());
    const cutAfterBytes = random.next() < 0.6 ? Math.floor(10 ** (2 + random.next() * 4)) : undefined;
    const isFirst = this.#lastEventId === undefined;
    if (isFirst) this.#held.clear();
    this.#resumed = isFirst ? new Set() : new Set(this.#numbers.keys());
    try {
      const signal = AbortSignal.any([context.signal, silence.signal]);
      const forgetId = () => {
        this.#lastEventId = undefined;
      };
      const where = { port: service.port, localAddress: randomAddress(random), signal, cutAfterBytes, forgetId };
      const path = "/api/v2/stream/markets/depth/updates";
      for await (const { message, id } of events<{ update: DepthUpdate[] }>(path, where, this.#lastEventId)) {
        silence.heard();
        const problem = message.update.map((update) => this.#apply(update)).find((text) => text !== undefined);
        if (problem !== undefined) {
          tally.wrong(kind, place, problem);
          this.#lastEventId = undefined;
          return;
        }
        tally.right(kind);
        if (id !== undefined) this.#keep(id);
      }
      if (!signal.aborted) tally.wrong(kind, place, "it ended as if it had an end");
    } catch (error) {
      this.#failed(error, service, place, silence);
    } finally {
      clearTimeout(timer);
      silence.end();
    }
  }

  #keep(id: string): void {
    this.#lastEventId = id;
    this.#numbers = new Map([...this.#held].map(([marketId, { sequenceNumber }]) => [marketId, sequenceNumber]));
  }

  #failed(error: unknown, service: ReplayContext["services"][number], place: string, silence: Silence): void {
    const { context } = this;
    const isOurs = context.signal.aborted || (silence.signal.aborted && !silence.isOver);
    if (isOurs || (error instanceof CallFailure && error.message === "cut by the harness")) {
      context.tally.fact("connections that the harness broke");
    } else if (isSaid(error) && isRefusal(errorText(error))) {
      context.tally.honest(kind, errorText(error));
    } else enterFailure(context, service, kind, place, error, silence, undefined);
  }

  #apply(update: DepthUpdate): string | undefined {
    const { marketId } = update;
    const [sequenceNumber, previous] = [BigInt(update.sequenceNumber), BigInt(update.previousSequenceNumber)];
    const what = `update ${previous} to ${sequenceNumber} of market ${marketId}`;
    const past = this.context.kept.oracle.markets.get(marketId);
    const published = past?.updateOf(sequenceNumber);
    if (past === undefined || (published === undefined && sequenceNumber !== 0n))
      return `${what}: no block published it`;
    const held = this.#held.get(marketId);
    const isResumed = this.#resumed.delete(marketId);
    if (previous !== 0n) {
      const expected = isResumed ? this.#numbers.get(marketId) : held?.sequenceNumber;
      if (previous !== expected) return `${what}, where ${expected} was held`;
      if (sequenceNumber <= previous) return `${what} goes back`;
      const anew = beganAnewSince(past, held, published);
      if (anew !== undefined) return `${what} (block ${published?.block.index}), which begins anew: ${anew}`;
    }
    const book = previous === 0n || held === undefined ? new Book() : held.book;
    setLevels(book, 1, update.buy);
    setLevels(book, 2, update.sell);
    const { newest } = this.context.kept.oracle;
    const index = published?.block.index ?? 0;
    const between = [index, previous === 0n ? newest.index : index] as const;
    this.#held.set(marketId, { book, between, sequenceNumber });
    return book.digest === (published?.digest ?? new Book().digest) ? undefined : `${what}: the book is another`;
  }
}

/**
 * Whether a market has other decimals than with its last update, or was stale for so long that no poll of a service can
 * have missed it: what is wrong, if so.
 */
function beganAnewSince(past: MarketPast, held: Held | undefined, now: PublishedUpdate | undefined) {
  if (held === undefined || now === undefined) return undefined;
  const [first, last] = held.between;
  const to = now.block.index;
  if (to <= last) return undefined;
  const scales = (index: number) => `${past.decimals.at(index)?.price} ${past.decimals.at(index)?.size}`;
  const before = new Set(Array.from({ length: last - first + 1 }, (_, n) => scales(first + n)));
  if (!before.has(scales(to))) return `decimals ${[...before]} until block ${last}, and then ${scales(to)}`;
  const stale = past.eras.find(({ block, isStale }) => {
    const healedNs = past.eraAfter(block.index)?.block.timeNs ?? block.timeNs;
    return isStale && last < block.index && block.index <= to && healedNs - block.timeNs > pollNsMax;
  });
  return stale && `held since block ${last}, stale at block ${stale.block.index}`;
}
