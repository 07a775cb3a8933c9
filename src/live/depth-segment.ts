import { create, type DescMessage } from "@bufbuild/protobuf";
import { MarketDepthUpdateSchema, type PriceLevel, PriceLevelSchema } from "../../gen/vega/vega_pb.js";
import type { DepthLevel } from "../domain/depth-book.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import type { Levels } from "../domain/tracked-book.js";
import type { EventId } from "../encoding/message-response.js";
import { type BookMessage, BookResponse } from "./book-response.js";
import { EncodedLevels } from "./encoded-levels.js";
import { type Envelope, Segment, SegmentResponse } from "./segment-response.js";

/** One market's update, with its size. */
export interface SmallSegment {
  readonly segment: Segment;
  /**
   * An upper bound on its size in any encoding, in bytes. JSON is the largest; encoding it to measure would double the
   * work.
   */
  readonly bytesMax: number;
}

/** One market's update: one of many levels is a message by itself. */
export type DepthSegment = SmallSegment | BookMessage;

/** The JSON around a level's three values, and two 64-bit numbers of maximum length. */
const levelJsonBytesMax = 50 + 2 * 20;

/** The same for the update's own fields. The market id may consist of escaped characters. */
const updateJsonBytesMax = 400;

/** Makes one market's update. The levels may be changed afterwards. */
export function depthSegment(
  marketId: string,
  levels: Levels | EncodedLevels,
  sequenceNumber: bigint,
  previousSequenceNumber: bigint,
): DepthSegment {
  if (levels instanceof EncodedLevels) {
    const rest = { sequenceNumber, previousSequenceNumber };
    return { schema: MarketDepthUpdateSchema, marketId, levels, levelsMax: Number.POSITIVE_INFINITY, rest };
  }
  const buy = [...levels.buy];
  const sell = [...levels.sell];
  const update = { marketId, buy, sell, sequenceNumber, previousSequenceNumber };
  let bytesMax = updateJsonBytesMax;
  for (const level of buy) bytesMax += levelJsonBytesMax + level.price.length;
  for (const level of sell) bytesMax += levelJsonBytesMax + level.price.length;
  return { segment: Segment.of(MarketDepthUpdateSchema, update), bytesMax };
}

/** A level as a message. */
export function levelMessage({ price, volume, numberOfOrders }: DepthLevel): PriceLevel {
  return create(PriceLevelSchema, { price, volume, numberOfOrders });
}

/** The updates of one message: those of several markets, or one of many levels. */
export type MessageContent = readonly Segment[] | BookMessage;

/**
 * Packs updates into messages, in order, each as full as `bytesMax` allows; one without updates if there are none.
 * `toMessage` makes one of them, which may be the first part of all, the last, or both.
 */
export function packUpdates<R>(
  updates: readonly DepthSegment[],
  bytesMax: number,
  toMessage: (content: MessageContent, isFirst: boolean, isLast: boolean) => R,
): R[] {
  const contents: MessageContent[] = [];
  let segments: Segment[] = [];
  let bytes = 0;
  const flush = () => {
    if (segments.length > 0) contents.push(segments);
    segments = [];
    bytes = 0;
  };
  for (const update of updates) {
    if ("levels" in update) {
      flush();
      contents.push(update);
      continue;
    }
    if (bytes + update.bytesMax > bytesMax) flush();
    segments.push(update.segment);
    bytes += update.bytesMax;
  }
  if (segments.length > 0 || contents.length === 0) contents.push(segments);
  return contents.map((content, index) => toMessage(content, index === 0, index === contents.length - 1));
}

/** A message of an envelope. */
export function messageOf<S extends DescMessage>(
  envelope: Envelope<S>,
  content: MessageContent,
  eventId: EventId | undefined,
): EncodedResponse<S> {
  if (!("levels" in content)) return new SegmentResponse(envelope, content, undefined, eventId);
  return new BookResponse(envelope.schema, content, { eventId }, envelope);
}
