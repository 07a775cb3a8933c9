import { asText } from "./column.js";
import type { Connection } from "./driver-connection.js";

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

/** Says that entries before a block may go. A later block than this stays what it was. */
export async function moveOldestKept(connection: Connection, { height, timeNs }: OldestKept): Promise<void> {
  await connection.run(
    `INSERT INTO ledger_retention (id, oldest_height, oldest_time_ns) VALUES (1, ?, ?)
     ON DUPLICATE KEY UPDATE oldest_time_ns = IF(VALUES(oldest_height) > oldest_height, VALUES(oldest_time_ns), oldest_time_ns),
       oldest_height = GREATEST(oldest_height, VALUES(oldest_height))`,
    [height, timeNs],
  );
}
