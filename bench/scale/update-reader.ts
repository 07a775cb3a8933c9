import { create, toBinary } from "@bufbuild/protobuf";
import { ObserveMarketsDepthUpdatesRequestSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { envelopeHeadBytes } from "../../src/transport/call/framing.js";
import type { Subscription } from "../stream/light-reader.js";

/** Which update a message holds. */
export type OnUpdate = (sequenceNumber: bigint, previousSequenceNumber: bigint, receivedAt: number) => void;

/** Subscribes to these markets over one connection, with a stream for each. */
export function subscribe(marketIds: readonly string[], onUpdate: OnUpdate): Subscription {
  const reader = new UpdateReader(marketIds.length, onUpdate);
  const schema = ObserveMarketsDepthUpdatesRequestSchema;
  return {
    requests: marketIds.map((marketId) => toBinary(schema, create(schema, { marketIds: [marketId] }))),
    onData: (...data) => reader.take(...data),
  };
}

/** The end of a message: two fields of a byte and a varint of at most ten. */
const tailBytes = 22;
/** Tags of `vega.MarketDepthUpdate`. It ends with these fields, of which proto3 leaves out a previous number of 0. */
const tags = { sequenceNumber: 0x20, previousSequenceNumber: 0x28 } as const;

/**
 * Finds the messages in the bodies of a connection's gRPC streams, each of one market, and reads their sequence numbers
 * from their ends: the rest is skipped, so that ten thousand streams can be read beside their server.
 */
class UpdateReader {
  /** Bytes of each stream's message that are still to come. */
  readonly #left: Int32Array;
  readonly #headHeld: Uint8Array;
  readonly #heads: Buffer;
  readonly #tailHeld: Uint8Array;
  readonly #tails: Buffer;
  readonly #onUpdate: OnUpdate;

  constructor(streams: number, onUpdate: OnUpdate) {
    this.#left = new Int32Array(streams);
    this.#headHeld = new Uint8Array(streams);
    this.#heads = Buffer.alloc(streams * envelopeHeadBytes);
    this.#tailHeld = new Uint8Array(streams);
    this.#tails = Buffer.alloc(streams * tailBytes);
    this.#onUpdate = onUpdate;
  }

  /** Takes body bytes of a stream. @throws Error if a message does not end as expected */
  take(stream: number, buffer: Uint8Array, start: number, end: number, now: number): void {
    for (let at = start; at < end; ) {
      const left = this.#left[stream] ?? 0;
      if (left === 0) {
        this.#head(stream, buffer[at++] ?? 0);
        continue;
      }
      const taken = Math.min(left, end - at);
      this.#keep(stream, buffer.subarray(Math.max(at, at + taken - tailBytes), at + taken));
      at += taken;
      this.#left[stream] = left - taken;
      if (left === taken) this.#read(stream, now);
    }
  }

  #head(stream: number, byte: number): void {
    const held = this.#headHeld[stream] ?? 0;
    const start = stream * envelopeHeadBytes;
    this.#heads[start + held] = byte;
    this.#headHeld[stream] = (held + 1) % envelopeHeadBytes;
    if (held + 1 < envelopeHeadBytes) return;
    // An empty message is a heartbeat.
    this.#left[stream] = this.#heads.readUInt32BE(start + 1);
    this.#tailHeld[stream] = 0;
  }

  #keep(stream: number, bytes: Uint8Array): void {
    const start = stream * tailBytes;
    const held = this.#tailHeld[stream] ?? 0;
    const kept = Math.min(held, tailBytes - bytes.length);
    this.#tails.copyWithin(start, start + held - kept, start + held);
    this.#tails.set(bytes, start + kept);
    this.#tailHeld[stream] = kept + bytes.length;
  }

  #read(stream: number, now: number): void {
    const start = stream * tailBytes;
    const tail = this.#tails.subarray(start, start + (this.#tailHeld[stream] ?? 0));
    const last = lastVarint(tail);
    if (last.tag === tags.sequenceNumber) {
      this.#onUpdate(last.value, 0n, now);
      return;
    }
    const before = lastVarint(tail.subarray(0, last.start));
    if (last.tag !== tags.previousSequenceNumber || before.tag !== tags.sequenceNumber) {
      throw new Error(`a message ends with the fields ${before.tag >> 3} and ${last.tag >> 3}`);
    }
    this.#onUpdate(before.value, last.value, now);
  }
}

/** The field at the end of some bytes, which is a varint: its tag, its value, and where it starts. */
function lastVarint(bytes: Uint8Array): { readonly tag: number; readonly value: bigint; readonly start: number } {
  let first = bytes.length - 1;
  while (first > 0 && (bytes[first - 1] ?? 0) >= 0x80) first--;
  let value = 0n;
  for (let i = bytes.length - 1; i >= first; i--) value = (value << 7n) | BigInt((bytes[i] ?? 0) & 0x7f);
  return { tag: bytes[first - 1] ?? 0, value, start: first - 1 };
}
