import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Market_State, Market_TradingMode } from "../../gen/vega/markets_pb.js";
import { Side } from "../../gen/vega/vega_pb.js";
import { nanoseconds } from "../../src/domain/instant.js";
import { scaled } from "../../web/format/decimal.js";
import { RecordingBuilder } from "../support/recording.js";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";

const market = {
  decimalPlaces: 2n,
  positionDecimalPlaces: 3n,
  state: Market_State.ACTIVE,
  tradingMode: Market_TradingMode.CONTINUOUS,
};
const sides = [Side.BUY, Side.SELL] as const;
/** A block of two trades each 10 minutes, from the evening of the 29th on. */
const blocks = 25;
const firstNs = BigInt(nanoseconds("2024-01-29 22:00:30") ?? 0);
const gapNs = 600_000_000_000n;
const pageRows = 15;

interface Candle {
  readonly open: string;
  readonly high: string;
  readonly low: string;
  readonly close: string;
  readonly volume: string;
}

/** Trades of market `m`, numbered. */
class TradeRecording extends RecordingBuilder {
  #height = 0;
  #trades = 0;
  timeNs = firstNs - gapNs;
  #taken = 0;

  /** A block with so many trades. */
  trades(count: number, marketId = "m"): this {
    this.timeNs += gapNs;
    return this.block(++this.#height, this.timeNs, () => {
      for (let i = 0; i < count; i++) {
        const number = ++this.#trades;
        const price = String(10_000 + ((number * 37) % 101));
        const aggressor = sides[number % 2] ?? Side.BUY;
        this.trade({ id: `t${number}`, marketId, price, size: BigInt(number), aggressor, buyer: "a", seller: "b" });
      }
    });
  }

  /** A block that gives the market other decimals. */
  redefine(): this {
    this.timeNs += gapNs;
    return this.block(++this.#height, this.timeNs, () => this.market("m", { ...market, decimalPlaces: 4n }));
  }

  /** What was recorded since the last time. */
  take(): Buffer {
    const frames = this.frames.slice(this.#taken);
    this.#taken = this.frames.length;
    return Buffer.concat(frames);
  }
}

/** Requests for a list, and the sockets that are open. */
function trafficOf(page: Page) {
  const traffic = { lists: 0, open: 0, sockets: [] as string[] };
  page.on("request", (request) => {
    if (/\/api\/v2\/(trades|candle)\?/.test(request.url())) traffic.lists += 1;
  });
  page.on("websocket", (socket) => {
    traffic.sockets.push(new URL(socket.url()).pathname);
    traffic.open += 1;
    socket.on("close", () => {
      traffic.open -= 1;
    });
  });
  return traffic;
}

describe.skipIf(chromium === undefined)("trades and candles in the explorer", () => {
  const world = new ExplorerWorld();
  const recording = new TradeRecording();
  let page: Page;
  let problems: string[];
  let traffic: ReturnType<typeof trafficOf>;

  const load = () => world.replay(recording.take());

  beforeAll(async () => {
    recording.block(0, firstNs - gapNs, (block) => {
      block.market("m", market).market("quiet", market);
      block.order({ id: "o", marketId: "m", price: "9999" });
    });
    for (let i = 0; i < blocks; i++) recording.trades(2);
    await load();
    await world.serve();
    ({ page, problems } = await world.open(""));
    traffic = trafficOf(page);
    await show("#/market/m");
  });

  afterAll(async () => {
    await world.stop();
    expect(problems).toEqual([]);
  });

  const textOf = (selector: string) => async () => (await page.textContent(selector)) ?? "";
  const show = (fragment: string) => page.evaluate(`location.hash = ${JSON.stringify(fragment)}`);
  const tradeIds = () =>
    page.evaluate<string[]>(
      `[...document.querySelectorAll("#trades [data-trade]")].map(({ dataset }) => dataset.trade)`,
    );
  const candleRows = () =>
    page.evaluate<string[][]>(`[...document.querySelectorAll("#candles tbody tr")].map((row) =>
      [...row.cells].map((cell) => cell.textContent.trim()))`);
  /** Numbers of trades, newest first. */
  const ids = (newest: number, count = pageRows) => Array.from({ length: count }, (_, index) => `t${newest - index}`);

  test("candles of each interval are those of the service, drawn and as numbers", async () => {
    await expect.poll(() => page.locator("#candle-chart canvas").count(), patience).toBe(1);
    const names = ["1 minute", "5 minutes", "15 minutes", "1 hour", "6 hours", "1 day"];
    const values = `[...document.querySelectorAll('[name="interval"]')].map(({ value }) => value)`;
    expect(await page.evaluate(values)).toEqual(names);
    for (const name of names) {
      await page.locator(`[name="interval"][value="${name}"]`).check({ force: true });
      const path = `/api/v2/candle?candleId=trades_candle_${name.replace(" ", "_")}_m`;
      const { candles } = await world.getJson<{ candles: { edges: { node: Candle }[] } }>(path);
      const expected = candles.edges.map(({ node: { open, high, low, close, volume } }) => [
        ...[open, high, low, close].map((price) => scaled(price, 2)),
        scaled(volume, 3),
      ]);
      await expect.poll(async () => (await candleRows()).map(([, ...numbers]) => numbers), patience).toEqual(expected);
    }
    // The second day of UTC began after 12 blocks.
    expect((await candleRows()).map(([start]) => start)).toEqual(["2024-01-30 00:00", "2024-01-29 00:00"]);
    // What is pointed at is told: the first of two.
    const chart = await page.locator("#candle-chart .u-over").boundingBox();
    if (chart === null) throw new Error("there is no chart");
    await page.mouse.move(chart.x + chart.width / 4, chart.y + 20);
    await expect.poll(textOf("#newest-candle"), patience).toMatch(/^2024-01-29 00:00 UTC: open /);
    await page.mouse.move(0, 0);
    await expect.poll(textOf("#newest-candle"), patience).toMatch(/^2024-01-30 00:00 UTC: open /);
    // A link shows what its sender saw.
    expect(page.url()).toMatch(/#\/market\/m\?interval=1\+day$/);
    await show("#/market/m");
    await expect.poll(async () => (await candleRows()).length, patience).toBeGreaterThan(2);
    await show("#/market/m?interval=1+day");
    await expect.poll(async () => (await candleRows()).length, patience).toBe(2);
    const drawn = `(() => {
      const canvas = document.querySelector("#candle-chart canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.filter((value, at) => at % 4 === 3 && value === 255 && data[at - 3] < 120).length;
    })()`;
    await page.locator('[name="interval"][value="1 minute"]').check({ force: true });
    // The network stands still, so they have no colours: opaque and dark is what candles fill, and little else.
    await expect.poll(() => page.evaluate(drawn), patience).toBeGreaterThan(5_000);
  });

  test("what a block adds is there at once, without another list, over sockets", async () => {
    await expect.poll(tradeIds, patience).toEqual(ids(2 * blocks));
    await expect
      .poll(() => new Set(traffic.sockets), patience)
      .toEqual(new Set(["/api/v2/stream/trades", "/api/v2/stream/candle/data"]));
    await expect.poll(async () => (await candleRows()).length, patience).toBe(blocks);
    const { lists } = traffic;
    recording.trades(3);
    await load();
    await expect.poll(tradeIds, patience).toEqual(ids(2 * blocks + 3));
    await expect.poll(async () => (await candleRows()).length, patience).toBe(blocks + 1);
    const { candles } = await world.getJson<{ candles: { edges: { node: Candle }[] } }>(
      "/api/v2/candle?candleId=trades_candle_1_minute_m&pagination.first=1",
    );
    expect(await textOf("#newest-candle")()).toContain(`close ${scaled(candles.edges[0]?.node.close, 2)}`);
    expect(traffic.lists).toBe(lists);
  });

  test("older trades are pages, and the newest are live again", async () => {
    const newest = 2 * blocks + 3;
    const button = (name: string) => page.getByRole("button", { name, exact: true });
    await button("Older").click();
    await expect.poll(tradeIds, patience).toEqual(ids(newest - pageRows));
    // The rows stay until those of the other page are there.
    let release = () => {};
    const held = new Promise<void>((released) => {
      release = released;
    });
    await page.route(/\/api\/v2\/trades\?/, (route) => held.then(() => route.continue()));
    await button("Older").click();
    await expect.poll(() => button("Older").isDisabled(), patience).toBe(true);
    expect(await tradeIds()).toEqual(ids(newest - pageRows));
    release();
    await expect.poll(tradeIds, patience).toEqual(ids(newest - 2 * pageRows));
    await page.unroute(/\/api\/v2\/trades\?/);
    expect(await page.locator("#trades .trade-day").allTextContents()).toEqual(["2024-01-29"]);
    await button("Older").click();
    await expect.poll(tradeIds, patience).toEqual(ids(newest - 3 * pageRows, newest - 3 * pageRows));
    expect(await button("Older").isDisabled()).toBe(true);
    await button("Newer").click();
    await expect.poll(tradeIds, patience).toEqual(ids(newest - 2 * pageRows));
    // A link shows what its sender saw; other candles leave it, another moment does not.
    const link = new URL(page.url()).hash;
    expect(link).toMatch(/[?&]pagination\.before=\S+$/);
    await show("#/");
    await show(link);
    await expect.poll(tradeIds, patience).toEqual(ids(newest - 2 * pageRows));
    await page.locator('[name="interval"][value="1 hour"]').check({ force: true });
    expect(new URL(page.url()).hash).toMatch(/interval=1\+hour&pagination\.before=/);
    expect(await tradeIds()).toEqual(ids(newest - 2 * pageRows));
    await button("Newest").click();
    await expect.poll(tradeIds, patience).toEqual(ids(newest));
    expect(page.url()).not.toContain("pagination");
    await page.locator('[name="interval"][value="1 minute"]').check({ force: true });
  });

  test("at a moment of the past, nothing later is shown", async () => {
    // Ten blocks; the period of the tenth is not over.
    const at = new Date(Number((firstNs + 9n * gapNs) / 1_000_000n)).toISOString();
    await show(`#/market/m?at=${at.slice(0, 19)}Z`);
    await expect.poll(tradeIds, patience).toEqual(ids(20));
    await expect.poll(async () => (await candleRows()).length, patience).toBe(9);
    await expect.poll(() => traffic.open, patience).toBe(0);
    expect(await textOf("#newest-candle")()).toMatch(/^The last that was over, of 2024-01-29 23:20 UTC: /);
    await page.evaluate('location.hash = "#/market/m?at=2030-01-01"');
    await expect.poll(textOf("#market-state"), patience).toMatch(/ in the future$/);
    await expect.poll(textOf("#newest-candle"), patience).toMatch(/^2024-01-30 \d\d:\d\d UTC: open /);
    await show(`#/market/m?at=2024-01-29T22:00:00Z`);
    await expect.poll(textOf("#no-trades"), patience).toContain("before this moment");
    await expect.poll(textOf("#no-candles"), patience).toContain("No period with trades was over");
    await show("#/market/m");
    await expect.poll(tradeIds, patience).toEqual(ids(2 * blocks + 3));
  });

  test("a market that has not traded says so, until it does", async () => {
    await show("#/market/quiet");
    await expect.poll(textOf("#no-trades"), patience).toContain("No trade of this market is kept");
    await expect.poll(textOf("#no-candles"), patience).toContain("no trade of this market is kept");
    recording.trades(1, "quiet");
    await load();
    await expect.poll(async () => (await tradeIds()).length, patience).toBe(1);
    await expect.poll(async () => (await candleRows()).length, patience).toBe(1);
    await show("#/market/m");
  });

  test("trades that were made while the page was cut off are there when it is back", async () => {
    await expect.poll(async () => (await tradeIds()).length, patience).toBe(pageRows);
    const newest = Number((await tradeIds())[0]?.slice(1));
    await world.service.kill();
    await expect.poll(textOf(".card:has(#trades) .stale-note"), patience).toMatch(/^Not live: connection lost/);
    // One of the other market has a number, too.
    recording.trades(2);
    await load();
    await world.service.start();
    await expect
      .poll(async () => (await tradeIds()).slice(0, 3), patience)
      .toEqual([`t${newest + 3}`, `t${newest + 2}`, `t${newest}`]);
    recording.trades(1);
    await load();
    await expect.poll(async () => (await tradeIds())[0], patience).toBe(`t${newest + 4}`);
  });

  test("rows are said not to be live while the list behind them cannot be read, and are right soon after", async () => {
    await expect.poll(async () => (await tradeIds()).length, patience).toBe(pageRows);
    const newest = Number((await tradeIds())[0]?.slice(1));
    const message = "the database does not answer";
    let refused = 0;
    await world.service.kill();
    await expect.poll(textOf(".card:has(#trades) .stale-note"), patience).toMatch(/^Not live: connection lost/);
    // The list that follows the reconnect is refused once.
    await page.route(/\/api\/v2\/trades\?/, async (route) => {
      if (refused > 0 || !opened) return route.continue();
      refused += 1;
      await route.fulfill({ status: 503, json: { code: 14, message, details: [] } });
    });
    let opened = false;
    page.on("websocket", (socket) => {
      if (socket.url().includes("/stream/trades")) socket.once("framereceived", () => (opened = true));
    });
    await world.service.start();
    await expect.poll(textOf(".card:has(#trades) .stale-note"), patience).toBe(`Not live: ${message}. Trying again.`);
    recording.trades(1);
    await load();
    await expect.poll(async () => (await tradeIds())[0], { timeout: 10_000, interval: 50 }).toBe(`t${newest + 1}`);
    await expect.poll(() => page.locator(".card:has(#trades) .stale-note", { hasText: message }).count()).toBe(0);
    expect(refused).toBe(1);
    await page.unroute(/\/api\/v2\/trades\?/);
  });

  test("where no socket can be opened, the page says so and reads on", async () => {
    const { page: other } = await world.open("");
    await other.routeWebSocket(/\/stream\//, (socket) => socket.close());
    await other.evaluate("location.hash = '#/market/m'");
    const first = other.locator("#trades [data-trade]").first();
    const shown = () => first.getAttribute("data-trade", { timeout: 1_000 }).catch(() => "none");
    await expect.poll(shown, patience).toMatch(/^t\d+$/);
    const before = Number((await shown())?.slice(1));
    recording.trades(1);
    await load();
    await expect.poll(shown, patience).toBe(`t${before + 1}`);
    expect(await other.textContent(".card:has(#candle-chart) .stale-note")).toMatch(/^Not live: connection lost/);
    await other.context().close();
  });

  test("the past is in the decimals that the market had then", async () => {
    recording.redefine();
    await load();
    const close = () => page.locator("#candles tbody tr").first().locator("td").nth(3).textContent();
    const places = (text: string | null) => text?.split(".")[1]?.length;
    await expect.poll(async () => places(await close()), patience).toBe(4);
    await show("#/market/m?at=2024-01-29T23:00:00Z");
    await expect.poll(async () => places(await close()), patience).toBe(2);
    await expect.poll(async () => places(await page.locator("#trades .price").first().textContent()), patience).toBe(2);
    await show("#/market/m");
  });

  test("a page that is hidden closes its sockets until it is shown", async () => {
    const setHidden = (isHidden: boolean) =>
      page.evaluate(`Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"))`);
    await expect.poll(() => traffic.open, patience).toBe(2);
    await setHidden(true);
    await expect.poll(() => traffic.open, patience).toBe(0);
    await setHidden(false);
    await expect.poll(() => traffic.open, patience).toBe(2);
  });
});
