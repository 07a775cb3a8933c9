import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseKafkaUrl } from "../../src/loader/kafka-address.js";
import { kafkaSource } from "../../src/loader/kafka-source.js";
import { load } from "../../src/loader/load.js";
import { simulate } from "../../src/simulator/network.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { selfSigned } from "../support/certificate.js";
import { newDatabaseUrl } from "../support/database.js";
import { framesOf, hasKafka, KafkaBroker, kafkaUsers } from "../support/kafka-broker.js";
import { Follower } from "../support/kafka-follower.js";
import { partnerProgram } from "../support/partners.js";

const log = createLog("silent");
const options = { follow: false, log, signal: new AbortController().signal };
const blocks = 40;
/** A refusal that waits for the brokers to become willing would take 10 minutes. */
const refusalMsMax = 20_000;

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "marketd-kafka-users-"));
  for (const [name, password] of Object.entries(kafkaUsers)) {
    writeFileSync(join(folder, name), `${password}\n`, { mode: 0o600 });
  }
  writeFileSync(join(folder, "wrong"), "no-such-secret\n", { mode: 0o600 });
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe("a URL of Kafka", () => {
  const parse = (text: string) => parseKafkaUrl(text, log);

  test("names brokers, a topic and a partition", () => {
    expect(parse("kafka://a,b:9093,[::1]:9094,[fe80::2]/topic?partition=3")).toEqual({
      brokers: [
        { host: "a", port: 9092 },
        { host: "b", port: 9093 },
        { host: "::1", port: 9094 },
        { host: "fe80::2", port: 9092 },
      ],
      topic: "topic",
      partition: 3,
      tls: undefined,
      user: undefined,
    });
  });

  test("asks for TLS, and names a user and the file of the password", () => {
    const found = parse(`kafka://a/t?ssl-mode=verify-ca&sasl=scram-sha-256&user=reader&password-file=${folder}/reader`);
    expect(found).toMatchObject({
      tls: { verifiesCertificate: true, verifiesName: false },
      user: { mechanism: "SCRAM-SHA-256", username: "reader", password: kafkaUsers.reader },
    });
  });

  test.each([
    ["kafka://broker", "is malformed: a topic looks like kafka://host:9092,host:9092/topic"],
    ["kafka://broker:65536/t", "is malformed"],
    ["kafka://broker/to pic", "is malformed"],
    ["kafka://reader:s3cret@broker/t", "names a user before the hosts; write ?sasl=scram-sha-512&user=name"],
    ["kafka://broker/t?password=s3cret", 'has the parameter "password"; it takes partition, ssl-mode, ssl-ca, sasl'],
    ["kafka://broker/t?partition=-1", "has a partition that is not a number; partitions begin with 0"],
    ["kafka://broker/t?ssl-mode=on", "has ssl-mode=on; it takes disabled, required, verify-ca, verify-identity"],
    ["kafka://broker/t?sasl=plain", "has only a part of sasl, user and password-file; give all three"],
    ["kafka://broker/t?user=a&password-file=/f", "has only a part of sasl, user and password-file; give all three"],
    ["kafka://broker/t?sasl=gssapi&user=a&password-file=/f", "has sasl=gssapi; it takes plain, scram-sha-256"],
  ])("is refused without being repeated: %s", (url, message) => {
    let refusal = "";
    try {
      parse(url);
    } catch (error) {
      refusal = String(error);
    }
    expect(refusal).toContain(`the Kafka URL ${message}`);
    expect(refusal).not.toContain("s3cret");
  });

  test("is refused when the file of the password is not there, or empty", () => {
    const parameters = "sasl=scram-sha-512&user=reader&password-file=";
    expect(() => parse(`kafka://a/t?${parameters}${folder}/none`)).toThrow(/the file of the Kafka password, .* is not/);
    writeFileSync(join(folder, "empty"), "\n");
    expect(() => parse(`kafka://a/t?${parameters}${folder}/empty`)).toThrow(/password, .* has an empty first line/);
  });
});

const isPossible = hasKafka() && partnerProgram("openssl") !== undefined;

