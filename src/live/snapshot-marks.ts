import type { Mark } from "../domain/tracked-book.js";
import type { Changes } from "../store/changes.js";

/** Rows between two yields while a snapshot is prepared: less than a millisecond. */
export const rowsYields = 4_096;

/** The marks of a snapshot's rows. */
export interface SnapshotMarks {
  /** The mark of everything that may have lost vanished levels; undefined: the snapshot has only changes. */
  readonly oldest: Mark | undefined;
  readonly newest: Mark;
  /** Stream sequence numbers and their marks, ascending. */
  readonly entries: readonly { readonly streamSequence: bigint; readonly mark: Mark }[];
  of(changedSequence: bigint): Mark;
}

/** The marks of a snapshot that follows the mark `before`, in steps. */
export function* marksOf(changes: Changes, before: Mark): Generator<void, SnapshotMarks> {
  const { streamSequence, prunedSequence } = changes.progress;
  if (!changes.wholeBooks) {
    const newest = before + 1;
    return { oldest: undefined, newest, entries: [{ streamSequence, mark: newest }], of: () => newest };
  }
  // Vanished levels are kept for some thousand blocks, so there are not many more numbers than that.
  const recent = new Set<bigint>([streamSequence]);
  for (const rows of [changes.levels, changes.depths]) {
    for (const [index, { changedSequence }] of rows.entries()) {
      if (index % rowsYields === 0) yield;
      if (changedSequence !== undefined && changedSequence > prunedSequence) recent.add(changedSequence);
    }
  }
  const oldest = before + 1;
  const byNumber = [prunedSequence, ...recent].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const marks = new Map(byNumber.map((number, index) => [number, oldest + index]));
  const entries = byNumber.map((number, index) => ({ streamSequence: number, mark: oldest + index }));
  const newest = oldest + byNumber.length - 1;
  return { oldest, newest, entries, of: (number) => marks.get(number) ?? oldest };
}
