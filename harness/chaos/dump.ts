import { createHash } from "node:crypto";
import type { Connection, RowDataPacket } from "mysql2/promise";
import type { DatabaseServer } from "./database-server.js";

/** Columns of `progress` that the events decide. Beside them it may hold what tells one store from another. */
const progressColumns = ["id", "chain_id", "stream_sequence", "height", "block_time_ns", "pruned_sequence"];

/** Tables that say how the database was made, and not what is in it. */
const tablesOfMigrations = /migration/;

/** Every table of a database with its number of rows and a digest of all their values, in the order of their keys. */
export async function dumpDatabase(server: DatabaseServer, database: string): Promise<Map<string, string>> {
  const connection = await server.connect();
  try {
    const dumped = new Map<string, string>();
    for (const table of await tablesOf(connection, database)) {
      if (tablesOfMigrations.test(table)) continue;
      const columns = table === "progress" ? progressColumns.join(", ") : "*";
      const key = await keyOf(connection, database, table);
      const [rows] = await connection.query<RowDataPacket[]>(
        `SELECT ${columns} FROM \`${database}\`.\`${table}\` ORDER BY ${key.join(", ")}`,
      );
      const digest = createHash("sha256");
      for (const row of rows) digest.update(JSON.stringify(Object.values(row), plain)).update("\n");
      dumped.set(table, `${rows.length} rows ${digest.digest("hex").slice(0, 16)}`);
    }
    return dumped;
  } finally {
    connection.destroy();
  }
}

async function tablesOf(connection: Connection, database: string): Promise<string[]> {
  const sql = "SELECT TABLE_NAME name FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? ORDER BY TABLE_NAME";
  const [rows] = await connection.query<RowDataPacket[]>(sql, [database]);
  return rows.map((row) => String(row["name"]));
}

async function keyOf(connection: Connection, database: string, table: string): Promise<string[]> {
  const sql =
    "SELECT COLUMN_NAME name FROM information_schema.KEY_COLUMN_USAGE " +
    "WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND CONSTRAINT_NAME = 'PRIMARY' ORDER BY ORDINAL_POSITION";
  const [rows] = await connection.query<RowDataPacket[]>(sql, [database, table]);
  if (rows.length === 0) throw new Error(`the table ${table} has no primary key`);
  return rows.map((row) => String(row["name"]));
}

function plain(_key: string, value: unknown): unknown {
  return typeof value === "object" && value !== null && "type" in value && "data" in value
    ? Buffer.from((value as { data: number[] }).data).toString("hex")
    : value;
}
