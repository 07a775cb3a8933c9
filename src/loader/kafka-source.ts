import { subscribe } from "node:diagnostics_channel";
import { isIP } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConnectionOptions } from "node:tls";
import type { Connection, Consumer, ConsumerOptions, RecordsBatch } from "@platformatic/kafka";
import { OperatorError } from "../domain/operator-error.js";
import type { TlsSettings } from "../store/tls-settings.js";
import type { Log } from "../telemetry/log.js";
import { areWholeFrames, lengthBytes } from "./frames.js";
import { type KafkaAddress, parseKafkaUrl } from "./kafka-address.js";
import { explainKafkaError, KafkaOutage } from "./kafka-error.js";
import { RecordingError } from "./recording-error.js";
import { outageMsMax, type RetryOptions, withRetries } from "./retry.js";
import type { Source } from "./source.js";

/**
 * Bytes of messages that one request asks for: as many as a slow line (2 Mbit/s) transfers within `brokerSilenceMsMax`.
 * A larger message comes alone.
 */
export const fetchBytesMax = 1024 * 1024;

/** How long a broker may hold a request until there is a new message, in milliseconds. */
export const fetchWaitMs = 1_000;

/** How long a broker may take to accept a connection, in milliseconds. Then the next one is tried. */
export const brokerConnectMsMax = 2_000;

/** How long brokers may take to respond, in milliseconds, connecting and `fetchWaitMs` included. */
export const brokerSilenceMsMax = 5_000;

/** Bits of a batch's attributes: it is part of a transaction; it marks the end of one, and holds no message. */
const transactionalBatch = 0x10;
const controlBatch = 0x20;
/** In place of a time, these ask for the first and the last offset. */
const oldestOffset = -2n;
const newestOffset = -1n;

/** Options of {@link kafkaSource}. */
export interface KafkaSourceOptions {
  /** Wait for more at the end. Otherwise the source ends with the newest message that was there at its start. */
  readonly follow: boolean;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Settings of a consumer, whose keys and values are bytes. */
type Settings = ConsumerOptions<Buffer, Buffer, Buffer, Buffer>;

interface Message {
  readonly offset: bigint;
  readonly value: Buffer;
}

/** Messages of a partition, in the order of their offsets. */
interface Messages {
  readonly messages: readonly Message[];
  /** The offset to read from next. */
  readonly next: bigint;
}

/** A transaction that was aborted, as brokers list them beside the messages. */
interface Abortion {
  readonly producerId: bigint;
  readonly firstOffset: bigint;
}

/*
 * A connection of the client can emit errors without a listener, as when it is lost while it authenticates. They would
 * end the process. Each request has a time limit, so open connections need not keep the process running.
 */
subscribe("plt:kafka:instances", (event) => {
  const { type, instance } = event as { readonly type: string; readonly instance: Connection };
  if (type !== "connection") return;
  instance.on("error", () => {});
  // It connects in the same turn, and has a socket then.
  queueMicrotask(() => instance.socket?.unref());
});

/**
 * A partition of a Kafka topic (docs/events.md, "From Kafka"). It is read from the message with the event that the
 * database needs next; consumer groups and their offsets are not used. Brokers that cannot be reached are waited for as
 * the database is.
 * @throws OperatorError for a malformed URL, or without the package `@platformatic/kafka`
 */
export async function kafkaSource(url: string, options: KafkaSourceOptions): Promise<Source> {
  const address = parseKafkaUrl(url, options.log);
  const { Consumer: KafkaConsumer } = await import("@platformatic/kafka").catch((error: unknown) => {
    const message = "Kafka needs an optional package; install it with: npm install @platformatic/kafka";
    throw new OperatorError(message, 1, error);
  });
  const topic = new KafkaTopic((settings) => new KafkaConsumer(settings), address, options);
  let needed: bigint | undefined;
  return {
    name: `topic ${address.topic}`,
    bytes: topic.frames(() => needed),
    totalBytes: undefined,
    followed: options.follow,
    repeats: true,
    startAt: (sequence) => {
      needed = sequence;
    },
    isLost: () => topic.isLost,
  };
}

class KafkaTopic {
  readonly #newConsumer: (settings: Settings) => Consumer;
  readonly #address: KafkaAddress;
  readonly #options: KafkaSourceOptions;
  readonly #retry: RetryOptions;
  #consumer: Consumer;
  #connects = 0;
  #isLost = false;

