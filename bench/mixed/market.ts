// A private database with a simulated network's markets, and a loader that goes on with it at five blocks a second once it
// is told to. In the background: it shares a core with what measures.
import { setPriority } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { Network, networkDefaults } from "../../src/simulator/network.js";
import { createLog } from "../../src/telemetry/log.js";
import { backgroundPriority, serveOrders } from "../stream/child.js";
import { marketStoreBlocks, withMarketStore } from "../unary/market-store.js";

/** What this process does; its first word is the database's URL. */
export type MarketOrder = "begin" | "end";

const blocksPerSecond = 5;
const stopping = new AbortController();

/** The network goes on from where the store is, until it is told to end. */
async function* blocks(): AsyncGenerator<Uint8Array> {
  const { signal } = stopping;
  const network = new Network(networkDefaults);
  network.skipTo(marketStoreBlocks);
  const startedAt = performance.now();
  for (let n = 1; !signal.aborted; n++) {
    yield network.nextBlock();
    const due = startedAt + (n * 1000) / blocksPerSecond;
    await sleep(Math.max(0, due - performance.now()), undefined, { signal }).catch(() => {});
  }
}

// What it starts, the database too, inherits that.
setPriority(backgroundPriority);
await withMarketStore(async (url) => {
  let loading: Promise<unknown> = Promise.resolve();
  await new Promise<void>((ended) => {
    serveOrders({ url }, async (order: MarketOrder) => {
      if (order === "begin") {
        const sources = [streamSource(blocks(), "the simulated network")];
        const log = createLog("warn");
        loading = load({ database: url, sources, blockByBlock: true, log, signal: stopping.signal });
        return {};
      }
      stopping.abort();
      await loading;
      ended();
      return {};
    });
  });
});
process.disconnect();
