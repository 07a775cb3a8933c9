// GETs at a fixed rate, whatever the server does: each has its time to be sent, and its delay counts from that time.
import { connect, type Socket } from "node:net";
import { answerOrders } from "../stream/child.js";

/** What this process does. */
export interface OpenLoopOrder {
  readonly port: number;
  readonly paths: readonly string[];
  readonly perSecond: number;
  readonly seconds: number;
  readonly connections: number;
}

/** How long answers took from the moment when their requests were due, in milliseconds. */
export interface OpenLoopReply {
  readonly answered: number;
  readonly failed: number;
  readonly median: number;
  readonly p99: number;
  readonly p999: number;
  readonly slowest: number;
  /** How late this process itself sent what was due: its share in the delays. */
  readonly sentLateP99: number;
}

const tickMs = 1;
const headEnd = "\r\n\r\n";
const lengthPattern = /content-length: (\d+)/i;
/** Longest wait for the last answers. */
const settleMs = 5_000;

/** A connection with one request on its way at most. */
class Caller {
  readonly #socket: Socket;
  readonly #done: (caller: Caller, dueAt: number, ok: boolean) => void;
  #dueAt = 0;
  #head = "";
  #left = -1;
  #ok = false;

  constructor(port: number, done: (caller: Caller, dueAt: number, ok: boolean) => void) {
    this.#done = done;
    this.#socket = connect({ port, host: "127.0.0.1", noDelay: true });
    this.#socket.on("data", (bytes) => this.#take(bytes));
    this.#socket.on("error", () => {});
    this.#socket.once("close", () => {
      if (this.#dueAt > 0) this.#done(this, this.#dueAt, false);
    });
  }

  send(request: string, dueAt: number): void {
    this.#dueAt = dueAt;
    this.#head = "";
    this.#left = -1;
    this.#socket.write(request);
  }

  end(): void {
    this.#dueAt = 0;
    this.#socket.destroy();
  }

  #take(bytes: Buffer): void {
    let body = bytes.length;
    if (this.#left < 0) {
      this.#head += bytes.toString("latin1");
      const end = this.#head.indexOf(headEnd);
      if (end < 0) return;
      this.#ok = this.#head.startsWith("HTTP/1.1 200 ");
      body = this.#head.length - end - headEnd.length;
      this.#left = Number(lengthPattern.exec(this.#head.slice(0, end))?.[1] ?? 0);
    }
    this.#left -= body;
    if (this.#left > 0) return;
    const dueAt = this.#dueAt;
    this.#dueAt = 0;
    this.#done(this, dueAt, this.#ok);
  }
}

function percentile(sorted: Float64Array, share: number): number {
  const at = Math.min(sorted.length - 1, Math.floor(sorted.length * share));
  return Math.round((sorted[at] ?? Number.NaN) * 100) / 100;
}

function run(order: OpenLoopOrder): Promise<OpenLoopReply> {
  const requests = order.paths.map((path) => `GET ${path} HTTP/1.1\r\nhost: bench\r\n\r\n`);
  const total = Math.floor(order.perSecond * order.seconds);
  const delays: number[] = [];
  const late: number[] = [];
  const idle: Caller[] = [];
  const waiting: number[] = [];
  let due = 0;
  let failed = 0;
  const send = (caller: Caller, dueAt: number): void => {
    late.push(performance.now() - dueAt);
    caller.send(requests[due % requests.length] ?? "", dueAt);
  };
  return new Promise((resolve) => {
    const done = (caller: Caller, dueAt: number, ok: boolean): void => {
      if (ok) delays.push(performance.now() - dueAt);
      else failed++;
      const next = waiting.shift();
      if (next === undefined) idle.push(caller);
      else send(caller, next);
    };
    const callers = Array.from({ length: order.connections }, () => new Caller(order.port, done));
    idle.push(...callers);
    const startedAt = performance.now() + 200;
    const finish = (): void => {
      clearInterval(ticks);
      for (const caller of callers) caller.end();
      const sorted = Float64Array.from(delays).sort();
      resolve({
        answered: delays.length,
        failed: total - delays.length,
        median: percentile(sorted, 0.5),
        p99: percentile(sorted, 0.99),
        p999: percentile(sorted, 0.999),
        slowest: percentile(sorted, 1),
        sentLateP99: percentile(Float64Array.from(late).sort(), 0.99),
      });
    };
    const ticks = setInterval(() => {
      const now = performance.now();
      const until = Math.min(total, Math.floor(((now - startedAt) / 1000) * order.perSecond));
      while (due < until) {
        due++;
        const dueAt = startedAt + (due / order.perSecond) * 1000;
        const caller = idle.pop();
        if (caller === undefined) waiting.push(dueAt);
        else send(caller, dueAt);
      }
      const over = now > startedAt + order.seconds * 1000 + settleMs;
      if (delays.length + failed >= total || over) finish();
    }, tickMs);
  });
}

answerOrders<OpenLoopOrder, OpenLoopReply>({}, run);
