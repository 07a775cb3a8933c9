import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { escapeId } from "mysql2/promise";
import { OperatorError } from "../domain/operator-error.js";
import type { Log } from "../telemetry/log.js";
import { type Connection, ServerConnection } from "./connection/connection.js";
import { databaseErrorCode, isUnreachable, toDatabaseFailure } from "./connection/database-error.js";
import { type DatabaseAddress, parseDatabaseUrl } from "./connection/database-url.js";
import { describeAddress } from "./connection/driver-options.js";
import { type Database, openDatabase } from "./database.js";
import { type Migration, readMigrations } from "./migration-files.js";
import { nameStore } from "./progress-table.js";

/** The longest wait for another process that migrates the same database, or uses a table. */
export const migrationWaitSeconds = 600;

/**
 * How long a schema change waits for transactions that use the table, before it is retried later. Other users of the
 * table queue behind it meanwhile.
 */
export const tableLockWaitSeconds = 1;

/** Pause between attempts to change a table that is in use. */
const tableLockPauseMs = 500;

/**
 * The applied migrations. Row 0 of `migration` is the lock of the migrating process. `statements_done` is written after
 * each statement: servers commit at every schema change, so a migration may be killed in between.
 *
 * Programs refuse unknown rows of `migration`, and do not read `compatible_migration`. Migrations that older programs
 * tolerate are recorded there, so that they keep running during a rolling restart. The first migration is in `migration`.
 */
const migrationTables = ["migration", "compatible_migration"] as const;

type MigrationTable = (typeof migrationTables)[number];

const createMigrationTable = (table: MigrationTable) => `CREATE TABLE IF NOT EXISTS ${table} (
  version INT UNSIGNED NOT NULL PRIMARY KEY,
  name VARBINARY(128) NOT NULL,
  checksum VARBINARY(64) NOT NULL,
  statements INT UNSIGNED NOT NULL,
  statements_done INT UNSIGNED NOT NULL
) ENGINE = InnoDB`;

/**
 * Errors of a statement that a killed migration had run but not recorded: the table, column or key exists already, or
 * is gone.
 */
const alreadyDone: ReadonlySet<string> = new Set([
  "ER_TABLE_EXISTS_ERROR",
  "ER_DUP_FIELDNAME",
  "ER_DUP_KEYNAME",
  "ER_CANT_DROP_FIELD_OR_KEY",
  "ER_BAD_TABLE_ERROR",
]);

/** Errors for a missing table or database. */
const nothingThere: ReadonlySet<string> = new Set(["ER_NO_SUCH_TABLE", "ER_BAD_DB_ERROR"]);

const accessDenied: ReadonlySet<string> = new Set([
  "ER_ACCESS_DENIED_ERROR",
  "ER_DBACCESS_DENIED_ERROR",
  "ER_TABLEACCESS_DENIED_ERROR",
]);

/** The error of a server with `require_secure_transport`. */
const tlsRequired = "ER_SECURE_TRANSPORT_REQUIRED";

interface MigrationRow {
  readonly version: number;
  readonly name: string;
  readonly checksum: string;
  readonly statements: number;
  readonly statements_done: number;
  readonly noted_in: MigrationTable;
}

/** The result of {@link migrate}. */
export interface MigrationSummary {
  /** The version of the database now. */
  readonly version: number;
  /** The number of migrations that were applied. */
  readonly applied: number;
  readonly databaseCreated: boolean;
}

/**
 * Migrates a database to this program's schema. Creates it if it is missing and the user may. Concurrent processes wait
 * for each other; a killed migration is resumed.
 *
 * This runner exists because the usual one creates its version table in several steps, which concurrent processes
 * break, cannot resume a migration, and needs multi-statement connections.
 * @throws OperatorError for a database that is newer than this program, was migrated from other files, or has tables of
 * others with names of ours
 */
