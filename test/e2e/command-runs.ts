import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { withoutLog } from "../support/log-lines.js";
import { marketdProgram } from "../support/run-marketd.js";

/** Where no server listens. */
export const notThere = "mysql://root@127.0.0.1:1/marketd";
/** On MySQL the transaction of a loader that was stopped holds up the next one for 30 s, by its limit for idle connections. */
export const runMaxMs = 60_000;

/** How a command ended; of its errors without lines of the log. */
export interface Ending {
  readonly code: number | null;
  readonly out: string;
  readonly error: string;
}

/** Starts a command, whose standard input is a pipe. */
export function start(args: readonly string[], environment: Record<string, string> = {}): ChildProcess {
  return spawn(process.execPath, [marketdProgram, ...args], { env: { ...process.env, ...environment } });
}

/** How a command ended; it is killed when it does not. Log lines are left out. */
export async function ending(child: ChildProcess): Promise<Ending> {
  const killer = setTimeout(() => child.kill("SIGKILL"), runMaxMs);
  let out = "";
  let error = "";
  child.stdout?.on("data", (text) => {
    out += String(text);
  });
  child.stderr?.on("data", (text) => {
    error += String(text);
  });
  await once(child, "close");
  clearTimeout(killer);
  return { code: child.exitCode, out, error: withoutLog(error) };
}

/** Runs a command to its end, whatever that is. */
export async function run(
  args: readonly string[],
  environment?: Record<string, string>,
  input?: Uint8Array,
): Promise<Ending> {
  const child = start(args, environment);
  child.stdin?.on("error", () => {}).end(input);
  return await ending(child);
}
