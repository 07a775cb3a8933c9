import {
  type BookUpdate,
  decodeSegment,
  decodeUpdate,
  MalformedHistoryError,
  numberBase,
} from "../domain/book-history.js";
import { quotaKey } from "../domain/client-address.js";
import { type DepthLevel, isGone } from "../domain/depth-book.js";
import type { ChangedLevel } from "../domain/order-book.js";
import { type BookSide, bestFirst, PriceLadder, sides } from "../domain/price-ladder.js";
import type { Call } from "../domain/service.js";
import type { Levels } from "../domain/tracked-book.js";
import type { Live } from "../live/live.js";
import { abortFailure } from "../store/connection/fair-queue.js";
import type { Reader } from "../store/connection/lease.js";
import type { StorePlace } from "../store/connection/store-place.js";
import type { Database } from "../store/database.js";
import { readBlockTimes, type StoredSegment } from "../store/history-reads.js";
import { pieceMs, Turns } from "./turns.js";

/** What replays hold in memory: together of the segments that they read, and each of its messages. */
export const pastLimits = {
  /** Bytes, inflated. Beyond that a replay reads a segment again each time that it decodes some of it. */
  heldBytesMax: 64 * 1024 * 1024,
  /** Levels that are decoded and not sent yet; of each market one block at least. */
  decodedLevelsMax: 65_536,
  /** Bytes of messages of a replay that wait to be taken, before blocks are merged or reading stops. */
  readyBytesMax: 4 * 1024 * 1024,
};

/** Levels that a replay decodes at once of a market: of a segment of usual size. */
const levelsAtOnceMax = 4_096;

/** Memory of a row of an unsealed segment beside its body. */
const changeRowBytes = 200;

/** Block times that a process remembers. */
export const blockTimesMax = 65_536;

/** Leases a reader for `use`. */
export type LeaseReader = <T>(use: (reader: Reader) => Promise<T>) => Promise<T>;

/** How one call reads the past. */
export interface PastReads {
  readonly lease: LeaseReader;
  /** Of the call; undefined: it is not aborted. */
  readonly signal: AbortSignal | undefined;
  /** The quota key of the client whose turns it takes. */
  readonly client: string;
}

/** Reads of a call that has a reader. */
export function readsOn(reader: Reader, { signal, clientAddress }: Call): PastReads {
  return { lease: (use) => use(reader), signal, client: quotaKey(clientAddress) };
}

/** What methods that read the past share: a class of work at the database, and turns of the event loop. */
export class Past {
  /** The markets that replays read, and the bytes of their segments that they hold. */
  readonly held = { cursors: 0, bytes: 0 };
  /** When to compute, for a while: {@link pieceMs}. */
  readonly turns = new Turns();
  readonly #times = new Map<bigint, bigint>();
  #timesOf = "";

  constructor(
    readonly database: Database,
    readonly live: Live,
    readonly limits = pastLimits,
  ) {}

  /** Leases a connection for reads of the past. With a place, the call has started to respond, and depends on it. */
  lease<T>(call: Call | undefined, use: (reader: Reader) => Promise<T>, place?: StorePlace): Promise<T> {
    return this.database.lease({ class: "history", call, place }, use);
  }

  /** Levels that a cursor decodes at once. */
  get levelsAtOnce(): number {
    return Math.min(levelsAtOnceMax, this.limits.decodedLevelsMax / this.held.cursors);
  }

  /** Counts what a segment holds. 0: it is too much, and must not be held. */
  hold({ content, changes }: StoredSegment): number {
    const bytes = changes.reduce((sum, { body }) => sum + body.length + changeRowBytes, content.length);
    if (this.held.bytes + bytes > this.limits.heldBytesMax) return 0;
    this.held.bytes += bytes;
    return bytes;
  }

