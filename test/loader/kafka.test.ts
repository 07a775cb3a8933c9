import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Producer } from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { kafkaSource } from "../../src/loader/kafka-source.js";
import { load } from "../../src/loader/load.js";
import type { LoadSummary } from "../../src/loader/load-summary.js";
import { streamSource } from "../../src/loader/source.js";
import { simulate } from "../../src/simulator/network.js";
import { openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { dump } from "../support/dump.js";
import { hasKafka, KafkaBroker } from "../support/kafka-broker.js";
import { tries } from "../support/tries.js";

/** Processes killed in the kill test, in all, the broker among them; a long run has 1,000. */
const kills = Number(process.env["MARKETD_KAFKA_KILLS"] ?? tries(16));
const log = createLog("silent");
const program = fileURLToPath(new URL("../../bin/marketd", import.meta.url));
const packageUrl = import.meta.resolve("@platformatic/kafka");

let broker: KafkaBroker;
let folder: string;
let frames: Buffer[];

/** Takes a recording apart into its frames. */
function framesOf(recording: Buffer): Buffer[] {
  const found: Buffer[] = [];
  for (let at = 0; at < recording.length; ) {
    const end = at + 4 + recording.readUInt32BE(at);
    found.push(recording.subarray(at, end));
    at = end;
  }
  return found;
}

function recordingOf(blocks: number): Buffer[] {
  const shape = { seed: 11, markets: 3, parties: 12, ordersPerBlock: 6, entriesPerBlock: 12 };
  return framesOf(Buffer.concat([...simulate({ ...shape, blocks })]));
}

async function produce(topic: string, values: readonly Buffer[]): Promise<void> {
  const producer = new Producer({ clientId: "test", bootstrapBrokers: [broker.address], retries: 20, retryDelay: 250 });
  for (let at = 0; at < values.length; at += 50) {
    const messages = values.slice(at, at + 50).map((value) => ({ topic, partition: 0, value }));
    await producer.send({ messages, acks: -1 });
  }
  await producer.close();
}

async function emptyDatabase(): Promise<string> {
  const { url } = newDatabaseUrl();
  await migrate(url, log);
  return url;
}

async function loadTopic(database: string, topic: string): Promise<LoadSummary> {
  const options = { follow: false, log, signal: new AbortController().signal };
  return load({ database, sources: [await kafkaSource(`kafka://${broker.address}/${topic}`, options)], log });
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
    folder = mkdtempSync(join(tmpdir(), "marketd-feed-"));
    frames = recordingOf(120);
    broker = await KafkaBroker.start();
  }, 120_000);

  afterAll(async () => {
    await broker?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  test("gives the rows of a file with the same frames, and goes on where the database is", async () => {
    await broker.createTopic("plain");
    const half = Math.floor(frames.length / 2);
    await produce("plain", frames.slice(0, half));
    const url = await emptyDatabase();
    await loadTopic(url, "plain");
    await produce("plain", frames.slice(half));
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
    await produce("again", [...messages.slice(0, 2 * third), ...messages.slice(third), ...messages.slice(-3)]);
    const url = await emptyDatabase();
    const summary = await loadTopic(url, "again");
    expect(summary.alreadyLoaded).toBeGreaterThan(third);
    expect(await dump(url)).toEqual(await rowsOf(frames));
    expect((await loadTopic(url, "again")).blocks).toBe(0);
  });

  test("a gap is refused, and what came before it is kept", async () => {
    await broker.createTopic("gap");
    const half = Math.floor(frames.length / 2);
    await produce("gap", [...frames.slice(0, half), ...frames.slice(half + 1)]);
    const url = await emptyDatabase();
    await expect(loadTopic(url, "gap")).rejects.toThrow(/the stream has a gap: event \d+ comes after event \d+/);
    expect(await dump(url)).toEqual(await rowsOf(frames.slice(0, half)));
  });

  test("what cannot be read is told in one line", async () => {
    await broker.createTopic("one");
    const options = { follow: false, log, signal: new AbortController().signal };
    await expect(kafkaSource("kafka://broker", options)).rejects.toThrow("a topic looks like kafka://host:9092");
    const source = await kafkaSource(`kafka://${broker.address}/one?partition=3`, options);
    const loading = load({ database: await emptyDatabase(), sources: [source], log });
    await expect(loading).rejects.toThrow("topic one has 1 partitions, and not number 3");
    await produce("one", [Buffer.from("short")]);
    await produce("one", [Buffer.from("short")]);
    await expect(loadTopic(await emptyDatabase(), "one")).rejects.toThrow(
      /the frame at byte 0 says|in the middle of a frame/,
    );
  });

  test(
    `no row is lost or doubled when producer, broker and loaders are killed ${kills} times`,
    async () => {
      const feed = recordingOf(60 + kills * 20);
      const [recording, place] = [join(folder, "feed.evts"), join(folder, "place")];
      writeFileSync(recording, Buffer.concat(feed));
      await broker.createTopic("killed");
      const url = await emptyDatabase();
      const loaders = [new Killable(() => loader(url, "killed")), new Killable(() => loader(url, "killed"))] as const;
      const producer = new Killable(() => producing(recording, place, "killed"));
      const victims = [producer, ...loaders];
      for (const victim of victims) victim.run();
      try {
        for (let killed = 0; killed < kills; killed++) {
          await sleep(200 + Math.random() * 1_500);
          // A broker takes seconds to start: one in eight.
          if (killed % 8 === 3) {
            await broker.kill();
            await broker.run();
          } else await (victims[Math.floor(Math.random() * victims.length)] ?? producer).kill();
        }
        await until(() => existsSync(place) && Number(readFileSync(place, "utf8")) === feed.length, 120_000);
        const last = feed.at(-1)?.readBigUInt64BE(4);
        const store = openDatabase(url, { connectionsMax: 1 });
        const reached = async () => {
          const [row] = await store.query<{ s: bigint }>("SELECT stream_sequence AS s FROM progress");
          return row?.s === last;
        };
        await until(reached, 60_000);
        await store.close();
      } finally {
        for (const victim of victims) await victim.end();
      }
      expect(await dump(url)).toEqual(await rowsOf(feed));
    },
    600_000 + kills * 10_000,
  );
});

