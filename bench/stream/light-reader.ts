import { connect, type Socket } from "node:net";
import { envelope } from "../../src/transport/call/framing.js";

/** Where the depth stream is. */
export const streamPath = "/api/v2/stream/markets/depth/updates";
const rpcPath = "/datanode.api.v2.TradingDataService/ObserveMarketsDepthUpdates";

/** How a stream is read. */
export type ReaderProtocol = "grpc" | "lines";

/** Milliseconds by a clock that all processes of a machine share. */
export function nowMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
}

/** A connection with depth streams on it, of which it only counts the bytes of the bodies. */
export interface LightReader {
  readonly socket: Socket;
  /** Body bytes so far, by stream. */
  readonly bytes: Float64Array;
  /** When a stream last got some, by `nowMs`; 0: never, or not since it was set to that. */
  readonly receivedAt: Float64Array;
  /** Whether it sees no end of the stream: the connection stands. */
  open: boolean;
}

/** Reading memory that all connections share: what is in it is counted, not kept. */
const shared = Buffer.alloc(1 << 18);

/** What to subscribe to, and who gets the bytes. Default: every market, and nobody. */
export interface Subscription {
  /** The request message of each stream, without its gRPC prefix. */
  readonly requests: readonly Uint8Array[];
  /** Body bytes of a stream: those of `buffer` from `start` to `end`, valid during the call. */
  readonly onData: (stream: number, buffer: Uint8Array, start: number, end: number, now: number) => void;
}

/** Opens a connection with `streams` depth streams. Lines have one stream a connection, of every market. */
export function openReader(
  protocol: ReaderProtocol,
  port: number,
  address: string,
  streams: number,
  subscription?: Subscription,
): LightReader {
  const parser = protocol === "grpc" ? new Http2Counter(streams, subscription?.onData) : new ChunkedCounter();
  const onread = {
    buffer: shared,
    callback: (length: number, buffer: Uint8Array) => {
      parser.take(buffer, length, (response) => socket.write(response));
      return true;
    },
  };
  const socket = connect({ port, host: "127.0.0.1", localAddress: address, onread, noDelay: true });
  const reader: LightReader = { socket, bytes: parser.bytes, receivedAt: parser.receivedAt, open: true };
  socket.write(protocol === "grpc" ? grpcRequests(streams, subscription?.requests) : lineRequest);
  socket.on("error", () => {});
  socket.once("close", () => {
    reader.open = false;
  });
  return reader;
}

interface Counter {
  readonly bytes: Float64Array;
  readonly receivedAt: Float64Array;
  take(buffer: Uint8Array, length: number, reply: (bytes: Buffer) => void): void;
}

const headBytes = 9;
const frameTypes = { data: 0, headers: 1, settings: 4, ping: 6, windowUpdate: 8 } as const;
const flags = { ack: 1, endStream: 1, endHeaders: 4 } as const;
const settingsAck = frame(frameTypes.settings, flags.ack, 0, Buffer.alloc(0));

/** Reads HTTP/2 frames, acknowledges SETTINGS and PING, and counts the bytes of DATA. */
class Http2Counter implements Counter {
  readonly bytes: Float64Array;
  readonly receivedAt: Float64Array;
  readonly #head = Buffer.alloc(headBytes);
  #headHeld = 0;
  #left = 0;
  #stream = -1;
  #ping: number[] | undefined;

  constructor(
    streams: number,
    private readonly onData: Subscription["onData"] | undefined,
  ) {
    this.bytes = new Float64Array(streams);
    this.receivedAt = new Float64Array(streams);
  }

