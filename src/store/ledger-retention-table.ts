import { asText } from "./column.js";
import type { Connection } from "./driver-connection.js";
import { addRow, noRows, rowHash } from "./row-hash.js";
import { readTableDigests, writeTableDigests } from "./table-digest-table.js";
import { readRows, type TableRows } from "./table-rows.js";
import { upsertRows } from "./upsert.js";

/** The oldest block whose ledger entries are kept. */
export interface OldestKept {
  readonly height: bigint;
  readonly timeNs: bigint;
}

/** No entry was ever dropped. */
export const everythingKept: OldestKept = { height: 0n, timeNs: 0n };

/** The oldest block that is kept, as one value of a statement: for {@link parseOldestKept}. */
export const oldestKeptSql = asText(
  "COALESCE((SELECT CONCAT_WS(' ', oldest_height, oldest_time_ns) FROM ledger_retention WHERE id = 1), '0 0')",
);

/** Reads the two words of {@link oldestKeptSql}. */
export function parseOldestKept(height: string, timeNs: string): OldestKept {
  return { height: BigInt(height), timeNs: BigInt(timeNs) };
}

export async function readOldestKept(connection: Pick<Connection, "query">): Promise<OldestKept> {
  const [row] = await connection.query<{ kept: string }>(`SELECT ${oldestKeptSql} AS kept`);
  const [height = "0", timeNs = "0"] = (row?.kept ?? "").split(" ");
  return parseOldestKept(height, timeNs);
}

/** The one row. Its digest is written with it, and not by the loader. */
export const retentionRows: TableRows<OldestKept> = {
  table: "ledger_retention",
  columns: ["id", "oldest_height", "oldest_time_ns"],
  keyColumns: 1,
  values: ({ height, timeNs }) => [1, height, timeNs],
};

/**
 * Says that entries before a block may go, unless a later block is the oldest already. Run it in a transaction that has
 * locked the progress.
 */
export async function moveOldestKept(connection: Connection, oldest: OldestKept): Promise<void> {
  if ((await readOldestKept(connection)).height >= oldest.height) return;
  const { table } = retentionRows;
  let sum = (await readTableDigests(connection)).get(table) ?? noRows;
  // Not what the rows add up to: a row that was changed by others stays wrong.
  for (const row of await readRows(connection, retentionRows)) sum = addRow(sum, rowHash(table, row), 0n, -1n);
  sum = addRow(sum, rowHash(table, retentionRows.values(oldest)), 0n);
  await upsertRows(connection, retentionRows, [oldest]);
  await writeTableDigests(connection, new Map([[table, sum]]));
}
