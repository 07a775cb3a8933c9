import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { AccountRecording, general } from "./account-recording.js";
import { chromium, ExplorerWorld, misplaced, patience, widths } from "./explorer-world.js";

const trader = "ad2327ad0123456789abcdef835f";
const margin = { owner: trader, assetId: "btc", marketId: "m", type: AccountType.MARGIN };
/** More than a page of the list holds. */
const deposits = 6_000;
const today = `filter.partyIds=${trader}&filter.assetId=btc&dateRange.startTimestamp=2024-01-30`;

const recording = new AccountRecording();
recording.at("2024-01-29 10:00", (block) => block.asset("btc", { details: { symbol: "BTC", decimals: 0n } }));
recording.at("2024-01-29 11:00", (block) => block.deposit(general(trader), 10_000n));
for (let minute = 10; minute < 10 + deposits / 1_000; minute++) {
  recording.at(`2024-01-30 10:${minute}`, (block) => {
    for (let i = 0; i < 1_000; i++) block.deposit(general(trader), 1n);
  });
}
recording.at("2024-01-30 11:00", (block) => block.move(general(trader), margin, 700n, TransferType.MARGIN_LOW));
recording.at("2024-01-30 12:00", (block) =>
  block.move(general(trader), general("bob"), 300n, TransferType.TRANSFER_FUNDS_SEND),
);

