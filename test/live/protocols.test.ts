import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tries } from "../support/tries.js";
import { BookChecker } from "./book-checker.js";
import { MarketFixture } from "./market-fixture.js";
import type { LevelChange } from "./model-network.js";
import { startTestService, type TestService } from "./service.js";
import { type ProtocolClient, streamClients } from "./stream-clients.js";

/** Each is told to at least 56 readers, 8 through each client; 84 on average. A long run sets more. */
const stories = Number(process.env["MARKETD_STREAM_STORIES"] ?? tries(24));

const ids = ["market-a", "market-b", "market-c"];
let fixture: MarketFixture;
let service: TestService;

beforeAll(async () => {
  fixture = await MarketFixture.create();
  await fixture.add({ announce: ids, levels: [{ marketId: "market-a", side: 1, price: "10", volume: 1n }] });
  service = await startTestService(fixture.url);
});

afterAll(async () => {
  await service.drain();
  await fixture.drop();
});

const levelChange: fc.Arbitrary<LevelChange> = fc.record({
  marketId: fc.constantFrom(...ids),
  side: fc.constantFrom(1 as const, 2 as const),
  price: fc.constantFrom("9", "10", "100000000000000000000000000"),
  volume: fc.bigInt(0n, 2n),
});

const block = fc.uniqueArray(levelChange, {
  minLength: 1,
  maxLength: 4,
  selector: (l) => `${l.marketId}${l.side}${l.price}`,
});

const plan = fc.record({
  subscription: fc.uniqueArray(fc.constantFrom(...ids), { maxLength: 3 }),
  pausesMs: fc.array(fc.constantFrom(0, 0, 0, 1, 5, 25, 60), { minLength: 1, maxLength: 8 }),
});

const story = fc.record({
  blocks: fc.array(block, { maxLength: 12 }),
  plans: fc.array(plan, { minLength: 8, maxLength: 16 }),
  wide: fc.integer({ min: 0, max: 7 }).map((n) => n === 0),
});

/** Levels that change with every block of a wide story, in messages that fill the windows of slow readers. */
function wideLevels(volume: bigint): LevelChange[] {
  return Array.from({ length: 180 }, (_, i) => ({
    marketId: ids[i % ids.length] ?? "",
    side: i % 2 === 0 ? 1 : 2,
    price: `${10n ** 77n + BigInt(i)}`,
    volume,
  }));
}

test(
  "a reader that folds a stream holds the right book at every message, in every protocol, whatever it follows and however it reads",
  async () => {
    let told = 0;
    await fc.assert(
      fc.asyncProperty(story, async (one) => {
        told += await tell(one);
      }),
      { numRuns: stories },
    );
    expect(told).toBeGreaterThan(stories * 8 * Object.keys(streamClients).length - 1);
  },
  60_000 + stories * 5_000,
);

/** A reader with its pauses, through one client. */
function startReading(name: string, client: ProtocolClient, { subscription, pausesMs }: PlanOf) {
  const end = new AbortController();
  const checker = new BookChecker(() => fixture.network);
  let n = 0;
  const done = client(
    subscription,
    async (message) => {
      for (const update of message.update) checker.check(update);
      const pauseMs = pausesMs[n++ % pausesMs.length] ?? 0;
      if (pauseMs > 0) await sleep(pauseMs);
    },
    end.signal,
  );
  const reading = {
    name,
    checker,
    done,
    end,
    wanted: subscription.length === 0 ? ids : subscription,
    failure: undefined as unknown,
  };
  done.catch((error: unknown) => {
    reading.failure = error;
  });
  return reading;
}

type PlanOf = Readonly<{ subscription: string[]; pausesMs: readonly number[] }>;

/** Every plan goes through every client at once; gives how many readers that were. */
async function tell(one: {
  blocks: readonly (readonly LevelChange[])[];
  plans: readonly PlanOf[];
  wide: boolean;
}): Promise<number> {
  const readings = Object.entries(streamClients).flatMap(([name, client]) =>
    one.plans.map((each) => startReading(name, client(service.url), each)),
  );
  for (const [n, levels] of one.blocks.entries()) {
    await fixture.add({ levels: one.wide ? [...levels, ...wideLevels(BigInt(n + 1))] : levels });
  }
  if (one.wide) await fixture.add({ levels: wideLevels(0n) });
  const published = new Map(ids.map((id) => [id, fixture.network.depth(id)?.publishedSequenceNumber ?? 0n]));
  const behind = () =>
    readings
      .filter(({ wanted, checker }) => wanted.some((id) => checker.sent.get(id) !== published.get(id)))
      .map(({ name, wanted, failure }) => ({ name, wanted, failure }));
  await expect
    .poll(() => (readings.some(({ failure }) => failure !== undefined) ? [] : behind()), {
      timeout: 20_000,
      interval: 5,
    })
    .toEqual([]);
  for (const { name, checker, wanted, failure } of readings) {
    expect(failure, name).toBeUndefined();
    expect(checker.wholeBooks, name).toBe(wanted.length);
  }
  for (const { end } of readings) end.abort();
  await Promise.all(readings.map((reading) => reading.done));
  return readings.length;
}
