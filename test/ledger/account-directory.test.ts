import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AccountDirectory, directoryRowsMax } from "../../src/ledger/account-directory.js";
import type { Connection } from "../../src/store/connection/connection.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";

/** More than one query fetches. */
const accountCount = 150_000;
/** Each has three accounts, whose numbers lie far apart. */
const partyCount = accountCount / 3;
const bytesPerAccountMax = 120;

let database: Database;

function partyOf(account: number): string {
  return String(account % partyCount).padStart(64, "f");
}

async function insertAccounts(connection: Connection, first: number, count: number): Promise<void> {
  for (let at = first; at < first + count; at += 1_000) {
    const rows = Array.from({ length: Math.min(1_000, first + count - at) }, (_, i) => {
      const account = at + i;
      return `(${account}, '${partyOf(account)}', 'asset ${account % 2}', '', ${Math.floor(account / partyCount)})`;
    });
    await connection.run(`INSERT INTO account VALUES ${rows.join(", ")}`);
  }
}

beforeAll(async () => {
  const { url } = newDatabaseUrl();
  await migrate(url, createLog("silent"));
  database = openDatabase(url);
  await database.withTransaction((connection) => insertAccounts(connection, 1, accountCount));
});

afterAll(async () => {
  await database.close();
});

function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect === "function") collect();
  return process.memoryUsage().heapUsed;
}

function refresh(directory: AccountDirectory, accountMax: number): Promise<void> {
  return database.lease({ class: "ledger", call: undefined }, (reader) =>
    directory.refresh(reader, { accountMax, classMax: 0 }),
  );
}

test("holds every account in little memory, and those that come later", async () => {
  const before = heapBytes();
  const directory = new AccountDirectory();
  await refresh(directory, accountCount);
  expect((heapBytes() - before) / accountCount).toBeLessThan(bytesPerAccountMax);
  expect(directory.extent.accountMax).toBe(accountCount);

  for (const id of [1, 2, directoryRowsMax, directoryRowsMax + 1, accountCount]) {
    const type = Math.floor(id / partyCount);
    const kind = { assetId: `asset ${id % 2}`, marketId: "", type };
    expect(directory.account(id)).toMatchObject({ id, partyId: partyOf(id), kind });
  }
  const own = directory.accountsOf(partyOf(5)).map(({ id }) => id);
  expect(own).toEqual([5, 5 + partyCount, 5 + 2 * partyCount]);
  expect(directory.account(7).kind).toBe(directory.account(9).kind);
  expect(directory.account(7).kind.accounts).toBe(partyCount / 2);
  expect(directory.accountsOf("nobody")).toEqual([]);
  expect(() => directory.account(accountCount + 1)).toThrow("does not hold");

  await database.withConnection((connection) => insertAccounts(connection, accountCount + 1, 5));
  await refresh(directory, accountCount + 5);
  const grown = directory.accountsOf(partyOf(5)).map(({ id }) => id);
  expect(grown).toEqual([...own, 5 + 3 * partyCount]);
});

test("is fetched in pieces that leave turns of the event loop to others", async () => {
  const directory = new AccountDirectory();
  let [known, largest, isOver] = [directory.extent.accountMax, 0, false];
  const watch = (): void => {
    const { accountMax } = directory.extent;
    [known, largest] = [accountMax, Math.max(largest, accountMax - known)];
    if (!isOver) setImmediate(watch);
  };
  setImmediate(watch);
  await refresh(directory, accountCount);
  isOver = true;
  // The first piece begins at -1, where nothing is known.
  expect(largest).toBeGreaterThan(1);
  expect(largest).toBeLessThanOrEqual(directoryRowsMax + 1);
});
