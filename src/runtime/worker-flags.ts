/** V8 starts to mark garbage when the old generation has filled this percentage of its permitted growth. */
const markingTriggerPercent = 30;

/** The largest half of the young generation, in MiB: the default of Node 20 and 22. Node 24 takes more. */
const semiSpaceMibMax = 16;

/** Threads of V8 itself in a worker. A worker has about one core, where each of them delays the thread that serves. */
const poolThreads = 1;

/**
 * Flags of Node for workers. Some objects of a request reach the old generation, and with so small a heap V8 waits long
 * before it collects them: without the first two a process that serves gRPC needs half as much memory again. A lower
 * percentage saves more memory, and costs ledger pages CPU (docs/performance.md, "Memory"). The third: V8
 * allocates objects in the old generation where earlier ones of the same code lived long, also those of a single
 * response, and what they refer to follows.
 */
export const workerFlags: readonly string[] = [
  `--incremental-marking-soft-trigger=${markingTriggerPercent}`,
  `--max-semi-space-size=${semiSpaceMibMax}`,
  "--no-allocation-site-pretenuring",
  `--v8-pool-size=${poolThreads}`,
];
