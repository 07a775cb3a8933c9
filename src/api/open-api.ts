import { Failure } from "../domain/failure.js";
import { OperatorError } from "../domain/operator-error.js";
import type { StreamMethod, UnaryMethod } from "../domain/service.js";
import { History } from "../history/history.js";
import { LedgerReader } from "../ledger/ledger-reader.js";
import type { LiveLimits } from "../live/limits.js";
import { draining, Live } from "../live/live.js";
import { type Database, openDatabase } from "../store/database.js";
import { followPastFigures } from "../store/history-table.js";
import { hasSchema } from "../store/migrate.js";
import type { Log } from "../telemetry/log.js";
import type { Metrics } from "../telemetry/metrics.js";
import { createApi } from "./api.js";

/** The methods over an open database. */
export interface OpenApi {
  readonly methods: readonly (UnaryMethod | StreamMethod)[];
  readonly live: Live;
  /** Ends every stream, and resolves when the database is no longer used. */
  close(): Promise<void>;
  /** Why every call fails from {@link close} on; undefined before. */
  closed(): Failure | undefined;
}

/**
 * Follows a database, and reads the ledger from it. While the database is unreachable or empty, methods fail with
 * UNAVAILABLE. @throws OperatorError if the database has another version, Error for a bad URL
 */
export async function openApi(options: {
  readonly databaseUrl: string;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly limits?: Partial<LiveLimits>;
}): Promise<OpenApi> {
  const { log, metrics, limits = {} } = options;
  const database = openDatabase(options.databaseUrl, {
    onDenied: (err) => log.error({ err }, "the database denies its user what the service needs"),
  });
  await checkSchema(database);
  database.queue.register(metrics);
  const live = await Live.start({ database, log, metrics, limits });
  const ledger = new LedgerReader(database, { log });
  ledger.counts.register(metrics);
  warmLedger(live, ledger);
  const history = new History({ database, live, log });
  history.register(metrics);
  const methods = createApi({ live, database, ledger, history, log });
  const endFigures = followPastFigures(database, metrics);
  let closed: Failure | undefined;
  const close = async (): Promise<void> => {
    closed = draining();
    history.close(closed);
    endFigures();
    await live.stop();
    await database.close();
  };
  return { methods, live, close, closed: () => closed };
}

async function checkSchema(database: Database): Promise<void> {
  try {
    // False: it has no tables yet, which the tail says.
    await hasSchema(database);
  } catch (error) {
    if (error instanceof OperatorError) await database.close();
    if (!(error instanceof Failure)) throw error;
  }
}

/** Fetches the ledger's accounts in the background, so that no request waits for all of them. */
function warmLedger(live: Live, ledger: LedgerReader): void {
  void untilReady(live)
    .then(() => ledger.warm())
    // The first request then fetches them, or reports why it cannot.
    .catch(() => undefined);
}

/** Resolves once the state is loaded. */
export function untilReady(live: Live): Promise<void> {
  if (live.ready) return Promise.resolve();
  return new Promise((resolve) => {
    live.onReadiness((ready) => {
      if (ready) resolve();
    });
  });
}
