// The best prices of a market: node best-prices.js [MARKET]
// Without a market: that of the first in the list.
import { createMarketdClient, type PriceLevel } from "@marketd/client";

const client = createMarketdClient(process.env["MARKETD"] ?? "http://127.0.0.1:8080");

const { marketsData } = await client.listLatestMarketData({});
const marketId = process.argv[2] ?? marketsData[0]?.market;
if (marketId === undefined) throw new Error("no market has data yet");

const [{ market }, { buy, sell }] = await Promise.all([
  client.getMarket({ marketId }),
  client.getLatestMarketDepth({ marketId, maxDepth: 1n }),
]);
console.log(market?.tradableInstrument?.instrument?.name ?? marketId);
print("bid", buy[0]);
print("offer", sell[0]);

function print(side: string, level: PriceLevel | undefined): void {
  if (level === undefined) console.log(`${side} none`);
  else console.log(`${side} ${scaled(level.price)} ${level.volume}`);
}

/** Prices are integers of up to 78 digits, scaled by the market's decimal places. */
function scaled(price: string): string {
  const places = Number(market?.decimalPlaces ?? 0n);
  if (places === 0) return price;
  const digits = price.padStart(places + 1, "0");
  return `${digits.slice(0, -places)}.${digits.slice(-places)}`;
}
