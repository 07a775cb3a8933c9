import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { simulate } from "../../src/simulator/network.js";
import { openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { renderFinding } from "../../src/verify/findings.js";
import { verify } from "../../src/verify/verify.js";
import { newDatabaseUrl } from "../support/database.js";
import { DatabaseServer, missingServer } from "../support/database-server.js";
import { dump } from "../support/dump.js";
import { framesOf, hasKafka, KafkaBroker } from "../support/kafka-broker.js";
import { tries } from "../support/tries.js";

/* Every part of a live feed is killed with -9 at random, and each starts again by itself while the next is killed. */

/** Processes killed, in all; `MARKETD_KAFKA_KILLS=1000` is the long form. */
const kills = Number(process.env["MARKETD_KAFKA_KILLS"] ?? tries(16));
/** The longest pause before each, in milliseconds. */
const pauseMsMax = 1_000;
/** Before three of four of them, this is how long a block may take that is written since the one before. */
const recoveryMsMax = 5_000;
/** More blocks than producers get through within that time: they send about 5 a second. */
const blocksPerKill = 20;
/** The share of each part in what is killed. A broker takes seconds to start, which costs the others time. */
const shares = { loader: 0.48, producer: 0.25, database: 0.17, broker: 0.1 } as const;

const log = createLog("silent");
const program = fileURLToPath(new URL("../../bin/marketd", import.meta.url));
const packageUrl = import.meta.resolve("@platformatic/kafka");
const topic = "killed";

/** A part that is killed, and starts again. */
interface Victim {
  readonly part: keyof typeof shares;
  isUp(): boolean;
  kill(): Promise<void>;
  /** Ends it, and waits for its last start. @throws what went wrong with it meanwhile */
  end(): Promise<void>;
}

/** A process that is started again whenever it has ended. */
class Restarted implements Victim {
  readonly part: keyof typeof shares;
  /** What it printed when it ended by itself. */
  readonly ends: string[] = [];
  readonly #start: () => ChildProcess;
  #child: ChildProcess | undefined;
  #isOver = false;

  constructor(part: keyof typeof shares, start: () => ChildProcess) {
    this.part = part;
    this.#start = start;
    this.#run();
  }

  isUp(): boolean {
    return this.#child !== undefined;
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.kill();
  }

  #run(): void {
    if (this.#isOver) return;
    const child = this.#start();
    let printed = "";
    child.stderr?.on("data", (text) => {
      printed = (printed + String(text)).slice(-2_000);
    });
    this.#child = child;
    child.once("exit", (code, signal) => {
      this.#child = undefined;
      if (signal !== "SIGKILL") this.ends.push(`${code ?? signal}: ${printed}`);
      setTimeout(() => this.#run(), 50);
    });
  }
}

/** A server that is started again on its files. */
class RestartedServer implements Victim {
  readonly part: keyof typeof shares;
  readonly #kill: () => Promise<void>;
  readonly #restart: () => Promise<void>;
  #isUp = true;
  #start: Promise<void> = Promise.resolve();

  constructor(part: keyof typeof shares, kill: () => Promise<void>, restart: () => Promise<void>) {
    this.part = part;
    this.#kill = kill;
    this.#restart = restart;
  }

  isUp(): boolean {
    return this.#isUp;
  }

  async kill(): Promise<void> {
    this.#isUp = false;
    await this.#kill();
    this.#start = this.#restart().then(() => {
      this.#isUp = true;
    });
    this.#start.catch(() => {});
  }

  async end(): Promise<void> {
    await this.#start;
  }
}

const parts = Object.keys(shares) as (keyof typeof shares)[];

/** A part at random, by its share. */
function anyPart(): keyof typeof shares {
  let rest = Math.random();
  for (const part of parts) {
    rest -= shares[part];
    if (rest <= 0) return part;
  }
  return "loader";
}

function loader(url: string, brokers: string): ChildProcess {
  const args = [program, "load", "--database-url", url, "--follow", "--standby", `kafka://${brokers}/${topic}`];
  return spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
}

/** Sends the frames of a file, from the byte that the last process knew to be next, at most 220 frames a second. */
function producing(recording: string, place: string, brokers: string): ChildProcess {
  const code = `
    import { existsSync, openSync, readFileSync, readSync, renameSync, writeFileSync } from "node:fs";
    import { setTimeout as sleep } from "node:timers/promises";
    import { Producer } from ${JSON.stringify(packageUrl)};
    const file = openSync(${JSON.stringify(recording)}, "r");
    const place = ${JSON.stringify(place)};
    let at = existsSync(place) ? Number(readFileSync(place, "utf8")) : 0;
    const producer = new Producer({ clientId: "p", bootstrapBrokers: [${JSON.stringify(brokers)}], retries: 0 });
    for (;;) {
      const buffer = Buffer.alloc(65_536);
      const length = readSync(file, buffer, 0, buffer.length, at);
      const messages = [];
      let end = 0;
      while (messages.length < 11 && length - end >= 4 && length - end >= 4 + buffer.readUInt32BE(end)) {
        const size = 4 + buffer.readUInt32BE(end);
        messages.push({ topic: "${topic}", partition: 0, value: buffer.subarray(end, end + size) });
        end += size;
      }
      if (messages.length === 0) break;
      try {
        await producer.send({ messages, acks: -1 });
        at += end;
        writeFileSync(place + ".new", String(at));
        renameSync(place + ".new", place);
      } catch {
        producer.clearMetadata();
      }
      await sleep(50);
    }
    await sleep(100_000_000);`;
  return spawn(process.execPath, ["--input-type=module", "-e", code], { stdio: ["ignore", "ignore", "pipe"] });
}

