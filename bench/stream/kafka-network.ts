import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Producer } from "@platformatic/kafka";
import { openEmbedded } from "../../src/embedded/open-embedded.js";
import { openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { KafkaBroker } from "../../test/support/kafka-broker.js";
import { type BlockSource, pollIntervalMs } from "./delay.js";
import { nowMs } from "./light-reader.js";
import { FoldedNetwork } from "./simulated-blocks.js";

const historyBlocks = 200;
const historyMsMax = 60_000;
/** After a block that no stream sees, so that it does not delay the next one. */
const unseenBlockMs = 200;
const topic = "blocks";
/** Compiled, this file is in dist/bench/stream. */
const program = fileURLToPath(new URL("../../../bin/marketd", import.meta.url));

/** A simulated network whose blocks are messages of a Kafka topic, which `marketd load --follow` reads. */
export class KafkaNetwork implements BlockSource {
  readonly #network = new FoldedNetwork();

  private constructor(
    readonly url: string,
    private readonly producer: Producer,
  ) {}

  /** Leases a network that has some blocks behind it, which are loaded. */
  static async lease(use: (network: KafkaNetwork) => Promise<void>): Promise<void> {
    const directory = mkdtempSync(join(tmpdir(), "marketd-bench-"));
    const log = createLog("silent");
    const database = await openEmbedded({ dataDir: join(directory, "database"), log });
    const broker = await KafkaBroker.start();
    let loader: ChildProcess | undefined;
    let producer: Producer | undefined;
    try {
      await migrate(database.url, log);
      await broker.createTopic(topic);
      producer = new Producer({ clientId: "bench", bootstrapBrokers: [broker.address] });
      const network = new KafkaNetwork(database.url, producer);
      const args = [program, "load", "--database-url", database.url, "--follow", `kafka://${broker.address}/${topic}`];
      loader = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
      for (let block = 0; block < historyBlocks; block++) await network.#produce();
      await network.#untilLoaded();
      await use(network);
    } finally {
      await producer?.close();
      if (loader?.kill()) await once(loader, "exit");
      await broker.remove();
      await database.close();
      rmSync(directory, { recursive: true, force: true });
    }
  }

  /** The poll interval, and 10 ms for the broker, the loader, the database and all streams. */
  aimMs(): number {
    return pollIntervalMs + 10;
  }

  /** Produces blocks up to one that changes a book; gives when that was handed to the producer, by `nowMs`. */
  async block(): Promise<number> {
    for (;;) {
      const { startedAt, changedLevels } = await this.#produce();
      if (changedLevels > 0) return startedAt;
      await sleep(unseenBlockMs);
    }
  }

  async #produce(): Promise<{ readonly startedAt: number; readonly changedLevels: number }> {
    const value = this.#network.nextBlock();
    const changedLevels = this.#network.take().levels.size;
    const startedAt = nowMs();
    await this.producer.send({ messages: [{ topic, partition: 0, value }], acks: -1 });
    return { startedAt, changedLevels };
  }

  async #untilLoaded(): Promise<void> {
    const store = openDatabase(this.url, { connectionsMax: 1 });
    const untilMs = performance.now() + historyMsMax;
    try {
      for (let height = 0n; height < BigInt(this.#network.height); await sleep(50)) {
        const [row] = await store.query<{ height: bigint }>("SELECT height FROM progress");
        height = row?.height ?? 0n;
        if (performance.now() > untilMs) throw new Error("the loader did not read the topic");
      }
    } finally {
      await store.close();
    }
  }
}
