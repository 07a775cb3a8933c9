import { describe, expect, test } from "vitest";
import {
  branchesMax,
  branchesMergedMax,
  branchesUnitedFirstMax,
  choosePlan,
  entriesScannedMax,
  keysMergedMax,
  keysUnitedMax,
  learn,
  type Plan,
  type Statistics,
  unionsMax,
} from "../../src/ledger/plan.js";
import type { Branch, LedgerSelection } from "../../src/ledger/selection.js";

function accounts(count: number, other?: number): Branch[] {
  return Array.from({ length: count }, (_, i) => ({ index: "from", classId: 1, accountId: i + 1, other }));
}

function classes(count: number): Branch[] {
  return Array.from({ length: count }, (_, i) => ({ index: "class", classId: i + 1, accountId: 0, other: undefined }));
}

function union(branches: readonly Branch[]): LedgerSelection {
  return { kind: "branches", branches };
}

const nothing: Statistics = {
  idsPerMatch: undefined,
  idsPerEntry: undefined,
  hasManyMatches: false,
  firstMatch: undefined,
  idsToMatch: 0,
  missing: 100,
  entriesScanned: 0,
  keysMerged: 0,
  unions: 0,
};

/** What a sample of 600 entries shows that meets one match in so many entries. */
function sampled(entriesPerMatch: number): Partial<Statistics> {
  return { entriesScanned: 600, idsPerEntry: 1e6, idsPerMatch: 1e6 * entriesPerMatch };
}

const small = { entries: 322, newest: 7n };
const few = union(accounts(branchesMergedMax));
const some = union(accounts(branchesUnitedFirstMax));
const many = union(accounts(branchesUnitedFirstMax + 1));
const tooMany = union(accounts(branchesMax + 1));
const whole = union(classes(branchesMergedMax + 1));
const restricted = union(accounts(30, 7));

type Expected = Partial<Plan> | undefined;

const cases: readonly (readonly [string, LedgerSelection, Partial<Statistics>, Expected])[] = [
  ["everything is a range", { kind: "all" }, {}, { name: "range_scan", branch: undefined, entries: 100 }],
  ["one branch is a range", union(accounts(1)), {}, { name: "range_scan", branch: accounts(1)[0], entries: 100 }],
  ["one restricted branch is merged", union(accounts(1, 7)), {}, { name: "k_way_merge", entries: 100 }],
  ["a full page needs no plan", few, { missing: 0 }, undefined],
  ["no branch needs no plan", union([]), {}, undefined],

  [
    "a small ledger is scanned whole",
    few,
    { small },
    { name: "table_scan", examined: 322, entries: 100, whole: small },
  ],
  ["so it is with other accounts", restricted, { small }, { name: "table_scan", whole: small }],
  ["whatever is known", many, { small, ...sampled(65) }, { name: "table_scan", whole: small }],
  ["one branch of it is a range", union(accounts(1)), { small }, { name: "range_scan" }],

  ["few branches are merged", few, {}, { name: "k_way_merge", entries: 100 }],
  ["a merge that spent its keys is the last", few, { keysMerged: keysMergedMax }, undefined],
  ["some branches are united first", some, {}, { name: "index_union", ids: undefined, keysMax: keysUnitedMax }],
  ["those with many matches are sampled then", some, { hasManyMatches: true }, { name: "table_scan", examined: 600 }],
  ["many branches are sampled first", many, {}, { name: "table_scan", examined: 600 }],
  ["a small page takes a small sample", many, { missing: 2 }, { name: "table_scan", examined: 256, entries: 2 }],
  ["a large page takes no more than the bound", many, { missing: 1_000 }, { name: "table_scan", examined: 1_010 }],
  ["whole classes are sampled first", whole, {}, { name: "table_scan", examined: 256 }],
  ["restricted branches are sampled first", restricted, {}, { name: "table_scan", examined: 300 }],

  ["an empty sample of many: all are united", many, { entriesScanned: 600 }, { name: "index_union", ids: undefined }],
  [
    "an empty sample and many matches elsewhere: merged",
    many,
    { entriesScanned: 600, hasManyMatches: true },
    { name: "k_way_merge" },
  ],
  ["an empty sample of restricted branches: merged", restricted, { entriesScanned: 300 }, { name: "k_way_merge" }],
  [
    "an empty sample of too many branches: the scan goes on up to its bound",
    tooMany,
    { entriesScanned: 1_024 },
    { name: "table_scan", examined: entriesScannedMax - 1_024 },
  ],
  ["and no further", tooMany, { entriesScanned: entriesScannedMax }, undefined],

  ["a dense sample: the scan goes on", many, sampled(3), { name: "table_scan", examined: 375 }],
  ["a less dense sample: united as far as it should take", many, sampled(60), { name: "index_union", ids: 8.64e9 }],
  ["that union takes four pages", many, sampled(60), { name: "index_union", keysMax: 464 }],
  ["a rare match: all are united", many, sampled(65), { name: "index_union", ids: undefined }],
  [
    "a rare match of many elsewhere: united as far as it should take",
    many,
    { ...sampled(65), hasManyMatches: true },
    { name: "index_union", ids: 9.36e9 },
  ],
  ["unions that missed often enough: merged", many, { ...sampled(60), unions: unionsMax }, { name: "k_way_merge" }],
  ["restricted branches, not dense: merged", restricted, sampled(60), { name: "k_way_merge" }],
  ["too many branches, not dense: scanned", tooMany, sampled(200), { name: "table_scan", examined: 25_000 }],
  [
    "a first match that is known: united from there",
    few,
    { idsPerMatch: 1e6, firstMatch: 7n, idsToMatch: 1e9 },
    { name: "index_union", ids: 1.44e8, from: 7n },
  ],
  ["a dense page after a long gap is united", many, { ...sampled(3), idsToMatch: 2e10 }, { name: "index_union" }],
  ["few branches of known density are united", few, { idsPerMatch: 1e6 }, { name: "index_union", ids: 1.44e8 }],
];

