import { performance } from "node:perf_hooks";
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { restFactor, restFactorMax, restMsMax, Turns } from "../../src/history/turns.js";

function computeFor(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until; );
}

/** What two readers of the past compute in a second, in milliseconds, in pieces of two. */
async function pastOf(turns: Turns, ms = 1_000): Promise<number> {
  const until = performance.now() + ms;
  let computedMs = 0;
  const read = async (): Promise<void> => {
    for (await turns.next("a"); performance.now() < until; await turns.next("a")) {
      computeFor(2);
      computedMs += 2;
    }
  };
  await Promise.all([read(), read()]);
  return computedMs;
}

test("the more others use the event loop, the longer the past rests", () => {
  const shares = Array.from({ length: 21 }, (_, i) => i / 20);
  const rests = shares.map(restFactor);
  expect(rests).toEqual([...rests].sort((a, b) => a - b));
  expect(restFactor(0)).toBe(0);
  expect(restFactor(0.2)).toBeLessThan(0.2);
  expect(restFactor(0.5)).toBeGreaterThan(5);
  expect([0.6, 1, 1.01].map(restFactor)).toEqual([restFactorMax, restFactorMax, restFactorMax]);
});

// Others' processes take the loop's time too: beside other tests it was 376 ms once, and 164 to 192 beside chaos.
test("readers of the past have most of a loop that others don't use", { retry: 8 }, async () => {
  expect(await pastOf(new Turns())).toBeGreaterThan(250);
});

test("readers of the past leave a busy loop to others, and still go on", async () => {
  const turns = new Turns();
  let busy = true;
  const others = (async () => {
    for (; busy; await turn()) computeFor(2);
  })();
  // Until it is known how busy the loop is.
  await pastOf(turns, 200);
  const computedMs = await pastOf(turns);
  busy = false;
  await others;
  expect(computedMs).toBeGreaterThan(5);
  expect(computedMs).toBeLessThan(150);
});

test("a rest is short, however long the piece before it was", async () => {
  const turns = new Turns();
  await turns.next("a");
  computeFor(60);
  // Others use nearly all of the loop meanwhile, so that the next rest would be two seconds.
  setImmediate(() => computeFor(500));
  await turns.next("a");
  computeFor(100);
  const startedMs = performance.now();
  await turns.next("a");
  expect(performance.now() - startedMs).toBeLessThan(restMsMax + 300);
});

test("clients take turns, each with its oldest call", async () => {
  const turns = new Turns();
  const done: string[] = [];
  const calls = ["a1", "a2", "a3", "b1", "b2", "c1"];
  await Promise.all(calls.map((call) => turns.next(call.charAt(0)).then(() => done.push(call))));
  expect(done).toEqual(["a1", "a2", "b1", "c1", "a3", "b2"]);
});
