import { spawn } from "node:child_process";

/** How a program ended. */
export interface ProgramResult {
  /** Exit code; undefined if a signal ended it, or it could not be started. */
  readonly code: number | undefined;
  /** Standard output and error together, in order of arrival. */
  readonly output: string;
}

/** Runs a program to its end, without input. Never throws: a missing program has no exit code. */
export function run(program: string, args: readonly string[]): Promise<ProgramResult> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => chunks.push(chunk));
    child.once("error", (error) => resolve({ code: undefined, output: error.message }));
    child.once("close", (code) => resolve({ code: code ?? undefined, output: Buffer.concat(chunks).toString() }));
  });
}
