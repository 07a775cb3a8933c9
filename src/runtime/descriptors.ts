import { readFileSync } from "node:fs";
import { OperatorError } from "../domain/operator-error.js";

/**
 * Descriptors of a worker that are reserved: Node's own (about 25), two pools of 10 database connections, files, and a
 * connection that is about to be refused.
 */
export const workerDescriptorsReserved = 64;

/** Descriptors of the primary that are reserved: Node's own, the port, files, and starting a process. */
export const primaryDescriptorsReserved = 48;

/** Descriptors of the primary for each worker: its channel, and that of its replacement. */
export const primaryDescriptorsPerWorker = 2;

/** The minimum number of connections of a worker; a limit that leaves fewer is an error. */
export const connectionsMin = 16;

/** A limit that leaves a worker fewer connections is logged. */
export const connectionsFew = 4_096;

/** The maximum number of connections that wait in the primary. */
export const connectionsWaitingMax = 2_048;

/** Connections that a worker can hold with `limit` descriptors, at most `wanted`. */
export function connectionsOfWorker(limit: number | undefined, wanted: number): number {
  return limit === undefined ? wanted : Math.min(wanted, limit - workerDescriptorsReserved);
}

/** Connections that may wait in the primary. `others`: its descriptors besides those for workers. */
export function connectionsWaiting(limit: number | undefined, workers: number, others: number): number {
  return limit === undefined
    ? connectionsWaitingMax
    : Math.min(connectionsWaitingMax, limit - reserve(workers, others));
}

/** @throws OperatorError if a primary or its workers could not serve with `limit` descriptors */
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
 * The limit on open files of this process (RLIMIT_NOFILE, which Node raises to the hard limit). Undefined if it is
 * unlimited or unknown. Reads `/proc/self/limits`, or else Node's diagnostic report, which takes milliseconds.
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
