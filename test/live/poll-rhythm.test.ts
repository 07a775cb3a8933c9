import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import {
  expectingPart,
  gapMaxMs,
  PollRhythm,
  quietPart,
  regularMax,
  rememberedGaps,
  restMinMs,
  restPollMs,
} from "../../src/live/poll-rhythm.js";
import { DatabaseProxy } from "../e2e/database-proxy.js";
import { MarketFixture } from "./market-fixture.js";
import { startTestService } from "./service.js";

const intervalMs = 25;

/** A rhythm that has seen as many gaps as it remembers, and when its last block was found. */
function after(gapMs: number): { rhythm: PollRhythm; foundAt: number } {
  const rhythm = new PollRhythm(intervalMs, 0);
  for (let block = 1; block <= rememberedGaps; block++) rhythm.found(block * gapMs);
  return { rhythm, foundAt: rememberedGaps * gapMs };
}

test("soon after a block none is expected; then it is polled more often, also when the block is late", () => {
  const { rhythm, foundAt } = after(200);
  const expectedAt = foundAt + quietPart * 200;
  expect(rhythm.next(foundAt)).toBe(expectedAt);
  for (const at of [expectedAt, foundAt + 200, foundAt + restMinMs - 1]) {
    expect(rhythm.next(at)).toBe(at + expectingPart * intervalMs);
  }
});

test("one block that comes sooner is enough to expect others as soon", () => {
  const { rhythm, foundAt } = after(200);
  rhythm.found(foundAt + 100);
  expect(rhythm.next(foundAt + 100)).toBe(foundAt + 100 + quietPart * 100);
});

test("a network whose gaps differ much is polled once an interval", () => {
  const { rhythm, foundAt } = after(200);
  const gapMs = 200 / regularMax - 1;
  rhythm.found(foundAt + gapMs);
  expect(rhythm.next(foundAt + gapMs)).toBe(foundAt + gapMs + intervalMs);
});

test("before a rhythm is known it polls once an interval", () => {
  const rhythm = new PollRhythm(intervalMs, 0);
  for (let block = 1; block < rememberedGaps; block++) {
    rhythm.found(block * 1_000);
    expect(rhythm.next(block * 1_000)).toBe(block * 1_000 + intervalMs);
  }
});

test("a network rests that has no block for twice its longest gap", () => {
  const { rhythm, foundAt } = after(10_000);
  expect(rhythm.next(foundAt + 19_999)).toBe(foundAt + 19_999 + expectingPart * intervalMs);
  expect(rhythm.next(foundAt + 20_000)).toBe(foundAt + 20_000 + restPollMs);
  rhythm.found(foundAt + 21_000);
  expect(rhythm.next(foundAt + 41_000)).toBe(foundAt + 41_000 + expectingPart * intervalMs);
});

test("a rest of hours does not count as a gap of hours", () => {
  const { rhythm, foundAt } = after(100);
  rhythm.found(foundAt + 10 * 3_600_000);
  const restsAt = foundAt + 10 * 3_600_000 + 2 * gapMaxMs;
  expect(rhythm.next(restsAt - 1)).toBe(restsAt - 1 + intervalMs);
  expect(rhythm.next(restsAt)).toBe(restsAt + restPollMs);
});

test("it never pauses for longer than at rest, and never for less than the interval", () => {
  const { rhythm, foundAt } = after(10_000);
  expect(rhythm.next(foundAt)).toBe(foundAt + restPollMs);
  const slow = new PollRhythm(1_000, 0);
  expect(slow.next(0)).toBe(1_000);
  expect(slow.next(restMinMs)).toBe(restMinMs + 1_000);
});

test("a service at rest asks its database a few times a second, and finds the next block", async () => {
  const fixture = await MarketFixture.create();
  await fixture.add({ announce: ["m"], levels: [{ marketId: "m", side: 1, price: "10", volume: 1n }] });
  const proxy = await DatabaseProxy.before(fixture.url);
  const service = await startTestService(proxy.url, { pollIntervalMs: 5 });
  try {
    await sleep(restMinMs + restPollMs);
    const before = proxy.requests;
    await sleep(2_000);
    expect(proxy.requests - before).toBeGreaterThan(0);
    expect(proxy.requests - before).toBeLessThan(20);
    await fixture.add({ levels: [{ marketId: "m", side: 1, price: "10", volume: 2n }] });
    const depth = async () => (await fetch(`${service.url}/api/v2/market/depth/m/latest`)).json();
    await expect.poll(depth).toMatchObject({ buy: [{ price: "10", volume: "2" }] });
  } finally {
    await service.drain();
    await proxy.close();
    await fixture.drop();
  }
});
