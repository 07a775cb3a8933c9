import { readFileSync } from "node:fs";
import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { instant } from "../../src/domain/instant.js";
import { BlockWriter } from "../../src/simulator/block-writer.js";
import { scaled } from "../../web/format/decimal.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";
import { ServiceProcess } from "./service-process.js";

interface Level {
  readonly price: string;
  readonly volume: string;
}

interface DepthResponse {
  readonly buy: readonly Level[];
  readonly sell: readonly Level[];
}

interface LedgerResponse {
  readonly ledgerEntries: { readonly edges: readonly { readonly node: LedgerNode }[] };
}

interface AssetsResponse {
  readonly assets: {
    readonly edges: readonly {
      readonly node: { readonly id: string; readonly details: { readonly symbol: string; readonly decimals: string } };
    }[];
  };
}

interface LedgerNode {
  readonly quantity: string;
  readonly assetId: string;
  readonly fromAccountPartyId: string;
  readonly toAccountMarketId: string;
}

const markets = 12;
const views = ["#/", "#/market/ID", "#/ledger", "#/signers"] as const;

/** Axe in the page itself, which has no frames. To tell what is right as well would take most of its time. */
function axeOn(page: Page): AxeBuilder {
  return new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ["violations"] });
}

describe.skipIf(chromium === undefined)("the explorer, in a real browser", () => {
  const world = new ExplorerWorld({ seed: 11, markets, parties: 30, ordersPerBlock: 30, entriesPerBlock: 20 });
  let page: Page;
  let problems: string[];
  /** A market in continuous trading. */
  let marketId: string;

  beforeAll(async () => {
    await world.start(80);
    const { marketsData } = await world.getJson<{ marketsData: { market: string; marketTradingMode: string }[] }>(
      "/markets/data",
    );
    marketId = marketsData.find((data) => data.marketTradingMode === "TRADING_MODE_CONTINUOUS")?.market ?? "";
    ({ page, problems } = await world.open(""));
  });

  afterAll(() => world.stop());

  const textOf = (selector: string) => async () => (await page.textContent(selector)) ?? "";
  const textsOf = (selector: string) => () => page.locator(selector).allTextContents();

  async function show(fragment: string): Promise<void> {
    await page.evaluate(`location.hash = ${JSON.stringify(fragment)}`);
    await expect.poll(textOf("#stream-state"), patience).toBe("live");
  }

  /** Levels of the ladder, best first, as the network wrote them. */
  function ladder(side: "asks" | "bids"): Promise<Level[]> {
    const script = `[...document.querySelectorAll("#${side} tr[data-price]")].map((row) => ({
      price: row.dataset.price, volume: row.dataset.volume }))`;
    return page.evaluate<Level[]>(script).then((levels) => (side === "asks" ? levels.reverse() : levels));
  }

  test("lists all markets with their prices", async () => {
    await expect.poll(() => page.locator("#markets tbody tr").count(), patience).toBe(markets);
    const row = page.locator(`#markets tr[data-market="${marketId}"]`);
    await expect.poll(() => row.locator(".mode").textContent(), patience).toBe("continuous");
    await expect.poll(() => row.locator(".market-link").textContent(), patience).toContain("/");
    expect(await row.locator(".price").textContent()).toMatch(/^[0-9\u202f.]+$/);
    expect(await page.title()).toBe("Markets · marketd");
  });

  test("leads to a market by keyboard alone, and tells readers of the screen", async () => {
    await page.focus("body");
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate("document.activeElement.matches('.market-link')")) break;
    }
    await page.keyboard.press("Enter");
    await expect.poll(() => page.locator("#ladder").count(), patience).toBe(1);
    // The focus follows in a turn of its own.
    await expect.poll(() => page.evaluate("document.activeElement.id"), patience).toBe("content");
    expect(page.url()).toContain("#/market/");
    await page.goBack();
    await expect.poll(() => page.locator("#markets").count(), patience).toBe(1);
  });

  test("shows the book of a market as the depth response has it, while blocks arrive", async () => {
    await show(`#/market/${marketId}`);
    await expect.poll(() => page.locator("#ladder").count(), patience).toBe(1);
    const before = await textOf("#sequence-number")();
    await world.load(40);
    await expect.poll(textOf("#sequence-number"), patience).not.toBe(before);
    const same = async () => {
      const { buy, sell } = await world.getJson<DepthResponse>(`/api/v2/market/depth/${marketId}/latest`);
      const [bids, asks] = [await ladder("bids"), await ladder("asks")];
      const levels = (side: readonly Level[]) => side.map(({ price, volume }) => ({ price, volume }));
      return {
        bids: bids.length > 5 && JSON.stringify(bids) === JSON.stringify(levels(buy).slice(0, bids.length)),
        asks: asks.length > 5 && JSON.stringify(asks) === JSON.stringify(levels(sell).slice(0, asks.length)),
      };
    };
    await expect.poll(same, patience).toEqual({ bids: true, asks: true });
    // More levels than fit, on demand.
    const fitting = await page.locator("#ladder tr[data-price]").count();
    await page.click("#more-levels");
    await expect.poll(() => page.locator("#ladder tr[data-price]").count(), patience).toBeGreaterThan(fitting);
    await expect.poll(same, patience).toEqual({ bids: true, asks: true });
    await page.click("#more-levels");
    await expect.poll(() => page.locator("#ladder tr[data-price]").count(), patience).toBe(fitting);
  });

  test("copies a market's identifier, all of it", async () => {
    await show(`#/market/${marketId}`);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: "Copy: market identifier" }).click();
    await page.getByRole("button", { name: "Copied: market identifier" }).waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(marketId);
  });

  test("shows a market's charts, trades, data, bounds and instrument", async () => {
    await show(`#/market/${marketId}`);
    await expect.poll(() => page.locator("#mid-chart canvas, #depth-chart canvas").count(), patience).toBe(2);
    await expect.poll(textOf("#market-data"), patience).toContain("Mark price");
    const response = await fetch(`${world.service.url}/api/v2/market/data/${marketId}/latest`);
    const { marketData } = (await response.json()) as { marketData: { timestamp: string } };
    const isNewest = response.headers.get("x-block-timestamp") === marketData.timestamp;
    const block = `${isNewest ? "" : "before "}${response.headers.get("x-block-height")}`;
    await expect.poll(textOf("#market-data dd"), patience).toBe(block);
    await expect.poll(() => page.locator("#trades tbody tr").count(), patience).toBeGreaterThan(0);
    expect(await textsOf("#price-bounds tbody th")()).toEqual(["60 min", "4 h"]);
    expect(await textOf("body")()).toContain("Settlement asset");
    const choice = page.locator("#market-choice");
    expect(await choice.inputValue()).toBe(marketId);
    expect(await choice.locator("option").count()).toBe(markets);
  });

  test("shortens amounts that are too long, and shows all their digits on demand", async () => {
    const isLong = async () => {
      for (const price of await textsOf("#markets .price")()) if (price.includes("…")) return true;
      return false;
    };
    await show("#/");
    await expect.poll(isLong, patience).toBe(true);
    const short = page.locator("#markets .price .amount[title]").first();
    const exact = await short.getAttribute("title");
    await page.getByRole("button", { name: "All digits" }).click();
    expect(await textsOf("#markets .price")()).toContain(exact);
    expect(await isLong()).toBe(false);
    await page.getByRole("button", { name: "All digits" }).click();
  });

  test("keeps every amount on one line", async () => {
    for (const view of views) {
      await show(view.replace("ID", marketId));
      const broken = `[...document.querySelectorAll(".amount")].filter((each) => each.getClientRects().length > 1)
        .map((each) => each.textContent)`;
      expect(await page.evaluate(broken)).toEqual([]);
    }
  });

  test("shows the ledger page by page, and new entries at its head by themselves", async () => {
    await show("#/ledger");
    const rows = textsOf("#entries tbody tr");
    await expect.poll(async () => (await rows()).length, patience).toBe(25);
    const first = await rows();
    await page.getByRole("link", { name: "Next" }).click();
    await expect.poll(rows, patience).not.toEqual(first);
    await page.getByRole("link", { name: "Previous" }).click();
    await expect.poll(rows, patience).toEqual(first);
    await show("#/ledger");
    await world.load(2);
    await expect.poll(rows, patience).not.toEqual(first);
  });

  test("filters the ledger by every field, which the URL keeps", async () => {
    await show("#/ledger");
    const { ledgerEntries } = await world.getJson<LedgerResponse>(
      "/api/v2/ledgerentry/history?filter.transferTypes=TRANSFER_TYPE_MARGIN_LOW&pagination.first=1",
    );
    const node = ledgerEntries.edges[0]?.node;
    const form = page.locator("#ledger-form");
    const field = (name: string) => form.locator(`[name="${name}"]`);
    await field("filter.fromAccountFilter.partyIds").fill(node?.fromAccountPartyId ?? "");
    await field("filter.fromAccountFilter.assetId").fill(node?.assetId ?? "");
    await field("filter.fromAccountFilter.accountTypes").selectOption("ACCOUNT_TYPE_GENERAL");
    await field("filter.toAccountFilter.marketIds").selectOption(node?.toAccountMarketId ?? "");
    await field("filter.toAccountFilter.accountTypes").selectOption(["ACCOUNT_TYPE_MARGIN", "ACCOUNT_TYPE_BOND"]);
    await field("filter.closeOnAccountFilters").selectOption("true");
    await field("pagination.newestFirst").selectOption("false");
    await field("filter.transferTypes").selectOption(["TRANSFER_TYPE_MARGIN_LOW", "TRANSFER_TYPE_DEPOSIT"]);
    await field("dateRange.startTimestamp").fill("2024-01-01 00:00:00.000000001");
    await form.getByRole("button", { name: "Show" }).click();
    const query = new URLSearchParams(new URL(page.url()).hash.split("?")[1]);
    expect(query.get("dateRange.startTimestamp")).toBe("1704067200000000001");
    expect(query.getAll("filter.transferTypes").length).toBe(2);
    query.set("pagination.first", "25");
    const response = await world.getJson<LedgerResponse>(`/api/v2/ledgerentry/history?${query}`);
    expect(response.ledgerEntries.edges.length).toBeGreaterThan(0);
    await expect
      .poll(() => page.locator("#entries tbody tr").count(), patience)
      .toBe(response.ledgerEntries.edges.length);
    await page.reload();
    await expect
      .poll(() => field("filter.fromAccountFilter.partyIds").inputValue(), patience)
      .toBe(node?.fromAccountPartyId);
    expect(await field("dateRange.startTimestamp").inputValue()).toBe("2024-01-01 00:00:00.000000001");
    expect(await field("filter.closeOnAccountFilters").inputValue()).toBe("true");
    expect(await field("pagination.newestFirst").inputValue()).toBe("false");
    const chosen = (name: string) => field(name).locator("option:checked").allTextContents();
    expect(await chosen("filter.toAccountFilter.accountTypes")).toEqual(["margin", "bond"]);
    expect(await chosen("filter.transferTypes")).toEqual(["margin low", "deposit"]);
  });

  test("says what is wrong with a date, and with a filter in the service's own words", async () => {
    await show("#/ledger");
    await page.fill('[name="dateRange.startTimestamp"]', "yesterday");
    await page.getByRole("button", { name: "Show" }).click();
    await expect.poll(textOf("#ledger-form [role=alert]"), patience).toContain('"yesterday" is no time');
    await show("#/ledger?dateRange.startTimestamp=abc&filter.fromAccountFilter.partyIds=p");
    await expect.poll(textOf("#ledger-form [role=alert]"), patience).toContain('"abc" is no time');
    expect(await page.inputValue('[name="dateRange.startTimestamp"]')).toBe("abc");
    expect(await page.inputValue('[name="filter.fromAccountFilter.partyIds"]')).toBe("p");
    await show("#/ledger?dateRange.startTimestamp=2024-01-01T00:00:00Z");
    await expect.poll(() => page.locator("#entries tbody tr").count(), patience).toBeGreaterThan(0);
    expect(await page.inputValue('[name="dateRange.startTimestamp"]')).toBe("2024-01-01 00:00");
    await show("#/ledger?dateRange.startTimestamp=20000&dateRange.endTimestamp=10000");
    const response = await fetch(
      `${world.service.url}/api/v2/ledgerentry/history?dateRange.startTimestamp=20000&dateRange.endTimestamp=10000`,
    );
    const { message } = (await response.json()) as { message: string };
    await expect.poll(textOf("#problem"), patience).toBe(message);
  });

  test("scales amounts of an asset by its decimals, and finds it by its symbol", async () => {
    const { assets } = await world.getJson<AssetsResponse>("/api/v2/assets");
    const decimalsOf = new Map(assets.edges.map(({ node }) => [node.id, Number(node.details.decimals)]));
    const symbolOf = new Map(assets.edges.map(({ node }) => [node.id, node.details.symbol]));
    await show("#/ledger?pagination.newestFirst=false");
    const path = "/api/v2/ledgerentry/history?pagination.newestFirst=false&pagination.first=25";
    const nodes = (await world.getJson<LedgerResponse>(path)).ledgerEntries.edges.map(({ node }) => node);
    const exact = `[...document.querySelectorAll("#entries td.number .amount")].map((each) =>
      each.title || each.textContent)`;
    const amounts = nodes.map(({ quantity, assetId }) => scaled(quantity, decimalsOf.get(assetId)));
    await expect.poll(() => page.evaluate(exact), patience).toEqual(amounts);
    expect(new Set(nodes.map(({ assetId }) => decimalsOf.get(assetId))).size).toBeGreaterThan(1);
    expect(await textsOf("#entries td:last-child .identifier")()).toEqual(
      nodes.map(({ assetId }) => symbolOf.get(assetId)),
    );
    expect(await page.getByText("unscaled").count()).toBe(0);

    const field = page.locator('[name="filter.toAccountFilter.assetId"]');
    expect(await page.locator("#asset-list option").count()).toBe(decimalsOf.size);
    await field.fill("teth");
    await page.locator("#ledger-form").getByRole("button", { name: "Show" }).click();
    const id = [...symbolOf].find(([, symbol]) => symbol === "tETH")?.[0];
    await expect.poll(() => page.url(), patience).toContain(`filter.toAccountFilter.assetId=${id}`);
    await expect.poll(() => field.inputValue(), patience).toBe("tETH");
    await expect
      .poll(async () => new Set(await textsOf("#entries td:last-child .identifier")()), patience)
      .toEqual(new Set(["tETH"]));
    expect(await textOf(".card:has(#csv)")()).toContain(`1 followed by ${decimalsOf.get(id ?? "")} zeros is 1 tETH`);
  });

  test("downloads the CSV of a party and an asset, which is the export itself", async () => {
    const { ledgerEntries } = await world.getJson<LedgerResponse>(
      "/api/v2/ledgerentry/history?filter.fromAccountFilter.accountTypes=ACCOUNT_TYPE_GENERAL&pagination.first=1",
    );
    const { fromAccountPartyId: party = "", assetId: asset = "" } = ledgerEntries.edges[0]?.node ?? {};
    await show(`#/ledger?filter.fromAccountFilter.partyIds=${party}&filter.fromAccountFilter.assetId=${asset}`);
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("#csv")]);
    const saved = readFileSync((await download.path()) ?? "", "utf8");
    const response = await fetch(
      `${world.service.url}/api/v2/ledgerentry/export?partyId=${party}&assetId=${asset}&alt=media`,
    );
    expect(saved).toBe(await response.text());
    const rows = saved.split("\r\n").length - 2;
    expect(rows).toBeGreaterThan(0);
    expect((await textOf("#csv-state")()).replaceAll("\u202f", "")).toContain(`${rows} rows, complete`);
  });

  test("shows signer bundles and their filters", async () => {
    await show("#/signers");
    await expect.poll(() => page.locator("#bundles > li").count(), patience).toBeGreaterThan(0);
    const submitter = (await page.locator("#bundles > li dd code").nth(1).textContent()) ?? "";
    await page.fill('#signer-form [name="submitter"]', submitter);
    await page.click('#signer-form button[type="submit"]');
    await expect.poll(() => page.url(), patience).toContain(submitter);
    const submitters = () => page.locator("#bundles > li dd:has(code)").nth(1).textContent();
    await expect.poll(submitters, patience).toBe(submitter);
  });

  test("says that a view failed, until another one is shown", async () => {
    await page.route(/removed\/bundles/, (route) =>
      route.fulfill({ json: { bundles: { edges: [{ node: {}, cursor: "c" }], pageInfo: {} } } }),
    );
    await show("#/signers?nodeId=n");
    await expect
      .poll(textOf("#view-failed"), patience)
      .toMatch(/^This view cannot be shown: .*\. Choose another one\.$/);
    await page.unroute(/removed\/bundles/);
    await show("#/ledger");
    await expect.poll(() => page.locator("#entries tbody tr").count(), patience).toBe(25);
    await show("#/signers");
    await expect.poll(() => page.locator("#bundles > li").count(), patience).toBeGreaterThan(0);
    expect(await page.locator("#view-failed").count()).toBe(0);
  });

  test.each(["#/nowhere", "#market", "#/market/"])("%s: says that nothing is there", async (fragment) => {
    await show(fragment);
    await expect.poll(textOf("main .notice"), patience).toContain("There is nothing at this address.");
    await page.locator("main").getByRole("link", { name: "Markets" }).click();
    await expect.poll(() => page.locator("#markets").count(), patience).toBe(1);
  });

  test("shows operators height, age, sequence, streams and database", async () => {
    const digits = (selector: string) => async () => (await textOf(selector)()).replaceAll("\u202f", "");
    await expect.poll(digits("#block-height"), patience).toBe(String(world.network.height));
    await expect.poll(digits("#stream-sequence"), patience).toBe(String(world.network.streamSequence));
    expect(await textOf("#service-state")()).toBe("ready");
    expect(await textOf("#database-state")()).toBe("answers");
    expect(await textOf("#market-count")()).toBe(String(markets));
    // The recording is of the year 2024.
    expect(await textOf("#block-age")()).toMatch(/^[0-9]{3,} d$/);
  });

  test("says since when the network stands still, on every view of its markets", async () => {
    await show("#/");
    const { headers } = await fetch(`${world.service.url}/status`);
    const since = instant(headers.get("x-block-timestamp") ?? "").slice(0, 19);
    await expect.poll(textOf(".notice"), patience).toContain(`No block since ${since} UTC, `);
    expect(await textOf(".notice")()).toMatch(/UTC, \d+ d ago\.$/);
    await show(`#/market/${marketId}`);
    await expect.poll(() => page.locator(".book[data-stale]").count(), patience).toBe(1);
    // Once on the page, and not in each of its cards.
    expect(await page.getByText(/No block since/).allTextContents()).toEqual([expect.stringContaining(since)]);
    const upToDate = page.locator("main .card:not([data-stale]) h2");
    await expect.poll(() => upToDate.allTextContents(), patience).toEqual(["Instrument", "The calls behind this view"]);
    await show("#/ledger");
    await expect.poll(textOf(".card:has(#entries) .stale-note"), patience).toMatch(/^No block since /);
    await page.locator("#entries td .identifier").first().click();
    await expect.poll(textOf(".card:has(#balances) .stale-note"), patience).toMatch(/^No block since /);
    await page.route(/\/(status|api\/v2\/(?!stream))/, () => {});
    await expect
      .poll(textOf(".card:has(#balances) .stale-note"), patience)
      .toMatch(/^The service gives no response since \d\d:\d\d:\d\d UTC\.$/);
    await page.unrouteAll();
    await expect.poll(textOf("#service-state"), patience).toBe("ready");
  });

  /** The schemes differ in colours alone, so the second is held only to the rules about those. */
  const schemes = [
    { colorScheme: "light", withRules: (axe: AxeBuilder) => axe },
    { colorScheme: "dark", withRules: (axe: AxeBuilder) => axe.withTags("cat.color") },
  ] as const;

  test.each(schemes)("without anything that axe finds fault with, $colorScheme", async ({ colorScheme, withRules }) => {
    await page.emulateMedia({ colorScheme });
    for (const view of views) {
      await show(view.replace("ID", marketId));
      await expect.poll(() => page.locator("h1").count(), patience).toBe(1);
      await page.waitForLoadState("load");
      const { violations } = await withRules(axeOn(page)).analyze();
      expect(violations.map(({ id, nodes }) => `${view} ${id}: ${nodes[0]?.html}`)).toEqual([]);
    }
  });

  test("fits a telephone", async () => {
    const { page: small, problems: smallProblems } = await world.open("", { width: 390, height: 844 });
    for (const view of views) {
      await small.evaluate(`location.hash = ${JSON.stringify(view.replace("ID", marketId))}`);
      await expect.poll(() => small.textContent("#stream-state"), patience).toBe("live");
      await expect.poll(() => small.locator("#markets, #ladder, #entries, #bundles").count(), patience).toBe(1);
      if (view === "#/market/ID") await small.click("#more-levels");
      if (view === "#/ledger") {
        // The accounts of an entry are below each other.
        const labels = `[...document.querySelector("#entries tbody tr").cells].map((cell) =>
          getComputedStyle(cell, "::before").content).filter((content) => content !== "none")`;
        await expect.poll(() => small.evaluate(labels), patience).toEqual(['"From"', '"To"']);
      }
      const wide = `[...document.querySelectorAll("main *")].filter((each) => each.closest(".scroll, thead") === null
        && each.getBoundingClientRect().right > innerWidth + 1).map((each) => each.outerHTML.slice(0, 80))`;
      expect([view, await small.evaluate(wide)]).toEqual([view, []]);
      expect([view, await small.evaluate("document.documentElement.scrollWidth")]).toEqual([view, 390]);
    }
    for (const view of ["#/market/ID", "#/ledger", "#/signers"]) {
      await small.evaluate(`location.hash = ${JSON.stringify(view.replace("ID", marketId))}`);
      await expect.poll(() => small.locator("#ladder, #entries, #bundles").count(), patience).toBe(1);
      const { violations } = await axeOn(small).analyze();
      expect(violations.map(({ id, nodes }) => `${view} ${id}: ${nodes[0]?.html}`)).toEqual([]);
    }
    expect(smallProblems).toEqual([]);
    await small.context().close();
  });

  test("shows the service's own words about a market that it does not know", async () => {
    await show("#/market/no-such-market");
    const response = await fetch(`${world.service.url}/api/v2/market/no-such-market`);
    const { message } = (await response.json()) as { message: string };
    await expect.poll(textOf("#problem"), patience).toBe(message);
    await page.selectOption("#market-choice", marketId);
    await expect.poll(() => page.locator("#ladder").count(), patience).toBe(1);
  });

  test("says since when it is cut off, and is right again when the service is back", async () => {
    await show(`#/market/${marketId}`);
    await world.service.kill();
    await expect.poll(textOf("#stream-state"), patience).toMatch(/since \d\d:\d\d:\d\d UTC; trying again$/);
    await expect.poll(textOf(".book .stale-note"), patience).toMatch(/^Not updated since \d\d:\d\d:\d\d UTC: /);
    for (const figure of ["#service-state", "#database-state"]) {
      await expect.poll(textOf(figure), patience).toMatch(/^no response since/);
    }
    await world.load(5);
    const tokens: (string | null)[] = [];
    page.on("request", (request) => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname.endsWith("/replay")) tokens.push(searchParams.get("resumeToken"));
    });
    await world.service.start();
    await expect.poll(textOf("#stream-state"), patience).toBe("live");
    // It goes on, and does not begin anew.
    expect(tokens.at(-1)).toMatch(/^[A-Za-z0-9_-]{20,64}$/);
    const { buy } = await world.getJson<DepthResponse>(`/api/v2/market/depth/${marketId}/latest`);
    await expect.poll(async () => (await ladder("bids"))[0]?.price, patience).toBe(buy[0]?.price);
    expect(problems).toEqual([]);
  });

  test("says so when there is no market at all", async () => {
    const empty = newDatabaseUrl().url;
    const writer = new BlockWriter("without-markets");
    writer.begin(1, 1_700_000_000_000_000_000n, "00".repeat(32));
    await loadRecording(empty, writer.end());
    const other = new ServiceProcess(empty, await freePort());
    await other.start();
    const blank = await page.context().newPage();
    await blank.goto(`${other.url}/`);
    await expect.poll(() => blank.textContent("#no-markets"), patience).toContain("There is no market yet");
    await blank.close();
    await other.kill();
  });
});
