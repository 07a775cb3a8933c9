import net, { type Socket } from "node:net";

/** A response as it stood on the wire. */
export interface RawResponse {
  readonly status: number;
  /** Without the date, which differs from second to second. */
  readonly head: string;
  readonly body: string;
}

/** An HTTP/1.1 connection on which a test decides what each packet holds. Answers need a length. */
export class RawConnection {
  readonly socket: Socket;
  #received = "";
  #wake: () => void = () => {};

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.#received += chunk.toString("latin1");
      this.#wake();
    });
    socket.on("close", () => this.#wake());
    socket.on("error", () => {});
  }

  static open(port: number): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
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
      if (this.socket.closed) throw new Error(`the connection ended after "${this.#received.slice(0, 200)}"`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
