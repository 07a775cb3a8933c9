import { readFileSync } from "node:fs";
import { openDatabase } from "../../src/store/database.js";

const clockHertz = 100;

/** CPU time of a process so far, in microseconds. */
export function cpuMicrosOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "latin1")
    .replace(/^.*\) /, "")
    .split(" ");
  return ((Number(fields[11]) + Number(fields[12])) * 1e6) / clockHertz;
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
