import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import type { LedgerView } from "../../src/ledger/ledger-view.js";
import { filtersMax, StatisticsMemory } from "../../src/ledger/page-statistics.js";
import type { LedgerFilter } from "../../src/ledger/selection.js";
import type { IdRange } from "../../src/store/id-range.js";

const range: IdRange = { low: 1n, high: 1_000n, descending: true };
const rows = Array.from({ length: 16 }, (_, index) => `${1_000 - index} 1 2 3 4 5 6 7`);
const known = {
  idsPerMatch: 2,
  idsPerEntry: 1,
  hasManyMatches: false,
  firstMatch: undefined,
  idsToMatch: 0,
};
const view = { clip: (whole: IdRange) => whole } as LedgerView;

/** A filter as long as the API takes it: a thousand ids of 128 characters on a side. */
function longFilter(number: number): LedgerFilter {
  const marketIds = Array.from({ length: 1_000 }, (_, index) => `${number}-${index}`.padEnd(128, "x"));
  const side = { partyId: undefined, assetId: undefined, marketIds, types: [] };
  return { from: side, to: undefined, closed: false, transferTypes: [] };
}

function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().heapUsed;
}

test("remembers the pages of long filters without keeping their text", () => {
  const memory = new StatisticsMemory();
  const before = heapBytes();
  for (let number = 0; number < filtersMax; number++) {
    memory.note(longFilter(number), range, 16, view, { rows, state: { rest: range, known } });
  }
  expect(heapBytes() - before).toBeLessThan(8 * 1024 * 1024);
  expect(memory.recall(longFilter(0), range, 16)).toMatchObject({ idsPerEntry: 1 });
  expect(memory.recall(longFilter(filtersMax), range, 16)).toBeUndefined();
});
