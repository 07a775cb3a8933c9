import net, { type Socket } from "node:net";

/** A response as it stood on the wire. */
export interface RawResponse {
  readonly status: number;
  /** Without the date, which differs from second to second. */
  readonly head: string;
  readonly body: string;
}

/** How a connection ended: the peer's FIN, a reset, or not yet. */
export type RawEnd = "open" | "ended" | "reset";

/** The text of a GET. */
export function rawGet(path: string, ...headers: readonly string[]): string {
  return [`GET ${path} HTTP/1.1`, "Host: x", ...headers, "", ""].join("\r\n");
}

/** The text of a request to become a WebSocket. */
export function rawUpgrade(path: string, ...headers: readonly string[]): string {
  const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
  return rawGet(path, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", key, ...headers);
}

/** An HTTP/1.1 connection on which a test decides what each packet holds. Answers need a length or chunks. */
export class RawConnection {
  readonly socket: Socket;
  #received = "";
  #end: RawEnd = "open";
  #wake: () => void = () => {};

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.#received += chunk.toString("latin1");
      this.#wake();
    });
    socket.on("end", () => {
      this.#end = "ended";
      this.#wake();
    });
    socket.on("close", () => this.#wake());
    socket.on("error", () => {
      if (this.#end === "open") this.#end = "reset";
    });
  }

  /** What arrived and was not taken as a response yet. */
  get received(): string {
    return this.#received;
  }

  get end(): RawEnd {
    return this.#end;
  }

  /** `keepsOpen`: does not hang up when the server does. */
  static open(port: number, keepsOpen = false): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = net.connect({ port, host: "127.0.0.1", noDelay: true, allowHalfOpen: keepsOpen });
      socket.once("error", reject);
      socket.once("connect", () => resolve(new RawConnection(socket)));
    });
  }

  /** Sends bytes as packets of their own, as far as loopback allows. */
  async send(...packets: readonly string[]): Promise<void> {
    for (const packet of packets) {
      await new Promise<void>((resolve) => this.socket.write(packet, "latin1", () => resolve()));
      if (packets.length > 1) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** The next response. @throws Error when the connection ends before */
  async response(): Promise<RawResponse> {
    const head = await this.#until(() => {
      const end = this.#received.indexOf("\r\n\r\n");
      return end === -1 ? undefined : this.#received.slice(0, end + 4);
    });
    const status = Number(head.slice(9, 12));
    const length = status === 304 ? 0 : Number(/^content-length: (\d+)$/im.exec(head)?.[1]);
    if (Number.isNaN(length)) throw new Error(`a response without length:\n${head}`);
    const end = head.length + length;
    const whole = await this.#until(() => (this.#received.length < end ? undefined : this.#received.slice(0, end)));
    this.#received = this.#received.slice(end);
    return { status, head: head.replace(/^date: .*\r\n/im, ""), body: whole.slice(head.length) };
  }

  /** The next response, in chunks if it has no length. @throws Error when the connection ends before */
  async anyResponse(): Promise<RawResponse> {
    const head = await this.#until(() => /^[\s\S]*?\r\n\r\n/.exec(this.#received)?.[0]);
    if (!/^transfer-encoding: chunked\r$/im.test(head)) return this.response();
    const end = await this.#until(() => {
      const last = this.#received.indexOf("\r\n0\r\n\r\n", head.length - 2);
      return last === -1 ? undefined : last + 7;
    });
    const body = this.#received.slice(head.length, end);
    this.#received = this.#received.slice(end);
    return { status: Number(head.slice(9, 12)), head: head.replace(/^date: .*\r\n/im, ""), body };
  }

  /** Resolves when `pattern` has arrived. @throws Error when the connection ends before */
  async arrival(pattern: RegExp): Promise<void> {
    await this.#until(() => (pattern.test(this.#received) ? true : undefined));
  }

  /** Resolves, with how, when the connection has ended. */
  async ending(): Promise<RawEnd> {
    while (this.#end === "open" && !this.socket.closed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#end;
  }

  /** Sends a request and takes its response. */
  async ask(request: string): Promise<RawResponse> {
    await this.send(request);
    return this.response();
  }

  close(): void {
    this.socket.destroy();
  }

  async #until<T>(found: () => T | undefined): Promise<T> {
    for (;;) {
      const value = found();
      if (value !== undefined) return value;
      if (this.socket.closed || this.#end !== "open")
        throw new Error(`the connection ended after "${this.#received.slice(0, 200)}"`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
