import { subscribe } from "node:diagnostics_channel";
import { isIP } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConnectionOptions } from "node:tls";
import type { Connection, Consumer, ConsumerOptions, compressionsAlgorithms, RecordsBatch } from "@platformatic/kafka";
import { OperatorError } from "../domain/operator-error.js";
import type { TlsSettings } from "../store/connection/tls-settings.js";
import type { Log } from "../telemetry/log.js";
import { areWholeFrames, lengthBytes } from "./frames.js";
import { type KafkaAddress, parseKafkaUrl } from "./kafka-address.js";
import { explainKafkaError, KafkaOutage } from "./kafka-error.js";
import type { OutageWatch } from "./load-status.js";
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

/**
 * How far behind its place in the order an event may be, in bytes of messages. It is what a producer that sends 1 MiB a
 * second gets through in a minute, and what a slow line (2 Mbit/s) transfers in less than five.
 */
export const disorderBytesMax = 64 * 1024 * 1024;

/** How long an event that is missing is looked and waited for, in milliseconds. */
export const disorderMsMax = 60_000;

/** Offsets that are first tried on the way back; each further try has four times as many. */
const backOffsetsMin = 1_024n;

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
  readonly watch?: OutageWatch | undefined;
}

/** Settings of a consumer, whose keys and values are bytes. */
type Settings = ConsumerOptions<Buffer, Buffer, Buffer, Buffer>;

interface Message {
  readonly offset: bigint;
  readonly value: Buffer;
}

/** A whole frame, the number of its event, and the offset of its message. */
interface PlacedFrame {
  readonly offset: bigint;
  readonly sequence: bigint;
  readonly bytes: Buffer;
}

/** Messages of a partition, in the order of their offsets. */
interface Messages {
  readonly messages: readonly Message[];
  /** The offset to read from next. */
  readonly next: bigint;
}

/** Where a topic is read. */
interface Range {
  readonly oldest: bigint;
  readonly start: bigint;
  /** After the last message that was there when reading began. */
  readonly end: bigint;
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
  const kafka = await import("@platformatic/kafka").catch((error: unknown) => {
    const message =
      "Kafka needs a package that is not installed; install it beside marketd: npm install @platformatic/kafka@1.22";
    throw new OperatorError(message, 1, error);
  });
  readSnappyFrames(kafka.compressionsAlgorithms.snappy);
  return new KafkaTopic((settings) => new kafka.Consumer(settings), address, options);
}

type Compression = (typeof compressionsAlgorithms)["snappy"];

/** What snappy of Java begins with, whose producers and brokers write blocks: `\x82SNAPPY\0` and two versions. */
const snappyMagic = Buffer.from("82534e4150505900", "hex");
const snappyHeaderBytes = snappyMagic.length + 8;

/** Whether the client's snappy, which knows a single block, has been replaced. */
const replaced = new WeakSet<Compression>();

/** Lets the client read snappy of Java too: behind the header each block has its length, big-endian. */
function readSnappyFrames(snappy: Compression): void {
  if (replaced.has(snappy)) return;
  replaced.add(snappy);
  const block = snappy.decompressSync;
  const decompressSync: Compression["decompressSync"] = (data) => {
    const bytes = Buffer.isBuffer(data) ? data : data.slice();
    if (!bytes.subarray(0, snappyMagic.length).equals(snappyMagic)) return block(bytes);
    const blocks: Buffer[] = [];
    for (let at = snappyHeaderBytes; at < bytes.length; ) {
      const end = at + 4 + bytes.readInt32BE(at);
      blocks.push(block(bytes.subarray(at + 4, end)));
      at = end;
    }
    return Buffer.concat(blocks);
  };
  Object.assign(snappy, { decompressSync });
}

class KafkaTopic implements Source {
  readonly name: string;
  readonly totalBytes = undefined;
  readonly followed: boolean;
  readonly repeats = true;
  /** Whether the last request to the brokers failed. A topic without new messages responds. */
  isLost = false;
  readonly #newConsumer: (settings: Settings) => Consumer;
  readonly #address: KafkaAddress;
  readonly #options: KafkaSourceOptions;
  readonly #retry: RetryOptions;
  #consumer: Consumer;
  #connects = 0;
  #topicId: string | undefined;
  /** After the last message that may be read, and before the next one that is read. */
  #newest: bigint | undefined;
  #offset = 0n;

  constructor(newConsumer: (settings: Settings) => Consumer, address: KafkaAddress, options: KafkaSourceOptions) {
    this.name = `topic ${address.topic}`;
    this.followed = options.follow;
    this.#newConsumer = newConsumer;
    this.#address = address;
    this.#options = options;
    const isPassing = (error: unknown): boolean => error instanceof KafkaOutage;
    const describe = (error: unknown): string => (error as KafkaOutage).message;
    this.#retry = { log: options.log, signal: options.signal, outageMsMax, isPassing, describe, watch: options.watch };
    this.#consumer = this.#connect();
  }

