import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { always } from "../../src/domain/date-range.js";
import type { PageRequest } from "../../src/domain/page.js";
import { idOf } from "../../src/ledger/entry-row.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { scanEntries } from "../../src/ledger/scan-entries.js";
import { type AccountSide, type LedgerFilter, selectEntries } from "../../src/ledger/selection.js";
import { tries } from "../support/tries.js";
import { type FixtureAccount, LedgerFixture, type NewEntry } from "./ledger-fixture.js";
import { modelList, modelPage, plain } from "./ledger-model.js";

const assets = ["usd", "eur"];
const markets = ["m1", "m2", "m3", "m4", "m5", "m6"];
const blocks = 130;
const entriesPerBlock = 40;

let fixture: LedgerFixture;
let ledger: LedgerReader;

/** Parties with many accounts: `hot` always, `early` only in the beginning, `late` only at the end, `rare` at times. */
function partyAt(block: number, i: number): string {
  const n = (block * 7 + i * 13) % 20;
  if (n < 9) return "hot";
  if (n < 12 && block < 30) return "early";
  if (n < 14 && block > 110) return "late";
  return n === 19 && i === 3 ? "rare" : `other${(block * 31 + i) % 40}`;
}

function entryAt(block: number, i: number): NewEntry {
  const n = block * entriesPerBlock + i;
  const asset = assets[n % 2] ?? "";
  const market = markets[(n >> 1) % 6] ?? "";
  const party = partyAt(block, i);
  const type = [1, 3, 4, 9][(n >> 3) % 4] ?? 1;
  const own: FixtureAccount = { party, asset, market: type === 1 ? "" : market, type };
  const other: FixtureAccount =
    n % 11 === 0 ? { ...own, type: 2 } : { party: "network", asset, market: market, type: 5 + (n % 3) };
  const sides = n % 3 === 0 ? { from: own, to: other } : { from: other, to: own };
  return { ...sides, transferType: 1 + (n % 4), quantity: String(n), fromBalance: "0", toBalance: String(n) };
}

beforeAll(async () => {
  fixture = await LedgerFixture.create();
  ledger = new LedgerReader(fixture.database);
  for (let block = 0; block < blocks; block++) {
    await fixture.addBlock(Array.from({ length: entriesPerBlock }, (_, i) => entryAt(block, i)));
  }
});
afterAll(() => fixture.drop());

test("a scan gives what there is, however wrong the statistics that it begins with", async () => {
  const cases = fc.record({
    party: fc.constantFrom("hot", "early", "late", "rare"),
    idsPerMatch: fc.option(fc.constantFrom(1, 1e3, 1e5, 1e7, 1e9, 1e12), { nil: undefined }),
    idsPerEntry: fc.option(fc.constantFrom(1, 1e6, 1e12), { nil: undefined }),
    hasManyMatches: fc.boolean(),
    firstMatch: fc.option(fc.constantFrom(...fixture.entries.map(({ id }) => id)), { nil: undefined }),
    idsToMatch: fc.constantFrom(0, 1e6, 1e12),
    want: fc.constantFrom(1, 20, 300),
    descending: fc.boolean(),
    ends: fc.tuple(...[0, 1].map(() => fc.constantFrom(...fixture.entries.map(({ id }) => id)))),
  });
  const plans = new Set<string>();
  await ledger.warm();
  await fc.assert(
    fc.asyncProperty(cases, async ({ party, want, descending, ends: [a = 0n, b = 0n], ...known }) => {
      const side = { partyId: party, assetId: undefined, marketIds: [], types: [] };
      const filter = { from: side, to: side, closed: false, transferTypes: [] };
      const range = { low: a < b ? a : b, high: a < b ? b : a, descending };
      const { result } = await ledger.read(undefined, always, async (view, directory) => {
        const scanned = await scanEntries(view, selectEntries(directory, filter), { rest: range, known }, want);
        for (const { plan } of view.costs) plans.add(plan);
        return scanned;
      });
      const expected = modelList(fixture.entries, filter, always, descending)
        .map(({ id }) => id)
        .filter((id) => id >= range.low && id <= range.high);
      const found = result.rows.map(idOf);
      expect(found).toEqual(expected.slice(0, found.length));
      expect(found.length).toBeGreaterThanOrEqual(Math.min(want, expected.length));
      const { rest } = result.state;
      // What is left is what was not given: nothing is skipped and nothing comes twice.
      expect(expected.filter((id) => id >= rest.low && id <= rest.high)).toEqual(expected.slice(found.length));
    }),
    { numRuns: tries(600) },
  );
  expect([...plans].sort()).toEqual(["index_union", "k_way_merge", "table_scan"]);
});

