import { create, toBinary } from "@bufbuild/protobuf";
import {
  GetLatestMarketDepthRequestSchema,
  GetLatestMarketDepthResponseSchema,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { MessageAnswer } from "../../src/domain/answer.js";
import { envelope } from "../../src/transport/grpc/envelope.js";

/** The market that is asked for. */
export const marketId = "4a6f1c9e8b7d2f3051a4c6e8d0b2f4a617395b7d9f1e3c5a7b9d1f3e5c7a9b1d";

/** Where its depth is by GET. */
export const depthPath = `/api/v2/market/depth/${marketId}/latest`;

/** Its depth as a gRPC path. */
export const depthRpcPath = "/datanode.api.v2.TradingDataService/GetLatestMarketDepth";

/** The body of a gRPC call for it. */
export const depthRequestFrame = envelope(
  0,
  toBinary(GetLatestMarketDepthRequestSchema, create(GetLatestMarketDepthRequestSchema, { marketId })),
);

/** A book of `levels` a side: 15 make about 2 KB of JSON. */
export function depthAnswer(levels = 15): MessageAnswer<typeof GetLatestMarketDepthResponseSchema> {
  const side = (sign: number) =>
    Array.from({ length: levels }, (_, i) => ({
      price: String(1_834_500 + sign * (i + 1) * 25),
      numberOfOrders: BigInt(1 + (i % 4)),
      volume: BigInt(1200 + i * 37),
    }));
  const message = create(GetLatestMarketDepthResponseSchema, {
    marketId,
    buy: side(-1),
    sell: side(1),
    sequenceNumber: 1674004004123456007n,
    lastTrade: {
      id: "a1".repeat(32),
      marketId,
      price: "1834500",
      size: 17n,
      buyer: "b2".repeat(32),
      seller: "c3".repeat(32),
    },
  });
  return new MessageAnswer(GetLatestMarketDepthResponseSchema, message, "1674004004123456007");
}