export async function migrate(
  url: string,
  log: Log,
  migrations: readonly Migration[] = readMigrations(),
): Promise<MigrationSummary> {
  if (await isCurrent(url, migrations)) return { version: migrations.length, applied: 0, databaseCreated: false };
  const databaseCreated = await createDatabase(parseDatabaseUrl(url));
  if (databaseCreated) log.info("database created");
  const database = openDatabase(url, { connectionsMax: 2, statementTimeoutMs: Number.POSITIVE_INFINITY });
  try {
    await database.withConnection(async (connection) => {
      const foreign = await findForeignTables(connection, migrations);
      if (foreign.length > 0) throw nameTaken(foreign, database);
      for (const table of migrationTables) await connection.run(createMigrationTable(table));
    });
    const applied = await database.withConnection(async (lock) => {
      await lock.run(`SET SESSION innodb_lock_wait_timeout = ${migrationWaitSeconds}`);
      await lock.run("INSERT IGNORE INTO migration VALUES (0, 'lock', '', 0, 0)");
      await lock.run("START TRANSACTION");
      try {
        await lock.query("SELECT version FROM migration WHERE version = 0 FOR UPDATE");
        return await database.withConnection((connection) => applyPending(connection, migrations, log));
      } finally {
        await lock.run("ROLLBACK");
      }
    });
    return { version: migrations.length, applied, databaseCreated };
  } catch (error) {
    throw mayNotMigrate(error, database);
  } finally {
    await database.close();
  }
}

/**
 * Tables that migrations are to create, and that are there although no migration of ours made them. Migrations are noted
 * before their first statement runs, and each statement after it: so at most one statement has run that is not noted, the
 * next one of a migration that was noted. Its table may be ours, those of all later statements are not.
 */
async function findForeignTables(connection: Connection, migrations: readonly Migration[]): Promise<string[]> {
  const columns = await connection.query<{ name: string; columnName: string }>(
    `SELECT CAST(table_name AS CHAR) AS name, CAST(column_name AS CHAR) AS columnName
     FROM information_schema.columns WHERE table_schema = DATABASE()`,
  );
  const found = new Set(columns.map(({ name }) => name));
  const isOurs = (table: MigrationTable) =>
    columns.some(({ name, columnName }) => name === table && columnName === "statements_done");
  const foreign: string[] = migrationTables.filter((table) => found.has(table) && !isOurs(table));
  if (foreign.length > 0) return foreign;
  // Read after the tables: another process that migrates now has noted what it had created by then.
  const rows = await readApplied(connection);
  const doneOf = ({ version }: Migration) => rows.find((row) => row.version === version)?.statements_done;
  const pending = migrations.filter((migration) => (doneOf(migration) ?? 0) < migration.statements.length);
  const [next] = pending;
  const mayHaveRun = next !== undefined && doneOf(next) !== undefined ? 1 : 0;
  const statements = pending.flatMap((migration) => migration.statements.slice(doneOf(migration)));
  const created = statements.slice(mayHaveRun).map((sql) => /^CREATE TABLE (\w+)/.exec(sql)?.[1]);
  return created.filter((table) => table !== undefined && found.has(table)) as string[];
}

function nameTaken(tables: readonly string[], { description }: Database): OperatorError {
  const names = tables.join(", ");
  const message = `the database ${description} has tables with names of marketd's that are not marketd's: ${names}; use another database, or rename them`;
  return new OperatorError(message);
}

/** One line for operators whose user may not create the database or change its tables. */
function mayNotMigrate(error: unknown, { description }: Database): unknown {
  const code = databaseErrorCode(error) ?? "";
  const who = "run marketd migrate with a user who may (docs/operations.md)";
  if (accessDenied.has(code)) {
    return new OperatorError(
      `the database ${description} needs migrations that its user may not make: ${who}`,
      1,
      error,
    );
  }
  if (code !== "ER_BAD_DB_ERROR") return error;
  return new OperatorError(`there is no database ${description}, and its user may not create it: ${who}`, 1, error);
}

/** Whether the schema is up to date. Then a user who may not change tables is sufficient. */
async function isCurrent(url: string, migrations: readonly Migration[]): Promise<boolean> {
  const database = openDatabase(url, { connectionsMax: 1 });
  try {
    const rows = await database.withConnection(readApplied);
    checkApplied(rows, migrations);
    if (!isApplied(rows, migrations)) return false;
    if (migrations.some(({ compatible }) => compatible)) await database.withConnection(nameStore);
    return true;
  } catch (error) {
    if (error instanceof OperatorError || isUnreachable(error)) throw error;
    // The database does not exist, or not for this user: what follows creates it, or reports why not.
    return false;
  } finally {
    await database.close();
  }
}

/**
 * Whether the database has this program's schema, for commands that only read. False: it was not migrated yet, or is
 * being migrated; waiting helps.
 * @throws OperatorError for a database that is older or newer than this program, or refuses its user
 * @throws Failure `unavailable` if it cannot be reached
 */
