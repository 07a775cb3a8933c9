import type { DatabaseChoice } from "../config.js";
import { exitUsage, OperatorError } from "../domain/operator-error.js";
import { openEmbedded } from "../embedded/open-embedded.js";
import { parseDatabaseUrl } from "../store/database-url.js";
import type { Log } from "../telemetry/log.js";
import { forOperator } from "./for-operator.js";

/** A database that can be connected to, until it is let go. */
export interface ChosenDatabase {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * The database that the operator chose; a private one is started first.
 * @param name the database on a private server, where it is not the usual one
 * @throws OperatorError for a URL that names none, EmbeddedFailure, which is one, when there is no private one to be had
 */
export async function openChoice(choice: DatabaseChoice, log: Log, name?: string): Promise<ChosenDatabase> {
  if (choice.kind === "url") {
    checkUrl(choice.url);
    return { url: choice.url, close: async () => {} };
  }
  return openEmbedded({
    dataDir: choice.dataDir,
    log,
    onProgress: (text) => process.stderr.write(`marketd: ${text}\n`),
    ...(name === undefined ? {} : { database: name }),
  });
}

function checkUrl(url: string): void {
  try {
    parseDatabaseUrl(url);
  } catch (error) {
    throw new OperatorError((error as Error).message, exitUsage, error);
  }
}

/**
 * Lends the chosen database to `use`, and lets it go however that ends.
 * @throws OperatorError for whatever the operator can mend
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
