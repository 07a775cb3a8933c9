import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { nanoseconds } from "../../src/domain/instant.js";
import { type Account, AccountRecording, general } from "./account-recording.js";
import { axeFaults, chromium, ExplorerWorld, misplaced, patience, widths } from "./explorer-world.js";

const longName = `A coin with a name of ${"very ".repeat(30)}many words`;
const assets = [
  { id: "btc", symbol: "BTC", name: "Bitcoin", decimals: 8n },
  { id: "fine", symbol: "FINE", name: longName, decimals: 30n },
  { id: "same-1", symbol: "SAME", name: "One of two", decimals: 0n },
  { id: "same-2", symbol: "SAME", name: "The other", decimals: 0n },
];
const alice = `alice-${"0123456789abcdef".repeat(4)}`;

const margin: Account = { owner: alice, assetId: "btc", marketId: "m", type: AccountType.MARGIN };
const marginText = `margin in LONG${"X".repeat(35)}…`;
const btc = 100_000_000n;
const deposits = 30;

/** More than the page adds up. */
const manyChanges = 1_005;

/** Accounts of a few days of January 2024, whose 30th is a Tuesday. */
const recording = new AccountRecording();
for (let second = 0; second < manyChanges; second++) {
  const timeNs = BigInt(nanoseconds("2024-01-28") ?? 0) + BigInt(second) * 1_000_000_000n;
  recording.at(String(timeNs), (block) => block.deposit(general("carol"), 1n));
}
recording.at("2024-01-29 10:00", (block) => {
  for (const { id, ...details } of assets) block.asset(id, { details });
  block.market("m", { tradableInstrument: { instrument: { code: `LONG${"X".repeat(100)}` } } });
  block.deposit(general(alice, "old"), 123_456_789n).deposit(general(alice), 1_000n * btc);
  block.deposit(general(alice, "fine"), 123_456_789_012_345_678_901_234_567_890_123_456_789n);
});
for (let minute = 10; minute < 10 + deposits; minute++) {
  recording.at(`2024-01-29 11:${minute}`, (block) => block.deposit(general(alice), btc));
}
recording
  .at("2024-01-30 09:00", (block) => block.move(general(alice), margin, (5n * btc) / 2n, TransferType.MARGIN_LOW))
  .at("2024-01-30 15:30", (block) =>
    block.move(general(alice), general("bob"), 100n * btc, TransferType.TRANSFER_FUNDS_SEND),
  )
  .at("2024-01-31 08:00", (block) => block.deposit(general(alice), 50n * btc));

