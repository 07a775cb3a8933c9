// A toy strategy on what is kept of a market's past, then on what happens now: node backtest.js [MARKET] [SECONDS]
// It follows the heavier side of the best prices. SECONDS: only the newest of the past.
import { createMarketdClient, type DepthChange, readDepth, replay, scaledPrice } from "@marketd/client";

const client = createMarketdClient(process.env["MARKETD"] ?? "http://127.0.0.1:8080");
const [marketId = await anyMarket(), seconds] = process.argv.slice(2);

class Strategy {
  trades = 0;
  /** In units of the last decimal of prices. Position and cash are of one unit of size. */
  profit = 0n;
  #position = 0n;
  #cash = 0n;

  see({ book: { bestBid, bestOffer }, block, scale }: DepthChange): void {
    if (bestBid === undefined || bestOffer === undefined) return;
    const [bid, offer] = [BigInt(bestBid.price), BigInt(bestOffer.price)];
    const wanted =
      bestBid.volume > 2n * bestOffer.volume ? 1n : bestOffer.volume > 2n * bestBid.volume ? -1n : this.#position;
    if (wanted !== this.#position) {
      const price = wanted > this.#position ? offer : bid;
      this.#cash -= (wanted - this.#position) * price;
      this.#position = wanted;
      this.trades++;
      const time = new Date(Number((block?.timestamp ?? 0n) / 1_000_000n)).toISOString();
      const at = scale === undefined ? price : scaledPrice(scale, price);
      console.log(`${time} position ${wanted} at ${at}`);
    }
    this.profit = this.#cash + this.#position * (this.#position > 0n ? bid : offer);
  }

  async run(changes: AsyncIterable<DepthChange>): Promise<void> {
    for await (const change of changes) this.see(change);
  }
}

/** The end of the past: the time of the newest block. */
async function newestTime(): Promise<bigint> {
  for await (const { block } of readDepth(client, { marketIds: [marketId] })) return block?.timestamp ?? 0n;
  throw new Error("there is no block yet");
}

async function anyMarket(): Promise<string> {
  return (await client.listLatestMarketData({})).marketsData[0]?.market ?? "";
}

const strategy = new Strategy();
const until = await newestTime();
const from = seconds === undefined ? {} : { from: until - BigInt(seconds) * 1_000_000_000n };
await strategy.run(replay(client, { marketIds: [marketId], ...from, until, everyUpdate: true }));
console.log(`backtest: ${strategy.trades} trades, profit ${strategy.profit}`);
// The same code, from where the backtest ended.
await strategy.run(replay(client, { marketIds: [marketId], from: until - 1n }));
