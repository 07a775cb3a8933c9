import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";

const canPin = availableParallelism() > 1 && spawnSync("taskset", ["-c", "0,1", "true"]).status === 0;

/** A command that runs on one core only, where the system can do that; servers and load then don't disturb each other. */
export function pinnedTo(core: number, program: string, args: readonly string[]): [string, string[]] {
  return canPin ? ["taskset", ["-c", String(core), program, ...args]] : [program, [...args]];
}
