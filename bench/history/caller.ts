import { once } from "node:events";
import { connect, type Socket } from "node:net";

const headMax = 4_096;
const chunkBytes = 256 * 1024;

/**
 * Asks for one path after another over one connection, into one buffer. A caller that makes garbage collects it on every
 * core, between one response and the next request: as long as it takes, the service waits for its own core.
 */
export class Caller {
  #bytesLeft = 0;
  #done: (() => void) | undefined;
  #error = new Error("the connection was closed");

  private constructor(
    private readonly host: string,
    private readonly socket: Socket,
  ) {}

  static async open(url: string): Promise<Caller> {
    const { hostname, port, host } = new URL(url);
    const buffer = Buffer.allocUnsafe(chunkBytes);
    const onData = (bytesRead: number): boolean => caller.#read(buffer, bytesRead);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true, onread: { buffer, callback: onData } });
    const caller: Caller = new Caller(host, socket);
    await once(socket, "connect");
    socket.on("error", (error) => {
      caller.#error = error;
    });
    socket.on("close", () => caller.#done?.());
    return caller;
  }

  /** How long a GET takes, in milliseconds, to the last byte of its response. @throws Error unless that is a 200 */
  async get(path: string): Promise<number> {
    const startedMs = performance.now();
    const done = new Promise<void>((resolve) => {
      this.#done = resolve;
    });
    this.socket.write(`GET ${path} HTTP/1.1\r\nHost: ${this.host}\r\n\r\n`);
    await done;
    if (this.socket.destroyed) throw this.#error;
    return performance.now() - startedMs;
  }

  close(): void {
    this.socket.destroy();
  }

  #read(buffer: Buffer, bytesRead: number): boolean {
    let content = bytesRead;
    if (this.#bytesLeft === 0) {
      const head = buffer.toString("latin1", 0, Math.min(bytesRead, headMax));
      const length = /^HTTP\/1.1 200 .*\r\ncontent-length: (\d+)\r\n/is.exec(head)?.[1];
      const bodyAt = head.indexOf("\r\n\r\n") + 4;
      if (length === undefined || bodyAt < 4) {
        this.#error = new Error(head);
        this.close();
        return false;
      }
      this.#bytesLeft = Number(length);
      content -= bodyAt;
    }
    this.#bytesLeft -= content;
    if (this.#bytesLeft === 0) this.#done?.();
    return true;
  }
}
