import { expect, test } from "vitest";
import type { ResumePlace } from "../../src/domain/resume-token.js";
import { aheadWaitMsMax, reach } from "../../src/history/resume.js";
import type { LiveState } from "../../src/live/live-state.js";

/* Streams that wait for the block of their token. */

const store = Buffer.alloc(8, 1);
const progress = { streamSequence: 5n };
const live = { state: () => ({ storeHash: store, progress }) as unknown as LiveState };
const at = (streamSequence: bigint): ResumePlace => ({ kind: "live", streamSequence, selection: store, store });
const signal = () => new AbortController().signal;

test("many that wait cost little", { retry: 3 }, async () => {
  const before = process.cpuUsage();
  const waiting = Array.from({ length: 500 }, () => reach(live, at(9n), signal()));
  const outcomes = await Promise.allSettled(waiting);
  const { user, system } = process.cpuUsage(before);
  expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
  expect((user + system) / 1_000 / aheadWaitMsMax).toBeLessThan(0.3);
});

test("one that waits goes on once the block is there, and ends with its call", async () => {
  const gone = new AbortController();
  const [waits, leaves] = [reach(live, at(6n), signal()), reach(live, at(6n), gone.signal)];
  gone.abort(new Error("the client left"));
  await expect(leaves).rejects.toMatchObject({ code: "cancelled" });
  progress.streamSequence = 6n;
  await expect(waits).resolves.toMatchObject({ progress });
});
