import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { withinTime } from "../../src/loader/kafka-source.js";

/** The number of signals that `AbortSignal.any` has made of this one: Node.js 20 never removes them. */
function dependents(signal: AbortSignal): number {
  const symbol = Object.getOwnPropertySymbols(signal).find(({ description }) => description === "kDependantSignals");
  const signals = (symbol && Reflect.get(signal, symbol)) as ReadonlySet<unknown> | undefined;
  return signals?.size ?? 0;
}

test("requests leave nothing behind on a signal that lives as long as the process", async () => {
  const { signal } = new AbortController();
  for (let request = 0; request < 1_000; request++) {
    expect(await withinTime(Promise.resolve(request), signal)).toBe(request);
    await expect(withinTime(Promise.reject(new Error("refused")), signal)).rejects.toThrow("refused");
  }
  expect(dependents(signal)).toBe(0);
  expect(getEventListeners(signal, "abort")).toEqual([]);
  // It would be counted.
  AbortSignal.any([signal]);
  expect(dependents(signal)).toBe(1);
});

test("a request ends when its signal aborts, and at once if it has aborted before", async () => {
  const stop = new AbortController();
  const unanswered = withinTime(new Promise(() => {}), stop.signal);
  stop.abort();
  await expect(unanswered).rejects.toThrow("aborted");
  await expect(withinTime(new Promise(() => {}), stop.signal)).rejects.toThrow("aborted");
  expect(getEventListeners(stop.signal, "abort")).toEqual([]);
});
