import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";

const children = new Set<ChildProcess>();

// However this harness ends, nothing that it started goes on.
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** Starts a process that does not outlive this one. */
export function startChild(program: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  const child = spawn(program, args, options);
  children.add(child);
  child.on("error", () => {});
  child.on("exit", () => children.delete(child));
  return child;
}
