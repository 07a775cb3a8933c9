import type { DatabaseConfig } from "../config.js";
import { exitUnchecked, exitUsage, OperatorError } from "../domain/operator-error.js";
import { openDatabase } from "../store/database.js";
import { hasSchema } from "../store/migrate.js";
import { createLog } from "../telemetry/log.js";
import { findingsListedMax, renderFinding } from "../verify/findings.js";
import { type VerifyReport, verify as verifyDatabase } from "../verify/verify.js";
import { withDatabase } from "./database-choice.js";
import { ProgressLine } from "./progress-line.js";

const connectionsMax = 3;

/** The longest silence of the database: a table that changes is read in one statement. */
const statementTimeoutMs = 120_000;

/** Checks the database, and prints what was checked and found on standard output. */
export async function verify(config: DatabaseConfig): Promise<void> {
  const log = createLog(config.logLevel);
  const report = await withDatabase(config.database, log, check).catch((error: unknown) => {
    if (error instanceof OperatorError && error.exitCode === exitUsage) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new OperatorError(`the database could not be checked: ${why}`, exitUnchecked, error);
  });
  for (const line of renderReport(report)) process.stdout.write(`${line}\n`);
  const { count } = report.findings;
  if (count > 0)
    throw new OperatorError(`${count} finding${count === 1 ? "" : "s"}: the database is not what was loaded`);
}

async function check(url: string): Promise<VerifyReport> {
  const database = openDatabase(url, { connectionsMax, statementTimeoutMs });
  const line = new ProgressLine();
  try {
    if (!(await hasSchema(database))) throw new OperatorError("it has no tables yet: run marketd load first");
    return await verifyDatabase(database, ({ blocks, entries, height }, newest) =>
      line.update(() => `verifying: block ${height} of ${newest}, ${blocks} blocks, ${entries} ledger entries`),
    );
  } finally {
    line.clear();
    await database.close();
  }
}

function renderReport({ progress, checked, undigested, findings }: VerifyReport): string[] {
  const lines = findings.listed.map(renderFinding);
  if (findings.count > findingsListedMax) lines.push(`and ${findings.count - findingsListedMax} findings more`);
  for (const { first, last } of undigested) {
    lines.push(
      `blocks ${first} to ${last} have no digest, an earlier program wrote them: only their rows were compared`,
    );
  }
  if (progress === undefined) return [...lines, "nothing was loaded"];
  const held = `chain ${progress.chainId} up to block ${progress.height}`;
  return [
    ...lines,
    `checked ${held}: ${checked.blocks} blocks, ${checked.entries} ledger entries, ${findings.count} findings`,
  ];
}
