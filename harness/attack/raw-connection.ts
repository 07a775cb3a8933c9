import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Tally } from "./tally.js";

/** Loopback addresses that attackers come from; the well-behaved client has 127.0.0.1 to itself. */
const attackerAddresses = Array.from({ length: 8 }, (_, n) => `127.0.0.${n + 2}`);

let opened = 0;

/** The address that the next attacking connection comes from. */
export function attackerAddress(): string {
  return attackerAddresses[opened++ % attackerAddresses.length] ?? "127.0.0.2";
}

/** What a connection holds of its responses at most: what came first is enough to judge. */
const keptBytesMax = 256 * 1024;

/** A pause after a connection that the server did not take, so that a dead server is not asked in a tight loop. */
const refusedPauseMs = 20;

/** A TCP connection on which an attack writes what it likes. It never throws: what the server does is data. */
export class RawConnection {
  readonly socket: Socket;
  /** The beginning of what was received. */
  readonly received: Buffer[] = [];
  receivedBytes = 0;
  ended = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => {
      if (this.receivedBytes < keptBytesMax) this.received.push(chunk);
      this.receivedBytes += chunk.length;
    });
    socket.on("error", () => {});
    socket.on("end", () => {
      this.ended = true;
    });
    socket.on("close", () => {
      this.ended = true;
    });
  }

  /** Undefined when the server takes no connection. */
  static open(port: number, tally: Tally, localAddress = attackerAddress()): Promise<RawConnection | undefined> {
    tally.connections++;
    return new Promise((resolve) => {
      const socket = connect({ port, host: "127.0.0.1", localAddress, noDelay: true });
      socket.once("error", () => setTimeout(() => resolve(undefined), refusedPauseMs));
      socket.once("connect", () => resolve(new RawConnection(socket)));
    });
  }

  write(bytes: string | Uint8Array): void {
    if (!this.socket.destroyed) this.socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  }

  /** Resolves when the server has ended the connection, or after `ms`. True: it has ended. */
  async untilEnded(ms: number): Promise<boolean> {
    const until = performance.now() + ms;
    while (!this.ended && performance.now() < until) await sleep(5);
    return this.ended;
  }

  /** Resolves when so many bytes were received, the connection ended, or `ms` passed. */
  async untilReceived(bytes: number, ms: number): Promise<void> {
    const until = performance.now() + ms;
    while (!this.ended && this.receivedBytes < bytes && performance.now() < until) await sleep(2);
  }

  /** All HTTP/1.1 responses whose heads were received are counted. */
  tallyResponses(tally: Tally, what: () => string): number {
    const text = Buffer.concat(this.received).toString("latin1");
    let count = 0;
    for (const [head, status] of text.matchAll(/HTTP\/1\.[01] (\d{3}) [^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n/g)) {
      count++;
      tally.answered(Number(status), /^retry-after:/im.test(head), what);
      if (Number(status) >= 400 && /^content-type: *text\/html/im.test(head)) tally.wrong(`HTML for ${what()}`);
    }
    return count;
  }

  close(): void {
    this.socket.destroy();
  }
}
