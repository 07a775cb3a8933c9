import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** The command, as a user starts it. */
export const marketdProgram = fileURLToPath(new URL("../../bin/marketd", import.meta.url));

const runMaxMs = 60_000;

/** How a command ended. */
export interface Ending {
  readonly code: number | null;
  readonly out: Buffer;
  readonly error: string;
}

/** A command that runs, and what it has written to standard error so far. */
export interface RunningCommand {
  readonly child: ChildProcess;
  readonly ending: Promise<Ending>;
  error(): string;
}

/** Starts a command of ours; it is killed when it does not end in time. */
export function startMarketd(args: readonly string[], options: { readonly cwd?: string } = {}): RunningCommand {
  const child = spawn(process.execPath, [marketdProgram, ...args], { ...options, stdio: ["ignore", "pipe", "pipe"] });
  const killer = setTimeout(() => child.kill("SIGKILL"), runMaxMs);
  const out: Buffer[] = [];
  let error = "";
  child.stdout.on("data", (chunk) => out.push(chunk));
  child.stderr.on("data", (text) => {
    error += String(text);
  });
  const ending = once(child, "close").then(([code]): Ending => {
    clearTimeout(killer);
    return { code, out: Buffer.concat(out), error };
  });
  return { child, ending, error: () => error };
}

/** Runs a command of ours to its end, whatever that is. */
export function runToEnd(args: readonly string[], options?: { readonly cwd?: string }): Promise<Ending> {
  return startMarketd(args, options).ending;
}
