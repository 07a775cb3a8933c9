import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { TimeRange } from "../../src/domain/date-range.js";
import type { PageRequest } from "../../src/domain/page.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { smallLedgerEntriesMax } from "../../src/ledger/plan.js";
import type { AccountSide, LedgerFilter } from "../../src/ledger/selection.js";
import { tries } from "../support/tries.js";
import { type FixtureEntry, LedgerFixture, type NewEntry } from "./ledger-fixture.js";
import { modelList, modelPage, plain } from "./ledger-model.js";

const parties = ["network", "alice", "bob", "carol", "dave"];
const assets = ["usd", "eur"];
const markets = ["", "m1", "m2", "m3"];
const accountTypes = [1, 2, 3, 4, 9];
const transferTypes = [1, 2, 3, 4, 5, 18];

const account = fc.record({
  party: fc.constantFrom(...parties),
  asset: fc.constantFrom(...assets),
  market: fc.constantFrom(...markets),
  type: fc.constantFrom(...accountTypes),
});
const digits = fc
  .oneof(fc.bigInt(0n, 1000n), fc.bigInt(2n ** 64n, 2n ** 65n), fc.bigInt(10n ** 77n, 2n ** 256n - 1n))
  .map(String);
const newEntry: fc.Arbitrary<NewEntry> = fc
  .oneof(
    { weight: 8, arbitrary: fc.record({ from: account, to: account }) },
    { weight: 1, arbitrary: account.map((both) => ({ from: both, to: both })) },
  )
  .chain((sides) =>
    fc.record({
      from: fc.constant(sides.from),
      to: fc.constant(sides.to),
      transferType: fc.constantFrom(...transferTypes),
      quantity: digits,
      fromBalance: digits,
      toBalance: digits,
    }),
  );
const side: fc.Arbitrary<AccountSide | undefined> = fc.option(
  fc
    .record({
      partyId: fc.option(fc.constantFrom(...parties, "nobody"), { nil: undefined }),
      assetId: fc.option(fc.constantFrom(...assets, "gbp"), { nil: undefined, freq: 2 }),
      marketIds: fc.oneof(fc.constant([]), fc.subarray(markets.slice(1))),
      types: fc.oneof(fc.constant([]), fc.subarray(accountTypes)),
    })
    .map((value) => value),
  { nil: undefined },
);
const filterOf: fc.Arbitrary<LedgerFilter> = fc.record({
  from: side,
  to: side,
  closed: fc.boolean(),
  transferTypes: fc.oneof(fc.constant([]), fc.subarray(transferTypes)),
});

let fixture: LedgerFixture;
let ledger: LedgerReader;

async function grow(blocks: number): Promise<void> {
  const sizes = [0, 1, 3, 40];
  for (let i = 0; i < blocks; i++) {
    const size = sizes[i % sizes.length] ?? 0;
    const entries = fc.sample(newEntry, { numRuns: size, seed: 1000 + Number(fixture.height) });
    await fixture.addBlock(entries, i % 5 === 0 ? 0n : 1_000_000_007n, i % 7 === 0 ? 3n : 0n);
  }
}

beforeAll(async () => {
  fixture = await LedgerFixture.create();
  ledger = new LedgerReader(fixture.database);
  await grow(60);
});
afterAll(() => fixture.drop());

function timeRange(entries: readonly FixtureEntry[]): fc.Arbitrary<TimeRange> {
  const time = fc.option(
    fc.tuple(fc.constantFrom(...entries), fc.bigInt(-1n, 1n)).map(([entry, shift]) => entry.timeNs + shift),
    { nil: undefined, freq: 2 },
  );
  return fc
    .record({ startNs: time, endNs: time })
    .map(({ startNs, endNs }) =>
      startNs !== undefined && endNs !== undefined && startNs > endNs
        ? { startNs: endNs, endNs: startNs }
        : { startNs, endNs },
    );
}

async function checkEveryPage(runs: number): Promise<void> {
  const ids = fixture.entries.map(({ id }) => id);
  const cursor = fc.option(
    fc.tuple(fc.constantFrom(...ids), fc.bigInt(-1n, 1n)).map(([id, shift]) => id + shift),
    { nil: undefined },
  );
  const requests = fc.record<PageRequest<bigint>>({
    newestFirst: fc.boolean(),
    size: fc.constantFrom(1, 7, 1000),
    backwards: fc.boolean(),
    cursor,
  });
  await fc.assert(
    fc.asyncProperty(filterOf, timeRange(fixture.entries), requests, async (filter, time, request) => {
      const page = await ledger.page(filter, time, request);
      const expected = modelPage(modelList(fixture.entries, filter, time, request.newestFirst), request);
      expect(plain(page.rows)).toEqual(expected.rows);
      expect({ hasNext: page.hasNext, hasPrevious: page.hasPrevious }).toEqual({
        hasNext: expected.hasNext,
        hasPrevious: expected.hasPrevious,
      });
    }),
    { numRuns: tries(runs) },
  );
}

test("every page of a small ledger is the model's, with any filter, range, size, direction and cursor", async () => {
  expect(fixture.entries.length).toBeLessThan(smallLedgerEntriesMax);
  await checkEveryPage(300);
});

const always: TimeRange = { startNs: undefined, endNs: undefined };

/** The ids of all pages, in the order read; blocks arrive after the first page. Ends early after `pagesMax`. */
async function readAllPages(filter: LedgerFilter, request: Omit<PageRequest<bigint>, "cursor">, pagesMax: number) {
  const visited: bigint[] = [];
  let cursor: bigint | undefined;
  for (let pages = 0; pages < pagesMax; pages++) {
    const page = await ledger.page(filter, always, { ...request, cursor });
    if (pages === 0) await grow(1);
    const ids = page.rows.map(({ id }) => id);
    visited.push(...(request.backwards ? ids.reverse() : ids));
    cursor = page.reached ?? visited.at(-1);
    if (!(request.backwards ? page.hasPrevious : page.hasNext)) break;
  }
  return visited;
}

test("paging visits all that was there at its start once, while blocks arrive", async () => {
  const requests = fc.record({
    newestFirst: fc.boolean(),
    backwards: fc.boolean(),
    size: fc.constantFrom(1, 7, 1000),
  });
  await fc.assert(
    fc.asyncProperty(filterOf, requests, async (filter, request) => {
      const expected = modelList(fixture.entries, filter, always, request.newestFirst).map(({ id }) => id);
      if (request.backwards) expected.reverse();
      const visited = await readAllPages(filter, request, request.size === 1 ? 20 : 1000);
      const seen = visited.filter((id) => expected.includes(id));
      expect(seen).toEqual(expected.slice(0, seen.length));
      expect(new Set(visited).size).toBe(visited.length);
      if (request.size > 1) expect(seen.length).toBe(expected.length);
    }),
    { numRuns: 60 },
  );
});

test("so is every page of a larger ledger", async () => {
  while (fixture.entries.length <= smallLedgerEntriesMax) await grow(4);
  await checkEveryPage(600);
});
