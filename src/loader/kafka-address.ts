import { exitUsage, OperatorError } from "../domain/operator-error.js";
import { parseTls, type TlsSettings } from "../store/connection/tls-settings.js";
import { readSecret } from "../store/secret-file.js";
import type { Log } from "../telemetry/log.js";

/** Values of `sasl`, and what brokers call them. */
const mechanisms = {
  plain: "PLAIN",
  "scram-sha-256": "SCRAM-SHA-256",
  "scram-sha-512": "SCRAM-SHA-512",
} as const;

/** Who the brokers are told is reading (SASL). */
export interface KafkaUser {
  readonly mechanism: (typeof mechanisms)[keyof typeof mechanisms];
  readonly username: string;
  readonly password: string;
}

/** Where a feed is, and how its brokers are connected to. */
export interface KafkaAddress {
  readonly brokers: readonly { readonly host: string; readonly port: number }[];
  readonly topic: string;
  readonly partition: number;
  /** Undefined: no TLS. */
  readonly tls: TlsSettings | undefined;
  /** Undefined: the brokers require none. */
  readonly user: KafkaUser | undefined;
}

const scheme = "kafka://";
const portDefault = 9092;
const portMax = 65_535;
const parameters = ["partition", "ssl-mode", "ssl-ca", "sasl", "user", "password-file"];

/** Whether a source of `marketd load` is a Kafka topic. */
export function isKafkaUrl(text: string): boolean {
  return text.startsWith(scheme);
}

/**
 * Parses `kafka://host:port,host:port/topic`. Its parameters are `partition`, `ssl-mode` and `ssl-ca` as in a database
 * URL, and `sasl`, `user` and `password-file`.
 * @throws OperatorError whose message never contains the URL, because a password may be in it by mistake
 */
export function parseKafkaUrl(text: string, log: Log): KafkaAddress {
  const pattern = /^kafka:\/\/([^/?]+)\/([a-zA-Z0-9._-]{1,249})(?:\?(.*))?$/;
  const [, hosts = "", topic = "", query = ""] = pattern.exec(text) ?? [];
  if (hosts.includes("@")) {
    throw refused("names a user before the hosts; write ?sasl=scram-sha-512&user=name&password-file=path at its end");
  }
  const brokers = hosts.split(",").map(parseBroker);
  if (topic === "" || !brokers.every((broker) => broker !== undefined)) {
    throw refused("is malformed: a topic looks like kafka://host:9092,host:9092/topic or …/topic?partition=1");
  }
  const given = new URLSearchParams(query);
  for (const name of given.keys()) {
    if (!parameters.includes(name)) throw refused(`has the parameter "${name}"; it takes ${parameters.join(", ")}`);
  }
  const partition = given.get("partition") ?? "0";
  if (!/^\d{1,9}$/.test(partition)) throw refused("has a partition that is not a number; partitions begin with 0");
  const tls = tlsOf(given);
  const user = userOf(given, log);
  if (user?.mechanism === "PLAIN" && tls === undefined) {
    log.warn("the Kafka password is sent unencrypted; add ssl-mode=verify-identity, or take sasl=scram-sha-512");
  }
  return { brokers, topic, partition: Number(partition), tls, user };
}

function parseBroker(text: string): { host: string; port: number } | undefined {
  const pattern = /^(?:([a-zA-Z0-9._-]+)|\[([0-9a-fA-F:]+)\])(?::(\d{1,5}))?$/;
  const [, host, address, port = portDefault] = pattern.exec(text) ?? [];
  const name = host ?? address;
  return name === undefined || Number(port) > portMax ? undefined : { host: name, port: Number(port) };
}

function tlsOf(given: URLSearchParams): TlsSettings | undefined {
  try {
    return parseTls(given, "the Kafka URL");
  } catch (error) {
    throw new OperatorError((error as Error).message, exitUsage, error);
  }
}

function userOf(given: URLSearchParams, log: Log): KafkaUser | undefined {
  const [sasl, username, path] = [given.get("sasl"), given.get("user"), given.get("password-file")];
  if (sasl === null && username === null && path === null) return undefined;
  if (!sasl || !username || !path) throw refused("has only a part of sasl, user and password-file; give all three");
  if (!isMechanism(sasl)) throw refused(`has sasl=${sasl}; it takes ${Object.keys(mechanisms).join(", ")}`);
  const password = readSecret(path, "the file of the Kafka password", log);
  return { mechanism: mechanisms[sasl], username, password };
}

function isMechanism(text: string): text is keyof typeof mechanisms {
  return Object.hasOwn(mechanisms, text);
}

function refused(why: string): OperatorError {
  return new OperatorError(`the Kafka URL ${why}`, exitUsage);
}
