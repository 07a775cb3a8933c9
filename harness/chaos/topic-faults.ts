import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { simulate } from "../../src/simulator/network.js";
import { freePort } from "../../test/support/free-port.js";
import { framesOf, hasKafka, KafkaBroker } from "../../test/support/kafka-broker.js";
import { TcpBalancer } from "../../test/support/tcp-balancer.js";
import type { Report } from "../support/report.js";
import { startChild } from "./children.js";
import { DatabaseServer } from "./database-server.js";
import { dumpDatabase } from "./dump.js";
import { type Ending, Supervised } from "./marketd.js";
import type { RandomSource } from "./random-source.js";

/** Kinds of faults of a topic, by what `--faults` calls them. */
export const topicFaultNames = [
  "source lost by the active loader",
  "gap in a topic",
  "swapped events in a topic",
  "old events at the end of a topic",
] as const;

const topic = "chaos";
/** How soon after a fault everything must be in the database. A loader notices a lost source within 5 s. */
const loadedMaxMs = 30_000;
const startMaxMs = 60_000;
const blocksOfStep = 20;
const lengthBytes = 4;

/** A broker, a database, and two loaders that take turns; one of them reads through a proxy. */
class TopicWorld {
  readonly #blocks: readonly Buffer[][];
  #sent = 0;

  private constructor(
    readonly random: RandomSource,
    readonly directory: string,
    readonly broker: KafkaBroker,
    readonly proxy: TcpBalancer,
    readonly brokerPort: number,
    readonly server: DatabaseServer,
    readonly behindProxy: Supervised,
    readonly direct: Supervised,
    readonly ends: readonly string[],
  ) {
    const shape = { seed: 23, markets: 3, parties: 12, ordersPerBlock: 6, entriesPerBlock: 6 };
    this.#blocks = [...simulate({ ...shape, blocks: 40 * blocksOfStep })].map((block) => framesOf(Buffer.from(block)));
  }

  static async create(random: RandomSource, program: string): Promise<TopicWorld> {
    const directory = mkdtempSync(join(tmpdir(), "marketd-topics-"));
    const brokerPort = await freePort();
    const proxy = await TcpBalancer.before(brokerPort);
    const broker = await KafkaBroker.start(false, { port: brokerPort, proxyPort: proxy.port });
    // However this harness ends, the broker does not go on.
    process.on("exit", () => void broker.kill());
    await broker.createTopic(topic);
    const server = await DatabaseServer.create(join(directory, "data"), join(directory, "server"), 3);
    const ends: string[] = [];
    const loader = (name: string, brokers: string): Supervised => {
      const source = `kafka://${brokers}/${topic}`;
      const args = ["load", "--database-url", DatabaseServer.url(server.port), "--follow", "--standby", source];
      const onEnded = ({ code, signal, printed }: Ending): void => {
        ends.push(`${name} ended by itself with ${signal ?? `code ${code}`}: ${printed.trim().slice(-300)}`);
      };
      return new Supervised({ name, program, environment: {}, log: join(directory, name) }, () => ({ args }), onEnded);
    };
    const behindProxy = loader("the loader behind a proxy", `127.0.0.1:${proxy.port}`);
    const direct = loader("the other loader", broker.address);
    return new TopicWorld(random, directory, broker, proxy, brokerPort, server, behindProxy, direct, ends);
  }

  /** Sends the first blocks again, at least as much as there is before: halving meets them wherever it looks first. */
  async sendOldest(): Promise<void> {
    const blocks = this.#sent + this.random.below(this.#sent);
    for (let sent = 0; sent < blocks; sent += blocksOfStep) {
      await this.send(this.#blocks.slice(0, blocksOfStep).flat());
    }
  }

  /** The frames of the next blocks, which are to be sent. */
  next(): Buffer[] {
    const from = this.#sent;
    this.#sent += blocksOfStep;
    return this.#blocks.slice(from, this.#sent).flat();
  }

  send(frames: readonly Buffer[]): Promise<void> {
    return this.broker.produce(topic, frames);
  }

  async #reached(): Promise<bigint> {
    // There is no table before the first loader has started.
    const rows = await this.server.run("SELECT stream_sequence AS s FROM marketd.progress").catch(() => []);
    return BigInt(rows[0]?.["s"] ?? 0);
  }

