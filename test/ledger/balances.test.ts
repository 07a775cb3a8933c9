import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type AccountDetails, AccountType } from "../../gen/vega/vega_pb.js";
import { always } from "../../src/domain/date-range.js";
import { AccountDirectory } from "../../src/ledger/account-directory.js";
import { type BalancePlace, entriesAtOnceMax, readBalanceChanges } from "../../src/ledger/balance-changes.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { LedgerView } from "../../src/ledger/ledger-view.js";
import { retain } from "../../src/ledger/retain.js";
import { simulate } from "../../src/simulator/network.js";
import { Random } from "../../src/simulator/random.js";
import { openDatabase } from "../../src/store/database.js";
import { ApiCaller } from "../support/api-caller.js";
import { newDatabaseUrl } from "../support/database.js";
import { loadRecording } from "../support/load-recording.js";
import { RecordingBuilder } from "../support/recording.js";
import { tries } from "../support/tries.js";
import { type ModelBlock, realRecording, wholeBlocks } from "../trades/trade-model.js";

/* ListAccounts and ListBalanceChanges against a fold of the ledger movements of a recording. */

interface ModelAccount {
  readonly owner: string;
  readonly asset: string;
  readonly marketId: string;
  readonly type: number;
}

/** A balance at the end of a block that differs from the one before. */
interface ModelChange {
  readonly account: ModelAccount;
  readonly height: bigint;
  readonly timeNs: bigint;
  readonly balance: string;
}

interface Model {
  /** In the order in which entries name them. */
  readonly accounts: ModelAccount[];
  changes: ModelChange[];
}

function keyOf({ owner, asset, marketId, type }: ModelAccount): string {
  return [type, owner, asset, marketId].join(" ");
}

function accountOf(details: AccountDetails | undefined): ModelAccount {
  const { owner, assetId = "", marketId = "", type = 0 } = details ?? {};
  return { owner: owner || "network", asset: assetId, marketId, type };
}

/** What the entries of events state: each account and its balance, after what it received. */
function statementsOf(events: ModelBlock["events"]): [ModelAccount, string][] {
  return events.flatMap((event) => {
    if (event.case !== "ledgerMovements") return [];
    return event.value.ledgerMovements.flatMap(({ entries }) =>
      entries.flatMap((entry): [ModelAccount, string][] => [
        [accountOf(entry.fromAccount), entry.fromAccountBalance || "0"],
        [accountOf(entry.toAccount), entry.toAccountBalance || "0"],
      ]),
    );
  });
}

/** Folds whole blocks. A block whose height comes again goes on. */
function modelOf(recording: Uint8Array): Model {
  const model: Model = { accounts: [], changes: [] };
  const balances = new Map<string, string>();
  let before = new Map<string, string>();
  for (const { height, timeNs, events, isReplayed } of wholeBlocks(recording)) {
    if (isReplayed) model.changes = model.changes.filter((change) => change.height < height);
    else before = new Map(balances);
    for (const [account, balance] of statementsOf(events)) {
      if (!balances.has(keyOf(account))) model.accounts.push(account);
      balances.set(keyOf(account), balance);
    }
    for (const account of model.accounts) {
      const balance = balances.get(keyOf(account)) ?? "0";
      if (balance === (before.get(keyOf(account)) ?? "0")) continue;
      model.changes.push({ account, height, timeNs, balance });
    }
  }
  return model;
}

function changeJson({ account, timeNs, balance }: ModelChange): JsonObject {
  const { owner: partyId, asset: assetId, marketId, type } = account;
  const market = marketId === "" ? {} : { marketId };
  return { timestamp: `${timeNs}`, balance, partyId, assetId, ...market, accountType: typeName(type) };
}

function typeName(type: number): string {
  return `ACCOUNT_TYPE_${AccountType[type]}`;
}

function filterOf(random: Random, { accounts }: Model) {
  const { owner, asset, marketId, type } = random.pick(accounts);
  const other = random.pick(accounts);
  return {
    ...(random.chance(0.6) ? { partyIds: [owner] } : {}),
    ...(random.chance(0.3) ? { assetId: asset } : {}),
    ...(random.chance(0.3) ? { marketIds: [marketId, other.marketId].filter((id) => id !== "") } : {}),
    ...(random.chance(0.3) ? { accountTypes: [typeName(type), typeName(other.type)] } : {}),
  };
}

type Filter = ReturnType<typeof filterOf>;

function matches({ partyIds, assetId, marketIds = [], accountTypes = [] }: Filter, account: ModelAccount): boolean {
  return (
    (partyIds === undefined || partyIds.includes(account.owner)) &&
    (assetId === undefined || assetId === account.asset) &&
    (marketIds.length === 0 || marketIds.includes(account.marketId)) &&
    (accountTypes.length === 0 || accountTypes.includes(typeName(account.type)))
  );
}

