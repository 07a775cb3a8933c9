import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { Connection } from "./connection/connection.js";
import type { TradeRow } from "./market-table.js";
import { rowTable } from "./table-rows.js";

/** How a market goes on where a segment of its past begins. */
export const segmentStates = {
  /** From the segment before, whose changes end with the book of the keyframe. */
  continued: 0,
  /** Anew: announced, no longer stale, with other decimals, or after a part that is not kept. */
  whole: 1,
  /** Its book is not right until the next segment. It has no keyframe and no changes. */
  stale: 2,
  /** The past is not kept until the next segment. */
  notKept: 3,
} as const;

/** A segment of a market's past, which lasts until the next one's `firstSequence`. */
export interface SegmentRow {
  readonly marketId: string;
  /** The stream sequence number of the end of a block, whose book is the keyframe. */
  readonly firstSequence: bigint;
  /** Of {@link segmentStates}. */
  readonly state: number;
  /** Of that block; where the past is not kept, of the last block before. */
  readonly height: bigint;
  readonly timeNs: bigint;
  /** Of the last published update up to that block; 0: there was none. */
  readonly publishedSequenceNumber: bigint;
  /** `decimal_places` and `position_decimal_places` of the market as of that block. */
  readonly priceDecimals: bigint;
  readonly sizeDecimals: bigint;
  readonly keyframeLevels: number;
  /** Undefined: the newest, which still grows. */
  readonly digest: Uint8Array | undefined;
}

export const segmentRows = rowTable<SegmentRow>("book_segment", 2, [
  "marketId",
  "firstSequence",
  "state",
  "height",
  "timeNs",
  "publishedSequenceNumber",
  "priceDecimals",
  "sizeDecimals",
  "keyframeLevels",
  "digest",
]);

/** A piece of a segment's keyframe (parts from 0 on) or of its changes (from {@link firstChangesPart} on), deflated. */
export interface SegmentPartRow {
  readonly marketId: string;
  readonly firstSequence: bigint;
  readonly part: number;
  readonly body: Uint8Array;
}

export const segmentPartRows = rowTable<SegmentPartRow>("book_segment_part", 3, [
  "marketId",
  "firstSequence",
  "part",
  "body",
]);

export const firstChangesPart = 32_768;

/** Bytes of a part: two rows fit a page of InnoDB, which stores longer values in whole pages. */
export const partBytesMax = 7_500;

/** The most bytes that a keyframe or the changes of a segment are inflated to. */
export const inflatedBytesMax = 256 * 1024 * 1024;

/** The parts of a keyframe (`part` 0) or of changes (`part` {@link firstChangesPart}). */
export function toParts(
  { marketId, firstSequence }: Pick<SegmentRow, "marketId" | "firstSequence">,
  part: number,
  content: Uint8Array,
): SegmentPartRow[] {
  const deflated = deflateRawSync(content, { level: 6 });
  const parts: SegmentPartRow[] = [];
  for (let at = 0; at < deflated.length; at += partBytesMax) {
    const body = deflated.subarray(at, at + partBytesMax);
    parts.push({ marketId, firstSequence, part: part + parts.length, body });
  }
  return parts;
}

/** The content of all parts of a keyframe, or of changes, in order. @throws Error if they are not what was deflated */
export function fromParts(bodies: readonly Uint8Array[]): Buffer {
  return inflateRawSync(Buffer.concat(bodies), { maxOutputLength: inflatedBytesMax });
}

/** An update of a market's newest segment: `body` is that of `encodeUpdate`. */
export interface BookChangeRow {
  readonly marketId: string;
  readonly streamSequence: bigint;
  readonly body: Uint8Array;
}

export const bookChangeRows = rowTable<BookChangeRow>("book_change", 2, ["marketId", "streamSequence", "body"]);

/** Both ends of the segments of a market, and of the chain of their digests. */
export interface BookHistoryRow {
  readonly marketId: string;
  readonly oldestSequence: bigint;
  /** Of the segment before the oldest; empty: there was none. */
  readonly oldestDigest: Uint8Array;
  readonly newestSequence: bigint;
  /** Of the newest as it began: `startDigest`. */
  readonly newestDigest: Uint8Array;
}

export const bookHistoryRows = rowTable<BookHistoryRow>("book_history", 1, [
  "marketId",
  "oldestSequence",
  "oldestDigest",
  "newestSequence",
  "newestDigest",
]);

/** Any trade of the past; its id is its place, as `entryId` packs it. */
export interface PastTradeRow extends Omit<TradeRow, "changedSequence"> {
  readonly id: bigint;
}

export const pastTradeRows = rowTable<PastTradeRow>("trade", 1, [
  "id",
  "marketId",
  "tradeId",
  "price",
  "size",
  "buyer",
  "seller",
  "aggressor",
  "buyOrder",
  "sellOrder",
  "timeNs",
  "type",
  "buyerMakerFee",
  "buyerInfrastructureFee",
  "buyerLiquidityFee",
  "sellerMakerFee",
  "sellerInfrastructureFee",
  "sellerLiquidityFee",
  "buyerAuctionBatch",
  "sellerAuctionBatch",
]);

/** Up to which stream sequence number the past is written; 0: never, and without progress. */
export async function readHistorySequence(connection: Pick<Connection, "query">): Promise<bigint> {
  const [row] = await connection.query<{ sequence: bigint }>(
    "SELECT history_sequence AS sequence FROM progress WHERE id = 1",
  );
  return row?.sequence ?? 0n;
}
