import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { level, VenueRecording } from "../support/venue-recording.js";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";

/* What an open page shows after the service's database was replaced by that of another chain. */

/** Blocks of the first chain after its books: the second is shorter. */
const laterBlocks = 200;
/** Longer than until a request that failed is repeated. */
const repeatedMs = 7_000;
/** The service is away for longer than a lost stream waits at first. */
const awayMs = 8_000;
/** Until the page has found that the service is back, and has opened the stream of the other chain. */
const openedMaxMs = 5_000;

describe.skipIf(chromium === undefined)("the explorer and a chain in place of another", () => {
  const world = new ExplorerWorld();

  beforeAll(async () => {
    const venue = new VenueRecording();
    for (const marketId of ["m", "gone"]) {
      venue.define({ marketId, code: marketId });
      venue.snapshot({ marketId, bids: [level("10", "1")], asks: [level("11", "1")] });
    }
    for (let block = 0; block < laterBlocks; block++) venue.tell();
    await world.replay(venue.bytes());
    await world.serve();
  });

  afterAll(() => world.stop());

  const textOf = (page: Page, selector: string) => () =>
    page
      .locator(selector)
      .textContent({ timeout: 1_000 })
      .catch(() => "none");

  test("shows its markets in its scale, and asks for those of the other one no more", async () => {
    const [market, list] = [await world.open("#/market/m"), await world.open("#/")];
    const row = '[data-market="m"]';
    await expect.poll(textOf(market.page, "#best-bid"), patience).toBe("10.00");
    await expect.poll(textOf(list.page, `${row} .price`), patience).toBe("10.50");
    await expect.poll(textOf(list.page, '[data-market="gone"] .price'), patience).toBe("10.50");
    const asked: string[] = [];
    list.page.on("request", (request) => asked.push(new URL(request.url()).pathname));

    const venue = new VenueRecording();
    venue.chainId = "second-chain";
    venue.define({ marketId: "m", code: "m", priceDecimals: 4 });
    venue.snapshot({ marketId: "m", bids: [level("12", "1")], asks: [level("14", "1")] });
    await world.replace(venue.bytes());
    await expect.poll(textOf(market.page, "#best-bid"), patience).toBe("12.0000");
    await expect.poll(textOf(list.page, `${row} .price`), patience).toBe("13.0000");
    // Compared with the first price of this chain, not with one in another scale.
    await expect.poll(textOf(list.page, `${row} .change`), patience).toMatch(/^[+±]?0\.00/);
    const description = () => market.page.getAttribute("#mid-chart", "aria-label");
    await expect.poll(description, patience).toMatch(/^Mid price from 00:00:02 UTC to 00:00:02 UTC, now 13\.0000$/);
    expect(await list.page.locator("#markets [data-market]").count()).toBe(1);
    await list.page.waitForTimeout(repeatedMs);
    expect(asked.filter((path) => path.includes("/market/"))).toContain("/api/v2/market/m");
    expect(asked.filter((path) => path.includes("/market/gone"))).toEqual([]);
    for (const { page, problems } of [market, list]) {
      expect(problems).toEqual([]);
      await page.context().close();
    }
  });

  test("drops what it showed at once when the service comes back with another chain", async () => {
    /** A chain with a book and a trade at a price. */
    const chain = (chainId: string, price: string) => {
      const venue = new VenueRecording();
      venue.chainId = chainId;
      venue.define().snapshot({ bids: [level(price, "1")], asks: [level("99", "1")] });
      return venue.tell({ case: "trade", value: { marketId: "m", price, size: "1" } }).bytes();
    };
    await world.replace(chain("third-chain", "20"));
    const { page, problems } = await world.open("#/market/m");
    await expect.poll(textOf(page, "#best-bid"), patience).toBe("20.00");
    await expect.poll(() => page.locator("#trades [data-trade]").count(), patience).toBe(1);
    // What the strip says at any time, and whether anything of both chains is shown together.
    await page.evaluate(`(() => {
      globalThis.seen = new Set();
      const text = (selector) => document.querySelector(selector)?.textContent;
      const note = () => {
        seen.add(text("#stream-state"));
        if (document.querySelectorAll("#trades [data-trade]").length > 1) seen.add("trades of both");
      };
      new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
    })()`);
    const opened: { readonly at: number; readonly token: string | null }[] = [];
    page.on("request", (request) => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname.endsWith("/replay") && searchParams.has("resumeToken")) {
        opened.push({ at: Date.now(), token: searchParams.get("resumeToken") });
      }
    });
    await world.service.kill();
    await world.replace(chain("fourth-chain", "30"));
    await page.waitForTimeout(awayMs);
    await world.service.start();
    const startedAt = Date.now();
    await expect.poll(textOf(page, "#best-bid"), patience).toBe("30.00");
    await expect.poll(textOf(page, "#trades .price"), patience).toBe("30.00");
    await expect.poll(textOf(page, "#other-chain"), patience).toContain("the data of another chain");
    const last = opened.at(-1);
    expect(last?.token).toBe("live");
    expect((last?.at ?? 0) - startedAt).toBeLessThan(openedMaxMs);
    const seen = await page.evaluate<string[]>("[...seen]");
    expect(seen.filter((text) => /token|trades of both/.test(text))).toEqual([]);
    await page.evaluate('location.hash = "#/"');
    await expect.poll(() => page.locator("#other-chain").count(), patience).toBe(0);
    expect(problems).toEqual([]);
    await page.context().close();
  });
});
