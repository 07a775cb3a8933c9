import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";

describe.skipIf(chromium === undefined)("the API reference, in a real browser", () => {
  const world = new ExplorerWorld({
    // All of its markets trade.
    ...{ seed: 12, profile: "realistic" },
    ...{ markets: 3, parties: 10, ordersPerBlock: 10, entriesPerBlock: 10 },
  });
  let page: Page;
  let problems: string[];

  beforeAll(async () => {
    await world.start(30);
    ({ page, problems } = await world.open("docs"));
    await page.waitForSelector(".opblock");
  });

  afterAll(() => world.stop());

  const block = (operation: string) => page.locator(`.opblock[id$="-${operation}"]`);
  const body = (operation: string) => block(operation).locator(".live-responses-table .microlight").first();

  /** Opens an operation and presses its button. */
  async function tryIt(operation: string): Promise<void> {
    await block(operation).locator(".opblock-summary-control").click();
    await block(operation).getByRole("button", { name: "Execute" }).click();
  }

  test("shows every operation", async () => {
    const { paths } = await world.getJson<{ paths: object }>("/openapi.json");
    const count = Object.keys(paths).length;
    expect(count).toBeGreaterThanOrEqual(TradingDataService.methods.length);
    expect(await page.locator(".opblock-get").count()).toBe(count);
    expect(await page.locator(".opblock-head").count()).toBe(count);
  });

  test("describes a group of operations in words, not letter by letter, on a telephone too", async () => {
    const { page: narrow } = await world.open("docs", { width: 390, height: 844 });
    await narrow.waitForSelector(".opblock");
    const heights = await narrow.evaluate<number[]>(
      `[...document.querySelectorAll(".opblock-tag small")].map((description) => description.offsetHeight)`,
    );
    expect(heights).toHaveLength(3);
    // At most three lines.
    expect(Math.max(...heights)).toBeLessThan(70);
    expect(await narrow.evaluate("document.documentElement.scrollWidth")).toBe(390);
    await narrow.context().close();
  });

  test("is linked from the explorer", async () => {
    const { page: explorer } = await world.open("");
    await explorer.getByRole("link", { name: "API" }).click();
    await expect.poll(() => explorer.url(), patience).toBe(`${world.service.url}/docs`);
    await explorer.close();
  });

  test("tries a unary call with a market that there is", async () => {
    const { marketsData } = await world.getJson<{ marketsData: { market: string }[] }>("/markets/data");
    await tryIt("GetMarket");
    await expect
      .poll(async () => JSON.parse((await body("GetMarket").textContent()) ?? ""), patience)
      .toEqual(await world.getJson(`/api/v2/market/${marketsData[0]?.market}`));
  });

  test("tries a stream: it grows while blocks arrive, and stops", async () => {
    const operation = "ObserveMarketsDepthUpdates";
    await tryIt(operation);
    const lines = async () => ((await body(operation).textContent()) ?? "").trim().split("\n");
    const stop = block(operation).getByRole("button", { name: "Stop" });
    await expect.poll(() => stop.count(), patience).toBe(1);
    // Lines without an update are heartbeats; of a long one the page shows the beginning.
    const updates = async () => (await lines()).filter((line) => line.startsWith('{"result":{"update":[{"marketId":"'));
    await expect.poll(async () => (await updates()).length, patience).toBe(1);
    await world.load(3);
    await expect.poll(async () => (await updates()).length, patience).toBeGreaterThan(1);
    await stop.click();
    await expect.poll(() => stop.count(), patience).toBe(0);
  });

  test("has no error on the console, and asks no other host", () => {
    expect(problems).toEqual([]);
  });
});
