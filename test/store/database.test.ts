import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Failure } from "../../src/domain/failure.js";
import { asText } from "../../src/store/connection/column.js";
import { ServerConnection } from "../../src/store/connection/connection.js";
import { parseDatabaseUrl } from "../../src/store/connection/database-url.js";
import { groupConcatBytesMax } from "../../src/store/connection/driver-options.js";
import { type Database, openDatabase, readInSnapshot } from "../../src/store/database.js";
import { readEntries } from "../../src/store/ledger-entry-table.js";
import { migrate } from "../../src/store/migrate.js";
import { insertRows, loadRows, rowTable } from "../../src/store/table-rows.js";
import { openWriter } from "../../src/store/writer.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { HalfOpenProxy } from "../support/half-open-proxy.js";

const { url, name } = newDatabaseUrl();
let database: Database;

beforeAll(async () => {
  await migrate(url, createLog("silent"), []);
  database = openDatabase(url);
  await database.withConnection((connection) =>
    connection.run(`CREATE TABLE v (
      id BIGINT UNSIGNED NOT NULL PRIMARY KEY, small TINYINT UNSIGNED, n INT, name VARBINARY(4), body MEDIUMBLOB
    )`),
  );
});

afterAll(async () => {
  await database.withConnection((connection) => connection.run(`DROP DATABASE ${name}`));
  await database.close();
});

it("gives each kind of column its own kind of value, exact above 2^53", async () => {
  const most = (1n << 64n) - 1n;
  await database.withConnection((c) =>
    c.run("INSERT INTO v VALUES (?, 1, -2, ?, ?), (9007199254740993, 0, NULL, 'A', NULL)", [
      most,
      "aé".slice(0, 1),
      Uint8Array.of(0, 255),
    ]),
  );
  const expected = [
    { id: 9007199254740993n, small: 0, n: null, name: "A", body: null },
    { id: most, small: 1, n: -2, name: "a", body: Buffer.from([0, 255]) },
  ];
  expect(await database.query("SELECT * FROM v WHERE id > ? ORDER BY id", [9007199254740992n])).toEqual(expected);
  // Identifiers compare by bytes: case counts.
  expect(await database.query("SELECT name FROM v WHERE name IN (?)", [["a", "b"]])).toEqual([{ name: "a" }]);
});

it("tells clients of an outage where its user has all the connections, or statements, that it may", async () => {
  const user = `${name}_few`;
  const run = (sql: string) => database.withConnection((connection) => connection.run(sql));
  for (const limit of ["MAX_USER_CONNECTIONS 1", "MAX_QUERIES_PER_HOUR 2"]) {
    await run(`CREATE USER '${user}'@'%' IDENTIFIED BY 'a-password' WITH ${limit}`);
    await run(`GRANT SELECT ON ${name}.* TO '${user}'@'%'`);
    const of = new URL(url);
    [of.username, of.password] = [user, "a-password"];
    const few = openDatabase(of.href, { connectionsMax: 4 });
    const reads = await Promise.allSettled([1, 2, 3, 4].map(() => few.query("SELECT SLEEP(0.3) AS x")));
    const failures = reads.flatMap((read) => (read.status === "rejected" ? [read.reason] : []));
    expect(failures.length).toBeGreaterThan(0);
    for (const failure of failures)
      expect(failure).toMatchObject({ code: "unavailable", reason: "DATABASE_UNAVAILABLE" });
    await few.close();
    await run(`DROP USER '${user}'@'%'`);
  }
});

it.each([
  ["bytes of an expression", "SELECT CONCAT(name) AS x FROM v"],
  ["bytes of a union", "SELECT NULL AS x UNION ALL SELECT name FROM v"],
  ["bytes of a derived table", "SELECT MAX(x) AS x FROM (SELECT name AS x FROM v) AS d"],
  ["a time", "SELECT CAST('2026-01-01' AS DATETIME) AS x"],
  ["a fraction", "SELECT 1e0 AS x"],
])("refuses what each server may give another type: %s", async (_, sql) => {
  await expect(database.query(sql)).rejects.toThrow(
    /^column x of a result has type \d+ and collation 63: state its type$/,
  );
});

