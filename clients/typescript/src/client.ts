import { type Client, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { TradingDataService } from "../../../gen/datanode/api/v2/trading_data_pb.js";

/** A method for each of the eight operations. 64-bit integers are `bigint`. */
export type MarketdClient = Client<typeof TradingDataService>;

/**
 * A client of the server at a URL, over the Connect protocol and `fetch`, in Node and in browsers alike. Opens no
 * connection yet. For another protocol give a transport of Connect to `createClient(TradingDataService, transport)`.
 */
export function createMarketdClient(baseUrl: string): MarketdClient {
  return createClient(TradingDataService, createConnectTransport({ baseUrl, useBinaryFormat: true }));
}
