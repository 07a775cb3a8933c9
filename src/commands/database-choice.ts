import { readFileSync, statSync } from "node:fs";
import type { DatabaseChoice } from "../config.js";
import { exitUsage, OperatorError } from "../domain/operator-error.js";
import { openEmbedded } from "../embedded/open-embedded.js";
import { parseDatabaseUrl } from "../store/database-url.js";
import type { Log } from "../telemetry/log.js";
import { forOperator } from "./for-operator.js";

const readableByOthers = 0o044;

/** A database that can be connected to, until it is closed. */
export interface ChosenDatabase {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * The database that the operator chose; a private one is started first.
 * @param name the database on a private server, if not the usual one
 * @throws OperatorError for a URL without a database or a file without a URL, and EmbeddedFailure if no private
 * database is available
 */
export async function openChoice(choice: DatabaseChoice, log: Log, name?: string): Promise<ChosenDatabase> {
  if (choice.kind !== "embedded") {
    const url = choice.kind === "url" ? choice.url : readUrl(choice.path, log);
    checkUrl(url);
    return { url, close: async () => {} };
  }
  return openEmbedded({
    dataDir: choice.dataDir,
    log,
    onProgress: (text) => process.stderr.write(`marketd: ${text}\n`),
    ...(name === undefined ? {} : { database: name }),
  });
}

/** The first line of the file. @throws OperatorError if it cannot be read */
function readUrl(path: string, log: Log): string {
  let text: string;
  let mode: number;
  try {
    text = readFileSync(path, "utf8");
    mode = statSync(path).mode;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === "ENOENT" ? "is not there" : `cannot be read (${code})`;
    throw new OperatorError(`the file of the database URL, ${path}, ${why}`, exitUsage, error);
  }
  const url = (text.split("\n")[0] ?? "").trim();
  if (url === "") throw new OperatorError(`the file of the database URL, ${path}, has an empty first line`, exitUsage);
  if ((mode & readableByOthers) !== 0) log.warn({ path }, "other users may read the file of the database URL");
  return url;
}

function checkUrl(url: string): void {
  try {
    parseDatabaseUrl(url);
  } catch (error) {
    throw new OperatorError((error as Error).message, exitUsage, error);
  }
}

/**
 * Passes the chosen database to `use`, and closes it afterwards.
 * @throws OperatorError for failures that the operator can correct
 */
export async function withDatabase<T>(choice: DatabaseChoice, log: Log, use: (url: string) => Promise<T>): Promise<T> {
  const database = await openChoice(choice, log);
  try {
    return await use(database.url);
  } catch (error) {
    throw forOperator(error);
  } finally {
    await database.close();
  }
}
