import { type ChildProcess, fork } from "node:child_process";
import type { Socket } from "node:net";
import type { FromWorker, ToWorker } from "./worker-messages.js";

/** What a {@link WorkerProcess} tells its primary. */
export interface WorkerEvents {
  message(worker: WorkerProcess, message: FromWorker): void;
  /** It can be handed a connection again. */
  free(worker: WorkerProcess): void;
  /** A connection that it was handed never reached it. */
  returned(worker: WorkerProcess, socket: Socket): void;
  /** The process has ended; `how` is its exit code, its signal or why it could not run. Comes once. */
  ended(worker: WorkerProcess, how: string): void;
}

/** What a {@link WorkerProcess} is started as. */
export interface WorkerStart {
  /** Path of the compiled worker. */
  readonly program: string;
  /** Flags of Node and V8, beside those of this process. */
  readonly flags: readonly string[];
  /** The restart that it is started by or after; a worker of an earlier one is replaced. */
  readonly generation: number;
}

interface HandedConnection {
  readonly socket: Socket;
  /** The newest ping when it was handed over. */
  readonly pingId: number;
}

/** A worker, as its primary sees it: a child process with a channel. */
export class WorkerProcess {
  readonly generation: number;
  readonly startedAtMs = performance.now();
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;
  readonly #events: WorkerEvents;
  /** At most one is on its way: Node's channel takes no more at a time. */
  #handed: HandedConnection | undefined;
  #full = false;
  #pingId = 0;
  #answeredPingId = 0;
  #hasEnded = false;

  constructor({ program, flags, generation }: WorkerStart, events: WorkerEvents) {
    this.generation = generation;
    this.#events = events;
    this.#child = fork(program, { execArgv: [...process.execArgv, ...flags] });
    let resolveEnded = (): void => {};
    this.ended = new Promise((resolve) => {
      resolveEnded = resolve;
    });
    const end = (how: string): void => {
      if (this.#hasEnded) return;
      this.#hasEnded = true;
      // Its worker may have read from it, so nobody else can have it: the client is hung up on, and tries again.
      this.#handed?.socket.destroy();
      this.#handed = undefined;
      resolveEnded();
      events.ended(this, how);
    };
    this.#child.on("message", (message) => this.#hear(message as FromWorker));
    this.#child.on("exit", (code, signal) => end(signal ?? `code ${code}`));
    this.#child.on("error", (error) => {
      // Of one that runs, it is a message that could not be sent: it is about to end.
      if (this.#child.pid === undefined) end(error.message);
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** It has no descriptor for another connection. */
  get full(): boolean {
    return this.#full;
  }

  /** It can be handed a connection. */
  get free(): boolean {
    return this.#handed === undefined && !this.#full && this.#child.connected;
  }

  /** Pings that wait for a response, this one included. */
  ping(): number {
    this.#pingId += 1;
    this.send({ kind: "ping", id: this.#pingId });
    return this.#pingId - this.#answeredPingId;
  }

  /** Hands over a connection that nothing was read from. Only while {@link free}. */
  hand(socket: Socket): void {
    this.#handed = { socket, pingId: this.#pingId };
    // Kept open here until the worker has it: Node neither closes nor returns one whose receiver dies.
    this.#child.send({ kind: "connection" } satisfies ToWorker, socket, { keepOpen: true }, () => {});
  }

  /** One that is about to end may hang up in the same moment; what it is told then is lost. */
  send(message: ToWorker): void {
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  #hear(message: FromWorker): void {
    switch (message.kind) {
      case "taken":
        this.#full = message.full;
        this.#handed?.socket.destroy();
        this.#handed = undefined;
        this.#events.free(this);
        break;
      case "has_capacity":
        this.#full = false;
        this.#events.free(this);
        break;
      case "pong":
        this.#answeredPingId = message.id;
        this.#full = message.full;
        this.#settleHanded(message.id);
        this.#events.free(this);
        break;
      default:
        this.#events.message(this, message);
    }
  }

  /**
   * The channel keeps its order. So a connection that was handed over before a ping and is not taken when that ping is
   * answered never arrived: the worker had no free descriptor for it.
   */
  #settleHanded(answeredPingId: number): void {
    if (this.#handed === undefined || answeredPingId <= this.#handed.pingId) return;
    const { socket } = this.#handed;
    this.#handed = undefined;
    // Not the next one at once: it would be lost as well.
    this.#full = true;
    this.#events.returned(this, socket);
  }
}