  take(buffer: Uint8Array, length: number, reply: (bytes: Buffer) => void): void {
    const now = nowMs();
    for (let at = 0; at < length; ) {
      if (this.#left === 0) {
        this.#head[this.#headHeld++] = buffer[at++] ?? 0;
        if (this.#headHeld === headBytes) this.#begin(reply);
        continue;
      }
      const taken = Math.min(this.#left, length - at);
      if (this.#stream >= 0) {
        this.bytes[this.#stream] = (this.bytes[this.#stream] ?? 0) + taken;
        this.receivedAt[this.#stream] = now;
        this.onData?.(this.#stream, buffer, at, at + taken, now);
      } else if (this.#ping !== undefined) {
        this.#ping.push(...buffer.subarray(at, at + taken));
      }
      at += taken;
      this.#left -= taken;
      if (this.#left === 0 && this.#ping !== undefined) {
        reply(frame(frameTypes.ping, flags.ack, 0, Buffer.from(this.#ping)));
      }
    }
  }

  #begin(reply: (bytes: Buffer) => void): void {
    const head = this.#head;
    this.#headHeld = 0;
    this.#left = head.readUIntBE(0, 3);
    const acked = ((head[4] ?? 0) & flags.ack) !== 0;
    this.#stream = head[3] === frameTypes.data ? (head.readUInt32BE(5) - 1) / 2 : -1;
    this.#ping = head[3] === frameTypes.ping && !acked ? [] : undefined;
    if (head[3] === frameTypes.settings && !acked) reply(settingsAck);
  }
}

/** Reads the chunks of an HTTP/1.1 body. */
class ChunkedCounter implements Counter {
  readonly bytes = new Float64Array(1);
  readonly receivedAt = new Float64Array(1);
  #state: "headers" | "size" | "data" | "end" = "headers";
  #lineEnds = 0;
  #left = 0;

  take(buffer: Uint8Array, length: number): void {
    for (let at = 0; at < length; ) {
      if (this.#state === "data") {
        const taken = Math.min(this.#left, length - at);
        this.bytes[0] = (this.bytes[0] ?? 0) + taken;
        at += taken;
        this.#left -= taken;
        if (this.#left === 0) this.#state = "end";
      } else {
        this.#character(buffer[at++] ?? 0);
      }
    }
    this.receivedAt[0] = nowMs();
  }

  #character(character: number): void {
    const isLineEnd = character === 10;
    if (this.#state === "headers") {
      if (isLineEnd) this.#lineEnds++;
      else if (character !== 13) this.#lineEnds = 0;
      if (this.#lineEnds === 2) this.#state = "size";
    } else if (this.#state === "end") {
      if (isLineEnd) this.#state = "size";
    } else if (isLineEnd) {
      this.#state = "data";
    } else if (character !== 13) {
      this.#left = this.#left * 16 + Number.parseInt(String.fromCharCode(character), 16);
    }
  }
}

const lineRequest = Buffer.from(`GET ${streamPath} HTTP/1.1\r\nhost: bench\r\n\r\n`);

/** The preface, windows as wide as can be, and a call per stream; without a message of its own it is of every market. */
function grpcRequests(streams: number, messages: readonly Uint8Array[] = []): Buffer {
  const widest = 0x7fff_ffff;
  const settings = Buffer.alloc(6);
  settings.writeUInt16BE(4, 0);
  settings.writeUInt32BE(widest, 2);
  const update = Buffer.alloc(4);
  update.writeUInt32BE(widest - 65_535);
  const parts = [
    Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    frame(frameTypes.settings, 0, 0, settings),
    frame(frameTypes.windowUpdate, 0, 0, update),
  ];
  const fields = [
    [":method", "POST"],
    [":scheme", "http"],
    [":path", rpcPath],
    [":authority", "bench"],
    ["content-type", "application/grpc+proto"],
    ["te", "trailers"],
  ] as const;
  const block = Buffer.concat(fields.map(([name, value]) => literalField(name, value)));
  for (let i = 0; i < streams; i++) {
    const stream = 2 * i + 1;
    parts.push(frame(frameTypes.headers, flags.endHeaders, stream, block));
    parts.push(frame(frameTypes.data, flags.endStream, stream, envelope(0, messages[i] ?? Buffer.alloc(0))));
  }
  return Buffer.concat(parts);
}

/** A header field written out, without any table (RFC 7541, 6.2.2). Both parts are shorter than 127 bytes. */
function literalField(name: string, value: string): Buffer {
  return Buffer.concat([
    Buffer.from([0, name.length]),
    Buffer.from(name),
    Buffer.from([value.length]),
    Buffer.from(value),
  ]);
}

function frame(type: number, flag: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flag;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