describe.runIf(isPossible)("brokers with TLS and users", () => {
  let broker: KafkaBroker;
  let last: bigint | undefined;
  /** In front of the listener for SCRAM; breaks connections that authenticate. */
  let breaker: Server;
  let breaks = 0;

  beforeAll(async () => {
    broker = await KafkaBroker.start(true);
    await broker.createTopic("feed");
    const shape = { seed: 11, markets: 2, parties: 6, ordersPerBlock: 4, entriesPerBlock: 4, blocks };
    const frames = framesOf(Buffer.concat([...simulate(shape)]));
    last = frames.at(-1)?.readBigUInt64BE(4);
    await broker.produce("feed", frames);
    breaker = createServer((client) => {
      const [host, port] = broker.scramAddress.split(":");
      const server = connect(Number(port), host);
      for (const socket of [client, server]) socket.on("error", () => {});
      client.on("close", () => server.destroy());
      server.on("close", () => client.destroy());
      if (breaks > 0) client.once("data", () => breaks-- > 0 && client.resetAndDestroy());
      else client.pipe(server).pipe(client);
    }).listen(0, "127.0.0.1");
    await once(breaker, "listening");
  });

  afterAll(async () => {
    breaker?.close();
    await broker?.remove();
  });

  const as = (user: string, sasl: string, file = user) => `sasl=${sasl}&user=${user}&password-file=${folder}/${file}`;
  const withTls = (user: string) =>
    `${broker.tlsAddress}/feed?ssl-mode=verify-identity&ssl-ca=${broker.authorities}&${user}`;

  async function loadFeed(source: string): Promise<bigint | undefined> {
    const { url } = newDatabaseUrl();
    await migrate(url, log);
    const summary = await load({ database: url, sources: [await kafkaSource(`kafka://${source}`, options)], log });
    return summary.progress?.streamSequence;
  }

  test.each(["plain", "scram-sha-256", "scram-sha-512"])("are read over TLS with %s", async (sasl) => {
    expect(await loadFeed(withTls(as("reader", sasl)))).toBe(last);
  });

  test("are read without TLS, and with a certificate that is not checked", async () => {
    expect(await loadFeed(`${broker.scramAddress}/feed?${as("reader", "scram-sha-512")}`)).toBe(last);
    expect(await loadFeed(`${broker.tlsAddress}/feed?ssl-mode=required&${as("reader", "plain")}`)).toBe(last);
  });

  test("say in one line what to change, and are not waited for", async () => {
    const stranger = selfSigned();
    writeFileSync(join(folder, "stranger.pem"), stranger?.certificate ?? "");
    const sources: [string, RegExp][] = [
      [
        withTls(as("reader", "plain", "wrong")),
        /refuse user reader with this password and sasl=plain; correct user, pa/,
      ],
      [withTls(as("reader", "scram-sha-512", "wrong")), /refuse user reader with this password and sasl=scram-sha-512/],
      [withTls(as("nobody", "scram-sha-256", "reader")), /the brokers refuse user nobody/],
      [withTls(as("guest", "plain")), /do not let user guest read it; allow READ and DESCRIBE of topic feed/],
      [`${broker.scramAddress}/feed?${as("reader", "plain")}`, /do not take sasl=plain; they take scram-sha-512/],
      [
        `${broker.tlsAddress}/feed?ssl-mode=verify-ca&${as("reader", "plain")}`,
        /certificate is refused: .*self-signed/,
      ],
      [
        `${broker.tlsAddress}/feed?ssl-mode=verify-ca&ssl-ca=${folder}/stranger.pem&${as("reader", "plain")}`,
        /certificate is refused: .*; correct ssl-mode or ssl-ca in the Kafka URL/,
      ],
      [
        withTls(as("reader", "plain")).replace("localhost", "127.0.0.1"),
        /certificate is refused: .*127\.0\.0\.1.*; correct ssl-mode or ssl-ca/,
      ],
    ];
    for (const [source, refusal] of sources) {
      const startedMs = performance.now();
      await expect(loadFeed(source), source).rejects.toThrow(refusal);
      expect(performance.now() - startedMs, source).toBeLessThan(refusalMsMax);
    }
  });

  test("that break connections while a user is authenticated are tried again; no password is shown", async () => {
    breaks = 3;
    const { url } = newDatabaseUrl();
    await migrate(url, log);
    const { port } = breaker.address() as AddressInfo;
    const follower = new Follower(url, `kafka://127.0.0.1:${port}/feed?${as("reader", "scram-sha-512")}`);
    try {
      await follower.reaches(last);
      expect(breaks).toBeLessThanOrEqual(0);
      expect(follower.printed).toContain("topic feed cannot be read");
      expect(follower.printed).not.toContain(kafkaUsers.reader);
      const shown = readFileSync(`/proc/${follower.child.pid}/cmdline`, "utf8");
      expect(shown).toContain("password-file=");
      expect(shown).not.toContain(kafkaUsers.reader);
    } finally {
      await follower.end("SIGKILL");
    }
  });
});

test.skipIf(isPossible)("without Kafka's jars (MARKETD_TEST_KAFKA) and openssl, TLS and users are not tried", () => {
  expect(isPossible).toBe(false);
});
