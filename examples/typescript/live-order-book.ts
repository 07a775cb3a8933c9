// A market's order book as it changes, whatever happens to the server: node live-order-book.js [MARKET]
import { createMarketdClient, type DepthLevel, readDepth } from "@marketd/client";

const client = createMarketdClient(process.env["MARKETD"] ?? "http://127.0.0.1:8080");
const marketId = process.argv[2];

const changes = readDepth(client, {
  // None: every market.
  marketIds: marketId === undefined ? [] : [marketId],
  onDisconnect: (error, waitMs) => console.error(`${error.message}; next attempt in ${Math.round(waitMs)} ms`),
});
for await (const { book } of changes) {
  const best = `${text(book.bestBid)} / ${text(book.bestOffer)}`;
  console.log(`${book.marketId} ${book.sequenceNumber}: ${best}, ${book.buy.length} and ${book.sell.length} levels`);
}

function text(level: DepthLevel | undefined): string {
  return level === undefined ? "none" : `${level.volume} at ${level.price}`;
}
