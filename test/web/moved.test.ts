import { expect, test } from "vitest";
import { addMoved, type Moved } from "../../web/accounts/balances.js";

test("what entries moved is told apart by side, for each of the markets that are chosen", () => {
  const entry = (from: string, to: string, quantity: string) => ({
    ...{
      timestamp: "1",
      quantity,
      transferType: "T",
      assetId: "a",
      fromAccountType: "MARGIN",
      toAccountType: "MARGIN",
    },
    ...{ fromAccountPartyId: "p", toAccountPartyId: "p", fromAccountMarketId: from, toAccountMarketId: to },
    ...{ fromAccountBalance: "0", toAccountBalance: "0" },
  });
  const filter = new URLSearchParams("filter.partyIds=p&filter.marketIds=m&filter.marketIds=n&filter.accountTypes=");
  const sums = new Map<string, Moved>();
  addMoved(sums, filter, [entry("m", "n", "1"), entry("m", "x", "2")]);
  addMoved(sums, filter, [entry("x", "n", "4")]);
  expect([...sums.values()]).toEqual([{ type: "T", entries: 3, into: 4n, outOf: 2n, between: 1n, gain: 2n }]);
  // What comes from outside is moved, but no balance of the outside says so.
  const outside = new Map<string, Moved>();
  const deposit = { ...entry("m", "n", "8"), fromAccountType: "ACCOUNT_TYPE_EXTERNAL" };
  addMoved(outside, new URLSearchParams("filter.partyIds=p"), [deposit, { ...deposit, toAccountPartyId: "q" }]);
  expect([...outside.values()]).toEqual([{ type: "T", entries: 2, into: 0n, outOf: 8n, between: 8n, gain: 8n }]);
});
