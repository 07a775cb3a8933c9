import type { Browser, Page, Response } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { level, VenueRecording } from "../support/venue-recording.js";
import { launchChromium } from "./browser-launch.js";
import { axeFaults, chromium, misplaced, patience, widths } from "./explorer-world.js";
import { ServiceProcess } from "./service-process.js";

/** A page reads the last minute's mid prices, and what else it reads once, within this time. */
const openingMs = 4_000;
/** An open page that nothing happens on is watched for this long. */
const idleMs = 8_000;
/** What it may be sent meanwhile, headers included: 1.5 kB/s were measured; the metrics that it once read were 26 kB/s. */
const idleBytesPerSecondMax = 4_000;
const sameNames = 16;
const laterMarkets = 40;

/** Fractions of ten and eight digits, none of which ends with zeros. */
const priceOf = (whole: number, seed: number) => `${whole}.${String(1_234_567_891 + seed * 7_654_321).slice(0, 10)}`;
const sizeOf = (whole: number, seed: number) => `${whole}.${String(12_345_679 + seed * 654_322).slice(0, 8)}`;

/** The usual market of coins: ten decimals of prices, eight of sizes, and an order far away. */
function coins(): { bids: ReturnType<typeof level>[]; asks: ReturnType<typeof level>[] } {
  const side = (step: 1 | -1) =>
    Array.from({ length: 60 }, (_, index) =>
      level(priceOf(104_231 + step * (index + 1), index), sizeOf(1 + ((index * 7) % 90), index), BigInt(1 + index)),
    );
  return {
    bids: [...side(-1), level("0.0000000001", "1234.00000001", 1n)],
    asks: [...side(1), level("9999999.0123456789", "1234.00000001", 1n)],
  };
}

/** A coin of small prices and large sizes, whose numbers are as long. */
function memes(): { bids: ReturnType<typeof level>[]; asks: ReturnType<typeof level>[] } {
  const side = (step: 1 | -1) =>
    Array.from({ length: 60 }, (_, index) =>
      level(
        `0.${String(123_456 + step * (index + 1)).padStart(10, "0")}`,
        sizeOf(123_456_789 + index * 7_654_321, index),
      ),
    );
  return { bids: side(-1), asks: side(1) };
}