/** The accounts that a filter selects, with what they held at a time. */
function accountsAsOf({ accounts, changes }: Model, filter: Filter, asOf: bigint | undefined): JsonObject[] {
  const balances = new Map<string, string>();
  for (const { account, timeNs, balance } of changes) {
    if (asOf === undefined || timeNs <= asOf) balances.set(keyOf(account), balance);
  }
  return accounts
    .filter((account) => matches(filter, account))
    .map((account) => ({ ...account, type: typeName(account.type), balance: balances.get(keyOf(account)) ?? "0" }));
}

const networks: [string, Uint8Array | undefined][] = [
  [
    "a simulated network",
    Buffer.concat([
      ...simulate({ seed: 3, blocks: 120, markets: 6, parties: 14, ordersPerBlock: 12, entriesPerBlock: 25 }),
    ]),
  ],
  ["the recording of a real network", realRecording()],
];

describe.each(networks.filter(([, recording]) => recording !== undefined))("%s", (_, recording = new Uint8Array()) => {
  const { url } = newDatabaseUrl();
  const model = modelOf(recording);
  const random = new Random(4, "balances");
  let api: ApiCaller;

  beforeAll(async () => {
    await loadRecording(url, recording);
    api = await ApiCaller.open(url);
  });

  afterAll(() => api.opened.close());

  test("lists all accounts with their newest balances, in both orders and directions", async () => {
    const all = accountsAsOf(model, {}, undefined);
    expect(all.length).toBeGreaterThan(50);
    for (const size of [13, 5_000]) {
      for (const backwards of [false, true]) {
        expect(await api.pageThrough("ListAccounts", {}, size, { backwards, newestFirst: false })).toEqual(all);
        expect(await api.pageThrough("ListAccounts", {}, size, { backwards })).toEqual(all.toReversed());
      }
    }
  });

  test("examines the classes of entries once for a page, however many kinds its accounts are of", async () => {
    const classes = vi.spyOn(AccountDirectory.prototype, "classes", "get");
    const { edges } = await api.page("ListAccounts", { pagination: { first: 5_000 } });
    const kinds = new Set(edges.map(({ node }) => `${node["asset"]} ${node["marketId"]} ${node["type"]}`));
    expect(kinds.size).toBeGreaterThan(5);
    // A page that finds further accounts is read again.
    expect(classes.mock.calls.length).toBeLessThanOrEqual(2);
    classes.mockRestore();
  });

  test("gives the balances as of any time, of the accounts that a filter selects", async () => {
    for (let i = 0; i < tries(40); i++) {
      const filter = filterOf(random, model);
      const { timeNs } = random.pick(model.changes);
      const asOf = random.chance(0.2) ? undefined : timeNs - BigInt(random.below(3)) + 1n;
      const expected = accountsAsOf(model, filter, asOf);
      const request = { filter, ...(asOf === undefined ? {} : { asOf: `${asOf}` }) };
      const size = 1 + random.below(expected.length + 5);
      const found = await api.pageThrough("ListAccounts", request, Math.max(size, Math.ceil(expected.length / 6)), {
        newestFirst: false,
      });
      expect(found, JSON.stringify(request)).toEqual(expected);
    }
  });

  test("lists every change of a balance, in both orders and directions", async () => {
    const all = model.changes.map(changeJson);
    for (const size of [Math.ceil(all.length / 12), 5_000]) {
      for (const backwards of [false, true]) {
        expect(await api.pageThrough("ListBalanceChanges", {}, size, { backwards, newestFirst: false })).toEqual(all);
        expect(await api.pageThrough("ListBalanceChanges", {}, size, { backwards })).toEqual(all.toReversed());
      }
    }
  });

  test("lists the changes of the accounts that a filter selects, in a range of time", async () => {
    for (let i = 0; i < tries(40); i++) {
      const filter = filterOf(random, model);
      const [start = 0n, end = 0n] = [random.pick(model.changes).timeNs, random.pick(model.changes).timeNs].sort(
        (a, b) => Number(a - b),
      );
      const isRange = random.chance(0.5);
      const dateRange = isRange ? { dateRange: { startTimestamp: `${start}`, endTimestamp: `${end}` } } : {};
      const expected = model.changes
        .filter(({ account, timeNs }) => matches(filter, account) && (!isRange || (timeNs >= start && timeNs < end)))
        .map(changeJson);
      const [backwards, newestFirst] = [random.chance(0.5), random.chance(0.5)];
      const size = Math.max(1 + random.below(expected.length + 5), Math.ceil(expected.length / 6));
      const request = { filter, ...dateRange };
      const found = await api.pageThrough("ListBalanceChanges", request, size, { backwards, newestFirst });
      expect(found, JSON.stringify(request)).toEqual(newestFirst ? expected.toReversed() : expected);
    }
  });
});

