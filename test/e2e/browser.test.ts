import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AxeBuilder } from "@axe-core/playwright";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BlockWriter } from "../../src/simulator/block-writer.js";
import { Network } from "../../src/simulator/network.js";
import { newDatabaseUrl } from "../support/database.js";
import { partnerProgram } from "../support/partners.js";
import { browserClients, type DoorReport, type ReportedBook, type ReportedLevel } from "./browser-clients.js";
import { launchChromium, type ScriptPage, serveScript } from "./browser-launch.js";
import { freePort, runMarketd, ServiceProcess } from "./service-process.js";

const chromium = partnerProgram("browser");
const network = new Network({ seed: 11, markets: 8, parties: 30, ordersPerBlock: 30, entriesPerBlock: 20 });
const blocksAtOnce = 40;
const patience = { timeout: 20_000, interval: 100 };

/** What a cell of the page has, of all that browsers know. */
interface Titled {
  readonly title: string;
}

interface DepthResponse {
  readonly buy: readonly ReportedLevel[];
  readonly sell: readonly ReportedLevel[];
  readonly sequenceNumber: string;
}

let directory: string;
let databaseUrl: string;
let service: ServiceProcess;
let browser: Browser;
let script: ScriptPage;

/** Makes more blocks and loads them, while the service runs. */
async function loadMore(): Promise<void> {
  const file = join(directory, `from-${network.height + 1}.evts`);
  const blocks = Array.from({ length: blocksAtOnce }, () => network.nextBlock());
  writeFileSync(file, Buffer.concat(blocks));
  await runMarketd("load", "--database-url", databaseUrl, file);
  // What a commit made is answered a poll interval later.
  if (service !== undefined) await expect.poll(servedSequence, patience).toBe(network.streamSequence);
}

/** Stream sequence number of the newest event that the service answers from. */
async function servedSequence(): Promise<bigint> {
  const metrics = await (await fetch(`${service?.url}/metrics`)).text();
  return BigInt(/^marketd_stream_sequence ([0-9]+)$/m.exec(metrics)?.[1] ?? "0");
}

async function getJson<T>(path: string): Promise<T> {
  const response = await fetch(`${service.url}${path}`);
  expect(response.status).toBe(200);
  return (await response.json()) as T;
}

async function marketIds(): Promise<string[]> {
  const { marketsData } = await getJson<{ marketsData: { market: string }[] }>("/markets/data");
  return marketsData.map((data) => data.market);
}

/** The books of all markets with data, as depth answers give them. */
async function answeredBooks(): Promise<Map<string, Pick<ReportedBook, "buy" | "sell">>> {
  const books = new Map<string, Pick<ReportedBook, "buy" | "sell">>();
  for (const id of await marketIds()) {
    const { buy, sell } = await getJson<DepthResponse>(`/api/v2/market/depth/${id}/latest`);
    books.set(id, { buy, sell });
  }
  return books;
}

