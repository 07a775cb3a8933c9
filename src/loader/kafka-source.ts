import { setTimeout as sleep } from "node:timers/promises";
import type { Consumer } from "@platformatic/kafka";
import { exitUsage, OperatorError } from "../domain/operator-error.js";
import type { Log } from "../telemetry/log.js";
import { lengthBytes, sequenceBytes } from "./frames.js";
import { RecordingError } from "./recording-error.js";
import { outageMsMax, type RetryOptions, withRetries } from "./retry.js";
import type { Source } from "./source.js";

/** Bytes of messages that one request asks for. A larger message comes alone. */
export const fetchBytesMax = 4 * 1024 * 1024;

/** How long a broker may hold a request until there is a new message, in milliseconds. */
export const fetchWaitMs = 1_000;

/** How long a broker may take to accept a connection, or to respond, in milliseconds, `fetchWaitMs` included. */
export const brokerSilenceMsMax = 5_000;

const scheme = "kafka://";
/** Set in the attributes of a batch that marks the end of a transaction and holds no message. */
const controlBatch = 0x20;
/** In place of a time, these ask for the first and the last offset. */
const oldestOffset = -2n;
const newestOffset = -1n;
/** Kafka's code for messages that were deleted, or are not there yet. */
const offsetOutOfRange = 1;

/** Where a feed is: `kafka://host:port,host:port/topic?partition=0`. */
interface KafkaAddress {
  readonly brokers: string[];
  readonly topic: string;
  readonly partition: number;
}

/** Options of {@link kafkaSource}. */
export interface KafkaSourceOptions {
  /** Wait for more at the end. Otherwise the source ends with the newest message that was there at its start. */
  readonly follow: boolean;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Messages of a partition, in the order of their offsets. */
interface Messages {
  readonly values: readonly { readonly offset: bigint; readonly value: Buffer }[];
  /** The offset to read from next. */
  readonly next: bigint;
}

/** Whether a source of `marketd load` is a Kafka topic. */
export function isKafkaUrl(text: string): boolean {
  return text.startsWith(scheme);
}

/**
 * A partition of a Kafka topic, of which each message is one or more whole frames (docs/events.md, "The file"). It is read
 * from the message with the event that the database needs next; consumer groups and their offsets are not used. Brokers
 * that cannot be reached are waited for as the database is.
 * @throws OperatorError for a URL that names no topic, or without the package `@platformatic/kafka`
 */
export async function kafkaSource(url: string, options: KafkaSourceOptions): Promise<Source> {
  const address = parseKafkaUrl(url);
  const { Consumer: KafkaConsumer } = await import("@platformatic/kafka").catch((error: unknown) => {
    const message = `${url}: Kafka needs an optional package; install it with: npm install @platformatic/kafka`;
    throw new OperatorError(message, 1, error);
  });
  const connect = (): Consumer => {
    const { brokers } = address;
    return new KafkaConsumer({
      clientId: "marketd",
      groupId: "marketd",
      bootstrapBrokers: brokers,
      autocommit: false,
      connectTimeout: brokerSilenceMsMax,
      retries: 0,
    });
  };
  const topic = new KafkaTopic(connect, address, options);
  let needed: bigint | undefined;
  return {
    name: `${scheme}${address.brokers.join(",")}/${address.topic}`,
    bytes: topic.frames(() => needed),
    totalBytes: undefined,
    followed: options.follow,
    repeats: true,
    startAt: (sequence) => {
      needed = sequence;
    },
  };
}

/** @throws OperatorError */
function parseKafkaUrl(url: string): KafkaAddress {
  const [, hosts = "", topic = "", partition = "0"] =
    /^kafka:\/\/([^/?]+)\/([a-zA-Z0-9._-]{1,249})(?:\?partition=(\d{1,9}))?$/.exec(url) ?? [];
  const brokers = hosts.split(",").map((host) => (/:\d+$/.test(host) ? host : `${host}:9092`));
  if (topic === "" || !brokers.every((broker) => /^([a-zA-Z0-9._-]+|\[[0-9a-fA-F:]+\]):\d{1,5}$/.test(broker))) {
    throw new OperatorError(
      `${url}: a topic looks like kafka://host:9092,host:9092/topic or …/topic?partition=1`,
      exitUsage,
    );
  }
  return { brokers, topic, partition: Number(partition) };
}

class KafkaTopic {
  readonly #connect: () => Consumer;
  #consumer: Consumer;
  readonly #address: KafkaAddress;
  readonly #options: KafkaSourceOptions;
  readonly #retry: RetryOptions;

