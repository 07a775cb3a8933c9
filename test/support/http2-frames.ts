import net, { type Socket } from "node:net";
import tls from "node:tls";

/** Frame types (RFC 9113, 6). */
export const frameType = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

/** Flags that END_STREAM and ACK share, END_HEADERS, PADDED and PRIORITY. */
export const flag = { endStream: 1, ack: 1, endHeaders: 4, padded: 8, priority: 32 } as const;

/** Settings identifiers (RFC 9113, 6.5.2). */
export const setting = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
} as const;

/** What a client says first. */
export const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

const headBytes = 9;

/** A frame that came in. */
export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

/** A frame with any content; `length` overrides the true one in its head. */
export function frame(
  type: number,
  flags: number,
  streamId: number,
  payload: Uint8Array = Buffer.alloc(0),
  length = payload.length,
): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUIntBE(length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

/** Big-endian 32-bit numbers. */
export function words(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  values.forEach((value, i) => {
    bytes.writeUInt32BE(value, 4 * i);
  });
  return bytes;
}

/** SETTINGS with these values. */
export function settings(...entries: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = entries.map(([id, value]) => Buffer.concat([Buffer.from([0, id]), words(value)]));
  return frame(frameType.settings, 0, 0, Buffer.concat(payload));
}

/** A header block of literal fields without indexing or Huffman coding (RFC 7541, 6.2.2). */
export function headerBlock(fields: Readonly<Record<string, string>>): Buffer {
  const parts = Object.entries(fields).flatMap(([name, value]) => [
    Buffer.from([0]),
    headerText(name),
    headerText(value),
  ]);
  return Buffer.concat(parts);
}

/** A text as HPACK has it, not compressed. */
export function headerText(value: string): Buffer {
  const bytes = Buffer.from(value, "latin1");
  const length = [Math.min(bytes.length, 127)];
  for (let rest = bytes.length - 127; rest >= 0; rest >>>= 7) {
    length.push(rest > 127 ? (rest & 127) | 128 : rest);
    if (rest <= 127) break;
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}

/** HEADERS of one frame; `flags` beside END_HEADERS. */
export function headers(streamId: number, fields: Readonly<Record<string, string>>, flags = 0): Buffer {
  return frame(frameType.headers, flag.endHeaders | flags, streamId, headerBlock(fields));
}

/** DATA; `flags` such as END_STREAM. */
export function data(streamId: number, payload: Uint8Array, flags = 0): Buffer {
  return frame(frameType.data, flags, streamId, payload);
}

/** RST_STREAM; the code is CANCEL unless given. */
export function rstStream(streamId: number, code = 8): Buffer {
  return frame(frameType.rstStream, 0, streamId, words(code));
}

/** WINDOW_UPDATE; stream 0 is the connection. */
export function windowUpdate(streamId: number, increment: number): Buffer {
  return frame(frameType.windowUpdate, 0, streamId, words(increment));
}

/** PING with eight zero bytes. */
export function ping(flags = 0): Buffer {
  return frame(frameType.ping, flags, 0, Buffer.alloc(8));
}

/** The fields of a GET. */
export function getFields(path: string): Record<string, string> {
  return { ":method": "GET", ":scheme": "http", ":authority": "localhost", ":path": path };
}

/** The fields of a POST such as RPCs send. */
export function postFields(path: string, contentType: string): Record<string, string> {
  return { ...getFields(path), ":method": "POST", "content-type": contentType, te: "trailers" };
}

/** What a frame connection may do differently. */
export interface FrameConnectionOptions {
  readonly host?: string;
  /** Over TLS, with ALPN `h2`; certificates are not checked. */
  readonly tls?: boolean;
  /** The client's first SETTINGS. */
  readonly settings?: readonly (readonly [id: number, value: number])[];
  /** The client's own address. */
  readonly localAddress?: string;
  /** Answers the server's SETTINGS and PINGs, default true. */
  readonly polite?: boolean;
}

/** An HTTP/2 connection on which the caller decides every byte. Its errors end it quietly. */
export class FrameConnection {
  readonly socket: Socket;
  /** Everything received, oldest first. */
  readonly frames: Frame[] = [];
  /** Resolves when either side has ended the connection. */
  readonly closed: Promise<void>;
  /** Whether PINGs and SETTINGS are acknowledged. */
  polite: boolean;
  #unread: Buffer = Buffer.alloc(0);
  #wake: () => void = () => {};

  /** For a socket that is connected; sends nothing by itself but acknowledgements. */
  constructor(socket: Socket, polite = true) {
    this.socket = socket;
    this.polite = polite;
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("error", () => {});
    this.closed = new Promise((resolve) => {
      socket.once("close", () => {
        resolve();
        this.#wake();
      });
    });
  }

  /** Connects without a word. */
  static async connect(port: number, options: FrameConnectionOptions = {}): Promise<FrameConnection> {
    const { host = "127.0.0.1", localAddress } = options;
    const socket = await new Promise<Socket>((resolve, reject) => {
      const opened: Socket = options.tls
        ? tls.connect({ port, host, ALPNProtocols: ["h2"], rejectUnauthorized: false }, () => resolve(opened))
        : net.connect({ port, host, localAddress, noDelay: true }, () => resolve(opened));
      opened.once("error", reject);
    });
    return new FrameConnection(socket, options.polite ?? true);
  }

  /** Connects, and completes the exchange of SETTINGS. */
  static async open(port: number, options: FrameConnectionOptions = {}): Promise<FrameConnection> {
    const connection = await FrameConnection.connect(port, options);
    connection.send(preface, settings(...(options.settings ?? [])));
    await connection.frame((one) => one.type === frameType.settings && (one.flags & flag.ack) !== 0);
    return connection;
  }

  /** Writes all at once. True while the kernel takes it. */
  send(...bytes: readonly Uint8Array[]): boolean {
    if (!this.socket.writable) return false;
    return this.socket.write(Buffer.concat(bytes));
  }

  /** The first frame that matches, of those received and to come; undefined when the connection ends before. */
  async frame(matches: (frame: Frame) => boolean): Promise<Frame | undefined> {
    for (;;) {
      const found = this.frames.find(matches);
      if (found !== undefined || this.socket.closed) return found;
      await new Promise<void>((resolve) => {
        const before = this.#wake;
        this.#wake = () => {
          before();
          resolve();
        };
      });
    }
  }

  /** The types of a stream's frames, in order. */
  typesOf(streamId: number): number[] {
    return this.frames.filter((one) => one.streamId === streamId).map((one) => one.type);
  }

  /** Hangs up. */
  close(): void {
    this.socket.destroy();
  }

  #read(chunk: Buffer): void {
    this.#unread = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk]);
    for (;;) {
      const next = this.#next();
      if (next === undefined) break;
      this.frames.push(next);
      if (this.polite) this.#acknowledge(next);
    }
    const wake = this.#wake;
    this.#wake = () => {};
    wake();
  }

  #next(): Frame | undefined {
    const bytes = this.#unread;
    if (bytes.length < headBytes) return undefined;
    const end = headBytes + bytes.readUIntBE(0, 3);
    if (bytes.length < end) return undefined;
    this.#unread = bytes.subarray(end);
    return {
      type: bytes.readUInt8(3),
      flags: bytes.readUInt8(4),
      streamId: bytes.readUInt32BE(5) & 0x7fff_ffff,
      payload: Buffer.from(bytes.subarray(headBytes, end)),
    };
  }

  #acknowledge({ type, flags, payload }: Frame): void {
    if ((flags & flag.ack) !== 0) return;
    if (type === frameType.ping) this.send(frame(frameType.ping, flag.ack, 0, payload));
    else if (type === frameType.settings) this.send(frame(frameType.settings, flag.ack, 0));
  }
}
