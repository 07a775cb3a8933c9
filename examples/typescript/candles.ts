// The minutes of a market: start, open, high, low, close and volume: node candles.js [MARKET] [SECONDS]
// SECONDS: only those that began in the newest of them.
import { candles, createMarketdClient, markets, scaledPrice, scaledSize } from "@marketd/client";

const client = createMarketdClient(process.env["MARKETD"] ?? "http://127.0.0.1:8080");
const [wanted, seconds] = process.argv.slice(2);
const from = seconds === undefined ? undefined : new Date(Date.now() - Number(seconds) * 1000);
for await (const market of markets(client)) {
  if (wanted !== undefined && market.id !== wanted) continue;
  for await (const { start, open, high, low, close, volume } of candles(client, market.id, "1 minute", from)) {
    const prices = [open, high, low, close].map((price) => scaledPrice(market, price));
    const time = new Date(Number(start / 1_000_000n)).toISOString();
    console.log(`${time} ${prices.join(" ")} ${scaledSize(market, volume)}`);
  }
  break;
}