  constructor(connect: () => Consumer, address: KafkaAddress, options: KafkaSourceOptions) {
    this.#connect = connect;
    this.#consumer = connect();
    this.#address = address;
    this.#options = options;
    const { log, signal } = options;
    this.#retry = { log, signal, outageMsMax, isPassing: isBrokerFailure, describe: describeBrokerFailure };
  }

  /** The bytes of all messages from the one that holds the event `needed` names, or from the oldest if it names none. */
  async *frames(needed: () => bigint | undefined): AsyncGenerator<Uint8Array> {
    const { follow, signal } = this.#options;
    // A request that waits for a message would keep the process from ending.
    const close = (): void => this.#close();
    signal.addEventListener("abort", close, { once: true });
    try {
      const { oldest, end } = await this.#offsets();
      const sequence = needed();
      let offset = sequence === undefined ? oldest : await this.#find(sequence, oldest, end);
      while (!signal.aborted && (follow || offset < end)) {
        const { values, next } = await this.#read(offset);
        for (const { value } of values) yield value;
        offset = next;
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      signal.removeEventListener("abort", close);
      close();
    }
  }

  /** Asks the brokers until they respond, each time over new connections. */
  #ask<T>(question: (consumer: Consumer) => Promise<T>): Promise<T> {
    const attempt = async (): Promise<T> => {
      try {
        return await withinTime(question(this.#consumer));
      } catch (error) {
        this.#close();
        this.#consumer = this.#connect();
        if (!isKafkaError(error) || isBrokerFailure(error)) throw error;
        throw new OperatorError(`topic ${this.#address.topic} cannot be read: ${error.message}`, 1, error);
      }
    };
    return withRetries(attempt, this.#retry);
  }

  #close(): void {
    // What fails at the end of a connection was over anyway.
    this.#consumer.close().catch(() => {});
  }

  /** The offsets of the oldest message, and of the next one to be produced. */
  #offsets(): Promise<{ readonly oldest: bigint; readonly end: bigint }> {
    const { topic, partition } = this.#address;
    return this.#ask(async (consumer) => {
      await this.#leader(consumer);
      const at = async (timestamp: bigint): Promise<bigint> => {
        const found = await consumer.listOffsets({
          topics: [topic],
          partitions: { [topic]: [partition] },
          timestamp,
        });
        return found.get(topic)?.[partition] ?? 0n;
      };
      return { oldest: await at(oldestOffset), end: await at(newestOffset) };
    });
  }

  /**
   * An offset from which reading on meets the event `sequence`, found by halving. A producer may repeat events, but leaves
   * none out: after a message that begins at or before an event, that event always comes.
   */
  async #find(sequence: bigint, oldest: bigint, end: bigint): Promise<bigint> {
    let from = oldest;
    let to = end;
    while (to - from > 1n) {
      const middle = (from + to) / 2n;
      const first = (await this.#read(middle, to)).values[0];
      // Compaction and the marks of transactions leave offsets without a message.
      if (first === undefined || first.offset >= to || firstSequence(first.value, this.#address.topic) > sequence) {
        to = middle;
      } else from = first.offset;
    }
    return from;
  }

  /** The messages from an offset on; none if there was none for a while, or, with `until`, before that offset. */
  async #read(offset: bigint, until?: bigint): Promise<Messages> {
    let from = offset;
    for (;;) {
      const messages = await this.#ask((consumer) => this.#fetch(consumer, from));
      const isOver =
        until === undefined || messages.values.length > 0 || messages.next >= until || messages.next === from;
      if (isOver) return messages;
      from = messages.next;
    }
  }