describe("the choice of a plan", () => {
  test.each(cases)("%s", (_, selection, statistics, expected) => {
    const plan = choosePlan(selection, { ...nothing, ...statistics });
    if (expected === undefined) expect(plan).toBeUndefined();
    else expect(plan).toMatchObject(expected);
  });
});

describe("what a plan shows", () => {
  const rest = { low: 1n, high: 0n, descending: false };
  const row = "1 1 1 1 0 0 0 0";
  const plans = {
    scan: { name: "table_scan", branches: [], examined: 600, entries: 100 },
    all: { name: "index_union", branches: [], ids: undefined, keysMax: 512, entries: 100 },
    piece: { name: "index_union", branches: [], ids: 1e6, keysMax: 464, entries: 100 },
    merge: { name: "k_way_merge", branches: [], entries: 100 },
  } as const;

  test("the density of matches, and what was spent", () => {
    const seen = { rows: [row, row], rest, examined: 600, idsPerEntry: 10 };
    expect(learn(nothing, plans.scan, seen, 6_000)).toEqual({
      ...nothing,
      idsPerMatch: 3_000,
      idsPerEntry: 10,
      missing: 98,
      entriesScanned: 600,
    });
    expect(learn(nothing, plans.merge, { rows: [], rest, examined: 40 }, 6_000)).toEqual({
      ...nothing,
      keysMerged: 40,
    });
    expect(learn(nothing, plans.piece, { rows: [row], rest, examined: 1 }, 500)).toEqual({
      ...nothing,
      idsPerMatch: 500,
      missing: 99,
      unions: 1,
    });
  });

  test("a union that gave up says that there are many, or that they are four times as dense", () => {
    const known = { ...nothing, idsPerMatch: 800 };
    expect(learn(known, plans.all, { rows: [], rest, examined: 513, gaveUp: 1e9 }, 0)).toEqual({
      ...known,
      hasManyMatches: true,
    });
    const inVain = { rows: [], rest, examined: 465, gaveUp: 1e6 };
    expect(learn(known, plans.piece, inVain, 0)).toEqual({ ...known, idsPerMatch: 200, unions: 1 });
    expect(learn(known, plans.piece, { ...inVain, gaveUp: 4_000 }, 0)).toMatchObject({ idsPerMatch: 10 });
  });
});
