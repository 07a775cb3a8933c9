import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { TradingDataService } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { MarketHistoryService } from "../../../gen/marketd/history/v1/market_history_pb.js";
import { boundedFetch, messageMaxBytes } from "./bounded-fetch.js";

/** The longest call that is no stream. The server's own default is 30 seconds. */
const callMaxMs = 35_000;

/** A method for each operation of both services. 64-bit integers are `bigint`. */
export type MarketdClient = Client<typeof TradingDataService> & Client<typeof MarketHistoryService>;

/**
 * A client of the server at a URL, over the Connect protocol and `fetch`, in Node and in browsers alike. Opens no
 * connection yet. A call that is no stream fails with DEADLINE_EXCEEDED after 35 seconds, unless it
 * has a `timeoutMs` of its own. In a page, a URL that begins with `/` is one of the page's own server. For another
 * protocol give a transport of Connect in place of the URL.
 * @throws TypeError unless it is a URL of http or https
 */
export function createMarketdClient(server: string | Transport): MarketdClient {
  const transport = typeof server === "string" ? transportTo(server) : server;
  return { ...createClient(TradingDataService, transport), ...createClient(MarketHistoryService, transport) };
}

function transportTo(baseUrl: string): Transport {
  const isOfPage = baseUrl.startsWith("/") && "location" in globalThis;
  if (!isOfPage && !(/^https?:\/\//i.test(baseUrl) && URL.canParse(baseUrl))) {
    throw new TypeError(`${JSON.stringify(baseUrl)} is not the URL of a server: it looks like http://localhost:8080`);
  }
  const fetch = boundedFetch(messageMaxBytes, callMaxMs);
  return createConnectTransport({ baseUrl, useBinaryFormat: true, fetch });
}
