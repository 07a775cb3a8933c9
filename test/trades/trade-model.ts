import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { create, type JsonObject, toJson } from "@bufbuild/protobuf";
import type { BusEvent } from "../../gen/vega/events/v1/events_pb.js";
import { type Fee, FeeSchema, type Trade, TradeSchema } from "../../gen/vega/vega_pb.js";
import { jsonWriteOptions } from "../../src/encoding/json-encoder.js";
import type { Random } from "../../src/simulator/random.js";
import { frames } from "../simulator/recording-frames.js";

/** A trade as a recording brings it, with its block. */
export interface ModelTrade {
  readonly trade: Trade;
  readonly height: bigint;
  readonly timeNs: bigint;
}

/** What ListTrades is asked for, in JSON. */
export interface TradeQuery {
  readonly marketIds?: string[];
  readonly partyIds?: string[];
  readonly orderIds?: string[];
  readonly dateRange?: { startTimestamp?: string; endTimestamp?: string };
}

/** A whole block, as a recording brings it. */
export interface ModelBlock {
  readonly height: bigint;
  readonly timeNs: bigint;
  readonly events: readonly BusEvent["event"][];
  /** Its height came before, just now. */
  readonly isReplayed: boolean;
}

/** The whole blocks of a recording. */
export function* wholeBlocks(recording: Uint8Array): Generator<ModelBlock> {
  let block: { height: bigint; timeNs: bigint; events: BusEvent["event"][] } | undefined;
  let before = -1n;
  for (const { event } of wholeFrames(recording)) {
    const { case: kind, value } = event.event;
    if (kind === "beginBlock") block = { height: value.height, timeNs: value.timestamp, events: [] };
    else if (kind !== "endBlock") block?.events.push(event.event);
    else if (block !== undefined) {
      yield { ...block, isReplayed: block.height === before };
      before = block.height;
      block = undefined;
    }
  }
}

/** All trades of whole blocks, in the order of the network: an independent reading of a recording. */
export function tradesOf(recording: Uint8Array): ModelTrade[] {
  return [...wholeBlocks(recording)].flatMap(({ height, timeNs, events }) =>
    events.flatMap((event) => (event.case === "trade" ? [{ trade: event.value, height, timeNs }] : [])),
  );
}

/** The frames of a recording up to a half one. */
function* wholeFrames(recording: Uint8Array) {
  const view = new DataView(recording.buffer, recording.byteOffset, recording.byteLength);
  let end = 0;
  while (end + 4 <= recording.length && end + 4 + view.getUint32(end) <= recording.length)
    end += 4 + view.getUint32(end);
  yield* frames(recording.subarray(0, end));
}

/** The recording of a real network, if there is one. */
export function realRecording(): Uint8Array | undefined {
  const path = process.env["MARKETD_RECORDING"] ?? "";
  return path === "" ? undefined : gunzipSync(readFileSync(path));
}

/** A trade as the API gives it. */
export function tradeJson({ trade, timeNs }: ModelTrade): JsonObject {
  const whole = { ...trade, timestamp: timeNs, buyerFee: feeOf(trade.buyerFee), sellerFee: feeOf(trade.sellerFee) };
  return toJson(TradeSchema, whole, jsonWriteOptions) as JsonObject;
}

function feeOf(fee: Fee | undefined): Fee {
  const { makerFee = "", infrastructureFee = "", liquidityFee = "" } = fee ?? {};
  return create(FeeSchema, {
    makerFee: makerFee || "0",
    infrastructureFee: infrastructureFee || "0",
    liquidityFee: liquidityFee || "0",
  });
}

/** Whether a query selects a trade. */
export function selects(query: TradeQuery, { trade, timeNs }: ModelTrade): boolean {
  const { marketIds = [], partyIds = [], orderIds = [], dateRange = {} } = query;
  const { startTimestamp, endTimestamp } = dateRange;
  const isAmong = (ids: readonly string[], ...of: readonly string[]) =>
    ids.length === 0 || of.some((id) => ids.includes(id));
  return (
    isAmong(marketIds, trade.marketId) &&
    isAmong(partyIds, trade.buyer, trade.seller) &&
    isAmong(orderIds, trade.buyOrder, trade.sellOrder) &&
    (startTimestamp === undefined || timeNs >= BigInt(startTimestamp)) &&
    (endTimestamp === undefined || timeNs < BigInt(endTimestamp))
  );
}

/** A query of values that occur, and of some that do not. */
export function randomQuery(random: Random, trades: readonly ModelTrade[]): TradeQuery {
  const pick = () => random.pick(trades).trade;
  const some = (value: () => string, most: number) => {
    return random.chance(0.5) ? {} : { list: Array.from({ length: 1 + random.below(most) }, value) };
  };
  const nowhere = (id: string) => (random.chance(0.1) ? `${id}0` : id);
  const { list: marketIds } = some(() => nowhere(pick().marketId), 4);
  const { list: partyIds } = some(() => nowhere(random.chance(0.5) ? pick().buyer : pick().seller), 6);
  const { list: orderIds } = random.chance(0.5)
    ? { list: undefined }
    : some(() => nowhere(random.chance(0.5) ? pick().buyOrder : pick().sellOrder), 100);
  const times = [random.pick(trades).timeNs, random.pick(trades).timeNs + BigInt(random.below(2))].sort((a, b) =>
    a < b ? -1 : 1,
  );
  const range = {
    ...(random.chance(0.7) ? { startTimestamp: `${times[0]}` } : {}),
    ...(random.chance(0.7) ? { endTimestamp: `${times[1]}` } : {}),
  };
  const dateRange = random.chance(0.3) ? { dateRange: range } : {};
  const query = { marketIds, partyIds, orderIds, ...dateRange };
  // Absent members are left out.
  return JSON.parse(JSON.stringify(query)) as TradeQuery;
}
