// The best prices of a market: node best-prices.js [MARKET]
// Without a market: that of the first in the list.
import { createMarketdClient, type Market, type PriceLevel, scaledPrice, scaledSize } from "@marketd/client";

const client = createMarketdClient(process.env["MARKETD"] ?? "http://127.0.0.1:8080");

const { marketsData } = await client.listLatestMarketData({});
const marketId = process.argv[2] ?? marketsData[0]?.market;
if (marketId === undefined) throw new Error("no market has data yet");

const [{ market }, { buy, sell }] = await Promise.all([
  client.getMarket({ marketId }),
  client.getLatestMarketDepth({ marketId, maxDepth: 1n }),
]);
if (market === undefined) throw new Error("the response has no market");
console.log(market.tradableInstrument?.instrument?.name ?? marketId);
print("bid", market, buy[0]);
print("offer", market, sell[0]);

/** Prices and volumes are integers. The market says how many of their digits are decimals. */
function print(side: string, market: Market, level: PriceLevel | undefined): void {
  if (level === undefined) console.log(`${side} none`);
  else console.log(`${side} ${scaledPrice(market, level.price)} ${scaledSize(market, level.volume)}`);
}
