import { readdirSync, readFileSync } from "node:fs";
import { openDatabase } from "../../src/store/database.js";

/** CPU time of a process so far, in microseconds. Threads that have ended do not count. */
export function cpuMicrosOf(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const nanoseconds = threads.map((id) => Number(textOf(`/proc/${pid}/task/${id}/schedstat`).split(" ")[0]));
  return nanoseconds.reduce((sum, ns) => sum + ns, 0) / 1_000;
}

/** The text of a file of a thread; empty where the thread has ended meanwhile. */
function textOf(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

/** Resident memory of a process. */
export function residentMibOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}

/** The process id of a database server on this machine. */
export async function databasePidOf(url: string): Promise<number> {
  const database = openDatabase(url, { connectionsMax: 1 });
  try {
    const [file] = await database.query<{ path: string }>("SELECT @@pid_file AS path");
    return Number(readFileSync(file?.path ?? "", "utf8"));
  } finally {
    await database.close();
  }
}