test.skipIf(hasKafka())("without Kafka's jars (MARKETD_TEST_KAFKA) the tests on a real broker are skipped", () => {
  expect(hasKafka()).toBe(false);
});

async function until(holds: () => boolean | Promise<boolean>, maxMs: number): Promise<void> {
  const untilMs = performance.now() + maxMs;
  while (!(await holds())) {
    if (performance.now() > untilMs) throw new Error("it did not come to pass in time");
    await sleep(50);
  }
}

/** A process that is started again whenever it has ended. */
class Killable {
  readonly #start: () => ChildProcess;
  #child: ChildProcess | undefined;
  #ended = false;

  constructor(start: () => ChildProcess) {
    this.#start = start;
  }

  run(): void {
    if (this.#ended) return;
    const child = this.#start();
    this.#child = child;
    child.once("exit", () => setTimeout(() => this.run(), 100));
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  async end(): Promise<void> {
    this.#ended = true;
    await this.kill();
  }
}

function loader(url: string, topic: string): ChildProcess {
  const source = `kafka://${broker.address}/${topic}`;
  return spawn(process.execPath, [program, "load", "--database-url", url, "--follow", "--standby", source], {
    stdio: ["ignore", "ignore", "ignore"],
  });
}

/** Sends the recording's frames, at about 200 a second, from where the last process knew that it was. */
function producing(recording: string, place: string, topic: string): ChildProcess {
  const code = `
    import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
    import { setTimeout as sleep } from "node:timers/promises";
    import { Producer } from ${JSON.stringify(packageUrl)};
    const recording = readFileSync(${JSON.stringify(recording)});
    const frames = [];
    for (let at = 0; at < recording.length; ) {
      const end = at + 4 + recording.readUInt32BE(at);
      frames.push(recording.subarray(at, end));
      at = end;
    }
    const place = ${JSON.stringify(place)};
    let next = existsSync(place) ? Number(readFileSync(place, "utf8")) : 0;
    const producer = new Producer({ clientId: "p", bootstrapBrokers: [${JSON.stringify(broker.address)}], retries: 0 });
    while (next < frames.length) {
      const values = frames.slice(next, next + 20);
      try {
        await producer.send({ messages: values.map((value) => ({ topic: ${JSON.stringify(topic)}, partition: 0, value })), acks: -1 });
        next += values.length;
        writeFileSync(place + ".new", String(next));
        renameSync(place + ".new", place);
      } catch {
        producer.clearMetadata();
      }
      await sleep(50);
    }
    await sleep(1_000_000);`;
  return spawn(process.execPath, ["--input-type=module", "-e", code], { stdio: ["ignore", "ignore", "ignore"] });
}
