import { setTimeout as sleep } from "node:timers/promises";
import { ConnectError } from "@connectrpc/connect";
import { isTransient, retryWaitMs } from "../../clients/typescript/src/retry.js";
import { exitUnavailable, OperatorError } from "../domain/operator-error.js";
import { reasonOf, responseMaxMs, type Server } from "./server.js";

/** How long, in milliseconds, is tried again while nothing arrives, and who hears of it. */
export interface Patience {
  readonly giveUpMs: number;
  readonly signal: AbortSignal;
  readonly onFailure: (reason: string) => void;
}

/** How Node names a connection that was open and broke. */
const brokenCodes: ReadonlySet<unknown> = new Set(["ECONNRESET", "EPIPE"]);

/**
 * Whether a connection that was open broke. A first request goes on then as later ones do; a server that cannot be
 * reached, or says that it is not ready, ends a command at once.
 */
export function isBroken(error: ConnectError): boolean {
  const { cause } = error;
  return isTransient(error) && cause instanceof Error && "code" in cause && brokenCodes.has(cause.code);
}

/**
 * Repeats a call that fails for a while. @throws ConnectError if it cannot succeed, OperatorError if the server is away
 * for too long
 */
export async function patiently<T>(
  { url }: Server,
  { giveUpMs, signal, onFailure }: Patience,
  call: (signal: AbortSignal) => Promise<T>,
  mayBeTriedAgain = isTransient,
): Promise<T> {
  const startedAt = performance.now();
  for (let failures = 1; ; failures++) {
    try {
      return await call(AbortSignal.any([signal, AbortSignal.timeout(responseMaxMs)]));
    } catch (thrown) {
      signal.throwIfAborted();
      if (thrown instanceof OperatorError) throw thrown;
      const error = ConnectError.from(thrown);
      if (!mayBeTriedAgain(error)) throw error;
      const waitMs = retryWaitMs(error, failures);
      if (performance.now() + waitMs - startedAt > giveUpMs) {
        throw new OperatorError(`${url}: ${reasonOf(error)}`, exitUnavailable, error);
      }
      onFailure(reasonOf(error));
      await sleep(waitMs, undefined, { signal });
    }
  }
}
