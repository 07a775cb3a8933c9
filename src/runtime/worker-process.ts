import { type ChildProcess, fork } from "node:child_process";
import type { Socket } from "node:net";
import type { FromWorker, ToWorker } from "./worker-messages.js";

/** The events of a {@link WorkerProcess}. */
export interface WorkerEvents {
  message(worker: WorkerProcess, message: FromWorker): void;
  /** It can be handed a connection again. */
  free(worker: WorkerProcess): void;
  /** A connection that was handed over never arrived. */
  returned(worker: WorkerProcess, socket: Socket): void;
  /** The process has ended; `how` is its exit code, its signal, or why it could not start. Called once. */
  ended(worker: WorkerProcess, how: string): void;
}

/** What a {@link WorkerProcess} is started from. */
export interface WorkerStart {
  /** Path of the compiled worker, in the folder of its build. */
  readonly program: string;
  /** Texts of the files that the settings name, by their paths. */
  readonly files: Readonly<Record<string, string>>;
  /** The restart for which they were read; workers of earlier restarts are replaced. */
  readonly generation: number;
}

interface HandedConnection {
  readonly socket: Socket;
  /** The newest ping at the time of the hand-over. */
  readonly pingId: number;
}

/** A worker as seen by its primary: a child process with a channel. */
export class WorkerProcess {
  readonly start: WorkerStart;
  readonly startedAtMs = performance.now();
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;
  readonly #events: WorkerEvents;
  /** At most one is in transit, because Node's channel takes one at a time. */
  #handed: HandedConnection | undefined;
  #full = false;
  #pingId = 0;
  #answeredPingId = 0;
  #hasEnded = false;

  /** @param flags flags of Node and V8, in addition to those of this process */
  constructor(start: WorkerStart, flags: readonly string[], events: WorkerEvents) {
    this.start = start;
    this.#events = events;
    this.#child = fork(start.program, { execArgv: [...process.execArgv, ...flags] });
    let resolveEnded = (): void => {};
    this.ended = new Promise((resolve) => {
      resolveEnded = resolve;
    });
    const end = (how: string): void => {
      if (this.#hasEnded) return;
      this.#hasEnded = true;
      // The worker may have read from it, so no other one can take it: it is closed, and the client retries.
      this.#handed?.socket.destroy();
      this.#handed = undefined;
      resolveEnded();
      events.ended(this, how);
    };
    this.#child.on("message", (message) => this.#hear(message as FromWorker));
    this.#child.on("exit", (code, signal) => end(signal ?? `code ${code}`));
    this.#child.on("error", (error) => {
      // If it still runs, a message could not be sent: it is about to end.
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

  /** Unanswered pings, including this one. */
  ping(): number {
    this.#pingId += 1;
    this.send({ kind: "ping", id: this.#pingId });
    return this.#pingId - this.#answeredPingId;
  }

  /** Hands over an unread connection. Only while {@link free}. */
  hand(socket: Socket): void {
    this.#handed = { socket, pingId: this.#pingId };
    // Kept open here until the worker confirms it: Node neither closes nor returns one whose receiver dies.
    this.#child.send({ kind: "connection" } satisfies ToWorker, socket, { keepOpen: true }, () => {});
  }

  /** A worker that is about to end may disconnect at the same moment; the message is then lost. */
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
   * The channel keeps its order. If a ping is answered, and a connection that was handed over before it is not
   * confirmed, that connection never arrived: the worker had no free descriptor.
   */
  #settleHanded(answeredPingId: number): void {
    if (this.#handed === undefined || answeredPingId <= this.#handed.pingId) return;
    const { socket } = this.#handed;
    this.#handed = undefined;
    // Not the next one at once: it would be lost too.
    this.#full = true;
    this.#events.returned(this, socket);
  }
}
