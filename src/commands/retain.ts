import type { Config } from "../config.js";
import { exitInterrupted, OperatorError } from "../domain/operator-error.js";
import { type RetainSummary, retain as retainEntries } from "../ledger/retain.js";
import { stopOnSignal } from "../runtime/stop-signal.js";
import { openDatabase } from "../store/database.js";
import { hasSchema } from "../store/migrate.js";
import { createLog } from "../telemetry/log.js";
import { withDatabase } from "./database-choice.js";
import { ProgressLine } from "./progress-line.js";

/** The longest silence of the database: a statement may wait for locks. */
const statementTimeoutMs = 60_000;

/** Drops old ledger entries, and prints which are kept on standard output. */
export async function retain(config: Config<"retain">): Promise<void> {
  const log = createLog(config.logLevel);
  const { stop, isInterrupted } = stopOnSignal();
  const { oldest, entries } = await withDatabase(config.database, log, (url) => drop(url, config.keepNs, stop.signal));
  const kept = oldest === undefined ? "nothing was loaded" : `kept are those from block ${oldest.height} on`;
  process.stdout.write(`${entries} ledger entries dropped; ${kept}\n`);
  if (isInterrupted()) throw new OperatorError("interrupted; the next run drops the rest", exitInterrupted);
}

async function drop(url: string, keepNs: bigint, signal: AbortSignal): Promise<RetainSummary> {
  const database = openDatabase(url, { connectionsMax: 1, statementTimeoutMs });
  const line = new ProgressLine();
  try {
    if (!(await hasSchema(database))) throw new OperatorError("the database has no tables yet: run marketd load first");
    const onProgress = (entries: number) => line.update(() => `dropping: ${entries} ledger entries`);
    return await retainEntries(database, { keepNs, signal, onProgress });
  } finally {
    line.clear();
    await database.close();
  }
}
