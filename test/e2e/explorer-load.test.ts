import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DepthLevel } from "../../src/domain/depth-book.js";
import { quoteOf } from "../../src/domain/quote.js";
import { midPrice } from "../../web/books/quote.js";
import { RecordingBuilder } from "../support/recording.js";
import { level } from "../support/venue-recording.js";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";
import { readTasks } from "./page-tasks.js";

/*
 * The explorer follows at least a thousand depth updates a second, and no task of its main thread takes more than 50 ms.
 * Tasks are held to their CPU time: beside other work, one that waits for the processor takes longer by the clock.
 */
const taskMaxMs = 50;
const updatesPerSecondMin = 1_000;
/** A machine that sends a reader beside the page fewer updates is too slow to show it, which the test prints. */
const sentPerSecondMin = 1_100;

/** All of them change in each block. */
const markets = 250;
const blocksPerSecond = 6;
/** Until a page has loaded the definitions of all markets, and the replay is in full swing. */
const settleMs = 4_000;
const watchMs = 10_000;
/** More than all tests replay. */
const blocks = 240;
const levels = 20;
const testMaxMs = 120_000;

const marketIds = Array.from({ length: markets }, (_, index) => `market-${index + 1}`);

/** A recording of venues: definitions and whole books, then a delta of each market a block, which moves its mid price. */
function busyVenues(): { readonly opening: Buffer; readonly whole: Buffer } {
  const recording = new RecordingBuilder();
  const startNs = BigInt(Date.now()) * 1_000_000n;
  const intervalNs = 1_000_000_000n / BigInt(blocksPerSecond);
  const tell = (height: number, event: (marketId: string, base: number) => Parameters<typeof recording.venue>[0]) =>
    recording.block(height, startNs + BigInt(height) * intervalNs, () => {
      for (const [index, marketId] of marketIds.entries()) recording.venue(event(marketId, 100 + index));
    });
  tell(1, (marketId, base) => {
    const code = `COIN${base - 99}/USD`;
    return { case: "marketDefinition", value: { marketId, code, priceDecimals: 2, sizeDecimals: 3 } };
  });
  tell(2, (marketId, base) => {
    const side = (step: 1 | -1) =>
      Array.from({ length: levels }, (_, index) => level(String(base + step * (index + 1)), "5"));
    return { case: "bookSnapshot", value: { marketId, bids: side(-1), asks: side(1) } };
  });
  const opening = recording.bytes();
  for (let height = 3; height < blocks; height++) {
    tell(height, (marketId, base) => {
      const place = 1 + ((height + base) % levels);
      const size = String(1 + ((height * 7 + base) % 90));
      // Now the best bid, now gone.
      const best = level(`${base - 1}.5`, height % 2 === 0 ? size : "0");
      const bids = [best, level(String(base - place), size)];
      return { case: "bookDelta", value: { marketId, bids, asks: [level(String(base + place), size)] } };
    });
  }
  return { opening, whole: recording.bytes() };
}

/** Reads the depth stream of all markets, beside the page, and counts updates. */
class UpdateCount {
  updates = 0;
  readonly ended: Promise<void>;

  constructor(url: string, signal: AbortSignal) {
    this.ended = this.#read(`${url}/api/v2/stream/markets/depth/updates`, signal).catch((thrown: unknown) => {
      if (!signal.aborted) throw thrown;
    });
  }

  async #read(url: string, signal: AbortSignal): Promise<void> {
    const response = await fetch(url, { signal });
    for await (const chunk of response.body ?? []) {
      this.updates += Buffer.from(chunk).toString("latin1").split('"marketId"').length - 1;
    }
  }
}

/** What a page does while its market moves. */
interface Watched {
  /** As the page counts them. */
  readonly updatesPerSecond: number;
  /** Durations by the clock of the tasks that the browser itself calls long, in milliseconds. */
  readonly longTasksMs: readonly number[];
}

