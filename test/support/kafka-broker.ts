import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Admin } from "@platformatic/kafka";
import { freePort } from "../e2e/service-process.js";

/** Where `.ci/run` puts Kafka's jars. */
const jarsDirectory = process.env["MARKETD_TEST_KAFKA"] ?? join(homedir(), ".cache", "marketd", "kafka");
const upMaxMs = 60_000;
const clusterId = "bWFya2V0ZC10ZXN0LWthZg";

/** Whether a broker can be started here: its jars are there, and Java. */
export function hasKafka(): boolean {
  if (!existsSync(jarsDirectory) || !readdirSync(jarsDirectory).some((name) => /^kafka_.*\.jar$/.test(name)))
    return false;
  return spawnSync("java", ["-version"]).status === 0;
}

/** A private Kafka broker, its own controller (KRaft), which can be killed and started again. */
export class KafkaBroker {
  readonly #directory: string;
  readonly #port: number;
  #process: ChildProcess | undefined;

  private constructor(directory: string, port: number) {
    this.#directory = directory;
    this.#port = port;
  }

  static async start(): Promise<KafkaBroker> {
    const directory = mkdtempSync(join(tmpdir(), "marketd-kafka-"));
    const [port, controllerPort] = [await freePort(), await freePort()];
    mkdirSync(join(directory, "log"));
    writeFileSync(
      join(directory, "server.properties"),
      `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${controllerPort}
listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}
advertised.listeners=PLAINTEXT://127.0.0.1:${port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=${join(directory, "log")}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
`,
    );
    const broker = new KafkaBroker(directory, port);
    const format = spawnSync("java", broker.#arguments("kafka.tools.StorageTool", "format", "-t", clusterId, "-c"));
    if (format.status !== 0) throw new Error(`the storage cannot be formatted: ${format.stderr}`);
    await broker.run();
    return broker;
  }

  /** `host:port` */
  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** Starts the broker, and waits until it listens. */
  async run(): Promise<void> {
    const child = spawn("java", this.#arguments("kafka.Kafka"), { stdio: "ignore" });
    this.#process = child;
    const untilMs = performance.now() + upMaxMs;
    while (!(await this.#listens())) {
      if (child.exitCode !== null || performance.now() > untilMs) throw new Error("the Kafka broker is not up");
      await sleep(50);
    }
  }

  async createTopic(topic: string, partitions = 1, configs: Record<string, string> = {}): Promise<void> {
    const admin = new Admin({ clientId: "test", bootstrapBrokers: [this.address], retries: 20, retryDelay: 250 });
    const settings = Object.entries(configs).map(([name, value]) => ({ name, value }));
    await admin.createTopics({ topics: [topic], partitions, replicas: 1, configs: settings });
    await admin.close();
  }

  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #arguments(mainClass: string, ...more: string[]): string[] {
    const memory = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
    return [...memory, "-cp", join(jarsDirectory, "*"), mainClass, ...more, join(this.#directory, "server.properties")];
  }

  async #listens(): Promise<boolean> {
    const socket = connect(this.#port, "127.0.0.1");
    const outcome = await Promise.race([
      once(socket, "connect").then(() => true),
      once(socket, "close").then(() => false),
    ]).catch(() => false);
    socket.destroy();
    return outcome;
  }
}
