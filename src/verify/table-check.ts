import { groupBy } from "../domain/group-by.js";
import type { ChangedLevel } from "../domain/order-book.js";
import type { BookSide } from "../domain/price-ladder.js";
import type { Connection, Parameter } from "../store/connection/connection.js";
import { depthRows, levelRows, liveOrderRows, venueMarketRows } from "../store/depth-table.js";
import { retentionRows } from "../store/ledger-entry-table.js";
import { type Progress, progressRows } from "../store/progress-table.js";
import {
  type DigestTable,
  digestedTables,
  hasTableDigests,
  noRows,
  placeOf,
  placeOfDifference,
  type RowSum,
  readTableDigests,
  sumOf,
} from "../store/table-digest-table.js";
import { readRows, type Table } from "../store/table-rows.js";
import type { Findings } from "./findings.js";

/** A bundle's signatures come before or after it. A bundle without any after this time is a finding. */
export const signatureWaitNs = 3_600_000_000_000n;

/** What the tables are compared with. */
export interface TableCheckOptions {
  readonly progress: Progress;
  /** Whether the newest block has a digest. Otherwise the tables may have none either. */
  readonly isDigested: boolean;
  readonly findings: Findings;
}

/** Compares the changing tables with their sums, books with orders, and bundles with signatures. @returns the books */
export async function checkTables(connection: Connection, options: TableCheckOptions): Promise<Books> {
  const { progress, isDigested, findings } = options;
  const digests = await readTableDigests(connection);
  const hasDigests = isDigested || hasTableDigests(digests);
  const tables = new Map<string, Parameter[][]>();
  for (const table of digestedTables) {
    const rows = await readRows(connection, table);
    tables.set(table.table, rows);
    const places = rows.map((values) => placeOf(table, values)).filter((place) => place > progress.streamSequence);
    for (const place of places) {
      findings.add(table.table, undefined, `a row says that event ${place} changed it, which is yet to come`);
    }
    if (hasDigests) await compare(connection, table.table, sumOf(table, rows), digests.get(table.table), options);
    digests.delete(table.table);
  }
  const { table } = retentionRows;
  const retention = sumOf(retentionRows, await readRows(connection, retentionRows));
  // There is none until `retain` has run.
  await compare(connection, table, retention, digests.get(table) ?? noRows, options);
  digests.delete(table);
  for (const table of digests.keys())
    findings.add("table_digest", undefined, `it has a row of ${table}, which has no digest`);
  checkBooks(tables, findings);
  await checkBundles(connection, progress, findings);
  return booksOf(tables);
}

/** The levels of each market. */
export type Books = ReadonlyMap<string, readonly ChangedLevel[]>;

function booksOf(tables: ReadonlyMap<string, Parameter[][]>): Books {
  const levels = (tables.get(levelRows.table) ?? []) as [string, BookSide, string, bigint, bigint][];
  const present = levels.filter(([, , , volume, numberOfOrders]) => volume > 0n || numberOfOrders > 0n);
  const standing = present.map(([marketId, side, price, volume, numberOfOrders]) => {
    return { marketId, side, price, volume, numberOfOrders };
  });
  return groupBy(standing, ({ marketId }) => marketId);
}

/** What the rows of each table add up to, by its name. */
export async function readSums(connection: Connection, tables: readonly Table[]): Promise<Map<string, RowSum>> {
  const sums = new Map<string, RowSum>();
  for (const table of tables) sums.set(table.table, sumOf(table, await readRows(connection, table)));
  return sums;
}

/** Compares what a table adds up to with what was written. */
export async function compare(
  connection: Connection,
  table: string,
  found: RowSum,
  written: RowSum | undefined,
  { progress, findings }: Pick<TableCheckOptions, "progress" | "findings">,
  digestTable: DigestTable = "table_digest",
): Promise<void> {
  if (written === undefined) {
    findings.add(digestTable, undefined, `it has no row of ${table}`);
    return;
  }
  if (found.rows === written.rows && found.sum === written.sum && found.placeSum === written.placeSum) return;
  const place = placeOfDifference(found, written, progress.streamSequence);
  const [block] =
    place === undefined
      ? []
      : await connection.query<{ height: bigint }>(
          "SELECT height FROM block WHERE stream_sequence >= ? ORDER BY height LIMIT 1",
          [place],
        );
  const rows = found.rows === written.rows ? "" : `: ${found.rows} rows in place of ${written.rows}`;
  findings.add(
    table,
    table === progressRows.table ? progress.height : block?.height,
    `it is not what was written${rows}`,
  );
}

interface Level {
  volume: bigint;
  orders: bigint;
}

/** Compares each level with the sum of its orders, except in markets with venue events, which have no orders. */
function checkBooks(tables: ReadonlyMap<string, Parameter[][]>, findings: Findings): void {
  const expected = new Map<string, Level>();
  for (const [, market, side, price, remaining] of tables.get(liveOrderRows.table) ?? []) {
    const key = `${market}\t${side}\t${price}`;
    const level = expected.get(key) ?? { volume: 0n, orders: 0n };
    level.volume += typeof remaining === "bigint" ? remaining : 0n;
    level.orders += 1n;
    expected.set(key, level);
  }
  const problem = (market: string, side: string, price: string, text: string): void => {
    findings.add(levelRows.table, undefined, `market ${market}, side ${side}, price ${price}: ${text}`);
  };
  const ofVenues = new Set((tables.get(venueMarketRows.table) ?? []).map(([market]) => market));
  for (const [market, side, price, volume, orders] of tables.get(levelRows.table) ?? []) {
    if (ofVenues.has(market ?? null)) continue;
    const key = `${market}\t${side}\t${price}`;
    const level = expected.get(key) ?? { volume: 0n, orders: 0n };
    expected.delete(key);
    if (volume === level.volume && orders === level.orders) continue;
    const text = `it has ${volume} in ${orders} orders, and the orders there are ${level.orders} with ${level.volume}`;
    problem(String(market), String(side), String(price), text);
  }
  for (const [key, { volume, orders }] of expected) {
    const [market = "", side = "", price = ""] = key.split("\t");
    problem(market, side, price, `there is no level, and ${orders} orders with ${volume}`);
  }
  for (const [market, sequence, published] of tables.get(depthRows.table) ?? []) {
    if (BigInt(String(published)) <= BigInt(String(sequence))) continue;
    findings.add(
      depthRows.table,
      undefined,
      `market ${market}: its last update ${published} is after ${sequence}, where it is`,
    );
  }
}

async function checkBundles(connection: Connection, { timeNs }: Progress, findings: Findings): Promise<void> {
  const unsigned = await connection.query<{ id: string }>(
    `SELECT signature_id AS id FROM signer_removed_bundle AS b WHERE time_ns < ?
       AND NOT EXISTS (SELECT 1 FROM node_signature AS s WHERE s.signature_id = b.signature_id)`,
    [timeNs - signatureWaitNs],
  );
  for (const { id } of unsigned) findings.add("signer_removed_bundle", undefined, `bundle ${id} has no signature`);
  // If the database had lost one, its sum would be another.
  findings.ofSource += unsigned.length;
}
