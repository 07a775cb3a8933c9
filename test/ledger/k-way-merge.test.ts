import { afterAll, beforeAll, expect, test } from "vitest";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { always } from "../../src/domain/date-range.js";
import { kWayMerge } from "../../src/domain/k-way-merge.js";
import { idOf } from "../../src/ledger/entry-row.js";
import { mergeBranches } from "../../src/ledger/k-way-merge.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { type AccountSide, selectEntries } from "../../src/ledger/selection.js";
import { type IdRange, idMax } from "../../src/store/id-range.js";
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
  await ledger.read(undefined, always, async (view, directory) => {
    const filter = { from: side("alice"), to: side("bob"), closed: true, transferTypes: [] };
    const selection = selectEntries(directory, filter);
    // Before the accounts are known there are no branches; then it runs again.
    if (selection.kind === "all" || selection.branches.length === 0) return;
    const { branches } = selection;
    expect(branches).toHaveLength(1);
    await view.reach();
    let range: IdRange = view.clip({ low: 0n, high: idMax, descending });
    while (range.low <= range.high) {
      pieces++;
      const plan = { name: "k_way_merge", branches, entries: 3 } as const;
      const { rows, rest } = await mergeBranches(view, plan, range, 30);
      found.push(...rows.map(idOf));
      range = rest;
    }
  });
  const expected = fixture.entries.filter(({ from, to }) => from.party === "alice" && to.party === "bob");
  const places = expected.map(({ id }) => id);
  expect(places).toHaveLength(2);
  expect(found).toEqual(descending ? places.reverse() : places);
  expect(pieces).toBeGreaterThan(2);
});

/** A merge of two lists of numbers, of which some match; how often it read, and how many keys. */
async function mergeNumbers(isMatch: (key: number) => boolean, want: number) {
  let reads = 0;
  const merged = await kWayMerge<number, number>({
    branches: [0, 1],
    want,
    keysMax: 40_000,
    isSparse: true,
    compare: (a, b) => a - b,
    read: async (cursors, limit) => {
      reads++;
      return cursors.flatMap(({ branch, last }, number) => {
        const first = last === undefined ? branch : last + 2;
        const keys = Array.from({ length: limit }, (_, at) => first + 2 * at);
        return keys.map((key) => ({ number, key, matches: isMatch(key), read: 1 }));
      });
    },
  });
  return { ...merged, reads };
}

test("where few keys match, little more is read than holds what is wanted", async () => {
  const { keys, examined, reads } = await mergeNumbers((key) => key % 45 === 0, 100);
  expect(keys).toEqual(Array.from({ length: 100 }, (_, at) => at * 45));
  expect(examined).toBeLessThan(1.5 * 100 * 45);
  expect(reads).toBeLessThan(8);
});

test("matches that lie close together do not make later reads small", async () => {
  const { keys, examined, reads } = await mergeNumbers((key) => key < 99 || key === 20_000, 100);
  expect(keys.at(-1)).toBe(20_000);
  expect(examined).toBeLessThan(1.6 * 20_000);
  expect(reads).toBeLessThan(16);
});
