import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { brokerSilenceMsMax, kafkaSource } from "../../src/loader/kafka-source.js";
import { load } from "../../src/loader/load.js";
import type { LoadSummary } from "../../src/loader/load-summary.js";
import { streamSource } from "../../src/loader/source.js";
import { simulate } from "../../src/simulator/network.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { dump } from "../support/dump.js";
import { framesOf, hasKafka, KafkaBroker } from "../support/kafka-broker.js";
import { Follower } from "../support/kafka-follower.js";
import { openTransaction } from "../support/kafka-transaction.js";
import { TcpBalancer } from "../support/tcp-balancer.js";

const log = createLog("silent");
const options = { follow: false, log, signal: new AbortController().signal };

let broker: KafkaBroker;
let frames: Buffer[];

function recordingOf(seed: number): Buffer[] {
  const shape = { seed, markets: 3, parties: 12, ordersPerBlock: 6, entriesPerBlock: 12, blocks: 120 };
  return framesOf(Buffer.concat([...simulate(shape)]));
}

async function emptyDatabase(): Promise<string> {
  const { url } = newDatabaseUrl();
  await migrate(url, log);
  return url;
}

async function loadTopic(database: string, topic: string, brokers = broker.address): Promise<LoadSummary> {
  return load({ database, sources: [await kafkaSource(`kafka://${brokers}/${topic}`, options)], log });
}

async function rowsOf(values: readonly Buffer[]): Promise<unknown> {
  const url = await emptyDatabase();
  const bytes = (async function* () {
    yield Buffer.concat(values);
  })();
  await load({ database: url, sources: [streamSource(bytes, "memory")], log });
  return dump(url);
}