async function reached(url: string): Promise<bigint | undefined> {
  const store = openDatabase(url, { connectionsMax: 1 });
  try {
    const [row] = await store.query<{ s: bigint }>("SELECT stream_sequence AS s FROM progress");
    return row?.s;
  } finally {
    await store.close();
  }
}

/** Waits for a block, because what is killed again and again before it has started shows little. */
async function untilMoved(url: string): Promise<void> {
  const untilMs = performance.now() + recoveryMsMax;
  let before: bigint | undefined;
  while (performance.now() < untilMs) {
    const now = await reached(url).catch(() => undefined);
    before ??= now;
    if (now !== before) return;
    await sleep(50);
  }
}

/** Kills as many as there are to be killed. @returns how many of which part, and how long it took */
async function killAtRandom(victims: readonly Victim[], url: string): Promise<string> {
  const counts = { loader: 0, producer: 0, database: 0, broker: 0 };
  const startedMs = performance.now();
  const told = (killed: number): string =>
    `${killed} killed in ${Math.round((performance.now() - startedMs) / 1_000)} s ${JSON.stringify(counts)}`;
  for (let killed = 0; killed < kills; ) {
    if (Math.random() < 0.75) await untilMoved(url);
    await sleep(Math.random() * pauseMsMax);
    // Each part once, then at random.
    const part = parts[killed] ?? anyPart();
    const up = victims.filter((victim) => victim.part === part && victim.isUp());
    const victim = up[Math.floor(Math.random() * up.length)];
    if (victim === undefined) continue;
    await victim.kill();
    counts[part]++;
    if (++killed % 50 === 0) console.log(`${told(killed)}, at event ${await reached(url).catch(() => "?")}`);
  }
  return told(kills);
}

const isPossible = hasKafka() && (await missingServer()) === undefined;

test.runIf(isPossible)(
  `no row is lost or doubled when producer, broker, loaders and database are killed ${kills} times`,
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "marketd-kills-"));
    const [recording, place] = [join(folder, "feed.evts"), join(folder, "place")];
    const shape = { seed: 11, markets: 3, parties: 12, ordersPerBlock: 6, entriesPerBlock: 6 };
    const blocks = [...simulate({ ...shape, blocks: 400 + kills * blocksPerKill })].map((block) => Buffer.from(block));
    writeFileSync(recording, Buffer.concat(blocks));
    const broker = await KafkaBroker.start();
    await broker.createTopic(topic);
    // Commits reach the kernel, which survives.
    const server = await DatabaseServer.start(["--innodb-flush-log-at-trx-commit=2"]);
    const url = server.url("killed");
    await migrate(url, log);
    const loaders = [0, 1].map(() => new Restarted("loader", () => loader(url, broker.address)));
    const producer = new Restarted("producer", () => producing(recording, place, broker.address));
    const servers = [
      new RestartedServer(
        "broker",
        () => broker.kill(),
        () => broker.run(),
      ),
      new RestartedServer(
        "database",
        () => server.kill(),
        () => server.restart(),
      ),
    ];
    try {
      // What is killed before it did anything shows little.
      await expect.poll(() => reached(url), { timeout: 60_000 }).toBeGreaterThan(0n);
      const what = await killAtRandom([...loaders, producer, ...servers], url);
      await producer.end();
      for (const victim of servers) await victim.end();
      // Up to the end of a block: what it was not sure of once more, and some more.
      const sentBytes = Number(readFileSync(place, "utf8"));
      let [wholeBlocks, wholeBytes] = [0, 0];
      while (wholeBytes < sentBytes + 10_000) wholeBytes += blocks[wholeBlocks++]?.length ?? Number.NaN;
      expect(wholeBytes, "the feed ended before the last was killed").toBeGreaterThan(sentBytes);
      const bytes = Buffer.concat(blocks.slice(0, wholeBlocks));
      const feed = framesOf(bytes);
      await broker.produce(topic, framesOf(bytes.subarray(sentBytes)));
      await expect.poll(() => reached(url), { timeout: 120_000 }).toBe(feed.at(-1)?.readBigUInt64BE(4));
      for (const each of loaders) await each.end();
      await compare(url, feed, what);
      for (const end of loaders.flatMap(({ ends }) => ends)) expect(end).toMatch(/the database cannot be reached/);
    } finally {
      for (const victim of [...loaders, producer]) await victim.end();
      await broker.remove();
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  },
  600_000 + kills * 20_000,
);

/** Compares a database with one that the same frames were loaded into at once. */
async function compare(url: string, feed: readonly Buffer[], what: string): Promise<void> {
  const { url: undisturbed } = newDatabaseUrl();
  await migrate(undisturbed, log);
  const bytes = (async function* () {
    yield Buffer.concat(feed);
  })();
  await load({ database: undisturbed, sources: [streamSource(bytes, "memory")], log });
  const found = await dump(url);
  const rows = found.reduce((sum, line) => sum + Number(/: (\d+) rows/.exec(line)?.[1]), 0);
  console.log(`${what}; ${rows} rows of ${feed.length} frames compared`);
  expect(found).toEqual(await dump(undisturbed));
  const database = openDatabase(url, { connectionsMax: 3 });
  const { findings } = await verify(database);
  await database.close();
  expect(findings.listed.map(renderFinding)).toEqual([]);
}

test.skipIf(isPossible)("without Kafka's jars (MARKETD_TEST_KAFKA) and MariaDB nothing is killed", () => {
  expect(isPossible).toBe(false);
});
