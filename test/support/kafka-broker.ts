import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Admin, Producer } from "@platformatic/kafka";
import { selfSigned } from "./certificate.js";
import { freePort } from "./free-port.js";

/** Where `.ci/run` puts Kafka's jars. */
const jarsDirectory = process.env["MARKETD_TEST_KAFKA"] ?? join(homedir(), ".cache", "marketd", "kafka");
/** Java starts within seconds, and within minutes where many other processes want the cores. */
const upMaxMs = 300_000;
const clusterId = "bWFya2V0ZC10ZXN0LWthZg";

/** Whether a broker can be started here: its jars are there, and Java. */
export function hasKafka(): boolean {
  if (!existsSync(jarsDirectory) || !readdirSync(jarsDirectory).some((name) => /^kafka_.*\.jar$/.test(name)))
    return false;
  return spawnSync("java", ["-version"]).status === 0;
}

/** Takes a recording apart into its frames. */
export function framesOf(recording: Buffer): Buffer[] {
  const found: Buffer[] = [];
  for (let at = 0; at < recording.length; ) {
    const end = at + 4 + recording.readUInt32BE(at);
    found.push(recording.subarray(at, end));
    at = end;
  }
  return found;
}

/** Users of a broker with security: one who may read every topic, and one who may read none. */
export const kafkaUsers = { reader: "first-secret", guest: "second-secret" } as const;

/** Where brokers listen, besides without any security. */
interface SecurePorts {
  /** TLS and every kind of SASL; the certificate is for `localhost` alone. */
  readonly tls: number;
  /** SCRAM-SHA-512 without TLS. */
  readonly scram: number;
}

/** The settings of listeners with TLS and SASL. */
function securitySettings(keyStore: string): string {
  const users = Object.entries(kafkaUsers).map(([name, password]) => `user_${name}="${password}"`);
  const login = "org.apache.kafka.common.security";
  return `
ssl.keystore.type=PEM
ssl.keystore.location=${keyStore}
listener.name.sasl_ssl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=${login}.plain.PlainLoginModule required ${users.join(" ")};
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=${login}.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=${login}.scram.ScramLoginModule required;
listener.name.sasl_plaintext.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=${login}.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:reader
`;
}

/** A private Kafka broker, its own controller (KRaft), which can be killed and started again. */
export class KafkaBroker {
  readonly #directory: string;
  readonly #port: number;
  readonly #secure: SecurePorts | undefined;
  #process: ChildProcess | undefined;

  private constructor(directory: string, port: number, secure: SecurePorts | undefined) {
    this.#directory = directory;
    this.#port = port;
    this.#secure = secure;
  }

  /**
   * @param isSecure whether it listens with TLS and SASL too, which needs openssl
   * @param behind another port that it listens on, for the proxy that it tells those clients of
   */
  static async start(
    isSecure = false,
    behind?: { readonly port: number; readonly proxyPort: number },
  ): Promise<KafkaBroker> {
    const directory = mkdtempSync(join(tmpdir(), "marketd-kafka-"));
    const [port, controllerPort] = [await freePort(), await freePort()];
    const secure = isSecure ? { tls: await freePort(), scram: await freePort() } : undefined;
    const more = secure && `,SASL_SSL://localhost:${secure.tls},SASL_PLAINTEXT://127.0.0.1:${secure.scram}`;
    const proxied = (at: number | undefined) => (at === undefined ? "" : `,PROXIED://127.0.0.1:${at}`);
    mkdirSync(join(directory, "log"));
    const broker = new KafkaBroker(directory, port, secure);
    const certificate = secure && selfSigned();
    if (certificate !== undefined) {
      writeFileSync(broker.authorities, certificate.certificate);
      writeFileSync(join(directory, "keystore.pem"), `${certificate.key}${certificate.certificate}`);
    }
    writeFileSync(
      join(directory, "server.properties"),
      `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${controllerPort}
listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}${more ?? ""}${proxied(behind?.port)}
advertised.listeners=PLAINTEXT://127.0.0.1:${port}${more ?? ""}${proxied(behind?.proxyPort)}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
log.dirs=${join(directory, "log")}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
${secure === undefined ? "" : securitySettings(join(directory, "keystore.pem"))}`,
    );
    const scram = ["SCRAM-SHA-256", "SCRAM-SHA-512"].flatMap((mechanism) =>
      Object.entries(kafkaUsers).flatMap(([name, password]) => [
        "--add-scram",
        `${mechanism}=[name="${name}",password="${password}"]`,
      ]),
    );
    const settings = ["format", "-t", clusterId, ...(secure === undefined ? [] : scram), "-c"];
    const format = spawnSync("java", broker.#arguments("kafka.tools.StorageTool", ...settings));
    if (format.status !== 0) throw new Error(`the storage cannot be formatted: ${format.stderr}`);
    await broker.run();
    return broker;
  }

  /** `host:port` */
  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** The same with TLS and any SASL. */
  get tlsAddress(): string {
    return `localhost:${this.#secure?.tls}`;
  }

  /** The same with SCRAM-SHA-512 alone. */
  get scramAddress(): string {
    return `127.0.0.1:${this.#secure?.scram}`;
  }

  /** Path of a file with the certificate of `tlsAddress`. */
  get authorities(): string {
    return join(this.#directory, "authorities.pem");
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

  async deleteTopic(topic: string): Promise<void> {
    const admin = new Admin({ clientId: "test", bootstrapBrokers: [this.address], retries: 20, retryDelay: 250 });
    await admin.deleteTopics({ topics: [topic] });
    await admin.close();
  }

  /** Produces messages to partition 0, in this order. */
  async produce(
    topic: string,
    values: readonly Buffer[],
    compression: "none" | "gzip" | "snappy" | "lz4" = "none",
  ): Promise<void> {
    const producer = new Producer({ clientId: "test", bootstrapBrokers: [this.address], retries: 20, retryDelay: 250 });
    for (let at = 0; at < values.length; at += 50) {
      const messages = values.slice(at, at + 50).map((value) => ({ topic, partition: 0, value }));
      await producer.send({ messages, acks: -1, compression });
    }
    await producer.close();
  }

  /** Produces messages without a value, by Kafka's own producer: the library writes an empty one. */
  produceTombstones(topic: string, count: number): void {
    const properties = ["parse.key=true", "key.separator=:", "null.marker=NONE"];
    const settings = ["--bootstrap-server", this.address, "--topic", topic];
    const program = this.#arguments("kafka.tools.ConsoleProducer", ...settings);
    const given = properties.flatMap((property) => ["--property", property]);
    const { status, stderr } = spawnSync("java", [...program, ...given], { input: "key:NONE\n".repeat(count) });
    if (status !== 0) throw new Error(`Kafka's producer failed: ${stderr}`);
  }

  /** Stops the process, as it is, or continues it. */
  freeze(isFrozen: boolean): void {
    this.#process?.kill(isFrozen ? "SIGSTOP" : "SIGCONT");
  }

  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
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