  /** Runs work to its end, in turns of the event loop. @throws Failure, the reason why the call is over */
  async inTurns<T>(work: Generator<void, T>, { signal, client }: Omit<PastReads, "lease">): Promise<T> {
    for (;;) {
      await this.turns.next(client);
      if (signal?.aborted === true) throw abortFailure(signal);
      const until = performance.now() + pieceMs;
      do {
        const { done, value } = work.next();
        if (done) return value;
      } while (performance.now() < until);
    }
  }

  /** The time of the block of each update. */
  async timesOf(lease: LeaseReader, updates: readonly Pick<BookUpdate, "height">[]): Promise<bigint[]> {
    const storeId = this.database.knownPlace.current?.storeId ?? "";
    if (storeId !== this.#timesOf || this.#times.size > blockTimesMax) this.#times.clear();
    this.#timesOf = storeId;
    const known = updates.map(({ height }) => this.#times.get(height));
    const missing = updates.filter((_, index) => known[index] === undefined).map(({ height }) => height);
    const read = missing.length === 0 ? undefined : await lease((reader) => readBlockTimes(reader, missing));
    if (storeId === this.#timesOf) for (const [height, timeNs] of read ?? []) this.#times.set(height, timeNs);
    return updates.map(({ height }, index) => {
      const timeNs = known[index] ?? read?.get(height);
      if (timeNs === undefined) throw new MalformedHistoryError(`there is no block ${height}`);
      return timeNs;
    });
  }
}

/** The changes of a segment behind `after` and up to `upTo`, in order. */
export function* updatesOf(segment: StoredSegment, after: bigint, upTo: bigint): Generator<BookUpdate> {
  for (const update of decoded(segment)) {
    if (update.streamSequence > upTo) return;
    if (update.streamSequence > after) yield update;
  }
}

/** A sealed segment has content, an unsealed one changes. */
function* decoded(segment: StoredSegment): Generator<BookUpdate> {
  yield* decodeSegment(segment, segment.content);
  for (const { streamSequence, body } of segment.changes) yield decodeUpdate(streamSequence, body);
}

/** The number that an update was published with. */
export function numberOf({ numberOffset }: BookUpdate, blockTimeNs: bigint): bigint {
  return numberBase(blockTimeNs) + numberOffset;
}

/** The levels of a book, or of an update, with those of later updates. */
export class LevelMap {
  readonly #first: Levels;
  readonly #later = { 1: new Map<string, ChangedLevel>(), 2: new Map<string, ChangedLevel>() };

  /** `first`: buys before sells, each side best first. */
  constructor(first: readonly ChangedLevel[]) {
    this.#first = bySide(first);
  }

  set(levels: readonly ChangedLevel[]): void {
    for (const level of levels) this.#later[level.side].set(level.price, level);
  }

  /** Best first. A book has no levels that are gone; changes do. */
  *levels(isBook: boolean): Generator<void, Levels> {
    const isLeftOut = isBook ? isGone : () => false;
    const { buy, sell } = this.#first;
    return {
      buy: yield* merged(sides.buy, buy, this.#later[sides.buy], isLeftOut),
      sell: yield* merged(sides.sell, sell, this.#later[sides.sell], isLeftOut),
    };
  }
}

function* merged(
  side: BookSide,
  first: readonly DepthLevel[],
  later: ReadonlyMap<string, DepthLevel>,
  isLeftOut: (level: DepthLevel) => boolean,
): Generator<void, readonly DepthLevel[]> {
  if (later.size === 0) return first;
  const changes = [...later.values()].sort(bestFirst(side));
  yield;
  const ladder = new PriceLadder<DepthLevel>(side);
  ladder.adopt({ levels: first });
  return (yield* ladder.merge(changes, isLeftOut)).levels;
}

/** Levels in the order in which they are stored, by side. */
export function bySide(levels: readonly ChangedLevel[]): Levels {
  const firstSell = levels.findIndex(({ side }) => side === sides.sell);
  return firstSell < 0 ? { buy: levels, sell: [] } : { buy: levels.slice(0, firstSell), sell: levels.slice(firstSell) };
}
