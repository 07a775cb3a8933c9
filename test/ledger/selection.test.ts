import { performance } from "node:perf_hooks";
import { expect, test } from "vitest";
import type { Account } from "../../src/ledger/account-directory.js";
import { accountsExaminedMax } from "../../src/ledger/account-pages.js";
import { accountSelector } from "../../src/ledger/selection.js";

const id = (number: number) => String(number).padStart(64, "f");

const account = (market: number, type: number): Account => {
  return { id: 1, partyId: "party", kind: { assetId: "asset", marketId: id(market), type, accounts: 1 } };
};

/** Milliseconds for as many accounts as a page examines, with a filter of so many markets, all of them others. */
function examineMs(markets: number): number {
  const marketIds = Array.from({ length: markets }, (_, n) => id(n));
  const accounts = Array.from({ length: 100 }, (_, n) => account(1_000_000 + n, 1));
  const startedAt = performance.now();
  const selects = accountSelector({ partyId: undefined, assetId: undefined, marketIds, types: [] });
  let selected = 0;
  for (let n = 0; n < accountsExaminedMax; n += accounts.length) selected += accounts.filter(selects).length;
  expect(selected).toBe(0);
  return performance.now() - startedAt;
}

test("a side selects the accounts that match all of its fields", () => {
  const selects = accountSelector({ partyId: "party", assetId: "asset", marketIds: [id(1), id(2)], types: [4, 5] });
  expect([account(1, 4), account(2, 5)].every(selects)).toBe(true);
  expect([account(3, 4), account(1, 6), { ...account(1, 4), partyId: "other" }].some(selects)).toBe(false);
  expect(accountSelector(undefined)(account(3, 4))).toBe(true);
});

test("accounts are selected as fast by a thousand markets as by a few", () => {
  examineMs(4);
  expect(examineMs(1_000)).toBeLessThan(10 * examineMs(4) + 20);
});
