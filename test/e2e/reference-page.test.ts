import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";

interface Line {
  readonly result: { readonly update: readonly { readonly marketId: string }[] };
}

describe.skipIf(chromium === undefined)("the API reference, in a real browser", () => {
  const world = new ExplorerWorld({ seed: 12, markets: 3, parties: 10, ordersPerBlock: 10, entriesPerBlock: 10 });
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
    expect(await page.locator(".opblock-get").count()).toBe(9);
    expect(await page.locator(".opblock-head").count()).toBe(9);
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
    await expect.poll(async () => (await lines())[0], patience).toContain('"previousSequenceNumber":"0"');
    await world.load(3);
    // Lines without an update are heartbeats.
    const changes = async () => {
      const later = (await lines()).slice(1).map((line) => JSON.parse(line) as Line);
      return later.filter(({ result }) => result.update.length > 0);
    };
    await expect.poll(async () => (await changes()).length, patience).toBeGreaterThan(0);
    await stop.click();
    await expect.poll(() => stop.count(), patience).toBe(0);
    const [change] = await changes();
    expect(change?.result.update).toHaveLength(1);
  });

  test("has no error on the console, and asks no other host", () => {
    expect(problems).toEqual([]);
  });
});