  get messagesBehind(): bigint | undefined {
    return this.#newest === undefined || this.#newest < this.#offset ? undefined : this.#newest - this.#offset;
  }

  /** The bytes of all messages from the one that holds the event that is due, or from the oldest if any may be first. */
  async *read(due: bigint | undefined): AsyncGenerator<Uint8Array> {
    const { signal } = this.#options;
    // A request that waits for a message would delay the end.
    const close = (): void => this.#close();
    signal.addEventListener("abort", close, { once: true });
    try {
      const { oldest, end } = await this.#offsets();
      const start = due === undefined ? oldest : await this.#find(due, oldest, end);
      yield* this.#inOrder(due, { oldest, start, end });
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      signal.removeEventListener("abort", close);
      close();
    }
  }

  /**
   * The messages from `start` on, in the order of their events. At the first gap it goes back, because the search may have
   * met an event that was sent again; at any other it looks for the missing event further on, and then returns. It also
   * goes back if there is neither the event that is due up to the end, nor the one before.
   */
  async *#inOrder(first: bigint | undefined, { oldest, start, end }: Range): AsyncGenerator<Uint8Array> {
    const { follow, log, signal } = this.#options;
    let due = first;
    let offset = start;
    /** Bytes until the search for the start cannot have been misled. */
    let doubtfulBytes = start > oldest ? disorderBytesMax : 0;
    /** The event that is due, or the one before, was met: the end of the topic is not the end of a search gone wrong. */
    let isReached = start === oldest;
    while (!signal.aborted && (follow || offset < end)) {
      this.#offset = offset;
      const { messages, next } = await this.#readFrom(offset);
      const batch = inOrder(messages, due);
      const { gap, broken } = batch;
      ({ due } = batch);
      if (batch.found.length > 0) yield Buffer.concat(batch.found);
      if (gap === undefined && broken !== undefined) throw this.#brokenMessage(broken);
      doubtfulBytes -= bytesOf(messages);
      isReached ||= batch.isReached;
      const isMisled = gap === undefined ? !isReached && next >= end : doubtfulBytes > 0;
      if (isMisled) {
        if (gap === undefined) log.warn(`${this.#place} ends with events of before ${due}; reading more of it again`);
        [doubtfulBytes, isReached] = [0, true];
        offset = await this.#before(start, oldest);
      } else if (gap === undefined) {
        offset = next;
      } else {
        const later = await this.#missing(gap, end);
        ({ due } = later);
        yield Buffer.concat(later.found);
        offset = gap.offset;
      }
    }
  }

  /** The messages further on that have the event that is missing. @throws RecordingError if it is not found in time */
  async #missing({ due, ...later }: Gap, end: bigint): Promise<BatchInOrder> {
    const { follow, log } = this.#options;
    log.warn(`${this.#place} lacks event ${due} at offset ${later.offset}; looking for it further on`);
    const untilMs = performance.now() + disorderMsMax;
    let bytesLeft = disorderBytesMax;
    let { offset } = later;
    while (bytesLeft > 0 && performance.now() < untilMs && (follow || offset < end)) {
      const { messages, next } = await this.#readFrom(offset);
      const batch = inOrder(messages, due);
      if (batch.due !== due) {
        log.warn(`${this.#place} has event ${due} further on; the load goes on`);
        return batch;
      }
      if (batch.broken !== undefined) throw this.#brokenMessage(batch.broken);
      bytesLeft -= bytesOf(messages);
      offset = next;
    }
    const limits = `${disorderBytesMax / 1024 / 1024} MiB or ${disorderMsMax / 1_000} s`;
    throw new RecordingError(
      `the stream has a gap: event ${later.sequence} comes after event ${due - 1n}, where ${due} is needed; ${this.#place} does not have it within ${limits} after offset ${later.offset}: produce it again`,
    );
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
        this.isLost = false;
        return response;
      } catch (error) {
        this.isLost = true;
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
   * An offset from which reading on meets the event `sequence`, found by halving: after a message that begins at or before
   * an event, that event comes. Where messages are out of order, it may be up to {@link disorderBytesMax} too late.
   */
  async #find(sequence: bigint, oldest: bigint, end: bigint): Promise<bigint> {
    let from = oldest;
    let to = end;
    while (to - from > 1n) {
      const middle = (from + to) / 2n;
      const [first] = (await this.#readFrom(middle, to)).messages;
      // Compaction and the marks of transactions leave offsets without a message.
      if (first === undefined || first.offset >= to) to = middle;
      else if (!areWholeFrames(first.value)) throw this.#brokenMessage(first);
      else if (first.value.readBigUInt64BE(lengthBytes) > sequence) to = middle;
      else from = first.offset;
    }
    return from;
  }

  /** An offset with {@link disorderBytesMax} of messages between it and a later one, or as many as can be read in time. */
  async #before(later: bigint, oldest: bigint): Promise<bigint> {
    const untilMs = performance.now() + disorderMsMax;
    for (let back = backOffsetsMin; ; back *= 4n) {
      const from = later - back > oldest ? later - back : oldest;
      let [bytes, at] = [0, from];
      while (at < later && bytes < disorderBytesMax && performance.now() < untilMs) {
        const { messages, next } = await this.#readFrom(at, later);
        bytes += bytesOf(messages);
        if (next === at) break;
        at = next;
      }
      if (from === oldest || at < later) return from;
    }
  }

  /** The messages from an offset on; none if there was none for a while, or, with `until`, before that offset. */
  async #readFrom(offset: bigint, until?: bigint): Promise<Messages> {
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
    this.#newest = found?.lastStableOffset;
    return messagesOf(found?.records ?? [], found?.abortedTransactions ?? [], offset);
  }

  /** @throws OperatorError for a partition that does not exist, or for another topic of the name: its offsets are others */
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
    this.#topicId ??= found.id;
    if (found.id !== this.#topicId) {
      throw new OperatorError(
        `topic ${topic} was deleted and made again; start the load again, and it goes on with the event that the database needs`,
      );
    }
    return { topicId: found.id, leader };
  }

  get #place(): string {
    const { topic, partition } = this.#address;
    return `topic ${topic}, partition ${partition}`;
  }

  #brokenMessage({ offset, value }: Message): RecordingError {
    return new RecordingError(
      `${this.#place}: the message at offset ${offset}, of ${value.length} bytes, is not one or more whole frames; produce each frame in one message, whole`,
    );
  }
}