  constructor(newConsumer: (settings: Settings) => Consumer, address: KafkaAddress, options: KafkaSourceOptions) {
    this.#newConsumer = newConsumer;
    this.#address = address;
    this.#options = options;
    const isPassing = (error: unknown): boolean => error instanceof KafkaOutage;
    const describe = (error: unknown): string => (error as KafkaOutage).message;
    this.#retry = { log: options.log, signal: options.signal, outageMsMax, isPassing, describe };
    this.#consumer = this.#connect();
  }

  /** Whether the last request to the brokers failed. A topic without new messages responds. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** The bytes of all messages from the one that holds the event `needed` names, or from the oldest if it names none. */
  async *frames(needed: () => bigint | undefined): AsyncGenerator<Uint8Array> {
    const { follow, signal } = this.#options;
    // A request that waits for a message would delay the end.
    const close = (): void => this.#close();
    signal.addEventListener("abort", close, { once: true });
    try {
      const { oldest, end } = await this.#offsets();
      const sequence = needed();
      let offset = sequence === undefined ? oldest : await this.#find(sequence, oldest, end);
      while (!signal.aborted && (follow || offset < end)) {
        const { messages, next } = await this.#read(offset);
        const broken = messages.find(({ value }) => !areWholeFrames(value));
        const whole = broken === undefined ? messages : messages.slice(0, messages.indexOf(broken));
        if (whole.length > 0) yield Buffer.concat(whole.map(({ value }) => value));
        if (broken !== undefined) throw this.#brokenMessage(broken);
        offset = next;
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      signal.removeEventListener("abort", close);
      close();
    }
  }

  /** Each consumer tries another broker first, because one that is silent uses up the time for all of them. */
  #connect(): Consumer {
    const { brokers, tls, user } = this.#address;
    const first = this.#connects++ % brokers.length;
    const hasNames = brokers.every(({ host }) => isIP(host) === 0);
    return this.#newConsumer({
      clientId: "marketd",
      groupId: "marketd",
      bootstrapBrokers: [...brokers.slice(first), ...brokers.slice(0, first)],
      autocommit: false,
      connectTimeout: brokerConnectMsMax,
      retries: 0,
      ...(tls === undefined ? {} : { tls: tlsOptions(tls), tlsServerName: hasNames }),
      ...(user === undefined ? {} : { sasl: user }),
    });
  }

  #close(): void {
    // Errors at the end of a connection do not matter.
    this.#consumer.close().catch(() => {});
  }

  /** Asks the brokers until they respond, each time over new connections. */
  #ask<T>(question: (consumer: Consumer) => Promise<T>): Promise<T> {
    const attempt = async (): Promise<T> => {
      try {
        const response = await withinTime(question(this.#consumer), this.#options.signal);
        this.#isLost = false;
        return response;
      } catch (error) {
        this.#isLost = true;
        this.#close();
        this.#consumer = this.#connect();
        throw explainKafkaError(error, this.#address);
      }
    };
    return withRetries(attempt, this.#retry);
  }

  /** The offsets of the oldest message, and after the last one before any open transaction. */
  #offsets(): Promise<{ readonly oldest: bigint; readonly end: bigint }> {
    const { topic, partition } = this.#address;
    return this.#ask(async (consumer) => {
      await this.#leader(consumer);
      const at = async (timestamp: bigint): Promise<bigint> => {
        const partitions = { [topic]: [partition] };
        const isolationLevel = "READ_COMMITTED";
        const found = await consumer.listOffsets({ topics: [topic], partitions, timestamp, isolationLevel });
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
      const [first] = (await this.#read(middle, to)).messages;
      // Compaction and the marks of transactions leave offsets without a message.
      if (first === undefined || first.offset >= to) to = middle;
      else if (!areWholeFrames(first.value)) throw this.#brokenMessage(first);
      else if (first.value.readBigUInt64BE(lengthBytes) > sequence) to = middle;
      else from = first.offset;
    }
    return from;
  }

  /** The messages from an offset on; none if there was none for a while, or, with `until`, before that offset. */
  async #read(offset: bigint, until?: bigint): Promise<Messages> {
    let from = offset;
    for (;;) {
      const found = await this.#ask((consumer) => this.#fetch(consumer, from));
      const isOver = until === undefined || found.messages.length > 0 || found.next >= until || found.next === from;
      if (isOver) return found;
      from = found.next;
    }
  }

  async #fetch(consumer: Consumer, offset: bigint): Promise<Messages> {
    const { partition } = this.#address;
    const { topicId, leader } = await this.#leader(consumer);
    const wanted = {
      partition,
      fetchOffset: offset,
      currentLeaderEpoch: -1,
      lastFetchedEpoch: -1,
      partitionMaxBytes: fetchBytesMax,
    };
    const response = await consumer.fetch({
      node: leader,
      maxWaitTime: fetchWaitMs,
      minBytes: 1,
      maxBytes: fetchBytesMax,
      isolationLevel: "READ_COMMITTED",
      topics: [{ topicId, partitions: [wanted] }],
    });
    const found = response.responses[0]?.partitions[0];
    return messagesOf(found?.records ?? [], found?.abortedTransactions ?? [], offset);
  }

  /** @throws OperatorError for a partition that does not exist */
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

  #brokenMessage({ offset, value }: Message): RecordingError {
    const { topic, partition } = this.#address;
    return new RecordingError(
      `topic ${topic}, partition ${partition}: the message at offset ${offset}, of ${value.length} bytes, is not one or more whole frames; produce each frame in one message, whole`,
    );
  }
}

