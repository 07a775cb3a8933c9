import type { Connection } from "./driver-connection.js";
import type { RowSum } from "./row-hash.js";
import { upsert } from "./upsert.js";

/** What each table adds up to, by its name; empty: no program that writes digests has been here. */
export async function readTableDigests(connection: Pick<Connection, "query">): Promise<Map<string, RowSum>> {
  const rows = await connection.query<{
    table_name: string;
    row_count: bigint;
    row_sum: string;
    place_sum: string;
  }>("SELECT table_name, row_count, row_sum, place_sum FROM table_digest");
  return new Map(
    rows.map((row) => [
      row.table_name,
      { rows: row.row_count, sum: number(row.row_sum), placeSum: number(row.place_sum) },
    ]),
  );
}

/** Text that is no number equals no sum. */
function number(hexadecimal: string): bigint {
  return /^[0-9a-f]+$/.test(hexadecimal) ? BigInt(`0x${hexadecimal}`) : -1n;
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
