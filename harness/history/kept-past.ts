import type { BlockEnd, MarketPast } from "./market-past.js";
import type { Oracle } from "./oracle.js";

/** Blocks that no loader kept. */
export interface Gap {
  /** The newest block before it; undefined: there was none. */
  readonly before: BlockEnd | undefined;
  /** The first block that is kept again, with the books as they are then; undefined: not yet. */
  until: BlockEnd | undefined;
  /** When a loader had kept `until`; undefined: none has. */
  closedAt: number | undefined;
}

/** What can be told of a market at the end of a block. */
export type Standing =
  /** Not announced yet; of a block that is not kept, nobody knows that. */
  | { readonly kind: "unknown"; readonly isLost: boolean }
  /** Announced, and not kept. */
  | { readonly kind: "not kept" }
  | { readonly kind: "stale" }
  /** Its book is known. */
  | {
      readonly kind: "whole";
      /** Since when nothing was missing. */
      readonly since: BlockEnd;
      /** The first block that does not go on from it; undefined: it goes on. */
      readonly end: BlockEnd | undefined;
    };

/** Blocks in which a market's book is known all the time. */
export interface Run {
  /** Where the book begins anew, in order: at first, and with other decimals. */
  readonly beginnings: readonly [BlockEnd, ...BlockEnd[]];
  /** The first block in which it is not known; undefined: it goes on. */
  readonly end: BlockEnd | undefined;
}

/** What of the past a database holds, by what its loaders were told. */
export class KeptPast {
  readonly #gaps: Gap[] = [];
  /** Blocks before this time may be gone. */
  #prunedBeforeNs = 0n;

  constructor(readonly oracle: Oracle) {}

  /** A program that keeps no past loads what follows a block, until the caller says otherwise. */
  leaveOut(before: BlockEnd | undefined): Gap {
    const gap: Gap = { before, until: undefined, closedAt: undefined };
    this.#gaps.push(gap);
    return gap;
  }

  /** Whether blocks are loaded now whose past is not kept, or were shortly before: a replay ends where it does. */
  isLosing(beforeMs: number): boolean {
    const since = performance.now() - beforeMs;
    return this.#gaps.some(({ closedAt }) => closedAt === undefined || closedAt > since);
  }

  /** A loader was told to keep what is not older than that, as of now. */
  prunedBefore(timeNs: bigint): void {
    if (timeNs > this.#prunedBeforeNs) this.#prunedBeforeNs = timeNs;
  }

  /** Whether a block may be gone because it is old. */
  mayBePruned(block: BlockEnd): boolean {
    return block.timeNs < this.#prunedBeforeNs;
  }

  /** The oldest block that nothing may have removed. */
  get oldestCertain(): BlockEnd | undefined {
    return this.oracle.blocks.find((block) => !this.mayBePruned(block));
  }

  standing(past: MarketPast | undefined, { index }: BlockEnd): Standing {
    const era = past?.eraAt(index);
    const gaps = this.#gaps.filter(({ before, until }) => until === undefined || until.index > (before?.index ?? -1));
    const isLost = gaps.some((gap) => isIn(gap, index));
    if (past === undefined || era === undefined) return { kind: "unknown", isLost };
    if (isLost) return { kind: "not kept" };
    if (era.isStale) return { kind: "stale" };
    const beginnings = gaps.flatMap(({ until }) => (until !== undefined && until.index <= index ? [until] : []));
    const since = latest([era.block, ...beginnings]);
    const ends = gaps.flatMap(({ before }) => {
      const first = this.oracle.blocks[(before?.index ?? -1) + 1];
      return first !== undefined && first.index > index ? [first] : [];
    });
    const next = past.eraAfter(index)?.block;
    return { kind: "whole", since, end: earliest(next === undefined ? ends : [next, ...ends]) };
  }

  /** The blocks around one in which a market's book is known; undefined: it is not known there. */
  run(past: MarketPast, block: BlockEnd): Run | undefined {
    const standing = this.standing(past, block);
    if (standing.kind !== "whole") return undefined;
    const beginnings: [BlockEnd, ...BlockEnd[]] = [standing.since];
    for (let before = this.#before(past, standing.since); before !== undefined; before = this.#before(past, before)) {
      beginnings.unshift(before);
    }
    let { end } = standing;
    while (end !== undefined) {
      const next = this.standing(past, end);
      if (next.kind !== "whole") break;
      beginnings.push(next.since);
      end = next.end;
    }
    return { beginnings, end };
  }

  /** Whether a market's book is known all the time from one block to another. */
  isOneRun(past: MarketPast, from: BlockEnd, to: BlockEnd): boolean {
    const run = this.run(past, from);
    return run !== undefined && (run.end === undefined || run.end.index > to.index);
  }

  /** Where the book of the block before began, if it was known. */
  #before(past: MarketPast, { index }: BlockEnd): BlockEnd | undefined {
    const block = this.oracle.blocks[index - 1];
    const standing = block === undefined ? undefined : this.standing(past, block);
    return standing?.kind === "whole" ? standing.since : undefined;
  }
}

function isIn({ before, until, closedAt }: Gap, index: number): boolean {
  if (index <= (before?.index ?? -1)) return false;
  return closedAt === undefined || until === undefined || index < until.index;
}

function latest(blocks: readonly [BlockEnd, ...BlockEnd[]]): BlockEnd {
  return blocks.reduce((a, b) => (b.index > a.index ? b : a));
}

function earliest(blocks: readonly BlockEnd[]): BlockEnd | undefined {
  return blocks.reduce<BlockEnd | undefined>((a, b) => (a === undefined || b.index < a.index ? b : a), undefined);
}
