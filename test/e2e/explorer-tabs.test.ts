import type { BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { level, VenueRecording } from "../support/venue-recording.js";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";

/*
 * Over HTTP/1.1 a browser opens six connections to a host, for all tabs together. A tab that is hidden for 5 s has none.
 *
 * Playwright's pages are all visible at once, each in a window of its own. So the tests tell a page that it is hidden.
 */

/** Opening tabs waits until hidden ones give up their streams. */
const testMaxMs = 180_000;
const tabs = 8;
/** Longer than a page keeps its stream when it is hidden. */
const pauseMs = 8_000;

/** Of a script in the page. Playwright's own property cannot be set. */
const setHiddenTo = (isHidden: boolean) =>
  `Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });`;

function setHidden(page: Page, isHidden: boolean): Promise<void> {
  return page.evaluate<void>(`${setHiddenTo(isHidden)} document.dispatchEvent(new Event("visibilitychange"));`);
}

/** Streams that a page opens from now on. */
function streamsOf(page: Page): string[] {
  const urls: string[] = [];
  page.on("request", (request) => {
    if (request.url().includes("/stream/")) urls.push(request.url());
  });
  return urls;
}

/** Holds requests of a page that match, until the function that it returns is called. */
async function hold(page: Page, path: RegExp): Promise<() => void> {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route(path, async (route) => {
    await released;
    await route.continue();
  });
  return release;
}

const textOf = (page: Page, selector: string) => () => page.locator(selector).first().textContent();
const isLive = (page: Page) => expect.poll(textOf(page, "#stream-state"), patience).toBe("live");

describe.skipIf(chromium === undefined)("tabs of the explorer over HTTP/1.1", () => {
  const world = new ExplorerWorld();
  const venue = new VenueRecording();

  const load = () => world.replay(venue.bytes());

  beforeAll(async () => {
    for (const marketId of ["m", "n"]) {
      venue.define({ marketId, code: marketId });
      venue.snapshot({ marketId, bids: [level("10", "1")], asks: [level("11", "1")] });
    }
    await load();
    await world.serve();
  }, testMaxMs);

  afterAll(() => world.stop());

  async function openTab(context: BrowserContext): Promise<Page> {
    const page = await context.newPage();
    await page.goto(`${world.service.url}/`, { timeout: patience.timeout });
    return page;
  }

  test(
    "eight load, and the first shows what is now when it is shown again",
    async () => {
      const { page: first, problems } = await world.open("");
      const price = textOf(first, '[data-market="m"] .price');
      const lines = (id: string) => first.locator(`[data-market="${id}"] polyline[points*=","]`).count();
      await expect.poll(price, patience).toBe("10.50");
      let shown = first;
      for (let i = 1; i < tabs; i++) {
        await setHidden(shown, true);
        shown = await openTab(first.context());
        await isLive(shown);
      }
      await expect.poll(textOf(first, "#stream-state"), patience).toBe("paused while hidden");
      expect([await lines("m"), await lines("n")]).toEqual([1, 1]);

      venue.define({ code: "m", priceDecimals: 4 });
      venue.snapshot({ bids: [level("12", "1")], asks: [level("14", "1")], sequenceNumber: 9n });
      venue.snapshot({ marketId: "n", bids: [level("20", "1")], asks: [level("22", "1")], sequenceNumber: 9n });
      await load();
      await first.evaluate(`(() => {
        globalThis.prices = new Set();
        const note = () => prices.add(document.querySelector('[data-market="m"] .price').textContent);
        new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
        // Frames of a busy machine: a new definition arrives before the first of them.
        globalThis.requestAnimationFrame = (draw) => setTimeout(draw, 2_000);
      })()`);
      // Until the stream is open, the page says how old it is.
      const release = await hold(first, /\/stream\//);
      await setHidden(first, false);
      await expect
        .poll(textOf(first, "main .notice"), patience)
        .toMatch(/^Not updated since \d\d:\d\d:\d\d UTC: paused while hidden\.$/);
      release();
      await expect.poll(price, patience).toBe("13.0000");
      await expect.poll(textOf(first, '[data-market="n"] .price'), patience).toBe("21.00");
      const prices = await first.evaluate<string[]>("[...prices]");
      expect(["–", "10.50", "13.0000"]).toEqual(expect.arrayContaining(prices));
      // One before the gap, and one after it. Prices in other decimals are forgotten.
      await expect.poll(() => lines("n"), patience).toBe(2);
      await expect.poll(() => lines("m"), patience).toBe(1);
      expect(await textOf(first, '[data-market="m"] .change')()).toBe("0.00\u202f%");
      expect(problems).toEqual([]);
      await first.context().close();
    },
    testMaxMs,
  );

  test(
    "one that was opened in the background opens its stream when it is shown",
    async () => {
      const { page: first } = await world.open("");
      const context = first.context();
      await context.addInitScript(setHiddenTo(true));
      const page = await context.newPage();
      const streams = streamsOf(page);
      await page.goto(`${world.service.url}/`);
      await expect.poll(textOf(page, "#service-state"), patience).toBe("ready");
      expect(streams).toEqual([]);
      await setHidden(page, false);
      await isLive(page);
      await context.close();
    },
    testMaxMs,
  );

  test(
    "one that is soon shown again keeps its stream",
    async () => {
      const { page } = await world.open("");
      await isLive(page);
      const streams = streamsOf(page);
      await setHidden(page, true);
      await page.waitForTimeout(1_000);
      await setHidden(page, false);
      await page.waitForTimeout(pauseMs);
      expect(await textOf(page, "#stream-state")()).toBe("live");
      expect(streams).toEqual([]);
      await page.context().close();
    },
    testMaxMs,
  );

  test(
    "one that the service does not respond to says so by its own clock, and not that there is no new block",
    async () => {
      venue.block(1_000, BigInt(Date.now()) * 1_000_000n, () => {
        venue.venue({ case: "trade", value: { marketId: "n", price: "20", size: "1" } });
      });
      await load();
      const { page } = await world.open("");
      await expect.poll(textOf(page, "#block-age"), patience).toMatch(/^\d+ s$/);
      // The streams stay open: a service that is frozen closes none.
      const release = await hold(page, /\/(status|api\/v2\/(?!stream))/);
      const silent = /no response since \d\d:\d\d:\d\d UTC/;
      for (const figure of ["#service-state", "#database-state"]) {
        await expect.poll(textOf(page, figure), patience).toMatch(silent);
        expect(await page.getAttribute(figure, "data-level")).toBe("warn");
      }
      expect(await textOf(page, "#stream-state")()).toBe("not known");
      const age = Number.parseInt((await textOf(page, "#block-age")()) ?? "", 10);
      const ageNow = async () => Number.parseInt((await textOf(page, "#block-age")()) ?? "", 10);
      await expect.poll(ageNow, patience).toBeGreaterThan(age + 2);
      expect(await page.locator("main .notice").allTextContents()).toEqual([expect.stringMatching(silent)]);
      release();
      await expect.poll(textOf(page, "#database-state"), patience).toBe("answers");
      await isLive(page);
      expect(await page.getByText(silent).count()).toBe(0);
      await page.context().close();
    },
    testMaxMs,
  );
});
