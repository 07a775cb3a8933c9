import { existsSync } from "node:fs";
import { lstat, realpath, rm, stat } from "node:fs/promises";
import { readJournal, writeJournal } from "../client/export-journal.js";
import {
  type Checkpoint,
  checkExport,
  type Download,
  type DownloadOptions,
  LedgerDownload,
  LedgerReplaced,
  ledgerFileName,
} from "../client/ledger-download.js";
import { emptySha256, fileExists, PartFile } from "../client/part-file.js";
import { isBroken, patiently } from "../client/patience.js";
import { openServer, serverProblem } from "../client/server.js";
import type { Config } from "../config.js";
import { grouped } from "../domain/decimal-text.js";
import { exitInterrupted, exitNotVerified, OperatorError } from "../domain/operator-error.js";
import { printable } from "../domain/printable.js";
import { stopOnSignal } from "../runtime/stop-signal.js";
import { ProgressLine } from "./progress-line.js";

const bytesPerMiB = 1024 * 1024;

/** How often a download starts again because the server has another ledger than before. */
const startsMax = 3;

const nothing: Checkpoint = {
  nextNs: undefined,
  bytes: 0,
  sha256: emptySha256,
  rows: 0n,
  sumOfEffects: 0n,
  lastRows: undefined,
};

type LedgerExport = Extract<Config<"export">, { kind: "ledger" }>;

/** What every download of the command has. */
type Common = Omit<DownloadOptions, "part" | "onSlice">;

/** Writes a party's ledger entries to a file, or to standard output. @throws OperatorError unless all is verified */
export async function exportLedger(config: LedgerExport): Promise<void> {
  const server = openServer(config.server);
  const { stop } = stopOnSignal();
  const progress = new ProgressLine();
  const startedAt = performance.now();
  const { partyId, assetId, startNs, endNs, giveUpMs, out } = config;
  const common: Common = {
    server,
    subject: { partyId, assetId, startNs, endNs },
    giveUpMs,
    signal: stop.signal,
    onBytes: ({ rows }, received) => progress.update(() => progressText(rows, received, performance.now() - startedAt)),
    onFailure: (reason) => tell(progress, `${reason}; trying again`),
  };
  try {
    const path = await fileAt(out ?? ledgerFileName(config));
    // A file that was named may be replaced.
    const replaces = config.force || out !== undefined;
    if (!replaces && existsSync(path)) throw fileExists(path);
    // What cannot be exported fails before anything is written.
    await patiently(server, common, (signal) => checkExport(server, common.subject, signal), isBroken);
    if (path === "-") await toOutput(common, progress);
    else await toFile(common, progress, path, replaces);
  } catch (error) {
    if (stop.signal.aborted) throw new OperatorError(interruptedText(out), exitInterrupted);
    throw serverProblem(error, server);
  } finally {
    progress.clear();
  }
}

function interruptedText(out: string | undefined): string {
  return out === "-"
    ? "interrupted; what was written is not complete"
    : "interrupted; the same command continues from here";
}

/** The file that a path names, itself or by links: a rename would replace a link. @throws OperatorError for a device */
export async function fileAt(path: string): Promise<string> {
  const found = path === "-" ? undefined : await stat(path).catch(() => undefined);
  if (found === undefined) return path;
  if (found.isFile()) return (await lstat(path)).isSymbolicLink() ? realpath(path) : path;
  throw new OperatorError(`${path} is not a file; name one with --out, or redirect standard output with --out -`);
}

/** The file appears when it is complete. Until then the same command finds a part of it, and goes on. */
async function toFile(common: Common, progress: ProgressLine, path: string, replaces: boolean): Promise<void> {
  const { subject } = common;
  const partPath = `${path}.part`;
  const journalPath = `${partPath}.json`;
  const onSlice = async (checkpoint: Checkpoint, isLast: boolean) => {
    if (!isLast) await writeJournal(journalPath, subject, checkpoint);
  };
  let checkpoint = await readJournal(journalPath, subject);
  let part = checkpoint && (await PartFile.resume(partPath, checkpoint.bytes, checkpoint.sha256));
  if (part !== undefined) tell(progress, `going on after ${checkpoint?.rows} rows of ${partPath}`);
  else if (checkpoint !== undefined) tell(progress, `${partPath} is not as it was left: starting again`);
  for (let starts = 1; ; starts++) {
    if (part === undefined) checkpoint = undefined;
    part ??= await PartFile.create(partPath);
    try {
      const download = await new LedgerDownload({ ...common, part, onSlice }, checkpoint ?? nothing).run();
      await part.finish(path, replaces);
      await rm(journalPath, { force: true });
      progress.clear();
      for (const line of summaryOf(download, path)) process.stdout.write(`${line}\n`);
      noteNothing(download, progress);
      return;
    } catch (error) {
      if (!(error instanceof LedgerReplaced)) throw error;
      if (starts === startsMax)
        throw new OperatorError("the server's ledger is replaced again and again", exitNotVerified);
      tell(progress, "the server has another ledger than before: starting again");
    } finally {
      await part.close();
    }
    part = undefined;
  }
}

/** Each slice is handed on once it is verified. */
async function toOutput(common: Common, progress: ProgressLine): Promise<void> {
  const part = await PartFile.create(undefined);
  const onSlice = () => part.handOn(writeOut);
  try {
    const download = await new LedgerDownload({ ...common, part, onSlice }, nothing).run();
    for (const line of summaryOf(download, "standard output")) tell(progress, line);
    noteNothing(download, progress);
  } catch (error) {
    if (!(error instanceof LedgerReplaced)) throw error;
    throw new OperatorError("the server has another ledger than before: discard what was written", exitNotVerified);
  } finally {
    await part.close();
  }
}

/** An identifier that is cut, or a symbol in its place, names an account that never was. */
function noteNothing({ rows }: { readonly rows: bigint }, progress: ProgressLine): void {
  if (rows === 0n) tell(progress, "there are no such entries; --party and --asset take whole identifiers, not names");
}

export function writeOut(bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(bytes, (error) => {
      if (error) reject(new OperatorError(`cannot write standard output: ${error.message}`, 1, error));
      else resolve();
    });
  });
}

export function tell(progress: ProgressLine, text: string): void {
  progress.clear();
  process.stderr.write(`marketd: ${printable(text)}\n`);
}

function progressText(verifiedRows: bigint, bytes: number, elapsedMs: number): string {
  const [amount, rate] = [bytes, (bytes / elapsedMs) * 1000].map((value) => (value / bytesPerMiB).toFixed(1));
  return `exporting: ${grouped(String(verifiedRows), ",")} rows verified, ${amount} MiB, ${rate} MiB/s`;
}

function summaryOf({ rows, sumOfEffects, sha256, newestBlock }: Download, path: string): string[] {
  return [
    `${path}: ${rows} rows, sum of effects ${sumOfEffects}, up to block ${newestBlock.height}`,
    `SHA-256 ${sha256}`,
  ];
}
