import { setFlagsFromString } from "node:v8";

/** How much of what V8 would let the old generation grow by fills before it begins to mark garbage, in percent. */
export const markingTriggerPercent = 10;

/**
 * Lets garbage go sooner. Some of what a request needed reaches the old generation while it is answered, and left alone V8
 * waits long with so small a heap: a process that answers gRPC grows to twice what it needs, and saves no CPU by it
 * (docs/performance.md, "Memory").
 */
export function keepMemorySteady(): void {
  setFlagsFromString(`--incremental-marking-soft-trigger=${markingTriggerPercent}`);
}
