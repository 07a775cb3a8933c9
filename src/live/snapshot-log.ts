import type { Mark } from "../domain/tracked-book.js";
import type { LiveMarket, Published } from "./live-market.js";
import type { SnapshotMarks } from "./snapshot-marks.js";

/** Snapshots whose places are remembered: for minutes, even if blocks are committed as fast as a process polls. */
export const snapshotsMax = 8_192;

/** Markets of all remembered snapshots whose previous updates are remembered too: some five megabytes. */
export const snapshotMarketsMax = 50_000;

/** What a reader holds of each market that changed meanwhile; undefined: the whole book is needed. */
export type HeldMarkets = ReadonlyMap<LiveMarket, Published | undefined>;

/** A snapshot that was applied. */
interface Entry {
  readonly streamSequence: bigint;
  readonly mark: Mark;
  /** What changed since the entry before; undefined: not known, or not any more. */
  changed: HeldMarkets | undefined;
}

/**
 * The newest snapshots by their stream sequence numbers, so that a reader can go on from a place. It finds the mark
 * from which on levels have changed, and what the reader holds of each market that published since, as far as this
 * process has seen that.
 */
export class SnapshotLog {
  readonly #entries: Entry[] = [];
  #markets = 0;
  /** The first entry that still has `changed`. */
  #detailedFrom = 0;

  /** Notes a snapshot, and what it changed. */
  add({ oldest, entries }: SnapshotMarks, changed: HeldMarkets): void {
    if (oldest !== undefined) this.#clear();
    for (const entry of entries) this.#entries.push({ ...entry, changed: undefined });
    const newest = this.#entries.at(-1);
    if (newest !== undefined && oldest === undefined) {
      newest.changed = changed;
      this.#markets += changed.size;
    }
    this.#forget();
  }

  /** The mark of the newest snapshot up to a place; undefined: the place is too old, or none of the snapshots is. */
  markAt(streamSequence: bigint): Mark | undefined {
    return this.#entries[this.#indexAt(streamSequence)]?.mark;
  }

  /** What a reader holds that has everything up to a place; undefined: this process did not see all changes since. */
  heldAt(streamSequence: bigint): HeldMarkets | undefined {
    const index = this.#indexAt(streamSequence);
    if (this.#entries[index]?.streamSequence !== streamSequence) return undefined;
    const held = new Map<LiveMarket, Published | undefined>();
    for (const { changed } of this.#entries.slice(index + 1)) {
      if (changed === undefined) return undefined;
      for (const [market, before] of changed) if (before === undefined || !held.has(market)) held.set(market, before);
    }
    return held;
  }

  #indexAt(streamSequence: bigint): number {
    let low = 0;
    let high = this.#entries.length - 1;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const entry = this.#entries[middle];
      if (entry === undefined || entry.streamSequence > streamSequence) high = middle - 1;
      else low = middle + 1;
    }
    return high;
  }

  #clear(): void {
    this.#entries.length = 0;
    this.#markets = 0;
    this.#detailedFrom = 0;
  }

  /** Entries are dropped by the half: moving the rest for each would cost more. */
  #forget(): void {
    for (; this.#markets > snapshotMarketsMax; this.#detailedFrom++) {
      const entry = this.#entries[this.#detailedFrom];
      if (entry === undefined) break;
      this.#markets -= entry.changed?.size ?? 0;
      entry.changed = undefined;
    }
    if (this.#entries.length < 2 * snapshotsMax) return;
    for (const { changed } of this.#entries.splice(0, snapshotsMax)) this.#markets -= changed?.size ?? 0;
    this.#detailedFrom = Math.max(0, this.#detailedFrom - snapshotsMax);
  }
}