/** Watches a page for a while, and scrolls it meanwhile. */
async function watch(page: Page): Promise<Watched> {
  const watched = page.evaluate<Watched>(`(async () => {
    const longTasksMs = [];
    const observer = new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) longTasksMs.push(duration);
    });
    observer.observe({ type: "longtask" });
    const rates = [];
    const until = performance.now() + ${watchMs};
    while (performance.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 250));
      rates.push(Number(document.querySelector("#updates-per-second").textContent.replaceAll("\\u202f", "")));
    }
    observer.disconnect();
    return { longTasksMs, updatesPerSecond: rates.reduce((sum, rate) => sum + rate, 0) / rates.length };
  })()`);
  const until = Date.now() + watchMs - 2_000;
  await page.mouse.move(400, 400);
  while (Date.now() < until) {
    await page.mouse.wheel(0, 300);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  return await watched;
}

function summary(view: string, watched: Watched & { sentPerSecond: number }, longestMs: number): string {
  const { updatesPerSecond, sentPerSecond, longTasksMs } = watched;
  const isSlow = sentPerSecond < sentPerSecondMin;
  const parts = [
    `explorer ${view}: ${Math.round(updatesPerSecond)} updates/s`,
    `longest task ${longestMs.toFixed(1)} ms of CPU`,
    `${longTasksMs.length} tasks beyond 50 ms by the clock`,
    ...(isSlow ? [`too slow a machine to show 1,000: another reader got ${Math.round(sentPerSecond)} updates/s`] : []),
  ];
  return `${parts.join("; ")}\n`;
}

describe.skipIf(chromium === undefined)("the explorer under load", () => {
  const world = new ExplorerWorld();
  const recording = join(world.directory, "venues.evts");

  beforeAll(async () => {
    const { opening, whole } = busyVenues();
    await world.replay(opening);
    writeFileSync(recording, whole);
    await world.serve();
  }, testMaxMs);

  afterAll(() => world.stop());

  test.each(["#/", "#/market/market-1"])(
    "%s follows a thousand updates a second, without a task of more than 50 ms",
    async (view) => {
      const { page, problems } = await world.open(view);
      await expect.poll(() => page.locator("#markets [data-market], #ladder").count(), patience).toBeGreaterThan(0);
      const over = new AbortController();
      const replay = world.replayFile(recording, blocksPerSecond, over.signal);
      const other = new UpdateCount(world.service.url, over.signal);
      await page.waitForTimeout(settleMs);
      const { result, tasks } = await readTasks(page, async () => {
        const [before, at] = [other.updates, performance.now()];
        const watched = await watch(page);
        return { ...watched, sentPerSecond: ((other.updates - before) * 1_000) / (performance.now() - at) };
      });
      over.abort();
      await Promise.all([replay, other.ended]);
      const longestMs = Math.max(...tasks.map(({ cpuMs }) => cpuMs));
      process.stderr.write(summary(view, result, longestMs));
      const { updatesPerSecond, sentPerSecond } = result;
      if (sentPerSecond >= sentPerSecondMin) expect(updatesPerSecond).toBeGreaterThanOrEqual(updatesPerSecondMin);
      expect(longestMs).toBeLessThanOrEqual(taskMaxMs);
      expect(problems).toEqual([]);
      await page.context().close();
    },
    testMaxMs,
  );

  test("shows any of many markets: by scrolling, by keyboard, and by its name", async () => {
    const { page, problems } = await world.open("#/");
    const rows = page.locator("#markets [data-market]");
    const name = page.locator("#markets .market-link");
    await expect.poll(() => name.allTextContents(), patience).toContain("COIN1/USD");
    expect(await rows.count()).toBeLessThan(markets / 4);

    // Each definition that arrives may move rows, the one with the focus too: the order stands once all are there.
    await page.keyboard.press("End");
    await expect.poll(() => name.last().textContent(), patience).toBe(`COIN${markets}/USD`);
    await page.keyboard.press("Home");
    await expect.poll(() => name.first().textContent(), patience).toBe("COIN1/USD");

    // A person sees where the focus is before the next key.
    const painted = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press("Tab");
      await page.evaluate(painted);
    }
    const focused = () =>
      page.evaluate<string | undefined>("document.activeElement.closest('[aria-rowindex]')?.ariaRowIndex");
    expect(Number(await focused())).toBeGreaterThan(40);

    // Wherever a reader scrolls to, there are rows.
    const hasRow = "document.elementFromPoint(innerWidth / 2, innerHeight / 2).closest('[data-market]') !== null";
    for (const viewport of [
      { width: 390, height: 844 },
      { width: 1440, height: 900 },
    ]) {
      await page.setViewportSize(viewport);
      for (const share of [0.25, 0.5, 0.75]) {
        await page.evaluate(`scrollTo(0, ${share} * document.body.scrollHeight)`);
        await expect.poll(() => page.evaluate(hasRow), patience).toBe(true);
      }
    }

    await page.keyboard.press("End");
    await expect.poll(() => name.last().textContent(), patience).toBe(`COIN${markets}/USD`);
    expect(await rows.last().getAttribute("aria-rowindex")).toBe(String(markets + 1));
    const id = await rows.last().getAttribute("data-market");
    const { buy, sell } = await world.getJson<{ buy: DepthLevel[]; sell: DepthLevel[] }>(
      `/api/v2/market/depth/${id}/latest`,
    );
    const { market } = await world.getJson<{ market: { decimalPlaces: string } }>(`/api/v2/market/${id}`);
    const mid = midPrice(quoteOf(buy, sell), Number(market.decimalPlaces));
    await expect.poll(() => rows.last().locator(".price .amount").textContent(), patience).toBe(mid);

    await page.fill("#find", "coin123/");
    await expect.poll(() => name.allTextContents(), patience).toEqual(["COIN123/USD"]);
    await page.reload();
    await expect.poll(() => name.allTextContents(), patience).toEqual(["COIN123/USD"]);
    await page.fill("#find", "no such market");
    await expect.poll(() => page.textContent("main output"), patience).toBe(`None of ${markets} markets.`);
    expect(problems).toEqual([]);
    await page.context().close();
  });
});
