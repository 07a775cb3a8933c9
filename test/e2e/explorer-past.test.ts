import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { instant } from "../../src/domain/instant.js";
import { level, VenueRecording } from "../support/venue-recording.js";
import { axeFaults, chromium, ExplorerWorld, patience } from "./explorer-world.js";

/* The time control of a market: what it shows is what the service answers for that moment. */

interface Level {
  readonly price: string;
  readonly volume: string;
}

interface Block {
  readonly height: string;
  readonly timestamp: string;
}

interface Changes {
  readonly changes: { readonly edges: readonly { readonly block: Block }[] };
}

interface Depth {
  readonly buy: readonly Level[];
  readonly sell: readonly Level[];
  readonly block: Block;
}

const testMaxMs = 90_000;
const widths = [1_440, 768, 390] as const;

describe.skipIf(chromium === undefined)("the explorer and the past of a market", { timeout: testMaxMs }, () => {
  const world = new ExplorerWorld({ seed: 11, markets: 3, parties: 30, ordersPerBlock: 30, entriesPerBlock: 0 });
  let marketId: string;
  /** Blocks that changed the market's book, oldest first. */
  let blocks: readonly Block[];

  beforeAll(async () => {
    await world.start(150);
    const { marketsData } = await world.getJson<{ marketsData: { market: string }[] }>("/markets/data");
    marketId = marketsData[0]?.market ?? "";
    const { changes } = await world.getJson<Changes>(`/api/v2/market/depth/${marketId}/changes`);
    blocks = changes.edges.map(({ block }) => block);
    expect(blocks.length).toBeGreaterThan(50);
  });

  afterAll(() => world.stop());

  const textOf = (page: Page, selector: string) => () => page.locator(selector).first().textContent({ timeout: 500 });

  /** The fragment of a URL that names a block's time. */
  const fragmentAt = ({ timestamp }: Block, id = marketId) =>
    `#/market/${id}?at=${instant(timestamp).replace(" ", "T")}Z`;

  const blockAt = (share: number): Block => {
    const block = blocks[Math.floor((blocks.length - 1) * share)];
    if (block === undefined) throw new Error("there is no block");
    return block;
  };

  /** Waits until the page shows the book that the service has at a block. */
  async function expectBook(page: Page, block: Block): Promise<void> {
    await expect.poll(textOf(page, "#moment-time"), patience).toBe(instant(block.timestamp));
    const depth = await world.getJson<Depth>(`/api/v2/market/depth/${marketId}/at?timestamp=${block.timestamp}`);
    expect(await textOf(page, "#moment-block")()).toBe(depth.block.height);
    const shown = (side: string) =>
      page.evaluate<string[]>(
        `[...document.querySelectorAll("#${side} tr[data-price]")].map(({ dataset }) => dataset.price + " " + dataset.volume)`,
      );
    const texts = (levels: readonly Level[], count: number) =>
      levels.slice(0, count).map(({ price, volume }) => `${price} ${volume}`);
    const same = async () => {
      const [bids, asks] = [await shown("bids"), (await shown("asks")).reverse()];
      const expected = [...texts(depth.buy, bids.length), ...texts(depth.sell, asks.length)];
      return bids.length > 3 && asks.length > 3 && [...bids, ...asks].join() === expected.join();
    };
    await expect.poll(same, patience).toBe(true);
  }

  test("a URL whose moment cannot be read says so, and shows the present", async () => {
    const { page, problems } = await world.open(`#/market/${marketId}?at=yesterday`);
    await expect
      .poll(textOf(page, "#unread-at"), patience)
      .toMatch(/^"yesterday" is no time; .* This is the present\.$/);
    expect(await textOf(page, "#moment-text")()).toBe("The present, as it changes.");
    expect(problems).toEqual([]);
    await page.context().close();
  });

  test("a URL names a moment, and the book is that of it", async () => {
    const block = blockAt(0.5);
    const { page, problems } = await world.open(fragmentAt(block));
    await expectBook(page, block);
    expect(await textOf(page, "#market-state")()).toContain("in the past");
    expect(await page.locator("#market-data").count()).toBe(0);
    expect(await textOf(page, "#no-past-data")()).toBe("Market data and price bounds are shown of the present only.");
    expect(await page.getAttribute("#live", "aria-pressed")).toBe("false");
    // The moment is in the calls, too.
    expect(await textOf(page, ".call pre")()).toContain(`/at?timestamp=${block.timestamp}`);
    await page.getByRole("button", { name: "Live", exact: true }).click();
    await expect.poll(() => page.url(), patience).not.toContain("at=");
    await expect.poll(textOf(page, "#moment-text"), patience).toBe("The present, as it changes.");
    const { buy } = await world.getJson<Depth>(`/api/v2/market/depth/${marketId}/latest`);
    await expect.poll(() => page.getAttribute("#bids tr", "data-price"), patience).toBe(buy[0]?.price);
    expect(problems).toEqual([]);
    await page.context().close();
  });

  test("the mid price of the last minute is there when the page opens, live and in the past", async () => {
    const times = blocks.map(({ timestamp }) => instant(timestamp).slice(11, 19));
    for (const fragment of [`#/market/${marketId}`, fragmentAt(blockAt(0.9))]) {
      const { page } = await world.open(fragment);
      await expect.poll(() => page.locator("#mid-chart canvas").count(), patience).toBe(1);
      // A line of a minute has many colours' pixels where one point has a few: columns of the chart that hold any.
      const columns = () =>
        page.evaluate<number>(`(() => {
          const canvas = document.querySelector("#mid-chart canvas");
          const { width, height } = canvas;
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
          const found = new Set();
          for (let at = 0; at < data.length; at += 4) {
            const [r, g, b, a] = [data[at], data[at + 1], data[at + 2], data[at + 3]];
            if (a > 200 && b > r + 80) found.add((at / 4) % width);
          }
          return found.size / width;
        })()`);
      await expect.poll(columns, patience).toBeGreaterThan(0.5);
      // Its times are those of the blocks, however long ago they were.
      const [first, last] =
        /from (\S+) UTC to (\S+) UTC/.exec((await page.getAttribute("#mid-chart", "aria-label")) ?? "")?.slice(1) ?? [];
      expect(times).toContain(first);
      expect(times).toContain(last);
      await page.context().close();
    }
  });

  test("steps by block, drags, and plays, by keyboard alone", async () => {
    const block = blockAt(0.4);
    const { page, problems } = await world.open(fragmentAt(block));
    await expectBook(page, block);
    const at = blocks.findIndex(({ timestamp }) => timestamp === block.timestamp);
    const press = async (name: string) => {
      await page.getByRole("button", { name, exact: true }).focus();
      await page.keyboard.press("Enter");
    };
    await press("Block after");
    await expectBook(page, blocks[at + 1] ?? block);
    await press("Block before");
    await expectBook(page, block);
    await press("Block before");
    await expectBook(page, blocks[at - 1] ?? block);
    expect(page.url()).toContain(fragmentAt(blocks[at - 1] ?? block));

    await page.focus("#moment");
    await page.keyboard.press("End");
    await expect.poll(() => page.url(), patience).not.toContain("at=");
    await page.keyboard.press("Home");
    await expect.poll(textOf(page, "#moment-block"), patience).toBe(blocks[0]?.height);

    // Of all moments, the history has the last, and before it the present that they were entered from.
    await page.keyboard.press("End");
    await expect.poll(() => page.url(), patience).not.toContain("at=");
    await press("Block before");
    await expect.poll(() => page.url(), patience).toContain("at=");
    await press("Block before");
    await page.goBack();
    await expect.poll(() => new URL(page.url()).hash, patience).toBe(`#/market/${marketId}`);
    await expect.poll(textOf(page, "#moment-text"), patience).toBe("The present, as it changes.");
    await page.goForward();
    await expect.poll(() => page.url(), patience).toContain("at=");

    await page.goto(`${world.service.url}/${fragmentAt(block)}`);
    await expectBook(page, block);
    await page.locator('input[name="speed"][value="100×"]').focus();
    await page.keyboard.press("Space");
    await press("Play");
    await expect.poll(textOf(page, "#play"), patience).toBe("Pause");
    // Until it has become the present.
    await expect.poll(() => page.url(), patience).not.toContain("at=");
    await expect.poll(textOf(page, "#moment-text"), patience).toBe("The present, as it changes.");
    expect(problems).toEqual([]);
    await page.context().close();
  });

  test("a time is typed; another market is shown at the same time, with the same candles", async () => {
    const block = blockAt(0.5);
    const { page, problems } = await world.open(`#/market/${marketId}?interval=5+minutes`);
    const time = page.getByLabel("Time (UTC)");
    for (const [text, isTime] of [
      ["yesterday", false],
      ["1704069180", false],
      [instant(block.timestamp), true],
    ] as const) {
      await time.fill(text);
      await time.press("Enter");
      const isValid = () =>
        time.evaluate((input) => (input as unknown as { checkValidity(): boolean }).checkValidity());
      expect(await isValid(), text).toBe(isTime);
    }
    await expectBook(page, block);
    const other = await page.evaluate<string>(
      `[...document.querySelectorAll("#market-choice option")].map(({ value }) => value).find((id) => id !== "${marketId}")`,
    );
    await page.selectOption("#market-choice", other);
    await expect.poll(() => page.url(), patience).toContain(`${fragmentAt(block, other)}&interval=5+minutes`);
    await expect.poll(textOf(page, "#moment-time"), patience).not.toBeUndefined();
    expect(problems).toEqual([]);
    await page.context().close();
  });

  test("a play goes on in a page whose effects run late, as those of a hidden page do", async () => {
    const { page, problems } = await world.open(fragmentAt(blockAt(0.2)));
    await expectBook(page, blockAt(0.2));
    await page.evaluate(`(() => {
      const start = setTimeout;
      globalThis.setTimeout = (callback, ms = 0, ...given) => start(callback, Math.max(ms, 10_000), ...given);
      globalThis.requestAnimationFrame = () => 0;
    })()`);
    await page.locator('input[name="speed"][value="10×"]').check({ force: true });
    await page.click("#play");
    await expect.poll(textOf(page, "#play"), patience).toBe("Pause");
    const named = new Set<string>();
    const isNamed = () => named.add(page.url()).size;
    await expect.poll(isNamed, patience).toBeGreaterThan(4);
    expect(await textOf(page, "#play")()).toBe("Pause");
    expect(problems).toEqual([]);
    await page.context().close();
  });

  test("a play that is paused shows the book of the moment where it stands", async () => {
    const start = blockAt(0.3);
    const { page, problems } = await world.open(fragmentAt(start));
    await expectBook(page, start);
    await page.locator('input[name="speed"][value="10×"]').check({ force: true });
    await page.click("#play");
    await expect.poll(textOf(page, "#moment-time"), patience).not.toBe(instant(start.timestamp));
    await page.click("#play");
    await expect.poll(textOf(page, "#play"), patience).toBe("Play");
    const shown = await textOf(page, "#moment-time")();
    const block = blocks.find(({ timestamp }) => instant(timestamp) === shown);
    expect(block).toBeDefined();
    await expectBook(page, block ?? start);
    expect(page.url()).toContain(fragmentAt(block ?? start));
    expect(problems).toEqual([]);
    await page.context().close();
  });

  test("a step that fails stays where it is and says why, until the past is played", async () => {
    const block = blockAt(0.4);
    const { page, problems } = await world.open(fragmentAt(block));
    await expectBook(page, block);
    const message = "the database does not answer";
    await page.route(/\/changes/, (route) => route.fulfill({ status: 503, json: { code: 14, message, details: [] } }));
    for (const name of ["Block after", "Block before"]) {
      await page.getByRole("button", { name, exact: true }).click();
      await expect.poll(textOf(page, "#moment-problem"), patience).toBe(message);
      expect(page.url()).toContain(fragmentAt(block));
      await page.click("#play");
      await expect.poll(() => page.locator("#moment-problem").count(), patience).toBe(0);
      await page.click("#play");
      await page.evaluate(`location.hash = ${JSON.stringify(fragmentAt(block))}`);
      await expectBook(page, block);
    }
    await page.unroute(/\/changes/);
    await page.getByRole("button", { name: "Block after", exact: true }).click();
    await expectBook(page, blocks[blocks.indexOf(block) + 1] ?? block);
    expect(problems).toEqual([]);
    await page.context().close();
  });

  test.each(["Live", "another market"])("the response to a step comes too late after %s was chosen", async (choice) => {
    const block = blockAt(0.4);
    const { page, problems } = await world.open(fragmentAt(block));
    await expectBook(page, block);
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route(/\/changes/, async (route) => {
      await released;
      await route.continue();
    });
    const response = page.waitForResponse(new RegExp(`${marketId}/changes`));
    await page.getByRole("button", { name: "Block after", exact: true }).click();
    const other = await page.evaluate<string>(
      `[...document.querySelectorAll("#market-choice option")].map(({ value }) => value).find((id) => id !== "${marketId}")`,
    );
    if (choice === "Live") await page.click("#live");
    else await page.selectOption("#market-choice", other);
    const chosen = choice === "Live" ? `#/market/${marketId}` : fragmentAt(block, other);
    await expect.poll(() => new URL(page.url()).hash, patience).toBe(chosen);
    release();
    await (await response).finished();
    await page.waitForTimeout(500);
    expect(new URL(page.url()).hash).toBe(chosen);
    expect(problems).toEqual([]);
    await page.context().close();
  });

  test("a step forward ends before a part without a book, and leads to the present only from the last change", async () => {
    const venue = new VenueRecording();
    const other = new ExplorerWorld();
    venue
      .define()
      .snapshot({ bids: [level("10", "1")], asks: [level("11", "1")], sequenceNumber: 1n })
      .tell();
    // Updates are missing before this one.
    venue.delta({ bids: [level("10", "2")], sequenceNumber: 9n }).tell();
    venue.snapshot({ bids: [level("12", "1")], asks: [level("14", "1")], sequenceNumber: 9n }).tell();
    await other.replay(venue.bytes());
    await other.serve(world.browser);
    const { page, problems } = await other.open("#/market/m?at=1970-01-01T00:00:02.000000000Z");
    await expect.poll(textOf(page, "#best-bid"), patience).toBe("10.00");
    const after = page.getByRole("button", { name: "Block after", exact: true });
    await after.click();
    await expect
      .poll(textOf(page, "#moment-problem"), patience)
      .toMatch(/^The next part of the past is without a book/);
    // In such a part, the service says so.
    await page.evaluate('location.hash = "#/market/m?at=1970-01-01T00:00:03.000000000Z"');
    await expect.poll(textOf(page, "#moment-block"), patience).toBe("3");
    await after.click();
    await expect.poll(textOf(page, "#moment-problem"), patience).toContain("block 6");
    expect(page.url()).toContain("at=1970-01-01T00:00:03");

    await page.evaluate('location.hash = "#/market/m?at=1970-01-01T00:00:06.000000000Z"');
    await expect.poll(textOf(page, "#best-bid"), patience).toBe("12.00");
    await after.click();
    await expect.poll(() => page.url(), patience).not.toContain("at=");

    await page.evaluate('location.hash = "#/market/m?at=1970-01-01T00:00:06.000000000Z"');
    await expect.poll(textOf(page, "#best-bid"), patience).toBe("12.00");
    await other.replay(venue.delta({ bids: [level("12", "2")], sequenceNumber: 99n }).bytes());
    await expect.poll(() => page.locator("#market-count", { hasText: "1 stale" }).count(), patience).toBe(1);
    await after.click();
    await expect.poll(() => page.locator("#moment-problem").count(), patience).toBe(1);
    expect(page.url()).toContain("at=1970-01-01T00:00:06");
    expect(problems).toEqual([]);
    await page.context().close();
    await other.stop();
  });

  test("a play says where the book is not known, and its mid prices begin anew in other decimals", async () => {
    const venue = new VenueRecording();
    const other = new ExplorerWorld();
    const wait = () => {
      for (let second = 0; second < 80; second++) venue.tell();
    };
    venue.define().snapshot({ bids: [level("10", "1")], asks: [level("11", "1")], sequenceNumber: 1n });
    venue.delta({ bids: [level("10", "2")], sequenceNumber: 9n });
    wait();
    venue.define({ priceDecimals: 4 });
    venue.snapshot({ bids: [level("12", "1")], asks: [level("14", "1")], sequenceNumber: 20n });
    wait();
    // The play lasts until the last change.
    venue.snapshot({ bids: [level("12", "2")], asks: [level("14", "1")], sequenceNumber: 21n });
    await other.replay(venue.bytes());
    await other.serve(world.browser);
    const { page, problems } = await other.open("#/market/m?at=1970-01-01T00:00:02.000000000Z");
    await expect.poll(textOf(page, "#best-bid"), patience).toBe("10.00");
    await page.click("#play");
    await expect.poll(() => page.locator("#stale-moment").count(), patience).toBe(1);
    expect(await page.locator("#ladder, #mid-chart").count()).toBe(0);
    expect(await textOf(page, "#moment-block")()).toBe("3");
    // It is as stale when the play is paused, and goes on from there.
    await page.click("#play");
    expect(page.url()).toContain("at=1970-01-01T00:00:03");
    expect(await page.locator("#stale-moment").count()).toBe(1);
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await axeFaults(page)).toEqual([]);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    await page.click("#play");
    await expect.poll(textOf(page, "#best-bid"), patience).toBe("12.0000");
    expect(await page.locator("#stale-moment").count()).toBe(0);
    const description = () => page.getAttribute("#mid-chart", "aria-label");
    await expect.poll(description, patience).toMatch(/^Mid price from 00:01:25 UTC to .*, now 13\.0000$/);
    await page.click("#play");
    // The same when the moment is read.
    await page.reload();
    await expect.poll(description, patience).toMatch(/^Mid price from 00:01:25 UTC to .*, now 13\.0000$/);
    expect(problems).toEqual([]);
    await page.context().close();
    await other.stop();
  });

  test("a moment that cannot be shown is told in the service's own words, and scales are those of the time", async () => {
    const venue = new VenueRecording();
    const other = new ExplorerWorld();
    venue.define({ code: "GOLD" }).snapshot({ bids: [level("10", "1.5")], asks: [level("10.5", "2")] });
    venue.define({ code: "GOLD", priceDecimals: 4 });
    venue.snapshot({ bids: [level("12", "1")], asks: [level("14", "1")], sequenceNumber: 9n });
    await other.replay(venue.bytes());
    await other.serve(world.browser);
    const { page, problems } = await other.open("#/market/m?at=1970-01-01T00:00:02.000000000Z");
    await expect.poll(textOf(page, "#best-bid"), patience).toBe("10.00");
    await page.evaluate('location.hash = "#/market/m?at=1970-01-01T00:00:04.000000000Z"');
    await expect.poll(textOf(page, "#best-bid"), patience).toBe("12.0000");
    await page.evaluate('location.hash = "#/market/m?at=2100-01-01T00:00:00.000000000Z"');
    const response = await fetch(`${other.service.url}/api/v2/market/depth/m/at?timestamp=4102444800000000000`);
    const { message } = (await response.json()) as { message: string };
    await expect.poll(textOf(page, "#moment-problem"), patience).toBe(message);
    expect(await textOf(page, "#moment-text")()).toMatch(/, not there\.$/);
    expect(await textOf(page, "#market-state")()).toMatch(/ in the future$/);
    expect(problems).toEqual([]);
    await page.context().close();
    await other.stop();
  });

  test.each(widths)("without anything that axe finds fault with, and within %i pixels", async (width) => {
    const { page } = await world.open(fragmentAt(blockAt(0.6)), { width, height: 844 });
    await expect.poll(() => page.locator("#ladder").count(), patience).toBe(1);
    expect(await axeFaults(page)).toEqual([]);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
    await page.context().close();
  });
});