test("every page is exact while blocks and accounts arrive, in bursts or after none for long", async () => {
  const grown = await LedgerFixture.create();
  const reader = new LedgerReader(grown.database);
  const party = (partyId: string): AccountSide => ({ partyId, assetId: undefined, marketIds: [], types: [] });
  const filters: LedgerFilter[] = [
    ...["hot", "early", "late", "rare"].map((name) => {
      return { from: party(name), to: party(name), closed: false, transferTypes: [] };
    }),
    { from: party("hot"), to: party("network"), closed: true, transferTypes: [2] },
    { from: undefined, to: undefined, closed: false, transferTypes: [1, 3] },
  ];
  const part = fc.double({ min: 0, max: 1, noNaN: true });
  const entryIn = (at: number) => grown.entries[Math.floor(at * (grown.entries.length - 1))];
  // As many as make a burst that no page before could tell, or none at all.
  const step = fc.oneof(
    { weight: 1, arbitrary: fc.record({ blocks: fc.constantFrom(1, 12), skipped: fc.constantFrom(0n, 5_000n) }) },
    {
      weight: 20,
      arbitrary: fc.record({
        filter: fc.constantFrom(...filters),
        at: fc.option(part, { nil: undefined }),
        time: fc.option(fc.tuple(part, part), { nil: undefined, freq: 3 }),
        newestFirst: fc.boolean(),
        size: fc.constantFrom(1, 15, 60, 1000),
        backwards: fc.boolean(),
      }),
    },
  );
  const steps = fc.sample(step, { numRuns: tries(3_000), seed: 11 });
  let block = 0;
  for (const asked of steps) {
    if ("blocks" in asked) {
      for (let i = 0; i < asked.blocks && block < blocks; i++, block++) {
        const entries = Array.from({ length: entriesPerBlock }, (_, j) => entryAt(block, j));
        await grown.addBlock(entries, 1n, i === 0 ? asked.skipped : 0n);
      }
      continue;
    }
    const { filter, at, time: ends, ...rest } = asked;
    const request = { ...rest, cursor: at === undefined ? undefined : entryIn(at)?.id };
    const [start = 0, end = 0] = [...(ends ?? [])].sort();
    const time = ends === undefined ? always : { startNs: entryIn(start)?.timeNs, endNs: entryIn(end)?.timeNs };
    const { rows, hasNext, hasPrevious } = await reader.page(filter, time, request);
    const expected = modelPage(modelList(grown.entries, filter, time, request.newestFirst), request);
    expect({ rows: plain(rows), hasNext, hasPrevious }).toEqual(expected);
  }
  expect(block).toBeGreaterThan(60);
  await grown.drop();
});

test("parties with many accounts, more entries than an index union takes, dense, rare, early and late", async () => {
  const side: fc.Arbitrary<AccountSide> = fc.record({
    partyId: fc.option(fc.constantFrom("hot", "early", "late", "rare", "network", "other7"), { nil: undefined }),
    assetId: fc.option(fc.constantFrom(...assets), { nil: undefined, freq: 1 }),
    marketIds: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.subarray(markets) }),
    types: fc.constant([]),
  });
  const filter: fc.Arbitrary<LedgerFilter> = fc.record({
    from: fc.option(side, { nil: undefined, freq: 4 }),
    to: fc.option(side, { nil: undefined, freq: 4 }),
    closed: fc.boolean(),
    transferTypes: fc.oneof(fc.constant([]), fc.subarray([1, 2, 3, 4])),
  });
  const request: fc.Arbitrary<PageRequest<bigint>> = fc.record({
    newestFirst: fc.boolean(),
    size: fc.constantFrom(1, 10, 100, 1000),
    backwards: fc.boolean(),
    cursor: fc.option(fc.constantFrom(...fixture.entries.map(({ id }) => id)), { nil: undefined }),
  });
  await fc.assert(
    fc.asyncProperty(filter, request, async (chosen, asked) => {
      const { rows, hasNext, hasPrevious } = await ledger.page(chosen, always, asked);
      const expected = modelPage(modelList(fixture.entries, chosen, always, asked.newestFirst), asked);
      expect({ rows: plain(rows), hasNext, hasPrevious }).toEqual(expected);
    }),
    { numRuns: tries(300) },
  );
});
