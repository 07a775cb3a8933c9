import {
  type BookUpdate,
  decodeSegment,
  decodeUpdate,
  MalformedHistoryError,
  numberBase,
} from "../domain/book-history.js";
import type { ChangedLevel } from "../domain/order-book.js";
import { type BookSide, bestFirst, sides } from "../domain/price-ladder.js";
import type { Call } from "../domain/service.js";
import type { Levels } from "../domain/tracked-book.js";
import { WorkPacer } from "../domain/work-pacer.js";
import type { Live } from "../live/live.js";
import type { Reader } from "../store/connection/lease.js";
import type { StorePlace } from "../store/connection/store-place.js";
import type { Database } from "../store/database.js";
import { readBlockTimes, type StoredSegment } from "../store/history-reads.js";

/** Block times that a process remembers. */
export const blockTimesMax = 65_536;

/** How long a reader of the past computes before others have their turn, in milliseconds. */
const sliceMs = 2;

/** Updates between two looks at the clock. */
const updatesPerClockRead = 64;

/** What methods that read the past share: a class of work at the database, and turns of the event loop. */
export class Past {
  readonly #pacer = new WorkPacer();
  readonly #times = new Map<bigint, bigint>();
  #timesOf = "";

  constructor(
    readonly database: Database,
    readonly live: Live,
  ) {}

  /** Leases a connection for reads of the past. With a place, the call has started to respond, and depends on it. */
  lease<T>(call: Call | undefined, use: (reader: Reader) => Promise<T>, place?: StorePlace): Promise<T> {
    return this.database.lease({ class: "history", call, place }, use);
  }

  /** Resolves when it is the caller's turn to compute for a while: {@link sliceMs}. */
  turn(): Promise<void> {
    return new Promise((resolve) => this.#pacer.push(resolve));
  }

  /** Runs through updates, in turns of the event loop. */
  async inTurns(updates: Iterable<BookUpdate>, use: (update: BookUpdate) => void): Promise<void> {
    await this.turn();
    let until = performance.now() + sliceMs;
    let count = 0;
    for (const update of updates) {
      use(update);
      if (++count % updatesPerClockRead !== 0 || performance.now() < until) continue;
      await this.turn();
      until = performance.now() + sliceMs;
    }
  }

  /** The times of the blocks of updates, by height. */
  async timesOf(reader: Reader, updates: readonly Pick<BookUpdate, "height">[]): Promise<(height: bigint) => bigint> {
    const storeId = this.database.knownPlace.current?.storeId ?? "";
    if (storeId !== this.#timesOf || this.#times.size > blockTimesMax) this.#times.clear();
    this.#timesOf = storeId;
    const found = new Map<bigint, bigint>();
    const missing = new Set<bigint>();
    for (const { height } of updates) {
      const known = this.#times.get(height);
      if (known === undefined) missing.add(height);
      else found.set(height, known);
    }
    for (const [height, timeNs] of await readBlockTimes(reader, [...missing])) {
      found.set(height, timeNs);
      if (storeId === this.#timesOf) this.#times.set(height, timeNs);
    }
    return (height) => {
      const timeNs = found.get(height);
      if (timeNs === undefined) throw new MalformedHistoryError(`there is no block ${height}`);
      return timeNs;
    };
  }
}

/** The changes of a segment behind `after` and up to `upTo`, in order. */
export function* updatesOf(segment: StoredSegment, after: bigint, upTo: bigint): Generator<BookUpdate> {
  for (const update of segment.isSealed ? decodeSealed(segment) : decodeEach(segment)) {
    if (update.streamSequence > upTo) return;
    if (update.streamSequence > after) yield update;
  }
}

function decodeSealed(segment: StoredSegment): Iterable<BookUpdate> {
  return segment.content.length === 0 ? [] : decodeSegment(segment, segment.content);
}

function* decodeEach({ changes }: StoredSegment): Generator<BookUpdate> {
  for (const { streamSequence, body } of changes) yield decodeUpdate(streamSequence, body);
}

/** The number that an update was published with. */
export function numberOf({ numberOffset }: BookUpdate, blockTimeNs: bigint): bigint {
  return numberBase(blockTimeNs) + numberOffset;
}

/** The levels of a book, or of changes that are merged, by side and price. */
export class LevelMap {
  readonly #levels = { 1: new Map<string, ChangedLevel>(), 2: new Map<string, ChangedLevel>() };

  constructor(levels: readonly ChangedLevel[]) {
    this.set(levels);
  }

  set(levels: readonly ChangedLevel[]): void {
    for (const level of levels) this.#levels[level.side].set(level.price, level);
  }

  /** Best first. A book has no levels that are gone; changes do. */
  levels(isBook: boolean): Levels {
    const of = (side: BookSide) => {
      const all = [...this.#levels[side].values()];
      return (isBook ? all.filter(isThere) : all).sort(bestFirst(side));
    };
    return { buy: of(sides.buy), sell: of(sides.sell) };
  }
}

function isThere({ volume, numberOfOrders }: ChangedLevel): boolean {
  return volume !== 0n || numberOfOrders !== 0n;
}

/** Levels in the order in which they are stored, by side. */
export function bySide(levels: readonly ChangedLevel[]): Levels {
  const firstSell = levels.findIndex(({ side }) => side === sides.sell);
  return firstSell < 0 ? { buy: levels, sell: [] } : { buy: levels.slice(0, firstSell), sell: levels.slice(firstSell) };
}
