import type { Config } from "../config.js";
import { exitUnchecked, exitUsage, OperatorError } from "../domain/operator-error.js";
import { thrownText } from "../domain/thrown-text.js";
import { openDatabase } from "../store/database.js";
import { hasSchema } from "../store/migrate.js";
import { createLog } from "../telemetry/log.js";
import { findingsListedMax, renderFinding } from "../verify/findings.js";
import { renewDigests } from "../verify/renew-digests.js";
import { type VerifyReport, verify as verifyDatabase } from "../verify/verify.js";
import { withDatabase } from "./database-choice.js";
import { ProgressLine } from "./progress-line.js";

const connectionsMax = 3;

/** The longest silence of the database: a table that changes is read in one statement. */
const statementTimeoutMs = 120_000;

/** Checks the database, and prints what was checked and found on standard output. */
export async function verify(config: Config<"verify">): Promise<void> {
  const log = createLog(config.logLevel);
  const checked = withDatabase(config.database, log, (url) => check(url, config.renewDigests));
  const report = await checked.catch((error: unknown) => {
    if (error instanceof OperatorError && error.exitCode === exitUsage) throw error;
    throw new OperatorError(`the database could not be checked: ${thrownText(error)}`, exitUnchecked, error);
  });
  for (const line of renderReport(report)) process.stdout.write(`${line}\n`);
  const { count, ofSource } = report.findings;
  if (count > 0) {
    const isAsLoaded = count === ofSource && report.undigested.length === 0;
    const what = isAsLoaded
      ? "the database is what was loaded, but its source is wrong: balances do not follow from entries, or bundles have no signature"
      : "the database is not what was loaded";
    throw new OperatorError(`${count} finding${count === 1 ? "" : "s"}: ${what}`);
  }
  if (report.undigested.length > 0) {
    const why = "what has no digest was not checked: see docs/operations.md, Digests made anew";
    throw new OperatorError(why, exitUnchecked);
  }
}

async function check(url: string, renew: boolean): Promise<VerifyReport> {
  const database = openDatabase(url, { connectionsMax, statementTimeoutMs });
  const line = new ProgressLine();
  try {
    if (!(await hasSchema(database))) {
      throw new OperatorError("it has no tables yet, or is being migrated: run marketd load first");
    }
    if (renew) {
      await renewDigests(database, ({ height, entries }, newest) =>
        line.update(() => `renewing digests: block ${height} of ${newest}, ${entries} ledger entries`),
      );
    }
    return await verifyDatabase(database, ({ blocks, entries, height }, newest) =>
      line.update(() => `verifying: block ${height} of ${newest}, ${blocks} blocks, ${entries} ledger entries`),
    );
  } finally {
    line.clear();
    await database.close();
  }
}

function renderReport({ progress, checked, undigested, renewedHeight, findings }: VerifyReport): string[] {
  const lines = findings.listed.map(renderFinding);
  if (findings.count > findingsListedMax) lines.push(`and ${findings.count - findingsListedMax} findings more`);
  for (const { first, last } of undigested) {
    lines.push(`blocks ${first} to ${last} have no digest: only their rows were compared with each other`);
  }
  if (progress === undefined) return [...lines, "nothing was loaded"];
  const held = `chain ${progress.chainId} up to block ${progress.height}`;
  const renewed =
    renewedHeight === undefined ? "" : `; digests renewed at block ${renewedHeight}: earlier changes are not found`;
  const sum = (of: "blocks" | "entries") => undigested.reduce((total, each) => total + each[of], 0);
  if (undigested.length > 0) {
    const without = `${sum("blocks")} of ${checked.blocks} blocks and ${sum("entries")} of ${checked.entries} ledger entries`;
    return [...lines, `not checked: ${held}: ${without} have no digest, ${findings.count} findings${renewed}`];
  }
  return [
    ...lines,
    `checked ${held}: ${checked.blocks} blocks, ${checked.entries} ledger entries, ${findings.count} findings${renewed}`,
  ];
}
