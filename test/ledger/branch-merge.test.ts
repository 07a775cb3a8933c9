import { afterAll, beforeAll, expect, test } from "vitest";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { mergeBranches } from "../../src/store/branch-merge.js";
import { LedgerReader } from "../../src/store/ledger-entry-query.js";
import { type AccountSide, selectEntries } from "../../src/store/ledger-selection.js";
import { type FixtureAccount, LedgerFixture } from "./ledger-fixture.js";

let fixture: LedgerFixture;
const account = (party: string): FixtureAccount => ({ party, asset: "usd", market: "", type: AccountType.GENERAL });
const side = (partyId: string): AccountSide => ({ partyId, assetId: undefined, marketIds: [], types: [] });

/** Two busy parties who meet twice in 400 entries of one class. */
beforeAll(async () => {
  fixture = await LedgerFixture.create();
  for (let block = 0; block < 20; block++) {
    await fixture.addBlock(
      Array.from({ length: 20 }, (_, i) => ({
        from: account(i % 2 === 0 ? "alice" : "carol"),
        to: account(i === 4 && block % 10 === 3 ? "bob" : i % 2 === 0 ? "dave" : "bob"),
        transferType: TransferType.TRANSFER_FUNDS_SEND,
        quantity: "1",
        fromBalance: "1",
        toBalance: "1",
      })),
    );
  }
});
afterAll(() => fixture.drop());

test.each([true, false])("a rare intersection is met in bounded pieces (descending: %s)", async (descending) => {
  const ledger = new LedgerReader(fixture.database);
  const found: bigint[] = [];
  let pieces = 0;
  await ledger.borrow(undefined, async (connection) => {
    const { directory, ids } = await ledger.view(connection, { startNs: undefined, endNs: undefined });
    const filter = { from: side("alice"), to: side("bob"), closed: true, transferTypes: [] };
    const selection = selectEntries(directory, filter);
    if (selection.kind === "all" || ids === undefined) throw new Error("not the plan of this test");
    expect(selection.branches).toHaveLength(1);
    let range = { ...ids, descending };
    for (;;) {
      pieces++;
      const { rows, reached } = await mergeBranches(connection, selection.branches, range, 3, 30);
      found.push(...rows.map(({ id }) => id));
      if (reached === undefined) break;
      range = descending ? { ...range, high: reached - 1n } : { ...range, low: reached + 1n };
    }
  });
  const expected = fixture.entries.filter(({ from, to }) => from.party === "alice" && to.party === "bob");
  const places = expected.map(({ id }) => id);
  expect(places).toHaveLength(2);
  expect(found).toEqual(descending ? places.reverse() : places);
  expect(pieces).toBeGreaterThan(2);
});