export async function hasSchema(
  database: Database,
  migrations: readonly Migration[] = readMigrations(),
): Promise<boolean> {
  const rows = await database.withConnection(readApplied).catch((error: unknown) => {
    const code = databaseErrorCode(error) ?? "";
    if (nothingThere.has(code)) return [];
    if (code === tlsRequired) throw tlsOnly(error);
    if (!accessDenied.has(code)) throw error;
    const message = `the database ${database.description} refuses its user; check the URL and the user's rights`;
    throw new OperatorError(message, 1, error);
  });
  checkApplied(rows, migrations);
  if (isApplied(rows, migrations)) return true;
  const known = rows.filter(({ version }) => version <= migrations.length);
  if (known.length === 0 || known.some(isUnfinished)) return false;
  throw new OperatorError(
    `the database has schema version ${known.length}, this program needs ${migrations.length}: run marketd migrate`,
  );
}

function isUnfinished(row: MigrationRow): boolean {
  return row.statements_done < row.statements;
}

function isApplied(rows: readonly MigrationRow[], migrations: readonly Migration[]): boolean {
  const finished = new Set(rows.filter((row) => !isUnfinished(row)).map(({ version }) => version));
  return migrations.length > 0 && migrations.every(({ version }) => finished.has(version));
}

/** Where the record of migrations differs from what this program writes. Those of newer releases are unknown to it. */
export async function findSchemaProblems(
  connection: Connection,
  migrations: readonly Migration[] = readMigrations(),
): Promise<{ readonly table: MigrationTable; readonly text: string }[]> {
  const expected = migrations.map((migration) => {
    const { version, name, checksum } = migration;
    const { length } = migration.statements;
    return { table: tableOf(migration), version, name, checksum, statements: length, statements_done: length };
  });
  expected.push({ table: "migration", version: 0, name: "lock", checksum: "", statements: 0, statements_done: 0 });
  const problems: { readonly table: MigrationTable; readonly text: string }[] = [];
  for (const table of migrationTables) {
    const rows = await connection.query<MigrationRow>(`SELECT * FROM ${table} ORDER BY version`);
    for (const row of expected.filter((each) => each.table === table)) {
      const found = rows.find(({ version }) => version === row.version);
      if (found === undefined || !isDeepStrictEqual({ table, ...found }, row)) {
        problems.push({ table, text: `its row of migration ${row.version} is not what this program writes` });
      }
    }
    const others = rows.filter(
      ({ version }) => !expected.some((row) => row.table === table && row.version === version),
    );
    for (const { version } of others) {
      if (table === "compatible_migration" && version > migrations.length) continue;
      problems.push({ table, text: `it has a row of migration ${version}, which does not belong there` });
    }
  }
  return problems;
}

async function readApplied(connection: Connection): Promise<MigrationRow[]> {
  const rows: MigrationRow[] = [];
  for (const table of migrationTables) {
    // What a migration that began in between wrote to the second table would look like an unknown version.
    if (table === "compatible_migration" && rows.length === 0) break;
    try {
      const sql = `SELECT * FROM ${table} WHERE version > 0 ORDER BY version`;
      const found = await connection.query<Omit<MigrationRow, "noted_in">>(sql);
      rows.push(...found.map((row) => ({ ...row, noted_in: table })));
    } catch (error) {
      if (!nothingThere.has(databaseErrorCode(error) ?? "")) throw error;
    }
  }
  return rows;
}

/** A connection that uses no database. */
function connectToServer(address: DatabaseAddress): Promise<ServerConnection> {
  return ServerConnection.open({ ...address, database: "" }, { statementTimeoutMs: Number.POSITIVE_INFINITY });
}

async function createDatabase(address: DatabaseAddress): Promise<boolean> {
  try {
    const server = await connectToServer(address);
    try {
      const [found] = await server.query<{ n: bigint }>(
        "SELECT COUNT(*) AS n FROM information_schema.schemata WHERE schema_name = ?",
        [address.database],
      );
      if (found?.n === 1n) return false;
      const name = escapeId(address.database);
      await server.run(`CREATE DATABASE IF NOT EXISTS ${name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`);
      return true;
    } finally {
      server.destroy();
    }
  } catch (error) {
    // Without the right to list or create it, the database may still exist: opening it tells.
    if (databaseErrorCode(error) === "ER_DBACCESS_DENIED_ERROR") return false;
    throw explain(error, address);
  }
}

