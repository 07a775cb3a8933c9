import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";

interface Level {
  readonly price: string;
  readonly volume: string;
}

/** A test that makes, loads and watches a replay takes longer than others. */
const replayMaxMs = 120_000;

interface MarketAnswer {
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
      await new Promise((resolve) => setTimeout(resolve, 20));
      samples.push(read());
    }
    return samples;
  })()`);
}

/** The part of a trace event that is read. Times are in microseconds. */
interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly args: { readonly name?: string };
  /** Processor time: on a machine that others use too, the time by the clock says more of the others. */
  readonly tdur?: number;
}

/** Processor time of each task of the page's main thread, while something is done. */
async function mainThreadTasksMs(page: Page, work: () => Promise<void>): Promise<number[]> {
  const browser = page.context().browser();
  if (browser === null) throw new Error("the page has no browser");
  await browser.startTracing(page, { categories: ["disabled-by-default-devtools.timeline"] });
  await work();
  const trace = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
  const thread = ({ pid, tid }: TraceEvent) => `${pid} ${tid}`;
  const isMain = ({ name, args }: TraceEvent) => name === "thread_name" && args.name === "CrRendererMain";
  const main = new Set(trace.traceEvents.filter(isMain).map(thread));
  const tasks = trace.traceEvents.filter((event) => event.name === "RunTask" && main.has(thread(event)));
  return tasks.map(({ tdur = 0 }) => tdur / 1_000);
}

/** They measure time, and so need the machine for themselves. */
const isWanted = process.env["MARKETD_EXPLORER_BUSY"] === "1";
if (!isWanted) console.log("skipped: the explorer on a busy network (MARKETD_EXPLORER_BUSY=1 runs it, alone)");

describe.skipIf(chromium === undefined || !isWanted)("the explorer on a busy network", () => {
  const world = new ExplorerWorld({
    seed: 5,
    markets: 100,
    profile: "realistic",
    parties: 40,
    ordersPerBlock: 60,
    entriesPerBlock: 0,
  });
  let marketId: string;

  beforeAll(async () => {
    await world.start(20);
    const { marketsData } = await world.getJson<{ marketsData: { market: string }[] }>("/markets/data");
    // The first market that was made is the busiest.
    for (const { market: id } of marketsData) {
      const { market } = await world.getJson<MarketAnswer>(`/api/v2/market/${id}`);
      if (market.tradableInstrument.instrument.code === "BTC/USD") marketId = id;
    }
  });

  afterAll(() => world.stop());

  test(
    "never shows two panels that disagree, and ends with the book of the whole replay",
    async () => {
      const { page, problems } = await world.open(`#/market/${marketId}`);
      await expect.poll(() => page.locator("#ladder").count(), patience).toBe(1);
      await expect.poll(() => page.locator("#mid-chart, #depth-chart").count(), patience).toBe(2);
      const replay = world.load(180, 20);
      const seen = await samples(page, 200);
      const agree = (values: readonly string[]) => new Set(values).size === 1;
      const disagreeing = seen.filter(({ bids, asks, mids, spreads }) => ![bids, asks, mids, spreads].every(agree));
      expect(disagreeing).toEqual([]);
      // The market moved meanwhile, and the ladder showed where.
      expect(seen.filter(({ flashes }) => flashes > 0).length).toBeGreaterThan(20);
      expect(new Set(seen.map(({ mids }) => mids[0])).size).toBeGreaterThan(10);
      await replay;
      const { buy, sell } = await world.getJson<{ buy: Level[]; sell: Level[] }>(
        `/api/v2/market/depth/${marketId}/latest`,
      );
      const ladder = () =>
        page.evaluate<string[]>(
          `[...document.querySelectorAll("#ladder tr[data-price]")].map(({ dataset }) => dataset.price + " " + dataset.volume)`,
        );
      const rows = (await ladder()).length / 2;
      expect(rows).toBeGreaterThan(10);
      const texts = (levels: readonly Level[]) =>
        levels.slice(0, rows).map(({ price, volume }) => `${price} ${volume}`);
      await expect.poll(ladder, patience).toEqual([...texts(sell).reverse(), ...texts(buy)]);
      expect(problems).toEqual([]);
      await page.context().close();
    },
    replayMaxMs,
  );

  test.each(["#/", "#/market/ID"])(
    "at 1,000 updates a second %s has no task of more than 50 ms",
    async (view) => {
      const { page, problems } = await world.open(view.replace("ID", marketId));
      await expect.poll(() => page.textContent("#stream-state"), patience).toBe("live");
      await expect.poll(() => page.locator("#markets tbody tr, #ladder").count(), patience).toBeGreaterThan(0);
      const replay = world.load(220, 30);
      const updatesPerSecond = async () =>
        Number(((await page.textContent("#updates-per-second")) ?? "").replace(/\D/g, ""));
      await expect.poll(updatesPerSecond, patience).toBeGreaterThanOrEqual(1_000);
      const rates: number[] = [];
      const tasksMs = await mainThreadTasksMs(page, async () => {
        for (let second = 0; second < 4; second++) {
          await sleep(1_000);
          rates.push(await updatesPerSecond());
        }
      });
      expect(tasksMs.length).toBeGreaterThan(100);
      expect(Math.max(...tasksMs)).toBeLessThan(50);
      expect(rates.reduce((sum, rate) => sum + rate, 0) / rates.length).toBeGreaterThan(1_000);
      await replay;
      expect(problems).toEqual([]);
      await page.context().close();
    },
    replayMaxMs,
  );
});
