import { firstIdOfBlock } from "../domain/block-position.js";
import type { Database } from "../store/database.js";
import type { Connection } from "../store/driver-connection.js";
import { readOldestKept } from "../store/ledger-retention-table.js";
import { type Progress, readProgress } from "../store/progress-table.js";
import { BlockRows, type UndigestedBlocks } from "./block-rows.js";
import { Findings } from "./findings.js";
import { LedgerCheck, type LedgerProgress } from "./ledger-check.js";
import { checkTables } from "./table-check.js";

/** The maximum number of stray rows of one kind that are named. */
const straysNamedMax = 10;

/** The result of a verification. */
export interface VerifyReport {
  /** Undefined: nothing was loaded. */
  readonly progress: Progress | undefined;
  readonly checked: LedgerProgress;
  /** Blocks of releases without digests, which were only compared with each other. */
  readonly undigested: readonly UndigestedBlocks[];
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
  const progress = await database.withSnapshot((connection) => checkNow(connection, findings));
  if (progress === undefined)
    return { progress, checked: { blocks: 0, entries: 0, height: 0n }, undigested: [], findings };
  // The server takes twice as long to write entries as text as they take here, so two connections share them.
  return database.withConnection((one) =>
    database.withConnection((other) =>
      database.withConnection(async (rows) => {
        const blocks = new BlockRows(rows, findings);
        const ledger = await LedgerCheck.start([one, other], blocks, findings);
        const checked = await ledger.run(rows, progress.height, (now) => onProgress(now, progress.height));
        if (blocks.newest?.height !== progress.height) {
          findings.add("block", progress.height, "it is the newest block, and it is not there");
        }
        return { progress, checked, undigested: blocks.undigested, findings };
      }),
    ),
  );
}

/** Everything that must be read in one snapshot. */
async function checkNow(connection: Connection, findings: Findings): Promise<Progress | undefined> {
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
  if (progress === undefined) return undefined;
  const [block] = await connection.query<{
    account_max: number | null;
    class_max: number | null;
    digest: string | null;
  }>("SELECT account_max, class_max, digest FROM block WHERE height = ?", [newest]);
  const hasDigests = block !== undefined && block.digest !== null;
  if (hasDigests) {
    await checkNumbersEnd(connection, "account", "account_id", block.account_max, findings);
    await checkNumbersEnd(connection, "entry_class", "class_id", block.class_max, findings);
  }
  await checkRetention(connection, progress, findings);
  await checkTables(connection, { progress, hasDigests, findings });
  return progress;
}

/** The oldest kept block must exist; otherwise existing entries would count as dropped. */
async function checkRetention(connection: Connection, progress: Progress, findings: Findings): Promise<void> {
  const { height, timeNs } = await readOldestKept(connection);
  if (height === 0n) return;
  const found = await connection.query("SELECT height FROM block WHERE height = ? AND time_ns = ?", [height, timeNs]);
  if (found.length > 0 && height <= progress.height) return;
  findings.add("ledger_retention", height, "it names a block or a time that is not there");
}

async function checkNumbersEnd(
  connection: Connection,
  table: string,
  column: string,
  last: number | null,
  findings: Findings,
): Promise<void> {
  const rows = await connection.query<{ number: number }>(
    `SELECT ${column} AS number FROM ${table} WHERE ${column} > ? ORDER BY ${column} LIMIT ${straysNamedMax}`,
    [last ?? 0],
  );
  for (const { number } of rows) findings.add(table, undefined, `${number} belongs to no block`);
}
