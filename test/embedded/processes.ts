import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/** A process of this machine, as ps sees it. */
export interface ProcessLine {
  readonly pid: number;
  readonly command: string;
}

const pollMs = 50;

/** A server of another release (scripts/database-servers.mjs) is run by the loader of its own libraries. */
const server = /^(\S*\/ld-linux\S* --library-path \S+ )?\S*(mariadbd|mysqld)\s/;
const others = /embedded\/supervisor\.js\s|^\/bin\/sh -c|mariadb-install-db/;

/** All processes whose command line names this directory, without this one and its like. */
export function processesOf(directory: string, kind: "server" | "supervisor" | "watch" | "any"): ProcessLine[] {
  const patterns = {
    server,
    supervisor: /embedded\/supervisor\.js\s/,
    watch: /^\/bin\/sh -c/,
    any: new RegExp(`${server.source}|${others.source}`),
  };
  return allProcesses().filter(({ command }) => command.includes(directory) && patterns[kind].test(command));
}

/** The one process of that kind. @throws Error when there is none, or more */
export function processOf(directory: string, kind: "server" | "supervisor" | "watch"): ProcessLine {
  const [first, ...others] = processesOf(directory, kind);
  if (first === undefined || others.length > 0) {
    throw new Error(`${first === undefined ? "no" : others.length + 1} ${kind} processes of ${directory}`);
  }
  return first;
}

/** Kills a process that was started detached, with all that it started, if it has not ended by itself. */
export function killGroup({ pid }: { readonly pid?: number | undefined }): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // Nobody is left.
  }
}

/** Resolves with the milliseconds it took until the condition held. @throws Error after `maxMs` */
export async function until(what: string, maxMs: number, condition: () => boolean | Promise<boolean>): Promise<number> {
  const startedAt = performance.now();
  while (!(await condition())) {
    if (performance.now() - startedAt > maxMs) throw new Error(`not within ${maxMs} ms: ${what}`);
    await delay(pollMs);
  }
  return performance.now() - startedAt;
}

function allProcesses(): ProcessLine[] {
  return existsSync("/proc/self/cmdline") ? processesOfProc() : processesOfPs();
}

/** Linux; ps is not on every machine. */
function processesOfProc(): ProcessLine[] {
  const lines: ProcessLine[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      lines.push({ pid: Number(name), command: readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ") });
    } catch {
      // It ended while we looked.
    }
  }
  return lines;
}

function processesOfPs(): ProcessLine[] {
  const output = execFileSync("ps", ["-eww", "-o", "pid=,args="], { encoding: "utf8" });
  const lines: ProcessLine[] = [];
  for (const line of output.split("\n")) {
    const match = /^\s*(\d+) (.*)$/.exec(line);
    if (match !== null) lines.push({ pid: Number(match[1]), command: match[2] ?? "" });
  }
  return lines;
}