function explain(error: unknown, address: DatabaseAddress): unknown {
  if (databaseErrorCode(error) === tlsRequired) return tlsOnly(error);
  if (databaseErrorCode(error) !== "ER_ACCESS_DENIED_ERROR") return toDatabaseFailure(error);
  return new OperatorError(`the database server of ${describeAddress(address)} refuses user ${address.user}`, 1, error);
}

function tlsOnly(error: unknown): OperatorError {
  const message =
    "the database takes connections with TLS only: add ?ssl-mode=verify-identity to its URL (docs/operations.md)";
  return new OperatorError(message, 1, error);
}

function checkApplied(rows: readonly MigrationRow[], migrations: readonly Migration[]): void {
  for (const row of rows) {
    const migration = migrations[row.version - 1];
    if (migration === undefined) {
      if (row.noted_in === "compatible_migration") continue;
      throw new OperatorError(
        `the database has schema version ${row.version}, newer than this program's ${migrations.length}: use a newer program`,
      );
    }
    if (row.checksum !== migration.checksum) {
      throw new OperatorError(
        `migration ${row.version} (${migration.name}) is not the one that the database was made with: use the program that made it, or a new database`,
      );
    }
  }
}

async function applyPending(connection: Connection, migrations: readonly Migration[], log: Log): Promise<number> {
  const rows = await readApplied(connection);
  checkApplied(rows, migrations);
  const rowOf = ({ version }: Migration) => rows.find((row) => row.version === version);
  const pending = migrations.filter((migration) => {
    const row = rowOf(migration);
    return row === undefined || isUnfinished(row);
  });
  // All of them first, so that a reader between two migrations sees that there are more, and not an older schema.
  for (const migration of pending) if (rowOf(migration) === undefined) await note(connection, migration);
  await connection.run(`SET SESSION lock_wait_timeout = ${tableLockWaitSeconds}`);
  for (const migration of pending) {
    await apply(connection, migration, rowOf(migration)?.statements_done);
    const { version, name } = migration;
    log.info({ version, name }, "migration applied");
  }
  if (migrations.some(({ compatible }) => compatible)) await nameStore(connection);
  return pending.length;
}

/** Notes a migration of which nothing is done yet. */
async function note(connection: Connection, migration: Migration): Promise<void> {
  const { version, name, checksum, statements } = migration;
  const sql = `INSERT INTO ${tableOf(migration)} VALUES (?, ?, ?, ?, 0)`;
  await connection.run(sql, [version, name, checksum, statements.length]);
}

/** @param interruptedAt statements that an earlier process noted as done; undefined: it is new */
async function apply(connection: Connection, migration: Migration, interruptedAt: number | undefined): Promise<void> {
  const { version, statements } = migration;
  for (const [index, statement] of statements.entries()) {
    if (index < (interruptedAt ?? 0)) continue;
    try {
      await runWhenFree(connection, inOurRows(statement));
    } catch (error) {
      if (index !== interruptedAt || !alreadyDone.has(databaseErrorCode(error) ?? "")) throw error;
    }
    const sql = `UPDATE ${tableOf(migration)} SET statements_done = ? WHERE version = ?`;
    await connection.run(sql, [index + 1, version]);
  }
}

/**
 * In a row format that takes keys as long as ours, whatever the server's own is. The files, whose checksums stores hold,
 * do not name one.
 */
function inOurRows(statement: string): string {
  return statement.replace(/ ENGINE = InnoDB$/, "$& ROW_FORMAT = DYNAMIC");
}

function tableOf({ compatible }: Migration): MigrationTable {
  return compatible === true ? "compatible_migration" : "migration";
}

/** Runs a schema change between the transactions of others. */
async function runWhenFree(connection: Connection, statement: string): Promise<void> {
  const until = performance.now() + migrationWaitSeconds * 1_000;
  for (;;) {
    try {
      await connection.run(statement);
      return;
    } catch (error) {
      if (databaseErrorCode(error) !== "ER_LOCK_WAIT_TIMEOUT" || performance.now() > until) throw error;
    }
    await sleep(tableLockPauseMs);
  }
}

/** Drops the URL's database if it exists. @throws Failure `unavailable` without a server */
export async function dropDatabase(url: string): Promise<void> {
  const address = parseDatabaseUrl(url);
  const server = await connectToServer(address);
  try {
    await server.run(`DROP DATABASE IF EXISTS ${escapeId(address.database)}`);
  } finally {
    server.destroy();
  }
}
