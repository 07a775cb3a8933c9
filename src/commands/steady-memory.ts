import { setFlagsFromString } from "node:v8";

/** How much of what V8 would let the old generation grow by fills before it begins to mark garbage, in percent. */
export const markingTriggerPercent = 20;

/**
 * Lets garbage go sooner. Every HTTP/2 stream outlives its youth, whatever it held goes only with the old generation's
 * garbage, and left alone V8 waits long for so small a heap: a process that answers gRPC grows to several times what it
 * needs (docs/performance.md, "Memory").
 */
export function keepMemorySteady(): void {
  setFlagsFromString(`--incremental-marking-soft-trigger=${markingTriggerPercent}`);
}
