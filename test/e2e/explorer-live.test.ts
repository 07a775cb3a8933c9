import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tries } from "../support/tries.js";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";

interface Level {
  readonly price: string;
  readonly volume: string;
}

/** A test that makes, loads and watches a replay takes longer than others. */
const replayMaxMs = 120_000;

interface MarketResponse {
  readonly market: { readonly tradableInstrument: { readonly instrument: { readonly code: string } } };
}

/** What every panel that shows best prices says at one moment. */
interface Panels {
  readonly bids: readonly string[];
  readonly asks: readonly string[];
  readonly mids: readonly string[];
  readonly spreads: readonly string[];
  /** Rows of the ladder that changed a moment ago. */
  readonly flashes: number;
}

/** Reads all panels in one task of the page, so that what they say is of one moment. */
const readPanels = `() => {
  const text = (selector) => document.querySelector(selector).textContent;
  const label = (selector) => document.querySelector(selector).getAttribute("aria-label");
  const [, bid, ask] = /best bid (.+), best ask (.+)$/.exec(label("#depth-chart"));
  return {
    bids: [text("#best-bid"), text("#bids tr:first-child .price"), bid],
    asks: [text("#best-ask"), text("#asks tr:last-child .price"), ask],
    mids: [text("#best-mid"), text("#ladder-mid"), /now (.+)$/.exec(label("#mid-chart"))[1]],
    spreads: [text("#best-spread"), text("#ladder-spread")],
    flashes: document.querySelectorAll("#ladder [data-flash]").length,
  };
}`;

/** Samples the panels at \`count\` animation frames. */
function samples(page: Page, count: number): Promise<Panels[]> {
  return page.evaluate<Panels[]>(`(async () => {
    const read = ${readPanels};
    const samples = [];
    while (samples.length < ${count}) {
      await new Promise(requestAnimationFrame);
      await new Promise((resolve) => setTimeout(resolve, 30));
      samples.push(read());
    }
    return samples;
  })()`);
}

describe.skipIf(chromium === undefined)("the explorer on a busy network", () => {
  const world = new ExplorerWorld({
    seed: 5,
    markets: 100,
    profile: "realistic",
    parties: 40,
    ordersPerBlock: 60,
    entriesPerBlock: 0,
  });
  let marketId: string;
  let recording: Uint8Array;

  beforeAll(async () => {
    await world.start(20);
    const { marketsData } = await world.getJson<{ marketsData: { market: string }[] }>("/markets/data");
    recording = world.record(tries(160));
    // The first market that was made is the busiest.
    for (const { market: id } of marketsData) {
      const { market } = await world.getJson<MarketResponse>(`/api/v2/market/${id}`);
      if (market.tradableInstrument.instrument.code === "BTC/USD") marketId = id;
    }
  }, replayMaxMs);

  afterAll(() => world.stop());

  test(
    "never shows two panels that disagree, and ends with the book of the whole replay",
    async () => {
      const { page, problems } = await world.open(`#/market/${marketId}`);
      await expect.poll(() => page.locator("#ladder, #mid-chart, #depth-chart").count(), patience).toBe(3);
      const replay = world.replay(recording, 12);
      let isOver = false;
      void replay.finally(() => {
        isOver = true;
      });
      const seen: Panels[] = [];
      while (!isOver || seen.length < tries(200)) seen.push(...(await samples(page, 20)));
      await replay;
      const agree = (values: readonly string[]) => new Set(values).size === 1;
      const disagreeing = seen.filter(({ bids, asks, mids, spreads }) => ![bids, asks, mids, spreads].every(agree));
      expect(disagreeing).toEqual([]);
      // The market moved meanwhile, and the ladder showed where: a busy machine paints fewer frames, and merges updates.
      expect(seen.filter(({ flashes }) => flashes > 0).length).toBeGreaterThan(5);
      expect(new Set(seen.map(({ mids }) => mids[0])).size).toBeGreaterThan(5);
      // The loader has ended, but the service may not have read the last block yet: both sides are asked anew.
      const compare = async () => {
        const shown = await page.evaluate<string[]>(
          `[...document.querySelectorAll("#ladder tr[data-price]")].map(({ dataset }) => dataset.price + " " + dataset.volume)`,
        );
        const { buy, sell } = await world.getJson<{ buy: Level[]; sell: Level[] }>(
          `/api/v2/market/depth/${marketId}/latest`,
        );
        const texts = (levels: readonly Level[]) =>
          levels.slice(0, shown.length / 2).map(({ price, volume }) => `${price} ${volume}`);
        const expected = [...texts(sell).reverse(), ...texts(buy)];
        return shown.length >= 20 && shown.join() === expected.join() ? "the same" : { shown, expected };
      };
      await expect.poll(compare, patience).toBe("the same");
      expect(problems).toEqual([]);
      await page.context().close();
    },
    replayMaxMs,
  );
});
