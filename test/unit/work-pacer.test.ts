import { expect, test } from "vitest";
import { WorkPacer } from "../../src/domain/work-pacer.js";

/** Resolves when nothing waits any more. */
async function rest(): Promise<void> {
  for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
}

test("owners of pieces take turns, each with its oldest piece", async () => {
  const pacer = new WorkPacer();
  const done: string[] = [];
  for (const piece of ["a1", "a2", "a3", "b1", "b2", "c1"]) pacer.push(() => done.push(piece), 0, piece[0]);
  expect(done).toEqual(["a1"]);
  expect(["a", "b", "c", "d"].map((owner) => pacer.waitingOf(owner))).toEqual([2, 2, 1, 0]);
  await rest();
  expect(done).toEqual(["a1", "a2", "b1", "c1", "a3", "b2"]);
  pacer.push(() => done.push("d1"), 0, "d");
  expect(done.at(-1)).toBe("d1");
});

test("a piece that waits can be dropped, once", async () => {
  const pacer = new WorkPacer();
  const done: string[] = [];
  const drops = ["a1", "a2", "b1", "a3"].map((piece) => pacer.push(() => done.push(piece), 0, piece[0]));
  for (const index of [0, 1, 1, 2]) drops[index]?.();
  expect(["a", "b"].map((owner) => pacer.waitingOf(owner))).toEqual([1, 0]);
  await rest();
  expect(done).toEqual(["a1", "a3"]);
});