test("no change is lost where a page ends early, whatever entry of a block was examined last", async () => {
  const { url } = newDatabaseUrl();
  const random = new Random(7, "blocks");
  const recording = new RecordingBuilder();
  const expected: string[] = [];
  let balance = 0;
  for (let height = 1; height <= 600; height++) {
    // Blocks of one entry, whose only one is the first and the last, are as frequent as any.
    const entries = Array.from({ length: 1 + random.below(3) }, () => ({ toBalance: `${++balance}` }));
    recording.block(height, BigInt(height), (r) => r.transfer(...entries));
    expected.push(`${height} ${balance}`);
  }
  await loadRecording(url, recording.bytes());
  const database = openDatabase(url);
  const ledger = new LedgerReader(database);
  const bob = { partyId: "bob", assetId: undefined, marketIds: [], types: [] };
  const call = { signal: new AbortController().signal, clientAddress: "127.0.0.1", requestHeaders: {} };
  let early = 0;
  for (const newestFirst of [true, false]) {
    for (const examinedMax of [1, 150]) {
      const found: string[] = [];
      for (let cursor: BalancePlace | undefined, hasNext = true; hasNext; ) {
        const request = { newestFirst, size: 90, backwards: false, cursor };
        const page = await readBalanceChanges(ledger, bob, always, request, call, examinedMax);
        found.push(...page.rows.map((row) => `${row.height} ${row.balance}`));
        if (page.reached !== undefined) early++;
        cursor = page.reached ?? page.rows.at(-1);
        ({ hasNext } = page);
      }
      expect(found).toEqual(newestFirst ? expected.toReversed() : expected);
    }
  }
  expect(early).toBeGreaterThan(10);
  await database.close();
});

test("blocks of many entries are folded in pieces", async () => {
  const { url } = newDatabaseUrl();
  const recording = new RecordingBuilder();
  let balance = 0;
  for (let height = 1; height <= 3; height++) {
    const entries = Array.from({ length: entriesAtOnceMax }, () => ({ toBalance: `${++balance}` }));
    recording.block(height, BigInt(height), (r) => r.transfer(...entries));
  }
  await loadRecording(url, recording.bytes());
  const database = openDatabase(url);
  const read = vi.spyOn(LedgerView.prototype, "read");
  const request = { newestFirst: true, size: 100, backwards: false, cursor: undefined };
  const call = { signal: new AbortController().signal, clientAddress: "127.0.0.1", requestHeaders: {} };
  const { rows } = await readBalanceChanges(new LedgerReader(database), undefined, always, request, call);
  const ofBob = rows.filter(({ of }) => of.partyId === "bob").map((row) => row.balance);
  expect(ofBob).toEqual([3, 2, 1].map((blocks) => `${blocks * entriesAtOnceMax}`));
  const pieces: unknown[][] = await Promise.all(read.mock.results.map(({ value }) => value));
  expect(Math.max(...pieces.map(({ length }) => length))).toBe(entriesAtOnceMax);
  read.mockRestore();
  await database.close();
});

test("a balance whose newest entry was dropped fails, and is never 0", async () => {
  const { url } = newDatabaseUrl();
  const recording = networks[0]?.[1] ?? new Uint8Array();
  const model = modelOf(recording);
  await loadRecording(url, recording);
  const database = openDatabase(url);
  const { oldest } = await retain(database, { keepNs: 20_000_000_000n });
  if (oldest === undefined) throw new Error("nothing was loaded");
  const api = await ApiCaller.open(url);
  const [known, unknown] = [true, false].map((isKept) =>
    model.accounts.find((account) => {
      const last = model.changes.filter((change) => keyOf(change.account) === keyOf(account)).at(-1);
      return last !== undefined && last.height >= oldest.height === isKept;
    }),
  );
  if (known === undefined || unknown === undefined) throw new Error("there is no such account");
  const exactly = ({ owner, asset, marketId, type }: ModelAccount) => ({
    filter: {
      ...{ partyIds: [owner], assetId: asset, accountTypes: [typeName(type)] },
      ...(marketId === "" ? {} : { marketIds: [marketId] }),
    },
  });
  const notKept = { code: "failed_precondition", reason: "LEDGER_NOT_RETAINED" };
  expect((await api.page("ListAccounts", exactly(known))).edges.length).toBeGreaterThan(0);
  expect(await api.failure("ListAccounts", exactly(unknown))).toEqual(notKept);
  expect(await api.failure("ListAccounts", { ...exactly(known), asOf: `${oldest.timeNs - 1n}` })).toEqual(notKept);
  expect(await api.failure("ListBalanceChanges", { dateRange: { startTimestamp: "0" } })).toEqual(notKept);
  const kept = model.changes.filter(({ height }) => height >= oldest.height).map(changeJson);
  const listed = await api.pageThrough("ListBalanceChanges", {}, 50, { newestFirst: false });
  // A first change of a kept block is one even if what was dropped was the same.
  const text = (change: JsonObject) => JSON.stringify(Object.entries(change).sort());
  const texts = new Set(listed.map(text));
  expect(kept.length).toBeGreaterThan(0);
  expect(kept.filter((change) => !texts.has(text(change)))).toEqual([]);
  await api.opened.close();
  await database.close();
});
