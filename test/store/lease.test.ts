import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MalformedHistoryError } from "../../src/domain/book-history.js";
import { unavailable } from "../../src/domain/failure.js";
import type { Connection } from "../../src/store/connection/connection.js";
import { behindWaitMsMax, Reader } from "../../src/store/connection/lease.js";
import { KnownPlace, ReadBehindError, type StorePlace } from "../../src/store/connection/store-place.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";

const { url, name } = newDatabaseUrl();
let database: Database;

beforeAll(async () => {
  await migrate(url, createLog("silent"), []);
  database = openDatabase(url, { connectionsMax: 1 });
});

afterAll(async () => {
  await database.query(`DROP DATABASE ${name}`);
  await database.close();
});

const connectionId = (connection: Pick<Connection, "query">): Promise<unknown> =>
  connection.query("SELECT CONNECTION_ID() AS id");

function ask<T>(signal: AbortSignal, use: (reader: Reader) => Promise<T>): Promise<T> {
  return database.lease({ class: "ledger", call: { signal, clientAddress: "test", requestHeaders: {} } }, use);
}

test("an aborted request is answered at once, its statement ends, and its connection is used again", async () => {
  const before = await database.withConnection(connectionId);
  const reason = unavailable("the server stops", "DRAINING", 1000);
  const controller = new AbortController();
  let statements = 0;
  let statementEnded = false;
  const aborted = ask(controller.signal, async (reader) => {
    statements++;
    await reader.query("SELECT SLEEP(0.5) AS slept");
    statementEnded = true;
    await reader.query("SELECT 1 AS one");
    statements++;
  });
  await setTimeout(100);
  controller.abort(reason);
  await expect(aborted).rejects.toBe(reason);
  expect(statementEnded).toBe(false);
  const next = ask(new AbortController().signal, (reader) => {
    expect(statementEnded).toBe(true);
    return connectionId(reader);
  });
  expect(await next).toEqual(before);
  expect(statements).toBe(1);
});

test("many requests that are aborted at any moment leave one connection, and nothing waits", async () => {
  const before = await database.withConnection(connectionId);
  const requests = Array.from({ length: 200 }, async (_, i) => {
    const asked = ask(AbortSignal.timeout(i % 20), (reader) => reader.query("SELECT SLEEP(0.002) AS slept"));
    return asked.catch(() => "aborted");
  });
  await Promise.all(requests);
  expect(await ask(new AbortController().signal, connectionId)).toEqual(before);
  await expect.poll(() => [database.queue.running, database.queue.waiting, database.queue.clients]).toEqual([0, 0, 0]);
});

test("rows that do not fit together are no fault of a store that is gone meanwhile", async () => {
  await database.query(
    "CREATE TABLE progress (id INT PRIMARY KEY, store_id CHAR(4), stream_sequence INT, height INT, block_time_ns INT)",
  );
  await database.query("INSERT INTO progress VALUES (1, 'here', 5, 1, 1)");
  const read = (storeId: string) => {
    const place = { storeId, streamSequence: 5n };
    const malformed = () => Promise.reject(new MalformedHistoryError("there is no block 7"));
    return database.lease({ class: "history", call: undefined, place }, malformed);
  };
  await expect(read("here")).rejects.toThrow(MalformedHistoryError);
  await expect(read("gone")).rejects.toMatchObject({ code: "unavailable", reason: "DATABASE_BEHIND" });
});

test("a read that a lock of another session ended is tried again, and is unavailable if that goes on", async () => {
  let attempts = 0;
  // As MySQL's lock on a table that is being dropped.
  const deadlock = "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found'";
  const read = (deadlocks: number) => {
    return database.lease({ class: "history", call: undefined }, async (reader) => {
      if (++attempts <= deadlocks) await reader.query(deadlock);
      return reader.query("SELECT 'there' AS found");
    });
  };
  expect(await read(2)).toEqual([{ found: "there" }]);
  expect(attempts).toBe(3);
  const lasting = read(Number.POSITIVE_INFINITY);
  await expect(lasting).rejects.toMatchObject({ code: "unavailable", reason: "DATABASE_UNAVAILABLE" });
});

test("a read is not behind because one that began later is quicker, and has found a newer block", async () => {
  const wide = openDatabase(url);
  const read = (use: (reader: Reader) => Promise<unknown>) => wide.lease({ class: "ledger", call: undefined }, use);
  const at = (streamSequence: bigint) => ({ storeId: "here", streamSequence, height: 1n, timeNs: 1n });
  const finds = async (streamSequence: bigint, meanwhile = async () => {}) => {
    let attempts = 0;
    await read(async (reader) => {
      attempts++;
      await meanwhile();
      reader.found(at(attempts === 1 ? streamSequence : 9n));
    });
    return attempts;
  };
  expect(await finds(6n)).toBe(1);
  expect(await finds(7n, async () => void (await finds(8n)))).toBe(1);
  // What was known before it counts.
  expect(await finds(7n)).toBe(2);
  await wide.close();
});

test("a server is looked for as long after a wait for a turn", async () => {
  const busy = database.lease({ class: "ledger", call: undefined }, (reader) => {
    return reader.query(`SELECT SLEEP(${(behindWaitMsMax + 200) / 1_000}) AS slept`);
  });
  let attempts = 0;
  const late = database.lease({ class: "ledger", call: undefined }, async () => {
    if (++attempts === 1) throw new ReadBehindError("the server is behind");
    return "there";
  });
  expect(await late).toBe("there");
  await busy;
});

/** A reader on another server of the same store, which gets what `arrive` says right after the first statement. */
function lateReader(connection: Connection, place: StorePlace, arrive: string): Reader {
  const query: Connection["query"] = async (sql, parameters) => {
    const found = await connection.query<never>(sql, parameters);
    await connection.query(arrive);
    return found;
  };
  const late = new Proxy(connection, {
    get: (target, name) => (name === "query" ? query : Reflect.get(target, name)),
  });
  return new Reader(late, new KnownPlace(), { class: "history", call: undefined, place });
}

test("a place that comes between a statement and its proof does not make the statement's rows few", async () => {
  await database.query("CREATE TABLE event (id BIGINT PRIMARY KEY)");
  await database.query("INSERT INTO event VALUES (7)");
  const place = { storeId: "here", streamSequence: 6n };
  const rows = await database.withConnection((connection) => {
    const reader = lateReader(connection, place, "UPDATE progress SET stream_sequence = 6");
    return reader.query(`SELECT id FROM event WHERE ${reader.holds}`);
  });
  expect(rows).toEqual([{ id: 7n }]);
});

test("a statement that does not tell of its place runs on no server that lacks it", async () => {
  const place = { storeId: "here", streamSequence: 7n };
  const read = database.withConnection(async (connection) => {
    const reader = lateReader(connection, place, "UPDATE progress SET stream_sequence = 7");
    const rows = await reader.query("SELECT id FROM event");
    await reader.prove();
    return rows;
  });
  await expect(read).rejects.toThrow(ReadBehindError);
});