  /** Whether all blocks that were sent are in the database in time. */
  async isLoaded(maxMs: number): Promise<boolean> {
    const last = this.#blocks[this.#sent - 1]?.at(-1)?.readBigUInt64BE(lengthBytes);
    const untilMs = performance.now() + maxMs;
    while ((await this.#reached()) !== last) {
      if (performance.now() > untilMs) return false;
      await delay(100);
    }
    return true;
  }

  /** Compares the database with one that the same blocks were loaded into undisturbed. */
  async differences(program: string): Promise<string[]> {
    const recording = join(this.directory, "undisturbed.recording");
    writeFileSync(recording, Buffer.concat(this.#blocks.slice(0, this.#sent).flat()));
    const args = [program, "load", "--database-url", DatabaseServer.url(this.server.port, "undisturbed"), recording];
    const [code] = await once(startChild(process.execPath, args, { stdio: "ignore" }), "close");
    if (code !== 0) return [`the undisturbed load ended with code ${code}`];
    const [found, expected] = [
      await dumpDatabase(this.server, "marketd"),
      await dumpDatabase(this.server, "undisturbed"),
    ];
    return [...expected].filter(([table, rows]) => found.get(table) !== rows).map(([table]) => `${table} differs`);
  }

  async close(): Promise<void> {
    await Promise.all([this.behindProxy.stop(5_000), this.direct.stop(5_000)]);
    await this.broker.remove();
    await this.proxy.close();
    await this.server.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** The active loader loses its brokers, and the other one must go on. */
async function loseSource(world: TopicWorld): Promise<void> {
  await world.direct.stop(5_000);
  await world.send(world.next());
  await world.isLoaded(startMaxMs);
  world.direct.start();
  // Until it stands by.
  await delay(world.random.between(2_000, 3_000));
  world.proxy.leadTo(await freePort());
  await world.send(world.next());
}

/** An event is left out and sent later; the loaders are killed while they look for it. */
async function leaveGap(world: TopicWorld): Promise<void> {
  const frames = world.next();
  const at = 1 + world.random.below(frames.length - 2);
  await world.send([...frames.slice(0, at), ...frames.slice(at + 1)]);
  await delay(world.random.between(500, 2_000));
  for (const loader of [world.behindProxy, world.direct]) loader.end("SIGKILL");
  await delay(world.random.between(500, 2_000));
  await world.send(frames.slice(at, at + 1));
}

/** Two events change places. */
async function swapEvents(world: TopicWorld): Promise<void> {
  const frames = world.next();
  const at = 1 + world.random.below(frames.length - 12);
  const [one, ...others] = frames.splice(at, 2 + world.random.below(10));
  await world.send([...frames.slice(0, at), ...others, ...(one === undefined ? [] : [one]), ...frames.slice(at)]);
}

/** While no loader runs, new events come, and behind them old ones again. */
async function sendAgain(world: TopicWorld): Promise<void> {
  await Promise.all([world.behindProxy.stop(5_000), world.direct.stop(5_000)]);
  await world.send(world.next());
  await world.sendOldest();
  for (const loader of [world.behindProxy, world.direct]) loader.start();
}

const faults = {
  [topicFaultNames[0]]: loseSource,
  [topicFaultNames[1]]: leaveGap,
  [topicFaultNames[2]]: swapEvents,
  [topicFaultNames[3]]: sendAgain,
};

/**
 * Lets each of these kinds of faults happen once to two loaders of a topic of a real broker. After each, all blocks must be in the database in time; at the end it must equal an undisturbed load.
 */
export async function sufferTopicFaults(
  names: readonly (typeof topicFaultNames)[number][],
  { report, random, program }: { readonly report: Report; readonly random: RandomSource; readonly program: string },
): Promise<void> {
  if (names.length === 0) return;
  if (!hasKafka()) {
    report.say("skipped: faults of a topic, because Kafka's jars (MARKETD_TEST_KAFKA) or Java are missing");
    return;
  }
  const world = await TopicWorld.create(random, program);
  try {
    world.behindProxy.start();
    world.direct.start();
    await world.send(world.next());
    report.check("loaders of a topic: start", await world.isLoaded(startMaxMs), world.ends.join("; "));
    // In this order: what a gap does to a build that cannot repair it stays.
    for (const name of names) {
      await faults[name](world);
      const startedMs = performance.now();
      const isLoaded = await world.isLoaded(loadedMaxMs);
      const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
      report.say(`${name}: ${isLoaded ? `${seconds} s` : "blocks are missing"}`);
      const why = `not within ${loadedMaxMs / 1_000} s; ${world.ends.slice(-2).join("; ")}`;
      report.check(`${name}: every block is loaded`, isLoaded, why);
      world.proxy.leadTo(world.brokerPort);
      await world.isLoaded(loadedMaxMs);
    }
    report.check("faults of a topic: no loader ends by itself", world.ends.length === 0, world.ends.join("; "));
    const differences = await world.differences(program);
    report.check("faults of a topic: the database equals an undisturbed load", differences.length === 0, () =>
      differences.join("; "),
    );
  } finally {
    await world.close();
  }
}
