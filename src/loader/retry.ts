import { setTimeout as sleep } from "node:timers/promises";
import { OperatorError } from "../domain/operator-error.js";
import { databaseProblem, isNobodyThere, isPassing, ServerBehindError } from "../store/connection/database-error.js";
import type { Log } from "../telemetry/log.js";
import type { OutageWatch } from "./load-status.js";

/** The first pause before another attempt, in milliseconds. It doubles with each further one. */
export const retryPauseMsMin = 50;

/** The longest pause between two attempts, in milliseconds: the load goes on this soon after the database is back. */
export const retryPauseMsMax = 500;

/** How long the loader tries before it gives up, in milliseconds. A restart or a fail-over takes less. */
export const outageMsMax = 600_000;

/**
 * How long a server may hold less than what was committed, in milliseconds: a balancer may lead to a cluster node that
 * was cut off and catches up. After that the blocks count as lost.
 */
export const behindMsMax = 30_000;

/** How long the loader tries to migrate at its start, in milliseconds. */
export const startOutageMsMax = 60_000;

/** What {@link withRetries} needs beside the work. */
export interface RetryOptions {
  readonly log: Log;
  /** Ends the attempts. */
  readonly signal: AbortSignal | undefined;
  readonly outageMsMax: number;
  /** Whether another attempt may do better; default {@link isPassing}. */
  readonly isPassing?: (error: unknown) => boolean;
  /** What went wrong, in one line; default {@link databaseProblem}. */
  readonly describe?: (error: unknown) => string | undefined;
  readonly watch?: OutageWatch | undefined;
}

/**
 * For a loader that starts: it waits for a database that is silent or busy. Where nobody listens, or the name is unknown,
 * the operator is told at once, because that is mostly a mistake in the URL; but not after somebody was there.
 */
export function startRetries(log: Log): RetryOptions {
  let wasThere = false;
  const passes = (error: unknown): boolean => {
    wasThere ||= !isNobodyThere(error);
    return wasThere && isPassing(error);
  };
  return { log, signal: undefined, outageMsMax: startOutageMsMax, isPassing: passes };
}

/**
 * Does `work`, again and again while the database is away, locked, full or read-only. The log gets a line when that
 * begins, when the reason changes, and when it ends.
 * @param work gets the number of the attempt, from 0
 * @throws OperatorError when it was stopped, or has failed for `outageMsMax`; any other error of `work` as it is
 */
export async function withRetries<T>(work: (attempt: number) => Promise<T>, options: RetryOptions): Promise<T> {
  const { log, signal, outageMsMax: maxMs, watch } = options;
  const { isPassing: passes = isPassing, describe = databaseProblem } = options;
  let sinceMs: number | undefined;
  let told: string | undefined;
  let pauseMs = retryPauseMsMin;
  try {
    for (let attempt = 0; ; attempt++) {
      try {
        const result = await work(attempt);
        if (sinceMs !== undefined) {
          log.warn({ seconds: Math.round(performance.now() - sinceMs) / 1_000 }, "the load goes on");
        }
        return result;
      } catch (error) {
        if (!passes(error)) throw error;
        watch?.failed();
        const problem = describe(error) ?? "the database failed";
        sinceMs ??= performance.now();
        if (performance.now() - sinceMs >= maxMs) {
          throw new OperatorError(`${problem}; tried for ${maxMs / 1_000} s`, 1, error);
        }
        const triedMs = error instanceof ServerBehindError ? Math.min(behindMsMax, maxMs) : maxMs;
        if (problem !== told) log.warn(`${problem}; trying again for up to ${triedMs / 1_000} s`);
        told = problem;
        await sleep(pauseMs, undefined, { signal }).catch(() => {
          const message = `stopped with blocks that were not written: ${problem}; load again to continue`;
          throw new OperatorError(message, 1, error);
        });
        pauseMs = Math.min(pauseMs * 2, retryPauseMsMax);
      }
    }
  } finally {
    watch?.ended();
  }
}