  async #fetch(consumer: Consumer, offset: bigint): Promise<Messages> {
    const { partition } = this.#address;
    const { topicId, leader } = await this.#leader(consumer);
    const response = await consumer.fetch({
      node: leader,
      maxWaitTime: fetchWaitMs,
      minBytes: 1,
      maxBytes: fetchBytesMax,
      isolationLevel: "READ_COMMITTED",
      topics: [
        {
          topicId,
          partitions: [
            {
              partition,
              fetchOffset: offset,
              currentLeaderEpoch: -1,
              lastFetchedEpoch: -1,
              partitionMaxBytes: fetchBytesMax,
            },
          ],
        },
      ],
    });
    const found = response.responses[0]?.partitions[0];
    const values: { offset: bigint; value: Buffer }[] = [];
    let next = offset;
    for (const batch of found?.records ?? []) {
      next = batch.firstOffset + BigInt(batch.lastOffsetDelta) + 1n;
      if ((batch.attributes & controlBatch) !== 0) continue;
      for (const { offsetDelta, value } of batch.records) {
        const at = batch.firstOffset + BigInt(offsetDelta);
        if (at >= offset && value !== null) values.push({ offset: at, value });
      }
    }
    return { values, next };
  }

  /** @throws OperatorError for a topic or partition that does not exist */
  async #leader(consumer: Consumer): Promise<{ readonly topicId: string; readonly leader: number }> {
    const { topic, partition } = this.#address;
    const metadata = await consumer.metadata({ topics: [topic] });
    const found = metadata.topics.get(topic);
    const leader = found?.partitions[partition]?.leader;
    if (found === undefined || leader === undefined) {
      throw new OperatorError(
        `topic ${topic} has ${found?.partitionsCount ?? 0} partitions, and not number ${partition}`,
      );
    }
    return { topicId: found.id, leader };
  }
}

/** What the client's errors have in common, whichever class they are of. */
interface KafkaError extends Error {
  readonly code: string;
  findBy(property: string, value: unknown): unknown;
}

const lastingCodes: ReadonlySet<string> = new Set(["PLT_KFK_AUTHENTICATION", "PLT_KFK_UNSUPPORTED_COMPRESSION"]);

function isKafkaError(error: unknown): error is KafkaError {
  return error instanceof Error && "code" in error && `${error.code}`.startsWith("PLT_KFK_") && "findBy" in error;
}

/** Whether another attempt may succeed: brokers are away or elect a leader, or the topic is still to be made. */
function isBrokerFailure(error: unknown): boolean {
  if (error instanceof BrokerSilence) return true;
  if (!isKafkaError(error) || error.findBy("apiCode", offsetOutOfRange)) return false;
  return !lastingCodes.has(error.code) && !error.findBy("code", "PLT_KFK_AUTHENTICATION");
}

/** The client has no time limit of its own for a response. @throws BrokerSilence */
async function withinTime<T>(response: Promise<T>): Promise<T> {
  // Nobody may be left to hear that it failed.
  response.catch(() => {});
  const timer = new AbortController();
  const silence = sleep(brokerSilenceMsMax, undefined, { signal: timer.signal }).then(() => {
    throw new BrokerSilence(`no response for ${brokerSilenceMsMax / 1_000} s`);
  });
  silence.catch(() => {});
  try {
    return await Promise.race([response, silence]);
  } finally {
    timer.abort();
  }
}

class BrokerSilence extends Error {}

function describeBrokerFailure(error: unknown): string {
  if (!(error instanceof Error)) return "the Kafka brokers failed";
  const cause = error instanceof AggregateError ? error.errors.find((each) => each instanceof Error) : undefined;
  return `the Kafka brokers cannot be read: ${(cause ?? error).message}`;
}

/** The stream sequence number of the first event in a message. @throws RecordingError */
function firstSequence(value: Buffer, topic: string): bigint {
  if (value.length >= lengthBytes + sequenceBytes) return value.readBigUInt64BE(lengthBytes);
  throw new RecordingError(`topic ${topic}: a message has ${value.length} bytes, which is not a whole frame`);
}