describe.skipIf(chromium === undefined)("the explorer and markets of venues", () => {
  const { url } = newDatabaseUrl();
  const venue = new VenueRecording();
  const problems: string[] = [];
  let service: ServiceProcess;
  let browser: Browser;

  /** Loads what was recorded since the last time. */
  const load = () => loadRecording(url, venue.bytes());

  async function open(fragment: string, options: Parameters<Browser["newPage"]>[0] = {}): Promise<Page> {
    const page = await browser.newPage(options);
    page.on("pageerror", (error) => problems.push(error.message));
    await page.goto(`${service.url}/${fragment}`);
    return page;
  }

  const textOf = (page: Page, selector: string) => () =>
    page
      .locator(selector)
      .textContent({ timeout: 1_000 })
      .catch(() => "none");

  beforeAll(async () => {
    const book = { asks: [level("10.5", "2")], sequenceNumber: 1n };
    venue.define({ code: "GOLD" }).snapshot({ bids: [level("10", "1.5")], ...book });
    venue.define({ marketId: "n", code: "SILVER" }).snapshot({ marketId: "n", bids: [level("7", "1")] });
    venue.define({ marketId: "never", code: "NEVER" });
    const scale = { priceDecimals: 10, sizeDecimals: 8 };
    venue.define({ marketId: "coins", code: "BTC-USDT", name: "Bitcoin / Tether", ...scale });
    venue.snapshot({ marketId: "coins", ...coins() });
    const trade = { marketId: "coins", price: priceOf(104_231, 3), size: sizeOf(176, 3) };
    venue.tell({ case: "trade", value: trade });
    venue.define({ marketId: "meme", code: "SHIB-USDT", ...scale }).snapshot({ marketId: "meme", ...memes() });
    const tiny = (units: number, size: string) => level(`0.${String(units).padStart(30, "0")}`, size);
    venue.define({ marketId: "tiny", code: "TINY", priceDecimals: 30, sizeDecimals: 18 });
    const thirty = Array.from({ length: 30 }, (_, index) => index + 1);
    venue.snapshot({
      marketId: "tiny",
      bids: thirty.map((step) => tiny(123_456 - step, "1.000000000000000001")),
      asks: thirty.map((step) => tiny(123_456 + step, "0.000000000000000001")),
    });
    venue.tell({
      case: "trade",
      value: { marketId: "tiny", price: `0.${"123456".padStart(30, "0")}`, size: "12.000000000000000001" },
    });
    venue.define({ marketId: "empty", code: "EMPTY" }).snapshot({ marketId: "empty" });
    for (let n = 0; n < sameNames; n++) {
      venue.define({ marketId: `0f${n % 4}3a9c5c28e2d8c0b7c1d0ef3c8a2-${String(n).padStart(6, "0")}`, code: "SAME" });
    }
    const name = `${"A name of many words. ".repeat(40)}\u202edrawkcab\u0007`;
    venue.define({ marketId: "long", code: `LONG${"X".repeat(1_000)}`, name });
    venue.snapshot({ marketId: "long", bids: [level("7", "1")] });
    await load();
    service = new ServiceProcess(url, await freePort(), "--admin-listen", `127.0.0.1:${await freePort()}`);
    [browser] = await Promise.all([launchChromium(chromium ?? ""), service.start()]);
  });

  afterAll(async () => {
    await browser?.close();
    await service?.kill();
    expect(problems).toEqual([]);
  });

  test("a status tells of stale markets, and of nothing that is internal", async () => {
    const response = await fetch(`${service.url}/status`);
    const status = (await response.json()) as Record<string, unknown>;
    expect(status).toEqual({
      status: "ready",
      blockHeight: response.headers.get("x-block-height"),
      blockTimestamp: response.headers.get("x-block-timestamp"),
      blockAgeSeconds: expect.any(Number),
      streamSequence: String(venue.sequence - 1n),
      markets: 8 + sameNames,
      marketsWithData: 0,
      staleMarkets: 1 + sameNames,
      staleMarketIds: expect.arrayContaining(["never"]),
      databaseSilenceSeconds: expect.any(Number),
    });
  });

  test("a stale market is said to be stale, also in the list, and comes back with the next snapshot", async () => {
    const page = await open("#/market/m");
    const list = await open("#/");
    const bid = textOf(page, "#best-bid");
    const mode = textOf(list, '[data-market="m"] .mode');
    await expect.poll(bid, patience).toContain("10.00");
    await expect.poll(mode, patience).toBe("continuous");
    expect(await textOf(list, '[data-market="never"] .mode')()).toBe("Stale");

    venue.delta({ bids: [level("11", "1")], sequenceNumber: 9n });
    await load();
    await expect.poll(bid, patience).toBe("none");
    await expect.poll(textOf(page, "#stale-market"), patience).toMatch(/^Stale since \d\d:\d\d:\d\d UTC: updates of /);
    expect(await textOf(page, "#market-state")()).toMatch(/· Stale since \d\d:\d\d:\d\d UTC$/);
    await expect.poll(mode, patience).toMatch(/^Stale since \d\d:\d\d:\d\d UTC$/);
    expect(await textOf(list, '[data-market="m"] .price')()).toBe("–");
    // A page that is opened now knows it too, but not since when.
    const others = await open("#/market/m");
    await expect.poll(textOf(others, "#stale-market"), patience).toMatch(/^Stale: updates of /);
    await others.selectOption("#market-choice", "n");
    await expect.poll(textOf(others, "#best-bid"), patience).toContain("7.00");

    venue.snapshot({ bids: [level("12", "1")], sequenceNumber: 9n });
    await load();
    await expect.poll(bid, patience).toContain("12.00");
    await expect.poll(mode, patience).toBe("continuous");
    expect(await textOf(page, "#market-state")()).toContain("continuous");
    for (const each of [page, list, others]) await each.close();
  });

  test.each([
    ["at once", false],
    ["after a while", true],
  ])("no number is shown in another scale when decimals change and the book comes back %s", async (_, waits) => {
    const [page, list] = [await open("#/market/m"), await open("#/")];
    const [bid, mid] = [textOf(page, "#best-bid"), textOf(list, '[data-market="m"] .price')];
    venue.define({ code: "GOLD", priceDecimals: 2 });
    venue.snapshot({ bids: [level("12", "1")], asks: [level("14", "1")], sequenceNumber: 20n });
    await load();
    await expect.poll(bid, patience).toBe("12.00");
    await expect.poll(mid, patience).toBe("13.00");
    for (const [each, selector] of [
      [page, "#best-bid"],
      [list, '[data-market="m"] .price'],
    ] as const) {
      await each.evaluate(`(() => {
        globalThis.shown = new Set();
        const note = () => shown.add(document.querySelector('${selector}')?.textContent ?? "none");
        new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
      })()`);
    }
    venue.define({ code: "GOLD", priceDecimals: 4 });
    if (waits) {
      await load();
      await expect.poll(bid, patience).toBe("none");
    }
    venue.snapshot({ bids: [level("12", "1")], asks: [level("14", "1")], sequenceNumber: 30n });
    await load();
    await expect.poll(bid, patience).toBe("12.0000");
    await expect.poll(mid, patience).toBe("13.0000");
    const shown = (each: Page) => each.evaluate<string[]>("[...shown]");
    expect(["none", "–", "12.00", "12.0000"]).toEqual(expect.arrayContaining(await shown(page)));
    expect(["none", "–", "13.00", "13.0000"]).toEqual(expect.arrayContaining(await shown(list)));
    for (const each of [page, list]) await each.close();
  });

  test("an idle page is sent little, and asks for nothing that is not there", async () => {
    const idle = async (fragment: string) => {
      const page = await open(fragment);
      await expect.poll(textOf(page, "#market-count"), patience).toContain("stale");
      // What the page reads once, when it opens, has come.
      await page.waitForTimeout(openingMs);
      const responses: Response[] = [];
      page.on("response", (response) => responses.push(response));
      await page.waitForTimeout(idleMs);
      const seen = responses.splice(0);
      const parts = await Promise.all(seen.map((response) => response.request().sizes()));
      await page.close();
      const bytes = parts.map(({ responseHeadersSize, responseBodySize }) => responseHeadersSize + responseBodySize);
      const bytesPerSecond = Math.round((bytes.reduce((sum, each) => sum + each, 0) * 1_000) / idleMs);
      return { fragment, bytesPerSecond, failed: seen.filter((response) => response.status() >= 400).length };
    };
    for (const each of await Promise.all(["#/", "#/market/coins", "#/market/never", "#/ledger"].map(idle))) {
      process.stderr.write(`explorer ${each.fragment}, idle: ${each.bytesPerSecond} bytes/s\n`);
      expect(each.failed, each.fragment).toBe(0);
      expect(each.bytesPerSecond, each.fragment).toBeLessThan(idleBytesPerSecondMax);
    }
  });

  test("markets of one name are told apart, everywhere", async () => {
    const page = await open("#/market/coins");
    const options = page.locator("#market-choice option");
    await expect.poll(async () => (await options.allTextContents()).includes("NEVER"), patience).toBe(true);
    // Names arrive one by one; until then, the ids stand for them.
    const unnamed = async () => (await options.allTextContents()).filter((text) => text === text.toLowerCase());
    await expect.poll(unnamed, patience).toEqual([]);
    const texts = await options.allTextContents();
    expect(texts.filter((text) => text.startsWith("SAME · "))).toHaveLength(sameNames);
    expect(new Set(texts).size).toBe(texts.length);
    await page.evaluate("location.hash = '#/ledger'");
    const markets = page.locator('[name="filter.fromAccountFilter.marketIds"] option');
    await expect.poll(() => markets.allTextContents(), patience).toEqual(texts);
    await page.evaluate("location.hash = '#/?find=same'");
    const links = page.locator("#markets .market-link");
    await expect.poll(async () => new Set(await links.allTextContents()).size, patience).toBeGreaterThan(5);
    expect(new Set(await links.allTextContents()).size).toBe(await links.count());
    await page.close();
  });

  test("the depth chart shows what is near, and all levels on demand", async () => {
    const page = await open("#/market/coins");
    const range = textOf(page, "#depth-range");
    await expect.poll(range, patience).toMatch(/^Prices within ±0\.0\d+\u202f% of the mid price; 2 of 122 levels are/);
    await page.locator('[name="depth-range"][value="all"]').check({ force: true });
    await expect.poll(range, patience).toBe("All levels are shown.");
    await page.close();
  });

  test.each([
    ["#/", "#markets [data-market] .price"],
    ["#/market/coins", "#trades .price"],
    ["#/market/meme", "#ladder .price"],
    ["#/market/tiny", "#trades .price"],
    ["#/market/empty", "#ladder .quiet"],
    ["#/market/long", "#ladder .price"],
    ["#/market/never", "#stale-market"],
    ["#/ledger", "#csv"],
    ["#/signers", "#bundles"],
  ])("%s: at every width nothing leaves its place or is cut, and axe finds no fault", async (fragment, settled) => {
    const page = await open(fragment);
    await expect.poll(() => page.locator(settled).count(), patience).toBeGreaterThan(0);
    await expect.poll(textOf(page, "#market-count"), patience).toContain("stale");
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      // A chart follows its place a moment later.
      await expect.poll(() => page.evaluate(misplaced), { message: `${width} px` }).toEqual([]);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
    }
    const shortened = await page.locator("main .amount", { hasText: "…" }).count();
    expect(shortened > 0).toBe(["#/market/meme", "#/market/tiny"].includes(fragment));
    if (shortened > 0) {
      // On a phone, where the last width was.
      await page.getByRole("button", { name: "All digits" }).first().click();
      await expect.poll(() => page.evaluate(misplaced), { message: "all digits" }).toEqual([]);
      await page.getByRole("button", { name: "All digits" }).first().click();
    }
    expect(await page.locator("main").textContent()).not.toMatch(/[^\P{C}\n]/u);
    expect(await axeFaults(page)).toEqual([]);
    await page.close();
  });

  test("a trade whose aggressor the venue does not tell is on no side, and an empty book has no chart", async () => {
    const page = await open("#/market/coins");
    await expect.poll(textOf(page, "#trades tbody td:last-child"), patience).toBe("–");
    expect(await page.locator("#trades tbody tr:is(.buy, .sell)").count()).toBe(0);
    await page.selectOption("#market-choice", "empty");
    await expect.poll(() => page.getByText("The book is empty.", { exact: true }).count(), patience).toBe(1);
    expect(await page.getByText("None yet: a side of the book is empty.").count()).toBe(1);
    expect(await page.locator(".chart").count()).toBe(0);
    await page.close();
  });

  test("a row keeps the focus while names arrive and change the order", async () => {
    // Their identifiers are first, their names last.
    for (let n = 0; n < laterMarkets; n++) venue.define({ marketId: `0-${n}`, code: `ZZ-${laterMarkets - n}` });
    await load();
    const page = await browser.newPage({ viewport: { width: 1_440, height: 400 } });
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route(/\/market\/0-/, async (route) => {
      await released;
      await route.continue();
    });
    await page.goto(`${service.url}/`);
    const row = page.locator('[data-market="0-1"]');
    const ids = () =>
      page.evaluate<string[]>(
        `[...document.querySelectorAll("#markets [data-market]")].map((row) => row.dataset.market)`,
      );
    await row.locator("a").focus();
    await expect.poll(async () => (await ids()).slice(0, 2), patience).toEqual(["0-0", "0-1"]);
    release();
    await expect.poll(() => row.locator("a").textContent(), patience).toBe(`ZZ-${laterMarkets - 1}`);
    await page.waitForTimeout(1_000);
    expect(await row.locator("a:focus").count()).toBe(1);
    await page.keyboard.press("Tab");
    expect(await page.locator('[data-market="0-2"] a:focus').count()).toBe(1);
    // They are in order once the focus is elsewhere.
    await page.focus("#find");
    await expect.poll(async () => (await ids())[0], patience).toBe("coins");
    await page.close();
  });

  test("charts get their colours back when the network makes blocks again", async () => {
    const page = await open("#/market/coins");
    const greenPixels = `(() => {
      const canvas = document.querySelector("#depth-chart canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.filter((_, at) => at % 4 === 1 && data[at] > data[at - 1] + 20 && data[at + 2] > 200).length;
    })()`;
    const dimmed = () => page.locator(".charts [data-stale]").count();
    await expect.poll(dimmed, patience).toBeGreaterThan(0);
    await expect.poll(() => page.evaluate(greenPixels), patience).toBe(0);
    const { blockHeight } = (await (await fetch(`${service.url}/status`)).json()) as { blockHeight: string };
    venue.block(Number(blockHeight) + 1, BigInt(Date.now()) * 1_000_000n, () => {
      venue.venue({ case: "trade", value: { marketId: "coins", price: "104231", size: "1" } });
    });
    await load();
    await expect.poll(dimmed, patience).toBe(0);
    await expect.poll(() => page.evaluate(greenPixels), patience).toBeGreaterThan(100);
    // Of prices with 25 zeros, too, whose differences are shown.
    await page.selectOption("#market-choice", "tiny");
    await expect.poll(textOf(page, "#best-bid"), patience).toBe("1.23455e-25");
    await expect.poll(textOf(page, "#depth-range"), patience).toBe("All levels are shown. Prices in units of 1e-25.");
    await expect.poll(() => page.evaluate(greenPixels), patience).toBeGreaterThan(100);
    await page.close();
  });
});