describe.skipIf(chromium === undefined)("accounts in the explorer", () => {
  const world = new ExplorerWorld();
  let page: Page;
  let problems: string[];

  beforeAll(async () => {
    await world.replay(recording.bytes());
    await world.serve();
    ({ page, problems } = await world.open(""));
  });

  afterAll(async () => {
    await world.stop();
    expect(problems).toEqual([]);
  });

  const textOf = (selector: string) => async () => (await page.textContent(selector)) ?? "";
  const show = (fragment: string) => page.evaluate(`location.hash = ${JSON.stringify(fragment)}`);
  const rowsOf = (table: string) => () =>
    page.evaluate<string[][]>(`[...document.querySelectorAll("${table} tbody tr")].map((row) =>
      [...row.cells].map((cell) => cell.textContent.trim()))`);

  test("amounts of an asset that the service does not know are unscaled, and say so", async () => {
    await show("#/ledger?filter.toAccountFilter.assetId=old");
    await expect.poll(textOf("#entries td.number"), patience).toBe("123\u202f456\u202f789 unscaled");
    expect(await page.locator("#entries td:nth-child(4) .balance").textContent()).toContain("unscaled");
  });

  test("a symbol that several assets have is no asset, but each of them can be chosen", async () => {
    await show("#/ledger");
    const field = page.locator('[name="filter.fromAccountFilter.assetId"]');
    const submit = page.locator("#ledger-form").getByRole("button", { name: "Show" });
    await expect.poll(() => page.locator("#asset-list option").count(), patience).toBe(assets.length);
    await field.fill("same");
    await submit.click();
    await expect.poll(textOf("#ledger-form [role=alert]"), patience).toContain('2 assets are called "same"');
    const labels = `[...document.querySelectorAll("#asset-list option")].map((option) => option.value)`;
    expect(await page.evaluate(labels)).toEqual(["BTC", "FINE", "SAME · same-1", "SAME · same-2"]);
    await field.fill("SAME · same-2");
    await submit.click();
    await expect.poll(() => page.url(), patience).toContain("filter.fromAccountFilter.assetId=same-2");
  });

  test("says what a party held of an asset on a day, and what moved it, from the ledger on", async () => {
    await show("#/ledger");
    const entry = page.locator("#entries tr", { hasText: "transfer funds send" });
    await entry.locator(`.identifier[title="${alice}"]`).click();
    await expect.poll(textOf("h1"), patience).toBe("Account");
    await page.fill("#day", "2024-01-30");
    await expect.poll(() => page.url(), patience).toContain("dateRange.startTimestamp=2024-01-30");
    await expect.poll(rowsOf("#balances"), patience).toEqual([
      ["general", "1\u202f030.00000000", "927.50000000", "977.50000000"],
      [marginText, "0.00000000", "2.50000000", "2.50000000"],
      ["together", "1\u202f030.00000000 BTC", "930.00000000 BTC", "980.00000000 BTC"],
    ]);
    expect(await page.locator("h2").allTextContents()).toContain("What it held: Tuesday, 2024-01-30 (UTC)");
    const changes = [
      ["2024-01-30 09:00:00.000", "general", "−2.50000000", "1\u202f027.50000000"],
      ["2024-01-30 09:00:00.000", marginText, "+2.50000000", "2.50000000"],
      ["2024-01-30 15:30:00.000", "general", "−100.00000000", "927.50000000"],
    ];
    await expect.poll(async () => (await rowsOf("#changes")()).toSorted(), patience).toEqual(changes);
    const entries = page.locator("#entries td:nth-child(2)");
    await expect.poll(() => entries.allTextContents(), patience).toEqual(["transfer funds send", "margin low"]);
    await expect.poll(rowsOf("#moved"), patience).toEqual([
      ["transfer funds send", "1", "0.00000000", "100.00000000", "0.00000000"],
      ["margin low", "1", "0.00000000", "0.00000000", "2.50000000"],
      ["together", "2", "0.00000000 BTC", "100.00000000 BTC", "2.50000000 BTC"],
    ]);
    // A browser tells of such a year while it is typed.
    await page.locator("#day").evaluate((day) => {
      Object.assign(day, { value: "242026-11-24" }).dispatchEvent(new Event("change", { bubbles: true }));
    });
    expect(page.url()).toContain("dateRange.startTimestamp=2024-01-30");
    await expect.poll(() => page.locator("#balance-chart canvas").count(), patience).toBe(1);
    expect(await page.locator("#balance-chart").getAttribute("aria-label")).toMatch(/at the end 930\.00000000$/);

    // The URL is all that another reader needs.
    const { page: other } = await world.open(new URL(page.url()).hash);
    const row = other.locator("#balances .total td").nth(1);
    const shown = () => row.textContent({ timeout: 1_000 }).catch(() => "none");
    await expect.poll(shown, patience).toBe("930.00000000 BTC");
    await other.getByRole("link", { name: "Wednesday, 2024-01-31" }).click();
    await expect.poll(shown, patience).toBe("980.00000000 BTC");
    await other.context().close();
  });

  test("names each change's asset where none is chosen, and says from when on nothing is known", async () => {
    await show(`#/account?filter.partyIds=${alice}`);
    const named = async () =>
      (await rowsOf("#changes")()).every(([, account = ""]) => /BTC|SAME|FINE|old/.test(account));
    await expect.poll(async () => (await rowsOf("#changes")()).length > 0 && (await named()), patience).toBe(true);
    expect(await page.locator("#read-until").count()).toBe(0);
    await show(
      `#/account?filter.partyIds=${alice}&dateRange.startTimestamp=2030-01-01&dateRange.endTimestamp=2030-01-02`,
    );
    await expect
      .poll(textOf("#read-until"), patience)
      .toMatch(/^Read until the newest block, of 2024-.*“Show” reads what came later/);
  });

  test("pages through all changes of one account, and leads to its entries in the ledger", async () => {
    await show(`#/account?filter.partyIds=${alice}&filter.assetId=btc&filter.accountTypes=ACCOUNT_TYPE_GENERAL`);
    await expect.poll(async () => (await rowsOf("#changes")()).length, patience).toBe(25);
    await page.getByRole("link", { name: "Next" }).click();
    // The first deposit, the others, and three changes later.
    await expect.poll(async () => (await rowsOf("#changes")()).length, patience).toBe(deposits + 4 - 25);
    const first = ["2024-01-29 10:00:00.000", "general", "+1\u202f000.00000000", "1\u202f000.00000000"];
    await expect.poll(async () => (await rowsOf("#changes")()).at(-1), patience).toEqual(first);
    await page.getByRole("link", { name: "All of these entries" }).click();
    await expect.poll(() => page.locator("#ledger-form").count(), patience).toBe(1);
    for (const side of ["from", "to"]) {
      expect(page.url()).toContain(`filter.${side}AccountFilter.accountTypes=ACCOUNT_TYPE_GENERAL`);
    }
  });

  test("adds up the newest changes where there are very many, from the balances before them", async () => {
    await show("#/account?filter.partyIds=carol&filter.assetId=btc");
    const newest = ["2024-01-28 00:16:44.000", "general", "+0.00000001", "0.00001005"];
    await expect.poll(async () => (await rowsOf("#changes")())[0], patience).toEqual(newest);
    await expect
      .poll(textOf(".card:has(#balance-chart)"), patience)
      .toContain("The newest 1\u202f000 changes are drawn");
    await page.getByRole("link", { name: "Last" }).click();
    // Of the last page, the first block of those that are added up has no change that is known, nor have those before.
    const moves = async () => (await rowsOf("#changes")()).map(([, , moved]) => moved);
    const known = 25 - (manyChanges - 1_000) - 1;
    const unknown = 25 - known;
    await expect
      .poll(moves, patience)
      .toEqual([...Array.from({ length: known }, () => "+0.00000001"), ...Array.from({ length: unknown }, () => "–")]);
  });

  test("shows all assets of a party where none is given, and takes a symbol, and times of any kind", async () => {
    await show(`#/account?filter.partyIds=${alice}`);
    await expect.poll(async () => (await rowsOf("#balances")()).length, patience).toBe(4);
    expect(await page.locator("#balances .total").count()).toBe(0);
    await page.fill('#account-form [name="filter.assetId"]', "btc");
    await page.fill('#account-form [name="dateRange.endTimestamp"]', "2024-01-29 11:15");
    await page.click("#account-form button");
    const together = ["together", "1\u202f005.00000000 BTC", "980.00000000 BTC"];
    await expect.poll(rowsOf("#balances"), patience).toContainEqual(together);
    await page.fill('#account-form [name="dateRange.endTimestamp"]', "tomorrow");
    await page.click("#account-form button");
    await expect.poll(textOf("#account-form [role=alert]"), patience).toContain('"tomorrow" is no time');
    await page.fill('#account-form [name="dateRange.endTimestamp"]', "1706527000");
    await page.click("#account-form button");
    await expect.poll(textOf("#account-form [role=alert]"), patience).toContain('"1706527000" is no time');
    await page.fill('#account-form [name="dateRange.endTimestamp"]', "2024-01-29 11:15");
    for (const text of ["1900-01-01", "9999-01-01"]) {
      await page.fill('#account-form [name="dateRange.startTimestamp"]', text);
      await page.click("#account-form button");
      const alert = `"${text}" is out of range: times are from 1970-01-01 to 2262-04-11 23:47:16.854775807`;
      await expect.poll(textOf("#account-form [role=alert]"), patience).toBe(alert);
      expect(await page.inputValue('#account-form [name="dateRange.startTimestamp"]')).toBe(text);
    }
    await page.fill('#account-form [name="dateRange.startTimestamp"]', "1970-01-01");
    await page.click("#account-form button");
    await expect
      .poll(rowsOf("#balances"), patience)
      .toContainEqual(["together", "0.00000000 BTC", ...together.slice(1)]);
    expect(await page.inputValue('#account-form [name="dateRange.startTimestamp"]')).toBe("1970-01-01 00:00");
    expect(await textOf("#balances th:nth-child(2)")()).toBe("Before 1970-01-01 00:00");
    await page.fill('#account-form [name="dateRange.startTimestamp"]', "2024-01-29 11:16");
    await page.click("#account-form button");
    await expect.poll(textOf("#account-form [role=alert]"), patience).toBe("From is after Before");
  });

  test("what the external account moved is not missing from the sums", async () => {
    await show("#/account?filter.partyIds=network&filter.assetId=btc&dateRange.startTimestamp=2024-01-29");
    const deposited = "1\u202f080.00000000";
    await expect.poll(rowsOf("#moved"), patience).toEqual([
      ["deposit", "32", "0.00000000", deposited, "0.00000000"],
      ["together", "32", "0.00000000 BTC", `${deposited} BTC`, "0.00000000 BTC"],
    ]);
  });

  test("a link names an asset by its symbol, before the names of assets are there", async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { page: other } = await world.open("#/signers");
    await other.route(/api\/v2\/assets/, (route) => held.then(() => route.continue()));
    const symbols = ["?filter.partyIds=bob&filter.assetId=BTC", "?filter.toAccountFilter.assetId=BTC"];
    for (const [view, table] of [
      [`#/account${symbols[0]}`, "#balances"],
      [`#/ledger${symbols[1]}`, "#entries"],
    ] as const) {
      await other.goto(`${world.service.url}/${view}`);
      await other.reload();
      await expect.poll(() => other.locator("h1").count(), patience).toBe(1);
      expect(await other.locator("#unknown, #problem").count()).toBe(0);
      release();
      await expect.poll(() => other.locator(`${table} tbody tr`).count(), patience).toBeGreaterThan(1);
    }
    await other.context().close();
  });

  test("shows what a new block changes", async () => {
    await show(`#/account?filter.partyIds=bob&filter.assetId=btc`);
    const held = (balance: string) => [
      ["general", balance],
      ["together", `${balance} BTC`],
    ];
    await expect.poll(rowsOf("#balances"), patience).toEqual(held("100.00000000"));
    const seen = recording.frames.length;
    recording.at("2024-02-01 00:00", (block) => block.deposit(general("bob"), 1n));
    await world.replay(Buffer.concat(recording.frames.slice(seen)));
    await expect.poll(rowsOf("#balances"), patience).toEqual(held("100.00000001"));
    await expect.poll(async () => (await rowsOf("#changes")())[0]?.[2], patience).toBe("+0.00000001");
  });

  test.each([
    `filter.partyIds=${alice}`,
    `filter.partyIds=${alice}&filter.assetId=fine`,
    `filter.partyIds=${alice}&filter.assetId=btc&dateRange.startTimestamp=2024-01-30&dateRange.endTimestamp=2024-01-31`,
  ])("%s: at every width nothing leaves its place, and axe finds no fault", async (query) => {
    await show(`#/account?${query}`);
    await expect.poll(() => page.locator("#balances tbody tr, #changes tbody tr").count(), patience).toBeGreaterThan(2);
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      await expect.poll(() => page.evaluate(misplaced), { message: `${width} px` }).toEqual([]);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
    }
    expect(await axeFaults(page)).toEqual([]);
  });

  test("says what to give, and what the service finds wrong", async () => {
    await show("#/account");
    await expect.poll(textOf("#no-party"), patience).toContain("Give a party");
    await show(`#/ledger?dateRange.endTimestamp=${nanoseconds("2024-01-29 11:15")}`);
    await expect.poll(textOf("h2 >> nth=1"), patience).toBe("Entries");
    await show("#/ledger");
    await expect.poll(textOf("h2 >> nth=1"), patience).toBe("Newest entries, live");
    const range = "dateRange.startTimestamp=20000&dateRange.endTimestamp=10000";
    await show(`#/account?filter.partyIds=${alice}&${range}`);
    await expect.poll(textOf("#problem"), patience).toContain("dateRange.startTimestamp: is 20000, after");
  });
});
