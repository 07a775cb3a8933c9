import { createConnection, type RowDataPacket } from "mysql2/promise";
import { OperatorError } from "../domain/operator-error.js";
import type { Log } from "../telemetry/log.js";
import { type Connection, type Database, describeAddress, driverOptions, openDatabase } from "./database.js";
import { databaseErrorCode, toDatabaseFailure } from "./database-error.js";
import { type DatabaseAddress, parseDatabaseUrl } from "./database-url.js";
import { type Migration, readMigrations } from "./migration-files.js";

/** How long a migration waits for another process that migrates the same database. */
export const migrationWaitSeconds = 600;

/**
 * What has been applied. Row 0 is the lock: who holds it migrates. `statements_done` is written after each statement,
 * for the servers commit at every change of the schema, and a migration may be killed between two.
 */
const createMigrationTable = `CREATE TABLE IF NOT EXISTS migration (
  version INT UNSIGNED NOT NULL PRIMARY KEY,
  name VARBINARY(128) NOT NULL,
  checksum VARBINARY(64) NOT NULL,
  statements INT UNSIGNED NOT NULL,
  statements_done INT UNSIGNED NOT NULL
) ENGINE = InnoDB`;

/** What a statement says that a killed migration had run, but not yet noted: table, column, key is there, or gone. */
const alreadyDone: ReadonlySet<string> = new Set([
  "ER_TABLE_EXISTS_ERROR",
  "ER_DUP_FIELDNAME",
  "ER_DUP_KEYNAME",
  "ER_CANT_DROP_FIELD_OR_KEY",
  "ER_BAD_TABLE_ERROR",
]);

/** No table, or no database. */
const nothingThere: ReadonlySet<string> = new Set(["ER_NO_SUCH_TABLE", "ER_BAD_DB_ERROR"]);

const accessDenied: ReadonlySet<string> = new Set([
  "ER_ACCESS_DENIED_ERROR",
  "ER_DBACCESS_DENIED_ERROR",
  "ER_TABLEACCESS_DENIED_ERROR",
]);

/** What a server with `require_secure_transport` says. */
const tlsRequired = "ER_SECURE_TRANSPORT_REQUIRED";

interface MigrationRow {
  readonly version: number;
  readonly name: string;
  readonly checksum: string;
  readonly statements: number;
  readonly statements_done: number;
}

/** What {@link migrate} did. */
export interface MigrationSummary {
  /** The version the database has now. */
  readonly version: number;
  /** How many migrations were applied. */
  readonly applied: number;
  readonly databaseCreated: boolean;
}

/**
 * Brings a database to this program's schema; creates it if it is missing and the user may. Processes that migrate at
 * once wait for each other; one that was killed is taken up where it ended.
 *
 * A runner of our own: the usual one creates its version table in several steps that two processes trip over, knows no
 * half-applied migration, and needs connections that take several statements in one text.
 * @throws OperatorError for a database that is newer than this program, or was migrated from other files
 */
export async function migrate(
  url: string,
  log: Log,
  migrations: readonly Migration[] = readMigrations(),
): Promise<MigrationSummary> {
  const databaseCreated = await createDatabase(parseDatabaseUrl(url));
  if (databaseCreated) log.info("database created");
  const database = openDatabase(url, { connectionsMax: 2, statementTimeoutMs: Number.POSITIVE_INFINITY });
  try {
    await database.withConnection((connection) => connection.run(createMigrationTable));
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
  } finally {
    await database.close();
  }
}

/**
 * Whether the database has this program's schema, for commands that only read; false: nothing was migrated here yet, or
 * a migration is under way, so that waiting helps.
 * @throws OperatorError for a database that is older or newer than this program, or refuses its user
 * @throws Failure `unavailable` when it cannot be reached
 */
export async function hasSchema(
  database: Database,
  migrations: readonly Migration[] = readMigrations(),
): Promise<boolean> {
  const rows = await readApplied(database);
  checkApplied(rows, migrations);
  if (rows.length === 0 || rows.some((row) => row.statements_done < row.statements)) return false;
  if (rows.length < migrations.length) {
    throw new OperatorError(
      `the database has schema version ${rows.length}, this program needs ${migrations.length}: run marketd migrate`,
    );
  }
  return true;
}

async function readApplied(database: Database): Promise<MigrationRow[]> {
  try {
    return await database.query<MigrationRow>("SELECT * FROM migration WHERE version > 0 ORDER BY version");
  } catch (error) {
    const code = databaseErrorCode(error) ?? "";
    if (nothingThere.has(code)) return [];
    if (code === tlsRequired) throw tlsOnly(error);
    if (!accessDenied.has(code)) throw error;
    const message = `the database ${database.description} refuses its user; check the URL and the user's rights`;
    throw new OperatorError(message, 1, error);
  }
}

async function createDatabase(address: DatabaseAddress): Promise<boolean> {
  try {
    const { database, ...server } = driverOptions(address);
    const connection = await createConnection(server);
    try {
      const [found] = await connection.query<RowDataPacket[]>("SHOW DATABASES LIKE ?", [likeText(address.database)]);
      if (found.length > 0) return false;
      const name = connection.escapeId(address.database);
      await connection.query(`CREATE DATABASE IF NOT EXISTS ${name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`);
      return true;
    } finally {
      connection.destroy();
    }
  } catch (error) {
    // Without the right to see or create it, it may still be there: opening it tells.
    if (databaseErrorCode(error) === "ER_DBACCESS_DENIED_ERROR") return false;
    throw explain(error, address);
  }
}

/** A database's name as a pattern that only it matches. */
function likeText(name: string): string {
  return name.replace(/[\\_%]/g, "\\$&");
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
  const rows = await connection.query<MigrationRow>("SELECT * FROM migration WHERE version > 0 ORDER BY version");
  checkApplied(rows, migrations);
  let applied = 0;
  for (const migration of migrations) {
    const row = rows.find((candidate) => candidate.version === migration.version);
    if (row !== undefined && row.statements_done === row.statements) continue;
    await apply(connection, migration, row);
    applied++;
    log.info({ version: migration.version, name: migration.name }, "migration applied");
  }
  return applied;
}

async function apply(connection: Connection, migration: Migration, row: MigrationRow | undefined): Promise<void> {
  const { version, name, checksum, statements } = migration;
  if (row === undefined) {
    await connection.run("INSERT INTO migration VALUES (?, ?, ?, ?, 0)", [version, name, checksum, statements.length]);
  }
  const interruptedAt = row?.statements_done;
  for (const [index, statement] of statements.entries()) {
    if (index < (interruptedAt ?? 0)) continue;
    try {
      await connection.run(statement);
    } catch (error) {
      if (index !== interruptedAt || !alreadyDone.has(databaseErrorCode(error) ?? "")) throw error;
    }
    await connection.run("UPDATE migration SET statements_done = ? WHERE version = ?", [index + 1, version]);
  }
}
