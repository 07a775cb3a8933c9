/** Branches of one statement. The server opens a table for each, and all connections share its table cache. */
export const branchesPerStatement = 64;

/** A sorted list of which a merge has read a part. */
export interface BranchCursor<B, K> {
  readonly branch: B;
  /** The last key that was read; undefined before the first. */
  last: K | undefined;
  isExhausted: boolean;
}

/** A key of a branch, by its number among those that were asked for. */
export interface BranchKey<K> {
  readonly number: number;
  readonly key: K;
  /** Whether it is one of those that are wanted. */
  readonly matches: boolean;
  /** How many keys were read for it: itself, and those that do not match and are not told. */
  readonly read: number;
}

/** What is merged, and how much of it. */
export interface Merge<B, K> {
  readonly branches: readonly B[];
  readonly want: number;
  /** Keys that are read at most, about. */
  readonly keysMax: number;
  /** Whether few keys may match: then only `keysMax` bounds what is read of a branch at once, else `want`. */
  readonly isSparse: boolean;
  /** The order of the merge. */
  readonly compare: (a: K, b: K) => number;
  /** Reads the next keys of branches, at most `limit` of each, in any order. The last that was read is always told. */
  readonly read: (cursors: readonly BranchCursor<B, K>[], limit: number) => Promise<readonly BranchKey<K>[]>;
}

/** The first keys of all branches, each once. */
export interface Merged<K> {
  readonly keys: readonly K[];
  /** The last key up to which every branch was read; undefined: the merge was not cut short. */
  readonly reached: K | undefined;
  readonly examined: number;
}

/**
 * Merges sorted lists: reads a few keys of each, then four times as many of the branches that delay the merge, but no
 * more than are likely to hold what is still wanted. It reads about four keys for each result, and at least one per
 * branch.
 */
export async function kWayMerge<B, K>(merge: Merge<B, K>): Promise<Merged<K>> {
  const { want, keysMax, compare } = merge;
  const cursors = merge.branches.map((branch): BranchCursor<B, K> => ({ branch, last: undefined, isExhausted: false }));
  let keys: K[] = [];
  let examined = 0;
  let share = Math.ceil((2 * want) / cursors.length) + 2;
  for (let open = cursors; open.length > 0; share *= 4) {
    if (examined >= keysMax) return { ...cutAt(open, keys, merge), examined };
    const limit = Math.ceil(Math.min(share, merge.isSparse ? sparseLimit(merge, open, keys, examined) : want));
    for (let at = 0; at < open.length; at += branchesPerStatement) {
      const part = open.slice(at, at + branchesPerStatement);
      const found = await merge.read(part, limit);
      examined += found.reduce((sum, { read }) => sum + read, 0);
      advance(part, found, limit, compare);
      for (const { key, matches } of found) if (matches) keys.push(key);
    }
    keys = keys.sort(compare).filter((key, at) => at === 0 || compare(keys[at - 1] as K, key) !== 0);
    const worst = keys[want - 1];
    open = cursors.filter(({ isExhausted, last }) => {
      return !isExhausted && (last === undefined || worst === undefined || compare(last, worst) < 0);
    });
  }
  return { keys: keys.slice(0, want), reached: undefined, examined };
}

/** How much more than the expected number of keys is read, so that one more round is seldom needed. */
const surplus = 1.25;

/**
 * Keys to read of each branch where few match, going by how many of those read so far did. Where they lie close
 * together, that tells little about the next: half as many as were read so far are read in any case.
 */
function sparseLimit<B, K>(
  { want, keysMax }: Merge<B, K>,
  open: readonly BranchCursor<B, K>[],
  { length: found }: readonly K[],
  examined: number,
): number {
  const isGuess = found > 0 && found < want;
  const expected = isGuess ? ((want - found) * examined * surplus) / found : Number.POSITIVE_INFINITY;
  return Math.min(keysMax - examined, Math.max(expected, examined / 2)) / open.length;
}

function advance<B, K>(
  cursors: readonly BranchCursor<B, K>[],
  found: readonly BranchKey<K>[],
  limit: number,
  compare: (a: K, b: K) => number,
): void {
  const counts = new Array<number>(cursors.length).fill(0);
  for (const { number, key, read } of found) {
    const cursor = cursors[number];
    if (cursor === undefined) continue;
    counts[number] = (counts[number] ?? 0) + read;
    // Rows of a union come in any order.
    if (cursor.last === undefined || compare(cursor.last, key) < 0) cursor.last = key;
  }
  for (const [number, cursor] of cursors.entries()) cursor.isExhausted = (counts[number] ?? 0) < limit;
}

/** Only what lies where every branch was read. */
function cutAt<B, K>(open: readonly BranchCursor<B, K>[], keys: readonly K[], { want, compare }: Merge<B, K>) {
  const lasts = open.flatMap(({ last }) => (last === undefined ? [] : [last]));
  const [reached] = lasts.sort(compare);
  const safe = reached === undefined ? keys : keys.filter((key) => compare(key, reached) <= 0);
  return { keys: safe.slice(0, want), reached };
}