/** An event that is missing. */
interface Gap {
  readonly due: bigint;
  /** The first event that comes after it, and the offset of its message. */
  readonly sequence: bigint;
  readonly offset: bigint;
}

/** What a batch of messages holds for the place that is reached. */
interface BatchInOrder {
  /** Frames up to the first event that is missing, in order, and those of events that were seen before. */
  readonly found: readonly Buffer[];
  /** The event that is due then; undefined: any may be first. */
  readonly due: bigint | undefined;
  /** Whether the event before that one is in the batch. */
  readonly isReached: boolean;
  readonly gap: Gap | undefined;
  /** The first message that is not whole frames: those before it alone count. */
  readonly broken: Message | undefined;
}

/** Within a batch, events may be in any order, and may repeat. If any may be first, it is the least one of the batch. */
function inOrder(messages: readonly Message[], dueBefore: bigint | undefined): BatchInOrder {
  const broken = messages.find(({ value }) => !areWholeFrames(value));
  const frames = messages.slice(0, broken && messages.indexOf(broken)).flatMap(framesOf);
  const [first] = frames;
  const found: Buffer[] = [];
  if (first === undefined) return { found, due: dueBefore, isReached: false, gap: undefined, broken };
  let due = dueBefore ?? first.sequence;
  if (dueBefore === undefined) for (const { sequence } of frames) if (sequence < due) due = sequence;
  const early = new Map<bigint, PlacedFrame>();
  for (const frame of frames) {
    if (frame.sequence > due) early.set(frame.sequence, frame);
    else found.push(frame.bytes);
    if (frame.sequence === due) due++;
  }
  for (let next = early.get(due); next !== undefined; next = early.get(due)) {
    found.push(next.bytes);
    due++;
  }
  const later = frames.find(({ sequence }) => sequence > due);
  const before = due - 1n;
  const isReached = due !== dueBefore || frames.some(({ sequence }) => sequence === before);
  return { found, due, isReached, gap: later && { due, sequence: later.sequence, offset: later.offset }, broken };
}

function framesOf({ offset, value }: Message): PlacedFrame[] {
  const frames: PlacedFrame[] = [];
  for (let at = 0, next = 0; at < value.length; at = next) {
    next = at + lengthBytes + value.readUInt32BE(at);
    frames.push({ offset, sequence: value.readBigUInt64BE(at + lengthBytes), bytes: value.subarray(at, next) });
  }
  return frames;
}

function bytesOf(messages: readonly Message[]): number {
  return messages.reduce((sum, { value }) => sum + value.length, 0);
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
      // The client gives no value (a tombstone) as an empty one.
      if (at >= offset && value.length > 0) messages.push({ offset: at, value });
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

/**
 * Waits for a response for at most `brokerSilenceMsMax`: the client has no time limit of its own.
 * @throws KafkaOutage
 */
export async function withinTime<T>(response: Promise<T>, signal: AbortSignal): Promise<T> {
  // When the time is over, nothing waits for it any more.
  response.catch(() => {});
  const timer = new AbortController();
  // Not `AbortSignal.any`: Node.js 20 never frees the signals that depend on one that lives as long as the process.
  const stop = () => timer.abort();
  signal.addEventListener("abort", stop);
  if (signal.aborted) stop();
  const silence = sleep(brokerSilenceMsMax, undefined, { signal: timer.signal }).then(() => {
    throw new KafkaOutage(`the Kafka brokers did not respond for ${brokerSilenceMsMax / 1_000} s`);
  });
  silence.catch(() => {});
  try {
    return await Promise.race([response, silence]);
  } finally {
    signal.removeEventListener("abort", stop);
    timer.abort();
  }
}
