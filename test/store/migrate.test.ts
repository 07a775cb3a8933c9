import { expect, it } from "vitest";
import { openDatabase } from "../../src/store/database.js";
import { hasSchema, migrate } from "../../src/store/migrate.js";
import { readMigrations, splitStatements } from "../../src/store/migration-files.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";

const log = createLog("silent");
const table = (version: number, ...statements: string[]) => ({
  version,
  name: `m${version}`,
  checksum: `${version}`.repeat(64).slice(0, 64),
  statements,
});

it("creates the database and its schema once, also when several processes migrate at the same time", async () => {
  const { url } = newDatabaseUrl();
  const outcomes = await Promise.all([migrate(url, log), migrate(url, log), migrate(url, log)]);
  expect(outcomes.map((outcome) => outcome.applied).sort()).toEqual([0, 0, readMigrations().length]);
  const database = openDatabase(url);
  expect(await hasSchema(database)).toBe(true);
  expect(await database.query("SELECT * FROM progress")).toEqual([]);
  await database.close();
});

it("goes on where a killed migration ended, also when its last statement had not been noted", async () => {
  const { url } = newDatabaseUrl();
  const broken = table(1, "CREATE TABLE a (x INT PRIMARY KEY)", "CREATE TABLE b (x INT PRIMARY KEY)");
  await expect(
    migrate(url, log, [{ ...broken, statements: [...broken.statements.slice(0, 1), "CREATE NO"] }]),
  ).rejects.toMatchObject({ code: "ER_PARSE_ERROR" });
  const database = openDatabase(url);
  expect(await hasSchema(database, [broken])).toBe(false);
  await database.withConnection((connection) => connection.run("CREATE TABLE b (x INT PRIMARY KEY)"));
  expect(await migrate(url, log, [broken])).toEqual({ version: 1, applied: 1, databaseCreated: false });
  expect(await hasSchema(database, [broken])).toBe(true);
  await database.close();
});

it("refuses a database that is newer, and one made from other files", async () => {
  const { url } = newDatabaseUrl();
  const one = table(1, "CREATE TABLE a (x INT PRIMARY KEY)");
  await migrate(url, log, [one, table(2, "CREATE TABLE b (x INT PRIMARY KEY)")]);
  await expect(migrate(url, log, [one])).rejects.toThrow(
    "the database has schema version 2, newer than this program's 1: use a newer program",
  );
  await expect(migrate(url, log, [{ ...one, checksum: "f".repeat(64) }])).rejects.toThrow(
    "migration 1 (m1) is not the one that the database was made with: use the program that made it, or a new database",
  );
});

it("tells readers to wait for a first migration, and refuses them another version", async () => {
  const { url, name } = newDatabaseUrl();
  const database = openDatabase(url);
  const one = table(1, "CREATE TABLE a (x INT PRIMARY KEY)");
  const two = table(2, "CREATE TABLE b (x INT PRIMARY KEY)");
  expect(await hasSchema(database, [one])).toBe(false);
  await migrate(url, log, []);
  expect(await hasSchema(database, [one])).toBe(false);
  await migrate(url, log, [one]);
  expect(await hasSchema(database, [one])).toBe(true);
  await expect(hasSchema(database, [one, two])).rejects.toThrow(
    "the database has schema version 1, this program needs 2: run marketd migrate",
  );
  await migrate(url, log, [one, two]);
  await expect(hasSchema(database, [one])).rejects.toThrow(
    "the database has schema version 2, newer than this program's 1: use a newer program",
  );
  await database.close();
  const stranger = new URL(url);
  stranger.username = "stranger";
  stranger.password = "wrong";
  const refused = openDatabase(stranger.href);
  await expect(hasSchema(refused, [one])).rejects.toThrow(
    new RegExp(`^the database ${name} at .* refuses its user; check the URL and the user's rights$`),
  );
  await refused.close();
});

it("never refuses a reader that looks between two migrations of a new database", async () => {
  for (let round = 0; round < 2; round++) {
    const { url } = newDatabaseUrl();
    const database = openDatabase(url);
    let isDone = false;
    const poll = async (): Promise<boolean> => {
      const wasDone = isDone;
      const found = await hasSchema(database);
      return found || wasDone ? found : poll();
    };
    const readers = [poll(), poll(), poll(), poll()];
    const migrated = migrate(url, log).finally(() => {
      isDone = true;
    });
    await Promise.allSettled([...readers, migrated]);
    expect(await Promise.all([...readers, migrated])).toEqual([true, true, true, true, expect.anything()]);
    await database.close();
  }
});

it("does not adopt tables that were there before it, and creates nothing beside them", async () => {
  const { url, name } = newDatabaseUrl();
  await migrate(url, log, []);
  const database = openDatabase(url);
  const run = (sql: string) => database.withConnection((connection) => connection.run(sql));
  const tables = async () => (await database.query("SHOW TABLES")).flatMap((row) => Object.values(row).map(String));
  for (const migrationTable of ["migration", "compatible_migration"]) await run(`DROP TABLE ${migrationTable}`);
  for (const foreign of ["asset", "trade"]) await run(`CREATE TABLE ${foreign} (x INT)`);
  for (const _ of ["once", "again"]) {
    await expect(migrate(url, log)).rejects.toThrow(
      new RegExp(
        `^the database ${name} at \\S+ has tables with names of marketd's that are not marketd's: trade, asset; use another database, or rename them$`,
      ),
    );
    expect(await tables()).toEqual(["asset", "trade"]);
  }
  await run("ALTER TABLE trade RENAME migration");
  await expect(migrate(url, log)).rejects.toThrow("that are not marketd's: migration; use");
  await run("DROP TABLE migration");
  await run("ALTER TABLE asset RENAME assets");
  expect(await migrate(url, log)).toMatchObject({ applied: readMigrations().length });
  await database.close();
});

it("tells the table of a killed migration from those that it had not reached", async () => {
  const { url } = newDatabaseUrl();
  const create = (name: string) => `CREATE TABLE ${name} (x INT PRIMARY KEY)`;
  const [one, two] = [table(1, create("a"), create("b"), create("c")), table(2, create("d"))];
  const killed = { ...one, statements: [create("a"), "CREATE NO", ""] };
  await expect(migrate(url, log, [killed, two])).rejects.toMatchObject({ code: "ER_PARSE_ERROR" });
  const database = openDatabase(url);
  const run = (sql: string) => database.withConnection((connection) => connection.run(sql));
  for (const name of ["b", "c", "d"]) await run(create(name));
  await expect(migrate(url, log, [one, two])).rejects.toThrow("that are not marketd's: c, d; use");
  await run("DROP TABLE c");
  await expect(migrate(url, log, [one, two])).rejects.toThrow("that are not marketd's: d; use");
  await run("DROP TABLE d");
  expect(await migrate(url, log, [one, two])).toMatchObject({ applied: 2 });
  await run("UPDATE migration SET statements_done = 0 WHERE version = 2");
  expect(await migrate(url, log, [one, two])).toMatchObject({ applied: 1 });
  await database.close();
});

it("splits statements where a line ends with a semicolon, outside of comments", () => {
  expect(splitStatements("-- a;\nSELECT ';', 3-2\n  -- it's;\n, '--';\n\nSELECT 'it''s; 4';\n")).toEqual([
    "SELECT ';', 3-2\n\n, '--'",
    "SELECT 'it''s; 4'",
  ]);
  expect(readMigrations()[0]?.statements[0]).toMatch(/^CREATE TABLE progress/);
});