describe.skipIf(chromium === undefined)("a real browser", () => {
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "marketd-browser-"));
    databaseUrl = newDatabaseUrl().url;
    await loadMore();
    service = new ServiceProcess(databaseUrl, await freePort());
    [browser, script] = await Promise.all([
      launchChromium(chromium ?? ""),
      serveScript("test/e2e/browser-reader.ts"),
      service.start(),
    ]);
  });

  afterAll(async () => {
    await browser?.close();
    script?.close();
    await service?.kill();
    rmSync(directory, { recursive: true, force: true });
  });

  test("makes the same books from every client, and they are those of the depth answers", async () => {
    const page = await browser.newPage();
    await page.goto(script.url);
    await page.evaluate(`openClients(${JSON.stringify(service.url)})`);
    const report = (client: string): Promise<DoorReport> => page.evaluate(`reportOf(${JSON.stringify(client)})`);
    for (const client of browserClients) {
      const state = async () => {
        const { problem, books } = await report(client);
        return { client, problem, hasBooks: books.length > 3 };
      };
      await expect.poll(state, patience).toEqual({ client, problem: "", hasBooks: true });
    }
    await loadMore();
    const expected = await answeredBooks();
    expect([...expected.values()].filter(({ buy, sell }) => buy.length > 5 && sell.length > 5).length).toBeGreaterThan(
      2,
    );
    for (const client of browserClients) {
      const levels = async (): Promise<unknown> => {
        const { books } = await report(client);
        const byMarket = new Map(books.map(({ marketId, buy, sell }) => [marketId, { buy, sell }]));
        return [...expected.keys()].map((id) => byMarket.get(id) ?? { buy: [], sell: [] });
      };
      await expect.poll(levels, { ...patience, message: client }).toEqual([...expected.values()]);
      const { problem, messages } = await report(client);
      expect({ client, problem }).toEqual({ client, problem: "" });
      expect(messages).toBeGreaterThan(1);
    }
    await page.close();
  });

  describe("shows the explorer", () => {
    let page: Page;
    const problems: string[] = [];

    beforeAll(async () => {
      page = await (await browser.newContext()).newPage();
      page.on("pageerror", (error) => problems.push(error.message));
      page.on("console", (message) => {
        // Error answers, which tests below cause, are told on the console too.
        const isAnswer = message.text().startsWith("Failed to load resource");
        if (message.type() === "error" && !isAnswer) problems.push(message.text());
      });
      await page.goto(`${service.url}/`);
    });

    afterAll(() => page.close());

    const textOf = (selector: string) => async () => (await page.textContent(selector)) ?? "";

    test("with a live book, which is the book of the depth answer", async () => {
      await expect.poll(textOf("#stream-state"), patience).toBe("live");
      const ids = await marketIds();
      await expect.poll(() => page.locator("#market-choice option").count(), patience).toBe(ids.length);
      const id = await page.inputValue("#market-choice");
      const { buy, sell } = await getJson<DepthResponse>(`/api/v2/market/depth/${id}/latest`);
      const shown = (side: string) =>
        page.locator(`#${side} .price`).evaluateAll((cells: Titled[]) => cells.map((cell) => cell.title));
      await expect.poll(() => shown("buy"), patience).toEqual(buy.slice(0, 15).map((level) => level.price));
      await expect.poll(() => shown("sell"), patience).toEqual(sell.slice(0, 15).map((level) => level.price));
    });

    test("that changes while blocks arrive", async () => {
      const before = await textOf("#depth-summary")();
      await loadMore();
      await expect.poll(textOf("#depth-summary"), patience).not.toBe(before);
    });

    test("with market data, the last trade, and calls to paste that name the market", async () => {
      const id = await page.inputValue("#market-choice");
      await expect.poll(textOf("#data"), patience).toContain("Mark price");
      await expect.poll(textOf("#trade"), patience).toContain("Aggressor");
      expect(await textOf("#calls")()).toContain(`${service.url}/api/v2/market/depth/${id}/latest`);
      expect(await textOf("#calls")()).toContain("grpcurl -plaintext");
    });

    test("with the ledger, page by page, and the CSV of a party and an asset", async () => {
      const first = await page.locator("#entries tbody tr").allTextContents();
      expect(first.length).toBe(25);
      await page.click("#older");
      await expect.poll(() => page.locator("#entries tbody tr").allTextContents(), patience).not.toEqual(first);
      await page.click("#newer");
      await expect.poll(() => page.locator("#entries tbody tr").allTextContents(), patience).toEqual(first);
      await page.locator("#entries tbody td:nth-child(3) .link").first().click();
      await page.locator("#entries tbody td:nth-child(5) .link").first().click();
      await expect.poll(() => page.isVisible("#csv"), patience).toBe(true);
      const csv = await fetch((await page.getAttribute("#csv", "href")) ?? "");
      expect(csv.headers.get("content-type")).toContain("text/csv");
      expect((await csv.text()).split("\r\n").length).toBeGreaterThan(2);
    });

    test.each(["light", "dark"] as const)("without anything that axe finds fault with, %s", async (colorScheme) => {
      await page.emulateMedia({ colorScheme });
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
    });

    test("and the service's own words about a market that it does not know", async () => {
      const known = await page.inputValue("#market-choice");
      await page.fill("#market-id", "no-such-market");
      await page.click("#market-form button");
      await expect.poll(() => page.isVisible("#problem"), patience).toBe(true);
      const answer = await fetch(`${service.url}/api/v2/market/no-such-market`);
      expect(await textOf("#problem")()).toBe(((await answer.json()) as { message: string }).message);
      await page.fill("#market-id", known);
      await page.click("#market-form button");
      await expect.poll(textOf("#stream-state"), patience).toBe("live");
    });

    test("and connects again when the service was away", async () => {
      await service.kill();
      await expect.poll(textOf("#stream-state"), patience).toContain("trying again");
      await service.start();
      await expect.poll(textOf("#stream-state"), patience).toBe("live");
      expect(problems).toEqual([]);
    });

    test("and says so when there is no market at all", async () => {
      const empty = newDatabaseUrl().url;
      const writer = new BlockWriter("without-markets");
      writer.begin(1, 1_700_000_000_000_000_000n, "00".repeat(32));
      const file = join(directory, "empty.evts");
      writeFileSync(file, writer.end());
      await runMarketd("load", "--database-url", empty, file);
      const other = new ServiceProcess(empty, await freePort());
      await other.start();
      const blank = await browser.newPage();
      await blank.goto(`${other.url}/`);
      await expect.poll(() => blank.isVisible("#no-markets"), patience).toBe(true);
      expect(await blank.isVisible("#problem")).toBe(false);
      await blank.close();
      await other.kill();
    });
  });
});