it("gives text as text, whatever its character set, and what is stated alike on every server", async () => {
  const [row] = await database.query(
    `SELECT 'é' AS text, CONVERT('é' USING latin1) AS latin1, ${asText("NULL")} AS nothing, ${asText("name")} AS name
     FROM v WHERE name = 'A' UNION ALL SELECT NULL, NULL, ${asText("REPEAT('x', 3000)")}, NULL`,
  );
  expect(row).toEqual({ text: "é", latin1: "é", nothing: null, name: "A" });
});

it("never takes a text that the server cut for the whole one", async () => {
  await database.withConnection(async (connection) => {
    await connection.run("CREATE TABLE ledger_retention (id INT, oldest_height BIGINT, oldest_time_ns BIGINT)");
    await connection.run(`CREATE TABLE ledger_entry (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, from_account INT,
      to_account INT, class_id INT, transfer_type INT, time_ns BIGINT, quantity VARBINARY(78),
      from_balance VARBINARY(78), to_balance VARBINARY(78))`);
    const row = "2, 3, 4, 5, 6, '7', '8', '9'";
    await connection.run(`INSERT INTO ledger_entry VALUES (1, ${row}), (2, ${row})`);
    const line = (id: number) => `${id}\t2\t3\t4\t5\t6\t7\t8\t9\n`;
    const whole = await readEntries(connection, 1n, 2n);
    expect(Buffer.from(whole.text).toString()).toBe(line(1) + line(2));
    // In the middle of the second line, and after the first.
    for (const bytes of [30, line(1).length]) {
      await connection.run(`SET SESSION group_concat_max_len = ${bytes}`);
      const read = readEntries(connection, 1n, 2n);
      // So short that MySQL gives the text another type.
      await expect(read).rejects.toThrow(/cut the text of 2 ledger entries at \d+ bytes|state its type/);
    }
    await connection.run(`SET SESSION group_concat_max_len = ${groupConcatBytesMax}`);
  });
});

it("refuses values that do not fit, writes in a snapshot, and several statements in one text", async () => {
  await expect(
    database.withConnection((c) => c.run("INSERT INTO v VALUES (1, 1, 1, 'toolong', NULL)")),
  ).rejects.toMatchObject({ code: "ER_DATA_TOO_LONG" });
  await expect(database.withSnapshot((c) => c.run("DELETE FROM v"))).rejects.toMatchObject({ errno: 1792 });
  await expect(database.query("SELECT 1; SELECT 2")).rejects.toMatchObject({ code: "ER_PARSE_ERROR" });
});

it("sees one state in a snapshot", async () => {
  await database.withSnapshot(async (connection) => {
    const before = await connection.query("SELECT id FROM v");
    await database.withTransaction((other) => other.run("INSERT INTO v VALUES (5, 1, 1, 'x', NULL)"));
    expect(await connection.query("SELECT id FROM v")).toEqual(before);
  });
  expect(await database.query("SELECT id FROM v WHERE id = 5")).toHaveLength(1);
});

it("sees one state in all queries of a snapshot in one round trip, the newest one each time", async () => {
  const texts = [
    "SELECT id FROM v ORDER BY id",
    "SELECT SLEEP(0.3) AS slept",
    "SELECT id, name FROM v ORDER BY id",
  ] as const;
  await database.withOwnConnection(async (connection) => {
    const read = () => readInSnapshot<[{ id: bigint }, object, { id: bigint; name: string }]>(connection, ...texts);
    const reading = read();
    await setTimeout(100);
    await database.withTransaction((other) => other.run("INSERT INTO v VALUES (6, 1, 1, 'y', NULL)"));
    const [before, slept, after] = await reading;
    expect(slept).toHaveLength(1);
    expect(after.map(({ id }) => ({ id }))).toEqual(before);
    expect(before).not.toContainEqual({ id: 6n });
    expect((await read())[2]).toContainEqual({ id: 6n, name: "y" });
    await expect(readInSnapshot(connection, "SELECT 1", "DELETE FROM v")).rejects.toMatchObject({ errno: 1792 });
  });
});

