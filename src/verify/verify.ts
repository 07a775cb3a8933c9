import { firstIdOfBlock } from "../domain/block-position.js";
import { accountRows, entryClassRows } from "../store/account-table.js";
import { candleRows } from "../store/candle-table.js";
import type { Connection } from "../store/connection/connection.js";
import type { Database } from "../store/database.js";
import { historyTables } from "../store/history-table.js";
import { readOldestKept, retentionRows } from "../store/ledger-entry-table.js";
import { assetRows } from "../store/market-table.js";
import { findSchemaProblems } from "../store/migrate.js";
import { type Progress, readProgress } from "../store/progress-table.js";
import { digestedTables, readChainStart } from "../store/table-digest-table.js";
import { tradeProgressRows } from "../store/trade-table.js";
import { Accounts } from "./accounts.js";
import { BlockRows, type UndigestedBlocks } from "./block-rows.js";
import { Findings, straysNamedMax } from "./findings.js";
import { checkPast, checkPastNow, checkTrades, type PastSnapshot } from "./history-check.js";
import { LedgerCheck, type LedgerProgress } from "./ledger-check.js";
import { type Books, checkTables } from "./table-check.js";

/** The result of a verification. */
export interface VerifyReport {
  /** Undefined: nothing was loaded. */
  readonly progress: Progress | undefined;
  readonly checked: LedgerProgress;
  /** Blocks without digests, which were only compared with each other. */
  readonly undigested: readonly UndigestedBlocks[];
  /** The newest block when digests were made anew of the rows that there were; undefined: never. */
  readonly renewedHeight: bigint | undefined;
  readonly findings: Findings;
}

/**
 * Checks what the loader has written up to its newest block. The loader may run meanwhile. Memory grows with the number
 * of accounts, price levels and markets, not with the ledger.
 */
export async function verify(
  database: Database,
  onProgress: (progress: LedgerProgress, newest: bigint) => void = () => {},
): Promise<VerifyReport> {
  const findings = new Findings();
  const { now, start } = await database.withSnapshot(async (connection) => ({
    now: await checkNow(connection, findings),
    start: await readChainStart(connection),
  }));
  const progress = now?.progress;
  const { renewedHeight } = start;
  if (now === undefined || progress === undefined) {
    const checked = { blocks: 0, entries: 0, height: 0n };
    return { progress, checked, undigested: [], renewedHeight, findings };
  }
  // The server takes twice as long to write entries as text as they take here, so two connections share them.
  const report = await database.withConnection((one) =>
    database.withConnection((other) =>
      database.withConnection(async (rows) => {
        const blocks = new BlockRows(rows, findings, start.text);
        const ledger = new LedgerCheck([one, other], blocks, await Accounts.read(one), findings);
        const checked = await ledger.run(rows, progress.height, (now) => onProgress(now, progress.height));
        if (blocks.newest?.height !== progress.height) {
          findings.add("block", progress.height, "it is the newest block, and it is not there");
        }
        await checkPast(rows, now.past, now.books, findings);
        return { progress, checked, undigested: blocks.undigested, renewedHeight, findings };
      }),
    ),
  );
  await checkTrades(database, now.past.trades, progress, findings);
  return report;
}

/** Everything that must be read in one snapshot. */
async function checkNow(
  connection: Connection,
  findings: Findings,
): Promise<{ readonly progress: Progress; readonly books: Books; readonly past: PastSnapshot } | undefined> {
  for (const { table, text } of await findSchemaProblems(connection)) findings.add(table, undefined, text);
  const progress = await readProgress(connection);
  const [others] = await connection.query<{ n: bigint }>("SELECT COUNT(*) AS n FROM progress WHERE id <> 1");
  if (others !== undefined && others.n > 0n) findings.add("progress", undefined, "it has more than one row");
  const newest = progress?.height ?? -1n;
  const blocks = await connection.query<{ height: bigint }>(
    `SELECT height FROM block WHERE height > ? ORDER BY height LIMIT ${straysNamedMax}`,
    [newest],
  );
  for (const { height } of blocks) findings.add("block", height, "it is after the newest block of the progress");
  const entries = await connection.query<{ id: bigint }>(
    `SELECT id FROM ledger_entry WHERE id >= ? ORDER BY id LIMIT ${straysNamedMax}`,
    [firstIdOfBlock(newest + 1n)],
  );
  for (const { id } of entries) findings.add("ledger_entry", undefined, `entry ${id} is after the newest block`);
  if (progress === undefined) {
    await checkEmpty(connection, findings);
    return undefined;
  }
  const [block] = await connection.query<{
    account_max: number | null;
    class_max: number | null;
    digest: string | null;
  }>("SELECT account_max, class_max, digest FROM block WHERE height = ?", [newest]);
  await checkNumbers(connection, "account", "account_id", block?.account_max, findings);
  await checkNumbers(connection, "entry_class", "class_id", block?.class_max, findings);
  await checkRetention(connection, progress, findings);
  const isDigested = block !== undefined && block.digest !== null;
  const books = await checkTables(connection, { progress, isDigested, findings });
  return { progress, books, past: await checkPastNow(connection, progress, findings) };
}

/** Without progress nothing was loaded, and all other tables are empty. */
async function checkEmpty(connection: Connection, findings: Findings): Promise<void> {
  const tables = [
    ...digestedTables,
    ...historyTables,
    assetRows,
    tradeProgressRows,
    candleRows,
    accountRows,
    entryClassRows,
    retentionRows,
  ];
  const names = tables.map(({ table }) => table);
  for (const table of [...names, "table_digest", "history_digest"]) {
    const [row] = await connection.query<{ n: bigint }>(`SELECT COUNT(*) AS n FROM ${table}`);
    if (table !== "progress" && row !== undefined && row.n > 0n) {
      findings.add(table, undefined, `it has rows, and the progress says that nothing was loaded`);
    }
  }
}

/** The oldest kept block must exist; otherwise existing entries would count as dropped. */
async function checkRetention(connection: Connection, progress: Progress, findings: Findings): Promise<void> {
  const { height, timeNs } = await readOldestKept(connection);
  if (height === 0n) return;
  const found = await connection.query("SELECT height FROM block WHERE height = ? AND time_ns = ?", [height, timeNs]);
  if (found.length > 0 && height <= progress.height) return;
  findings.add("ledger_retention", height, "it names a block or a time that is not there");
}

/** Numbers are given from 1 on without gaps, and none is above that of the newest block, if it states one. */
async function checkNumbers(
  connection: Connection,
  table: string,
  column: string,
  last: number | null | undefined,
  findings: Findings,
): Promise<void> {
  const [all] = await connection.query<{ n: bigint; first: number | null; last: number | null }>(
    `SELECT COUNT(*) AS n, MIN(${column}) AS first, MAX(${column}) AS last FROM ${table}`,
  );
  const { n = 0n, first, last: highest } = all ?? {};
  if (n > 0n && (first !== 1 || BigInt(highest ?? 0) !== n)) {
    findings.add(table, undefined, `its ${n} rows are numbered from ${first} to ${highest} in place of 1 to ${n}`);
  }
  if (last === null || last === undefined) return;
  const rows = await connection.query<{ number: number }>(
    `SELECT ${column} AS number FROM ${table} WHERE ${column} > ? ORDER BY ${column} LIMIT ${straysNamedMax}`,
    [last],
  );
  for (const { number } of rows) findings.add(table, undefined, `${number} belongs to no block`);
}
