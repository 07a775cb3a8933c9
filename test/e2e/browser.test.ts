import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Network } from "../../src/simulator/network.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { partnerProgram } from "../support/partners.js";
import { browserClients, type ClientReport, type ReportedBook, type ReportedLevel } from "./browser-clients.js";
import { launchChromium, type ScriptPage, serveScript } from "./browser-launch.js";
import { ServiceProcess } from "./service-process.js";

const chromium = partnerProgram("browser");
const network = new Network({ seed: 11, markets: 8, parties: 30, ordersPerBlock: 30, entriesPerBlock: 20 });
const blocksAtOnce = 40;
const patience = { timeout: 20_000, interval: 100 };

interface DepthResponse {
  readonly buy: readonly ReportedLevel[];
  readonly sell: readonly ReportedLevel[];
  readonly sequenceNumber: string;
}

let databaseUrl: string;
let service: ServiceProcess;
let browser: Browser;
let script: ScriptPage;

/** Makes more blocks and loads them, while the service runs. */
async function loadMore(): Promise<void> {
  const blocks = Array.from({ length: blocksAtOnce }, () => network.nextBlock());
  await loadRecording(databaseUrl, Buffer.concat(blocks));
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

/** The books of all markets with data, as depth responses give them. */
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
  });

  test("makes the same books from every client, and they are those of the depth responses", async () => {
    const page = await browser.newPage();
    await page.goto(script.url);
    await page.evaluate(`openClients(${JSON.stringify(service.url)})`);
    const report = (client: string): Promise<ClientReport> => page.evaluate(`reportOf(${JSON.stringify(client)})`);
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
});