describe.runIf(hasKafka())("a topic of Kafka", () => {
  beforeAll(async () => {
    frames = recordingOf(11);
    broker = await KafkaBroker.start();
  });

  afterAll(async () => {
    await broker?.remove();
  });

  test("gives the rows of a file with the same frames, and goes on where the database is", async () => {
    await broker.createTopic("plain");
    const half = Math.floor(frames.length / 2);
    await broker.produce("plain", frames.slice(0, half));
    const url = await emptyDatabase();
    await loadTopic(url, "plain");
    await broker.produce("plain", frames.slice(half));
    const second = await loadTopic(url, "plain");
    expect(await dump(url)).toEqual(await rowsOf(frames));
    // It began with what it needed, and not with the oldest message.
    expect(second.alreadyLoaded).toBeLessThan(3);
    expect((await loadTopic(url, "plain")).blocks).toBe(0);
  });

  test("several frames may share a message, and a producer may send events again", async () => {
    await broker.createTopic("again");
    const messages: Buffer[] = [];
    for (let at = 0; at < frames.length; at += 7) messages.push(Buffer.concat(frames.slice(at, at + 7)));
    const third = Math.floor(messages.length / 3);
    await broker.produce("again", [...messages.slice(0, 2 * third), ...messages.slice(third), ...messages.slice(-3)]);
    const url = await emptyDatabase();
    const summary = await loadTopic(url, "again");
    expect(summary.alreadyLoaded).toBeGreaterThan(third);
    expect(await dump(url)).toEqual(await rowsOf(frames));
    expect((await loadTopic(url, "again")).blocks).toBe(0);
  });

  test("the first events of a topic may have changed places", async () => {
    await broker.createTopic("swapped-first");
    const [first = Buffer.alloc(0), second = Buffer.alloc(0), ...others] = frames;
    await broker.produce("swapped-first", [second, ...others.slice(0, 30).reverse(), first, ...others.slice(30)]);
    const url = await emptyDatabase();
    await loadTopic(url, "swapped-first");
    expect(await dump(url)).toEqual(await rowsOf(frames));
  });

  test("a topic that is deleted and made again ends a load that follows, and the next one goes on", async () => {
    await broker.createTopic("made-again");
    const half = frames.slice(0, Math.floor(frames.length / 2));
    await broker.produce("made-again", half);
    const url = await emptyDatabase();
    const follower = new Follower(url, `kafka://${broker.address}/made-again`);
    try {
      await follower.reaches(half.at(-1)?.readBigUInt64BE(4));
      await broker.deleteTopic("made-again");
      await broker.createTopic("made-again");
      // As many messages as there were, so that no offset tells.
      await broker.produce("made-again", frames.slice(half.length, 2 * half.length));
      await expect.poll(() => follower.printed, { timeout: 60_000 }).toContain("was deleted and made again");
    } finally {
      await follower.end("SIGKILL");
    }
    await loadTopic(url, "made-again");
    expect(await dump(url)).toEqual(await rowsOf(frames.slice(0, 2 * half.length)));
  });

  test("messages may be compressed", async () => {
    await broker.createTopic("compressed");
    const kinds = ["gzip", "snappy", "lz4", "none"] as const;
    const size = Math.ceil(frames.length / kinds.length);
    for (const [index, kind] of kinds.entries()) {
      await broker.produce("compressed", frames.slice(index * size, (index + 1) * size), kind);
    }
    const url = await emptyDatabase();
    await loadTopic(url, "compressed");
    expect(await dump(url)).toEqual(await rowsOf(frames));
  });

  test("messages may be compressed by Java's snappy, as brokers and most producers write it", async () => {
    await broker.createTopic("snappy-of-java", 1, { "compression.type": "snappy" });
    await broker.produce("snappy-of-java", frames);
    const url = await emptyDatabase();
    await loadTopic(url, "snappy-of-java");
    expect(await dump(url)).toEqual(await rowsOf(frames));
  });

  test("a gap is refused, and what came before it is kept", async () => {
    await broker.createTopic("gap");
    const half = Math.floor(frames.length / 2);
    await broker.produce("gap", [...frames.slice(0, half), ...frames.slice(half + 1)]);
    const url = await emptyDatabase();
    await expect(loadTopic(url, "gap")).rejects.toThrow(/the stream has a gap: event \d+ comes after event \d+/);
    expect(await dump(url)).toEqual(await rowsOf(frames.slice(0, half)));
  });

  /** The middle of the frames, where events change places. */
  function middle(): number {
    return Math.floor(frames.length / 2);
  }

  test("an event that was left out and sent later is applied in its place", async () => {
    await broker.createTopic("repaired");
    const at = middle();
    await broker.produce("repaired", [...frames.slice(0, at), ...frames.slice(at + 3, -40)]);
    const url = await emptyDatabase();
    await expect(loadTopic(url, "repaired")).rejects.toThrow(/the stream has a gap: .* produce it again$/);
    expect(await dump(url)).toEqual(await rowsOf(frames.slice(0, at)));
    // The second one alone does not fill the gap, and a producer may send more than was missing.
    await broker.produce("repaired", frames.slice(at + 1, at + 2));
    await expect(loadTopic(url, "repaired")).rejects.toThrow(/the stream has a gap/);
    await broker.produce("repaired", [...frames.slice(at - 5, at + 4), ...frames.slice(-40)]);
    await loadTopic(url, "repaired");
    expect(await dump(url)).toEqual(await rowsOf(frames));
    const again = await emptyDatabase();
    await loadTopic(again, "repaired");
    expect(await dump(again)).toEqual(await rowsOf(frames));
  });

  test("events that changed places are applied in order, wherever a load begins", async () => {
    await broker.createTopic("swapped");
    const swapped = [...frames];
    // Every third with its neighbour, and one of each hundred with one that is far away.
    for (let at = 1; at + 1 < swapped.length; at += 3) swapped.splice(at, 2, ...swapped.slice(at, at + 2).reverse());
    for (let at = 100; at + 90 < swapped.length; at += 100) {
      const [one, other] = [swapped[at], swapped[at + 90]];
      if (one !== undefined && other !== undefined)
        swapped.splice(at, 1, other).concat(swapped.splice(at + 90, 1, one));
    }
    // Several frames share a message, and change places in it too.
    const messages: Buffer[] = [];
    for (let at = 0; at < swapped.length; at += 5) messages.push(Buffer.concat(swapped.slice(at, at + 5)));
    await broker.produce("swapped", messages);
    const whole = await rowsOf(frames);
    for (const part of [0, 0.3, 0.8]) {
      const url = await emptyDatabase();
      const start = (async function* () {
        yield Buffer.concat(frames.slice(0, Math.floor(frames.length * part)));
      })();
      await load({ database: url, sources: [streamSource(start, "memory")], log });
      await loadTopic(url, "swapped");
      expect(await dump(url)).toEqual(whole);
    }
  });

  test("a load goes on where a topic ends with events of long ago, sent again", async () => {
    const whole = await rowsOf(frames);
    const [third, most] = [Math.floor(frames.length / 3), Math.floor(frames.length * 0.8)];
    const old = frames.slice(0, third);
    const groups = (all: readonly Buffer[]) =>
      Array.from({ length: Math.ceil(all.length / 10) }, (_, n) => Buffer.concat(all.slice(10 * n, 10 * n + 10)));
    const topics = {
      twice: [...frames, ...old, ...old],
      "in-messages": [frames, ...Array.from({ length: 20 }, () => old.slice(0, 50))].flatMap(groups),
      "parts-swapped": [...frames.slice(third, most), ...old, ...frames.slice(most), ...old.slice(-20)],
    };
    for (const [topic, messages] of Object.entries(topics)) {
      await broker.createTopic(topic);
      // A batch of a broker has at most 1 MiB.
      for (let at = 0; at < messages.length; at += 100) await broker.produce(topic, messages.slice(at, at + 100));
      for (const until of [third + 60, most + 40]) {
        const url = await emptyDatabase();
        const start = streamSource(Readable.from([Buffer.concat(frames.slice(0, until))]), "memory");
        await load({ database: url, sources: [start], log });
        await loadTopic(url, topic);
        expect(await dump(url), `${topic} from ${until}`).toEqual(whole);
      }
    }
  });

  test("an event that is far behind its place is found from wherever the search for it begins", async () => {
    await broker.createTopic("late");
    // Sent again long after, one by one: halving meets them where later events are expected.
    const at = middle();
    const late = [...frames.slice(0, at), ...frames.slice(at + 1, -60)];
    for (const back of [at, 3, at - 50, at + 70, 20]) late.push(frames[back] ?? Buffer.alloc(0));
    await broker.produce("late", [...late, ...frames.slice(-60)]);
    const whole = await rowsOf(frames);
    for (const until of [at - 40, at, at + 80, frames.length - 61]) {
      const url = await emptyDatabase();
      const start = (async function* () {
        yield Buffer.concat(frames.slice(0, until));
      })();
      await load({ database: url, sources: [streamSource(start, "memory")], log });
      await loadTopic(url, "late");
      expect(await dump(url)).toEqual(whole);
    }
  });

  test("a follower waits for a missing event, and is killed while it looks for it", async () => {
    await broker.createTopic("looking", 1, { "max.message.bytes": "2000000" });
    const at = middle();
    // Some MiB of what was sent before, so that the search takes a while.
    const filler = Buffer.concat(frames.slice(0, at));
    await broker.produce("looking", [...frames.slice(0, at), ...frames.slice(at + 1, -40)]);
    for (let times = 0; times < 20; times++) await broker.produce("looking", [filler]);
    const url = await emptyDatabase();
    for (let times = 0; times < 5; times++) {
      const killed = new Follower(url, `kafka://${broker.address}/looking`);
      await expect.poll(() => killed.printed, { timeout: 60_000 }).toContain("looking for it further on");
      await sleep(Math.random() * 200);
      await killed.end("SIGKILL");
    }
    const follower = new Follower(url, `kafka://${broker.address}/looking`);
    try {
      await expect.poll(() => follower.printed, { timeout: 60_000 }).toContain("looking for it further on");
      const before = await rowsOf(frames.slice(0, at));
      // It is written while the search goes on.
      await expect.poll(() => dump(url)).toEqual(before);
      await broker.produce("looking", [...frames.slice(at, at + 1), ...frames.slice(-40)]);
      await follower.reaches(frames.at(-1)?.readBigUInt64BE(4));
    } finally {
      await follower.end("SIGKILL");
    }
    expect(await dump(url)).toEqual(await rowsOf(frames));
  });

  test("messages without a value, or with an empty one, are not read", async () => {
    await broker.createTopic("tombstones");
    broker.produceTombstones("tombstones", 2);
    await broker.produce(
      "tombstones",
      frames.flatMap((frame) => [frame, Buffer.alloc(0)]),
    );
    broker.produceTombstones("tombstones", 1);
    const url = await emptyDatabase();
    await loadTopic(url, "tombstones");
    expect(await dump(url)).toEqual(await rowsOf(frames));
    expect((await loadTopic(url, "tombstones")).blocks).toBe(0);
  });

  test("a message that is not whole frames is refused with its offset, and what came before it is kept", async () => {
    await broker.createTopic("split");
    const half = Math.floor(frames.length / 2);
    const frame = frames[half] ?? Buffer.alloc(0);
    // Joined, these would be the same bytes.
    await broker.produce("split", [...frames.slice(0, half), frame.subarray(0, 10), frame.subarray(10)]);
    await broker.produce("split", frames.slice(half + 1));
    const url = await emptyDatabase();
    const refusal = `at offset ${half}, of 10 bytes, is not one or more whole frames`;
    await expect(loadTopic(url, "split")).rejects.toThrow(`topic split, partition 0: the message ${refusal}`);
    expect(await dump(url)).toEqual(await rowsOf(frames.slice(0, half)));
    // The search for where to go on may meet it too.
    await expect(loadTopic(url, "split")).rejects.toThrow("is not one or more whole frames");
  });

  test("a transaction is read when it is committed; an open one ends a load that does not follow", async () => {
    await broker.createTopic("transactions");
    const third = Math.floor(frames.length / 3);
    const parts = [frames.slice(0, third), frames.slice(third, 2 * third), frames.slice(2 * third)] as const;
    const url = await emptyDatabase();
    await broker.produce("transactions", parts[0]);
    // The same sequence numbers with other events: they would be taken for those that follow.
    const others = recordingOf(12).slice(third, 2 * third);
    const aborted = await openTransaction(broker.address, "aborted", "transactions", others);
    await aborted.end(false);
    const committed = await openTransaction(broker.address, "committed", "transactions", parts[1]);
    await broker.produce("transactions", parts[2]);
    await loadTopic(url, "transactions");
    expect(await dump(url)).toEqual(await rowsOf(parts[0]));
    await committed.end(true);
    // The broker marks the end of a transaction a little later than it says so.
    await expect.poll(async () => (await loadTopic(url, "transactions")).blocks).toBeGreaterThan(0);
    expect(await dump(url)).toEqual(await rowsOf(frames));
    const again = await emptyDatabase();
    await loadTopic(again, "transactions");
    expect(await dump(again)).toEqual(await rowsOf(frames));
  });

  test("a partition that is not there is told in one line", async () => {
    await broker.createTopic("one");
    const source = await kafkaSource(`kafka://${broker.address}/one?partition=3`, options);
    const loading = load({ database: await emptyDatabase(), sources: [source], log });
    await expect(loading).rejects.toThrow("topic one has 1 partitions, and not number 3");
  });

  test("a broker that is silent is passed over", async () => {
    await broker.createTopic("silent");
    await broker.produce("silent", frames);
    const silent = await TcpBalancer.before(Number(broker.address.split(":")[1]));
    silent.silence();
    const url = await emptyDatabase();
    try {
      await loadTopic(url, "silent", `127.0.0.1:${silent.port},${broker.address}`);
    } finally {
      await silent.close();
    }
    expect(await dump(url)).toEqual(await rowsOf(frames));
  });

  test("a broker that hangs is waited for, and does not keep the loader from ending", async () => {
    await broker.createTopic("frozen");
    const half = Math.floor(frames.length / 2);
    await broker.produce("frozen", frames.slice(0, half));
    const url = await emptyDatabase();
    const followers = [new Follower(url, `kafka://${broker.address}/frozen`)];
    try {
      // The last block before the half is the last whole one.
      await expect.poll(() => dump(url)).toEqual(await rowsOf(frames.slice(0, half)));
      broker.freeze(true);
      await expect
        .poll(() => followers[0]?.printed, { timeout: 30_000 })
        .toContain(`did not respond for ${brokerSilenceMsMax / 1_000} s; trying again`);
      const startedMs = performance.now();
      expect(await followers[0]?.end("SIGTERM")).toBe(0);
      expect(performance.now() - startedMs).toBeLessThan(4_000);
      followers.push(new Follower(url, `kafka://${broker.address}/frozen`));
      await sleep(1_500);
      broker.freeze(false);
      await broker.produce("frozen", frames.slice(half));
      await followers[1]?.reaches(frames.at(-1)?.readBigUInt64BE(4));
    } finally {
      broker.freeze(false);
      for (const follower of followers) await follower.end("SIGKILL");
    }
    expect(await dump(url)).toEqual(await rowsOf(frames));
  });
});

test.skipIf(hasKafka())("without Kafka's jars (MARKETD_TEST_KAFKA) the tests on a real broker are skipped", () => {
  expect(hasKafka()).toBe(false);
});
