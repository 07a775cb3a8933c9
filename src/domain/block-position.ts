/**
 * The place of a ledger entry: block height and position in the block, packed into one 63-bit number. It is the
 * entry's identity, its primary key, and the total order of pages and cursors.
 */
export type EntryId = bigint;

/** Bits of an {@link EntryId} that hold the position in the block. */
export const positionBits = 24n;

/** Entries one block can hold. */
export const entriesPerBlockMax = 1 << 24;

/** The highest block height that fits. */
export const heightMax = (1n << 39n) - 1n;

/** Packs a place; position counts from 0. @throws RangeError when either does not fit */
export function entryId(height: bigint, position: number): EntryId {
  if (height < 0n || height > heightMax) throw new RangeError(`block height ${height} does not fit an entry id`);
  if (position < 0 || position >= entriesPerBlockMax) throw new RangeError(`position ${position} does not fit`);
  return (height << positionBits) | BigInt(position);
}

/** The lowest id a block can hold. */
export function firstIdOfBlock(height: bigint): EntryId {
  return height << positionBits;
}
