import { readFile, rename, writeFile } from "node:fs/promises";
import type { Checkpoint, LedgerSubject } from "./ledger-download.js";
import { writing } from "./part-file.js";

/** The version of the format. A program that does not know it starts the export again. */
const journalVersion = 1;

/** Writes the state of a download atomically. @throws OperatorError */
export async function writeJournal(path: string, subject: LedgerSubject, checkpoint: Checkpoint): Promise<void> {
  const fresh = `${path}.new`;
  await writing(path, async () => {
    await writeFile(fresh, textOf({ version: journalVersion, subject, ...checkpoint }));
    await rename(fresh, path);
  });
}

/** The state of a download of the same subject; undefined if there is no such journal. */
export async function readJournal(path: string, subject: LedgerSubject): Promise<Checkpoint | undefined> {
  try {
    const journal = JSON.parse(await readFile(path, "utf8"));
    const isOurs = journal.version === journalVersion && textOf(journal.subject) === textOf(subject);
    if (!isOurs) return undefined;
    const { nextNs, bytes, sha256, rows, sumOfEffects, lastRows } = journal;
    const exact = { nextNs: BigInt(nextNs), rows: BigInt(rows), sumOfEffects: BigInt(sumOfEffects) };
    return { ...exact, bytes: Number(bytes), sha256: String(sha256), lastRows };
  } catch {
    return undefined;
  }
}

/** JSON with 64-bit integers as text. */
function textOf(value: unknown): string {
  return JSON.stringify(value, (_, part) => (typeof part === "bigint" ? String(part) : part));
}
