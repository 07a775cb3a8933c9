import { chainStart } from "./block-digest.js";
import type { Connection } from "./driver-connection.js";
import type { RowSum } from "./row-hash.js";
import { upsert } from "./upsert.js";

/**
 * In place of a table's name: the row that says up to which block the digests were renewed, in `row_count`. The digest of
 * the first block covers the row, so that it cannot go unnoticed.
 */
const renewalName = "(renewed)";

/** The start of the chain of the blocks' digests. */
export interface ChainStart {
  /** What the first block's digest covers in place of a block before it. */
  readonly text: string;
  /** The newest block when the digests were renewed; undefined: they never were. */
  readonly renewedHeight: bigint | undefined;
}

export async function readChainStart(connection: Pick<Connection, "query">): Promise<ChainStart> {
  const [row] = await connection.query<{ height: bigint; one: string; other: string }>(
    "SELECT row_count AS height, row_sum AS one, place_sum AS other FROM table_digest WHERE table_name = ?",
    [renewalName],
  );
  if (row === undefined) return { text: chainStart, renewedHeight: undefined };
  return { text: startText(row.height, row.one, row.other), renewedHeight: row.height };
}

/** The start of a chain that was renewed when a block was the newest. */
export function renewedStart(height: bigint): string {
  return startText(height, "", "");
}

/** Of all columns of the row, so that none can be changed. */
function startText(height: bigint, rowSum: string, placeSum: string): string {
  return `renewed ${height} ${rowSum} ${placeSum}`;
}

/** Replaces all digests of tables, and says at which block they were renewed. */
export async function renewTableDigests(
  connection: Connection,
  sums: ReadonlyMap<string, RowSum>,
  height: bigint,
): Promise<void> {
  await connection.run("DELETE FROM table_digest");
  await writeTableDigests(connection, sums);
  await connection.run("INSERT INTO table_digest (table_name, row_count, row_sum, place_sum) VALUES (?, ?, '', '')", [
    renewalName,
    height,
  ]);
}

/** What each table adds up to, by its name; empty: no program that writes digests has been here. */
export async function readTableDigests(connection: Pick<Connection, "query">): Promise<Map<string, RowSum>> {
  const rows = await connection.query<{
    table_name: string;
    row_count: bigint;
    row_sum: string;
    place_sum: string;
  }>("SELECT table_name, row_count, row_sum, place_sum FROM table_digest WHERE table_name <> ?", [renewalName]);
  return new Map(
    rows.map((row) => [
      row.table_name,
      { rows: row.row_count, sum: number(row.row_sum), placeSum: number(row.place_sum) },
    ]),
  );
}

/** Text that is not exactly what is written for a number equals no sum. */
function number(hexadecimal: string): bigint {
  return /^(0|[1-9a-f][0-9a-f]*)$/.test(hexadecimal) ? BigInt(`0x${hexadecimal}`) : -1n;
}

/** Stores what tables add up to. */
export async function writeTableDigests(connection: Connection, sums: ReadonlyMap<string, RowSum>): Promise<void> {
  await upsert(
    connection,
    "table_digest",
    ["table_name", "row_count", "row_sum", "place_sum"],
    [...sums].map(([table, { rows, sum, placeSum }]) => [table, rows, sum.toString(16), placeSum.toString(16)]),
  );
}
