import { spawn } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { OperatorError } from "../domain/operator-error.js";
import { isErrorCode } from "./embedded-places.js";
import { openOwnFile } from "./private-files.js";

const retryMs = 50;
/** The exit code of `flock -n` if the lock is held. */
const flockHeldCode = 1;
/** `O_EXLOCK` of the BSDs and macOS opens and locks in one step. Node has no constant for it. */
const openLocked = 0x20;

/**
 * Locks a file and returns its descriptor, or undefined if it was held by others all that time. The kernel releases the
 * lock when the last descriptor is closed, ours or an inherited one, so a lock is never stale.
 */
export async function takeExclusiveLock(file: string, waitMs: number): Promise<number | undefined> {
  const take = process.platform === "linux" ? takeWithFlock : takeOnOpen;
  const deadline = performance.now() + waitMs;
  for (;;) {
    const descriptor = await take(file);
    if (descriptor !== undefined || performance.now() >= deadline) return descriptor;
    await delay(retryMs);
  }
}

/** flock(1) locks the open file that it inherits, so the lock is ours after it has ended. */
async function takeWithFlock(file: string): Promise<number | undefined> {
  const descriptor = openOwnFile(file, constants.O_RDWR);
  const code = await new Promise<number | null>((resolve, reject) => {
    const child = spawn("flock", ["-n", "3"], { stdio: ["ignore", "ignore", "inherit", descriptor] });
    child.once("error", (cause) => reject(new OperatorError("flock (of util-linux) is not on this machine", 1, cause)));
    child.once("exit", resolve);
  });
  if (code === 0) return descriptor;
  closeSync(descriptor);
  if (code === flockHeldCode) return undefined;
  throw new Error(`cannot lock ${file}: flock ended with ${code}`);
}

async function takeOnOpen(file: string): Promise<number | undefined> {
  try {
    return openSync(
      file,
      constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK | openLocked,
      0o600,
    );
  } catch (error) {
    if (isErrorCode(error, "EAGAIN")) return undefined;
    throw error;
  }
}
