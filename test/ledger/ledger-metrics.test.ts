import { Writable } from "node:stream";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { always } from "../../src/domain/date-range.js";
import { idOf } from "../../src/ledger/entry-row.js";
import { LedgerExport } from "../../src/ledger/ledger-export.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { smallLedgerEntriesMax } from "../../src/ledger/plan.js";
import type { AccountSide, LedgerFilter } from "../../src/ledger/selection.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { type FixtureAccount, LedgerFixture } from "./ledger-fixture.js";

let fixture: LedgerFixture;
/** One connection, so that the server's count of its statements is that of the reader's. */
let database: Database;
let ledger: LedgerReader;
const metrics = createMetrics();
const lines: Record<string, unknown>[] = [];

const account = (party: string, type = AccountType.GENERAL): FixtureAccount => ({
  party,
  asset: "usd",
  market: "",
  type,
});
const side = (partyId: string): AccountSide => ({ partyId, assetId: undefined, marketIds: [], types: [] });
const all: LedgerFilter = { from: undefined, to: undefined, closed: false, transferTypes: [] };
const firstPage = { newestFirst: true, size: 10, backwards: false, cursor: undefined };

async function addBlock(...parties: string[]): Promise<void> {
  await fixture.addBlock(
    parties.map((party) => ({
      from: account("network", AccountType.EXTERNAL),
      to: account(party),
      transferType: TransferType.DEPOSIT,
      quantity: "1",
      fromBalance: "0",
      toBalance: "1",
    })),
  );
}

/** How many SELECTs the server got meanwhile. */
async function statementsOf(work: () => Promise<unknown>): Promise<number> {
  const count = async (): Promise<number> => {
    const [row] = await database.query<{ Value: string }>("SHOW SESSION STATUS LIKE 'Com_select'");
    return Number(row?.Value);
  };
  const before = await count();
  await work();
  return (await count()) - before;
}

beforeAll(async () => {
  fixture = await LedgerFixture.create();
  for (let i = 0; i < 5; i++) await addBlock("alice", "bob", "carol", "alice");
  database = openDatabase(fixture.url, { connectionsMax: 1 });
  const write = (line: Buffer, _: string, done: () => void) => {
    lines.push(JSON.parse(line.toString()));
    done();
  };
  ledger = new LedgerReader(database, { log: pino({ level: "debug" }, new Writable({ write })) });
  ledger.counts.register(metrics);
  await ledger.warm();
});
afterAll(async () => {
  await database.close();
  await fixture.drop();
});

test.each<[string, LedgerFilter]>([
  ["everything", all],
  ["one branch", { ...all, to: side("alice") }],
  ["a few branches", { ...all, from: side("alice"), to: side("bob") }],
  ["nothing that the accounts know", { ...all, to: side("nobody") }],
  ["a type that never occurred", { ...all, transferTypes: [TransferType.LOSS] }],
])("a page of %s is one statement", async (_, filter) => {
  expect(await statementsOf(() => ledger.page(filter, always, firstPage))).toBe(1);
});

test("a page of a date range is two statements", async () => {
  const time = { startNs: fixture.entries[4]?.timeNs, endNs: undefined };
  expect(await statementsOf(() => ledger.page(all, time, firstPage))).toBe(2);
});

test("a small export is one statement", async () => {
  const ids: bigint[] = [];
  const statements = await statementsOf(async () => {
    const source = await LedgerExport.open(ledger, { partyId: "alice", assetId: "usd", time: always });
    const next = () => source.next(undefined, 1_000);
    for (let batch = await next(); batch.length > 0; batch = await next()) ids.push(...batch.map(idOf));
  });
  expect(statements).toBe(1);
  expect(ids).toEqual(fixture.entries.filter(({ to }) => to.party === "alice").map(({ id }) => id));
});

test("accounts that are new are fetched, and the page is read once more", async () => {
  await addBlock("alice", "dave");
  const { rows } = await ledger.page({ ...all, to: side("dave") }, always, firstPage);
  expect(rows.map(({ to }) => to.partyId)).toEqual(["dave"]);
  expect(await statementsOf(() => ledger.page({ ...all, to: side("dave") }, always, firstPage))).toBe(1);
});

test("a small ledger is counted again once it has grown, and a large one is not", async () => {
  const transfer = { transferType: TransferType.TRANSFER_FUNDS_SEND, quantity: "1", fromBalance: "0", toBalance: "1" };
  await fixture.addBlock([{ from: account("alice"), to: account("bob"), ...transfer }]);
  const ofAlice = { ...all, from: side("alice"), to: side("alice") };
  const page = async () => {
    lines.length = 0;
    const found = await ledger.page(ofAlice, always, { ...firstPage, newestFirst: false, size: 3 });
    expect(found.rows.map(({ to }) => to.partyId)).toEqual(["alice", "alice", "alice"]);
    return lines.flatMap(({ plans }) => (plans as readonly { readonly plan: string }[]).map(({ plan }) => plan));
  };
  await page();
  expect([await statementsOf(page), await page()]).toEqual([1, ["table_scan"]]);
  await addBlock("bob");
  // What was believed to be all, the count, and all.
  expect([await statementsOf(page), await page()]).toEqual([3, ["table_scan"]]);
  await addBlock(...Array.from({ length: smallLedgerEntriesMax }, () => "bob"));
  await page();
  const before = await statementsOf(page);
  await addBlock("bob");
  expect([await statementsOf(page), await page()]).toEqual([before, ["k_way_merge"]]);
});

test("plans have a name in the metrics and in the debug log", async () => {
  const value = async (name: string): Promise<number> => {
    const text = await metrics.metrics();
    return Number(text.match(new RegExp(`^marketd_ledger_${name}_total\\{plan="range_scan"\\} (\\d+)$`, "m"))?.[1]);
  };
  const names = ["plans", "statements", "rows_examined"];
  const before = await Promise.all(names.map(value));
  lines.length = 0;
  await ledger.page(all, always, firstPage);
  const after = await Promise.all(names.map(value));
  expect(after.map((count, i) => count - (before[i] ?? 0))).toEqual([1, 1, 11]);
  expect(await metrics.metrics()).toMatch(/^marketd_ledger_plans_total\{plan="index_union"\} 0$/m);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatchObject({
    msg: "ledger entries were read",
    plans: [{ plan: "range_scan", statements: 1, rowsExamined: 11 }],
  });
});