/** The messages from an offset on, without those of transactions that were aborted, which brokers send too. */
function messagesOf(batches: readonly RecordsBatch[], abortions: readonly Abortion[], offset: bigint): Messages {
  const messages: Message[] = [];
  /** Where the last transaction of a producer ended. */
  const ends = new Map<bigint, bigint>();
  let next = offset;
  for (const { firstOffset, lastOffsetDelta, attributes, producerId, records } of batches) {
    const last = firstOffset + BigInt(lastOffsetDelta);
    next = last + 1n;
    if ((attributes & controlBatch) !== 0) {
      ends.set(producerId, last);
      continue;
    }
    const isOfBatch = (each: Abortion): boolean =>
      each.producerId === producerId && each.firstOffset <= last && each.firstOffset > (ends.get(producerId) ?? -1n);
    if ((attributes & transactionalBatch) !== 0 && abortions.some(isOfBatch)) continue;
    for (const { offsetDelta, value } of records) {
      const at = firstOffset + BigInt(offsetDelta);
      if (at >= offset && value !== null) messages.push({ offset: at, value });
    }
  }
  return { messages, next };
}

function tlsOptions({ authorities, verifiesCertificate, verifiesName }: TlsSettings): ConnectionOptions {
  return {
    ...(authorities === undefined ? {} : { ca: authorities }),
    rejectUnauthorized: verifiesCertificate,
    ...(verifiesName ? {} : { checkServerIdentity: () => undefined }),
  };
}

/** The client has no time limit of its own for a response. @throws KafkaOutage */
async function withinTime<T>(response: Promise<T>, signal: AbortSignal): Promise<T> {
  // When the time is over, nothing waits for it any more.
  response.catch(() => {});
  const timer = new AbortController();
  const silence = sleep(brokerSilenceMsMax, undefined, { signal: AbortSignal.any([timer.signal, signal]) }).then(() => {
    throw new KafkaOutage(`the Kafka brokers did not respond for ${brokerSilenceMsMax / 1_000} s`);
  });
  silence.catch(() => {});
  try {
    return await Promise.race([response, silence]);
  } finally {
    timer.abort();
  }
}
