import { setTimeout as sleep } from "node:timers/promises";
import { OperatorError } from "../domain/operator-error.js";
import { type LoaderTurn, readTurn, takeTurn } from "../store/progress-table.js";
import type { Writer } from "../store/writer.js";
import { type RetryOptions, withRetries } from "./retry.js";

/** How often the loader that loads shows that it lives, in milliseconds, when it has nothing to write. */
export const beatIntervalMs = 300;

/** How long it shows nothing before one that stands by takes over, in milliseconds of that one's monotonic clock. */
export const beatSilenceMsMax = 1_500;

/** How often one that stands by looks, in milliseconds. */
export const standbyPollMs = 100;

/**
 * Resolves when it is this loader's turn: at once in an empty database or after one that ended, otherwise when the one
 * that loads has been silent for {@link beatSilenceMsMax}. Two may think so; the compare-and-set of the progress, which
 * every block is written with, stops one of them.
 * @throws OperatorError when it is stopped before
 */
export async function waitForTurn(writer: Writer, loaderId: string, retry: RetryOptions): Promise<void> {
  let seen: LoaderTurn | undefined;
  let movedMs = performance.now();
  let isTold = false;
  for (;;) {
    // Transactions, because they notice a connection that is dead.
    const isOurs = await withRetries(async (attempt) => {
      const turn = await writer.transaction(readTurn);
      if (turn === undefined) return true;
      // While the database was away, the loader that loads could not show that it lives.
      const hasMoved = attempt > 0 || turn.loaderId !== seen?.loaderId || turn.beat !== seen.beat;
      if (hasMoved) movedMs = performance.now();
      seen = turn;
      const isFree = turn.loaderId === "" || performance.now() - movedMs >= beatSilenceMsMax;
      return isFree && (await writer.transaction((connection) => takeTurn(connection, turn, loaderId)));
    }, retry);
    if (isOurs) break;
    if (!isTold) retry.log.info("another loader is loading; standing by");
    isTold = true;
    await sleep(standbyPollMs, undefined, retry.signal === undefined ? {} : { signal: retry.signal }).catch(() => {
      throw new OperatorError("stopped while it stood by; nothing was loaded", 0);
    });
  }
  if (isTold) retry.log.warn("no other loader is loading any more; it is this one's turn");
}
