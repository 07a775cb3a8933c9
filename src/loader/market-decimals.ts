import { fromBinary } from "@bufbuild/protobuf";
import { type Market, MarketSchema } from "../../gen/vega/markets_pb.js";
import type { Connection } from "../store/connection/connection.js";
import type { SegmentRow } from "../store/history-table.js";

/** What the numbers of a market's book and trades mean. */
export type Decimals = Pick<SegmentRow, "priceDecimals" | "sizeDecimals">;

export function decimalsOf(market: Pick<Market, "decimalPlaces" | "positionDecimalPlaces">): Decimals {
  return { priceDecimals: market.decimalPlaces, sizeDecimals: market.positionDecimalPlaces };
}

/** Those of every market that is announced. */
export async function readDecimals(connection: Connection): Promise<Map<string, Decimals>> {
  const bodies = await connection.query<{ marketId: string; body: Uint8Array }>(
    "SELECT market_id AS marketId, body FROM market",
  );
  return new Map(bodies.map(({ marketId, body }) => [marketId, decimalsOf(fromBinary(MarketSchema, body))]));
}
