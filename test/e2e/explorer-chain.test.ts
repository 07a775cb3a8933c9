import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { level, VenueRecording } from "../support/venue-recording.js";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";

/* What an open page shows after the service's database was replaced by that of another chain. */

/** Blocks of the first chain after its books: the second is shorter. */
const laterBlocks = 200;
/** Longer than until a request that failed is repeated. */
const repeatedMs = 7_000;

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
});
