import { create } from "@bufbuild/protobuf";
import { ObserveMarketsDepthUpdatesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { MarketDepthUpdateSchema, type PriceLevel, PriceLevelSchema } from "../../gen/vega/vega_pb.js";
import type { DepthLevel } from "../domain/depth-book.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import type { Levels } from "../domain/tracked-book.js";
import { type BookMessage, BookResponse } from "./book-response.js";
import { EncodedLevels } from "./encoded-levels.js";
import { type Envelope, Segment, SegmentResponse } from "./segment-response.js";

/** The envelope of depth stream messages. */
export const depthUpdates: Envelope<typeof ObserveMarketsDepthUpdatesResponseSchema> = {
  schema: ObserveMarketsDepthUpdatesResponseSchema,
  open: '{"update":[',
  close: "]}",
};

/** A message of a depth stream. */
export type DepthResponse = EncodedResponse<typeof ObserveMarketsDepthUpdatesResponseSchema>;

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

/** Packs updates into messages, in order, each as full as `bytesMax` allows. */
export function packUpdates(updates: readonly DepthSegment[], eventId: string, bytesMax: number): DepthResponse[] {
  const responses: DepthResponse[] = [];
  let segments: Segment[] = [];
  let bytes = 0;
  const flush = () => {
    if (segments.length > 0) responses.push(new SegmentResponse(depthUpdates, segments, undefined, eventId));
    segments = [];
    bytes = 0;
  };
  for (const update of updates) {
    if ("levels" in update) {
      flush();
      responses.push(new BookResponse(depthUpdates.schema, update, { eventId }, depthUpdates));
      continue;
    }
    if (bytes + update.bytesMax > bytesMax) flush();
    segments.push(update.segment);
    bytes += update.bytesMax;
  }
  flush();
  return responses;
}

/** A message without updates, sent as a heartbeat. */
export function heartbeat(eventId: string): DepthResponse {
  return new SegmentResponse(depthUpdates, [], undefined, eventId);
}
