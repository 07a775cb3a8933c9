import { readFileSync } from "node:fs";
import { OperatorError } from "../domain/operator-error.js";

/**
 * Descriptors of a worker that connections of clients never take: Node's own (about 25), two pools of 10 database
 * connections, files, and a connection that is about to be refused.
 */
export const workerDescriptorsReserved = 64;

/** Descriptors of the primary that waiting connections never take: Node's own, the port, files, and starting a process. */
export const primaryDescriptorsReserved = 48;

/** Descriptors of the primary for each worker: its channel, and as much again while it is being replaced. */
export const primaryDescriptorsPerWorker = 2;

/** Connections that a worker must be able to keep open; a limit that leaves fewer is an error. */
export const connectionsMin = 16;

/** A worker that may keep fewer connections open than this is worth a line in the log. */
export const connectionsFew = 4_096;

/** Most connections that wait in the primary for a worker that takes them. */
export const connectionsWaitingMax = 1_024;

/** Connections that a worker can hold with `limit` descriptors, at most `wanted`. */
export function connectionsOfWorker(limit: number | undefined, wanted: number): number {
  return limit === undefined ? wanted : Math.min(wanted, limit - workerDescriptorsReserved);
}

/** Connections that may wait in the primary. `others`: descriptors that it needs beside those for its workers. */
export function connectionsWaiting(limit: number | undefined, workers: number, others: number): number {
  return limit === undefined
    ? connectionsWaitingMax
    : Math.min(connectionsWaitingMax, limit - reserve(workers, others));
}

/** @throws OperatorError when a primary or its workers could not serve with `limit` descriptors */
export function requireDescriptors(limit: number | undefined, workers: number, others: number): void {
  const needed = connectionsMin + Math.max(workerDescriptorsReserved, reserve(workers, others));
  if (limit !== undefined && limit < needed) {
    throw new OperatorError(`a process may open only ${limit} files, and ${needed} are needed: raise ulimit -n`);
  }
}

function reserve(workers: number, others: number): number {
  return primaryDescriptorsReserved + workers * primaryDescriptorsPerWorker + others;
}

/**
 * Open files that this process may have (RLIMIT_NOFILE, which Node raises to the hard limit when it starts); undefined
 * where that is unlimited or unknown. Reads `/proc/self/limits`; elsewhere Node's diagnostic report, which takes
 * milliseconds.
 */
export function descriptorLimit(): number | undefined {
  const limit = Number(limitOfProc() ?? limitOfReport());
  return Number.isSafeInteger(limit) ? limit : undefined;
}

function limitOfProc(): string | undefined {
  try {
    return /^Max open files +(\w+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
  } catch {
    return undefined;
  }
}

function limitOfReport(): string | undefined {
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } };
  return report.userLimits?.open_files?.soft?.toString();
}
