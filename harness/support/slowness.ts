import { execFileSync } from "node:child_process";

/** What `node -e 0` takes on the machine on which the harnesses' limits of time were set, in milliseconds. */
const startMsThere = 40;
const tries = 5;

function startMs(): number {
  const startedAt = performance.now();
  execFileSync(process.execPath, ["-e", "0"]);
  return performance.now() - startedAt;
}

/**
 * How many times as long as there this machine takes for the same work, at least 1. Limits for how soon something is done
 * are multiplied by it: they hold for the service, and not for the processor.
 */
export const slowness = Math.max(1, Math.min(...Array.from({ length: tries }, startMs)) / startMsThere);