describe.skipIf(chromium === undefined)("a range of an account in the explorer", () => {
  const world = new ExplorerWorld();
  let page: Page;
  let problems: string[];
  let loaded = 0;
  let second = 10;

  /** Loads what was recorded since the last time. */
  const load = async () => {
    const frames = recording.frames.slice(loaded);
    loaded = recording.frames.length;
    await world.replay(Buffer.concat(frames));
  };
  /** A later block, in which the trader gains 10 and loses 4. */
  const loadBlock = async (blocks = 1) => {
    for (let i = 0; i < blocks; i++) {
      recording.at(`2024-01-30 12:00:${second++}`, (block) =>
        block.deposit(general(trader), 10n).move(general(trader), general("bob"), 4n, TransferType.TRANSFER_FUNDS_SEND),
      );
    }
    await load();
  };

  beforeAll(async () => {
    await load();
    await world.serve();
    ({ page, problems } = await world.open(""));
  });

  afterAll(async () => {
    await world.stop();
    expect(problems).toEqual([]);
  });

  const textOf = (selector: string) => async () => (await page.textContent(selector, { timeout: 1_000 })) ?? "";
  const show = async (fragment: string) => {
    await page.evaluate(`location.hash = "#/signers"`);
    await page.evaluate(`location.hash = ${JSON.stringify(fragment)}`);
  };
  const pressShow = () => page.click("#account-form button");
  const count = (selector: string) => () => page.locator(selector).count();
  const rowsOf = (table: string) => () =>
    page.evaluate<string[][]>(`[...document.querySelectorAll("${table} tbody tr")].map((row) =>
      [...row.cells].map((cell) => cell.textContent.trim()))`);
  const numbers = async (table: string) =>
    page.evaluate<number[]>(`[...(document.querySelector("${table} .total")?.cells ?? [])].slice(1)
      .map((cell) => Number(cell.textContent.replace(/[^0-9]/g, "")))`);

  /** What the range begins and ends with, holds now, and what came in and went out of it. */
  const figures = async () => {
    const [[begin, end, now], [entries, into, out]] = [await numbers("#balances"), await numbers("#moved")];
    return { begin, end, now, entries, into, out };
  };
  const whole = { begin: 10_000, end: 15_700, now: 15_700, entries: 6_002, into: 6_000, out: 300 };

  test("adds up all entries of several pages", async () => {
    await show(`#/account?${today}`);
    await expect.poll(figures, patience).toEqual(whole);
    expect((await rowsOf("#moved")()).map(([name]) => name)).toEqual([
      "deposit",
      "transfer funds send",
      "margin low",
      "together",
    ]);
  });

  test.each(["", "2030-01-01"])("before %j, ends at the newest block of its first response", async (before) => {
    let release = () => {};
    const held = new Promise<void>((released) => {
      release = released;
    });
    const url = /ledgerentry\/history|balance\/changes|asOf=/;
    await page.route(url, (route) => held.then(() => route.continue()));
    await show(`#/account?${today}${before && `&dateRange.endTimestamp=${before}`}`);
    await expect.poll(count("#adding-up"), patience).toBe(1);
    const { now = 0 } = await figures();
    const seconds = second;
    await loadBlock();
    release();
    const {
      end = 0,
      into = 0,
      out = 0,
      ...rest
    } = await (async () => {
      await expect.poll(async () => (await figures()).now, patience).toBe(whole.now + 6 * (second - 10));
      return figures();
    })();
    expect([rest.begin, end, now]).toEqual([10_000, whole.end + 6 * (seconds - 10), 0]);
    expect(end - 10_000).toBe(into - out);
    expect(await textOf("#read-until")()).toContain("Read until the newest block, of 2024-01-30 12:00");
    expect(await page.getAttribute("#balance-chart", "aria-label")).toMatch(
      new RegExp(`at the end ${String(end).replace(/(?=...$)/, "\u202f")}$`),
    );
    await page.unroute(url);

    await pressShow();
    await expect.poll(async () => (await figures()).end, patience).toBe(end + 6);
    await expect.poll(async () => (await figures()).into, patience).toBe(into + 10);
  });

  /** Answers the list of entries with endless pages of 5,000 deposits of 1. */
  const endless = async () => {
    let pages = 0;
    await page.route(/ledgerentry\/history.*first=100000/, async (route) => {
      pages += 1;
      const node = {
        ...{ timestamp: "1", quantity: "1", transferType: "TRANSFER_TYPE_DEPOSIT", assetId: "btc" },
        ...{ fromAccountType: "ACCOUNT_TYPE_EXTERNAL", fromAccountPartyId: "", fromAccountBalance: "0" },
        ...{ toAccountType: "ACCOUNT_TYPE_GENERAL", toAccountPartyId: trader, toAccountBalance: "0" },
      };
      const edges = Array.from({ length: 5_000 }, (_, i) => ({ node, cursor: `${pages}-${i}` }));
      const pageInfo = { hasNextPage: true, hasPreviousPage: false, startCursor: "", endCursor: String(pages) };
      await route.fulfill({ json: { ledgerEntries: { edges, pageInfo } } }).catch(() => {});
    });
    return () => pages;
  };
  const past = `${today}&dateRange.endTimestamp=2024-01-30T12:00:05Z`;

  test("names what its sums cover where there are too many entries, and what is left", async () => {
    await endless();
    await show(`#/account?${past}`);
    await expect.poll(textOf("#adding-up"), patience).toMatch(/000 so far…$/);
    const left = ["older entries, not added up", "–", "−94\u202f300 in less out"];
    await expect.poll(async () => (await rowsOf("#moved")()).at(-1), patience).toEqual(left);
    expect((await rowsOf("#moved")()).at(-2)).toEqual([
      ...["the newest 100\u202f000 entries", "100\u202f000", "100\u202f000 BTC", "0 BTC", "0 BTC"],
    ]);
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      await expect.poll(() => page.evaluate(misplaced), { message: `${width} px` }).toEqual([]);
    }
    await page.setViewportSize({ width: 1_440, height: 900 });
    await page.unrouteAll();
  });

  test("stops to add up when the reader leaves", async () => {
    const pages = await endless();
    await show(`#/account?${past}`);
    await expect.poll(pages, patience).toBeGreaterThan(0);
    await page.evaluate(`location.hash = "#/signers"`);
    await expect.poll(textOf("h1"), patience).toBe("Signer bundles");
    const read = pages();
    await page.waitForTimeout(1_000);
    expect(pages()).toBeLessThanOrEqual(read + 1);
    expect(pages()).toBeLessThan(20);
    await page.unrouteAll();
  });

  test.each([
    [`filter.partyIds=${trader}`, "an asset and From, or a day,"],
    [`filter.partyIds=${trader}&filter.assetId=btc&dateRange.endTimestamp=2024-01-30`, "From, or a day,"],
    [`filter.partyIds=${trader}&dateRange.startTimestamp=2024-01-30`, "an asset"],
  ])("%s: says what to give for sums", async (query, missing) => {
    await show(`#/account?${query}`);
    const text = `Give ${missing} to have the entries added up by transfer.`;
    await expect.poll(textOf("#no-sums"), patience).toBe(text);
  });

  test("says by how much each change moved its account, also after new blocks", async () => {
    await show(`#/account?filter.partyIds=${trader}&filter.assetId=btc`);
    await expect.poll(async () => (await rowsOf("#changes")()).length, patience).toBeGreaterThan(5);
    const newest = await rowsOf("#changes")();
    await loadBlock(26);
    let rows = newest;
    const isNew = async () => {
      rows = await rowsOf("#changes")();
      return rows[0]?.[0] !== newest[0]?.[0];
    };
    await expect.poll(isNew, patience).toBe(true);
    expect(new Set(rows.map(([, , moved]) => moved))).toEqual(new Set(["+6"]));
  });

  test.each([
    [`${trader}&filter.assetId=DOGE`, /^No asset is called DOGE\. Ids compare by bytes/],
    ["nobody&filter.assetId=btc", /^No account of this party has ever been in a ledger entry\. Ids compare by bytes/],
    [trader.toUpperCase(), /^No account of this party .* upper and lower case differ/],
    ["nobody&filter.assetId=DOGE", /^No asset is called DOGE\. No account of this party/],
    [`${trader}&filter.assetId=btc&filter.accountTypes=ACCOUNT_TYPE_BOND`, /^No such account of this party has ever/],
  ])("%s: says what is unknown", async (query, text) => {
    await show(`#/account?filter.partyIds=${query}`);
    await expect.poll(textOf("#unknown"), patience).toMatch(text);
    expect(await count("#balances, #changes, #entries")()).toBe(0);
  });

  test("hides what it showed after values that are wrong, and tells to give whole identifiers", async () => {
    await show(`#/account?${past}`);
    await expect.poll(count("#balances"), patience).toBe(1);
    await page.fill('#account-form [name="dateRange.startTimestamp"]', "2024-02-01");
    await pressShow();
    await expect.poll(textOf("#account-form [role=alert]"), patience).toBe("From is after Before");
    expect(await count("#balances, #changes, #entries, #moved")()).toBe(0);
    await page.fill('#account-form [name="dateRange.startTimestamp"]', "2024-01-30");
    await page.fill('#account-form [name="filter.partyIds"]', "ad2327ad…835f");
    await pressShow();
    const alert = '"ad2327ad…835f" is shortened: give the whole identifier';
    await expect.poll(textOf("#account-form [role=alert]"), patience).toBe(alert);
    await page.fill('#account-form [name="filter.partyIds"]', trader);
    await pressShow();
    await expect.poll(count("#balances"), patience).toBe(1);
    expect(await count("#account-form [role=alert]")()).toBe(0);
  });

  test("has a sentence where nothing happened", async () => {
    await show(`#/account?${today}&dateRange.endTimestamp=2024-01-30T10:00:00Z`);
    await expect.poll(textOf("#no-entries"), patience).toBe("No entry of this time moved it.");
    await expect.poll(textOf("#no-changes"), patience).toBe("No balance changed in this time.");
    expect(await count("#changes, #entries, #moved")()).toBe(0);
  });
});
