/** How much of what V8 would let the old generation grow by fills before it begins to mark garbage, in percent. */
const markingTriggerPercent = 10;

/**
 * Flags of V8 that a worker is started with. Some of what a request needed reaches the old generation while it is
 * answered, and left alone V8 waits long with so small a heap: a process that answers gRPC grows to twice what it needs,
 * and saves no CPU by it (docs/performance.md, "Memory").
 */
export const workerFlags: readonly string[] = [`--incremental-marking-soft-trigger=${markingTriggerPercent}`];

/** Whether this process was started with all {@link workerFlags}. */
export function hasWorkerFlags(): boolean {
  return workerFlags.every((flag) => process.execArgv.includes(flag));
}
