import type { DatabaseChoice } from "../config.js";
import { exitUsage, OperatorError } from "../domain/operator-error.js";
import { openEmbedded } from "../embedded/open-embedded.js";
import { databaseProblem } from "../store/connection/database-error.js";
import { parseDatabaseUrl } from "../store/connection/database-url.js";
import { readSecret } from "../store/secret-file.js";
import type { Log } from "../telemetry/log.js";

/** A database that can be connected to, until it is closed. */
export interface ChosenDatabase {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * The database that the operator chose; a private one is started first.
 * @param name the database on a private server, if not the usual one
 * @throws OperatorError for a URL without a database, a file without a URL, or if no private database is available
 */
export async function openChoice(choice: DatabaseChoice, log: Log, name?: string): Promise<ChosenDatabase> {
  if (choice.kind !== "embedded") {
    const url =
      choice.kind === "url" ? choice.url : readSecret(choice.path, "the file of the database URL", log).trim();
    return { url: checkedUrl(url), close: async () => {} };
  }
  return openEmbedded({
    dataDir: choice.dataDir,
    log,
    onProgress: (text) => {
      if (process.stderr.isTTY === true) process.stderr.write(`marketd: ${text}\n`);
      else log.info(text);
    },
    ...(name === undefined ? {} : { database: name }),
  });
}

/** The same URL. @throws OperatorError unless it is one of a database */
export function checkedUrl(url: string): string {
  try {
    parseDatabaseUrl(url);
    return url;
  } catch (error) {
    throw new OperatorError((error as Error).message, exitUsage, error);
  }
}

/** Failures that the operator can correct, as one line; anything else unchanged. */
export function forOperator(error: unknown): unknown {
  const problem = databaseProblem(error);
  return problem === undefined ? error : new OperatorError(problem, 1, error);
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