it("is UNAVAILABLE, with the cause, when there is no server, and when the server ends the connection", async () => {
  const nowhere = openDatabase("mysql://root@localhost/x?socket=/nowhere/s.sock");
  const failure = await nowhere.query("SELECT 1").catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(Failure);
  expect(failure).toMatchObject({
    code: "unavailable",
    reason: "DATABASE_UNAVAILABLE",
    message: "the database cannot be reached; try again",
    cause: { code: "ENOENT" },
  });
  await nowhere.close();
  await expect(database.withConnection((connection) => connection.run("KILL CONNECTION_ID()"))).rejects.toMatchObject({
    reason: "DATABASE_UNAVAILABLE",
  });
  expect(await database.query("SELECT id FROM v WHERE id = 5")).toEqual([{ id: 5n }]);
});

it("gives up a statement that takes too long, and its connection", async () => {
  const hasty = openDatabase(url, { connectionsMax: 1, statementTimeoutMs: 100 });
  const connectionId = async () => (await hasty.query<{ id: bigint }>("SELECT CONNECTION_ID() AS id"))[0]?.id;
  const before = await connectionId();
  await expect(hasty.query("SELECT SLEEP(20)")).rejects.toMatchObject({
    code: "unavailable",
    reason: "DATABASE_UNAVAILABLE",
    retryAfterMs: 1000,
  });
  expect(await connectionId()).not.toBe(before);
  await hasty.close();
});

it("gives up a server that is silent while it connects, not one that takes its time", async () => {
  const proxy = await HalfOpenProxy.before(url);
  const limitMs = 1_000;
  const open = () => ServerConnection.open(parseDatabaseUrl(proxy.url), { statementTimeoutMs: 20_000 }, limitMs);
  // Its greeting, that it lets the client in, and its settings: more than the limit in all.
  proxy.replyDelayMs = 0.6 * limitMs;
  const startedAt = performance.now();
  const connection = await open();
  expect(performance.now() - startedAt).toBeGreaterThan(limitMs);
  // Nor is it given up afterwards.
  await setTimeout(2 * limitMs);
  expect(await connection.query("SELECT 'a' AS text")).toEqual([{ text: "a" }]);
  connection.destroy();
  proxy.replyDelayMs = 0;
  const silenced = proxy.loseReplyTo("SET ");
  const givenUp = expect(open()).rejects.toMatchObject({ code: "unavailable" });
  await silenced;
  await givenUp;
  proxy.revive();
  (await open()).destroy();
  await proxy.close();
});

it("writes over a slow network, and takes no statement that arrives slowly for a dead connection", async () => {
  const proxy = await HalfOpenProxy.before(url);
  const writer = await openWriter(proxy.url);
  proxy.bytesPerSecond = 256 * 1024;
  const body = Buffer.alloc(1_200, "x");
  const table = rowTable<{ id: number; body: Uint8Array }>("v", 1, ["id", "body"]);
  const rows = (first: number) => Array.from({ length: 400 }, (_, i) => ({ id: first + i, body }));
  const lines = rows(2_000).map(({ id }) => `${id}\t${body}\n`);
  await writer.transaction(async (connection) => {
    await insertRows(connection, table, rows(1_000));
    const text = { bytes: Buffer.from(lines.join("")), rows: lines.length };
    await loadRows(connection, "v", "id, body", text);
  });
  writer.close();
  await proxy.close();
  const written = "SELECT CAST(COUNT(*) AS SIGNED) AS n FROM v WHERE id >= 1000 AND body = ?";
  expect(await database.query(written, [body])).toEqual([{ n: 800n }]);
});
