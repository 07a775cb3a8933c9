// A market's trades from the first that is kept on, and then as they are made: node trades.js [MARKET]
// It goes on when the server restarts. Without a market: those of the first in the list.
import { createMarketdClient, markets, scaledPrice, scaledSize, trades } from "@marketd/client";

const client = createMarketdClient(process.env["MARKETD"] ?? "http://127.0.0.1:8080");
const wanted = process.argv[2];
for await (const market of markets(client)) {
  if (wanted !== undefined && market.id !== wanted) continue;
  for await (const { id, timestamp, price, size } of trades(client, market.id)) {
    console.log(`${timestamp} ${scaledPrice(market, price)} ${scaledSize(market, size)} ${id}`);
  }
}
