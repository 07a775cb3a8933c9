import type { Socket } from "node:net";
import { OperatorError } from "../domain/operator-error.js";
import { CachedText } from "./cached-text.js";
import {
  type FromWorker,
  type MetricsReading,
  type ReadinessState,
  type StartOrder,
  type ToWorker,
  workerProtocol,
} from "./worker-messages.js";

/** What a worker's service needs from the other workers. */
export interface WorkerContext {
  /** The state of all workers together. */
  readonly readinessOfAll: () => ReadinessState;
  /** Metrics of all workers as text, from the primary. */
  readonly metricsOfAll: () => Promise<string>;
  /** Call it when this worker's own state changes. */
  readonly onReadiness: (state: ReadinessState) => void;
}

/** A service, as a worker runs it. */
export interface WorkerService {
  /** The maximum number of its connections. */
  readonly connectionsMax: number;
  state(): ReadinessState;
  /** Serves an unread connection. */
  accept(socket: Socket): void;
  metrics(): Promise<MetricsReading>;
  /** Drains for a bounded time, and releases everything. */
  drain(): Promise<void>;
}

/** Starts the service. @throws OperatorError if the operator can correct the reason */
export type StartWorkerService = (order: StartOrder, context: WorkerContext) => Promise<WorkerService>;

/**
 * Runs a worker as its primary directs, until the primary is gone. Signals are left to the primary; terminals and
 * service managers send them to the whole group.
 */
export function runWorker(startService: StartWorkerService): void {
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
  // Without its primary a worker has no port, and nothing replaces it when it ends.
  process.on("disconnect", () => process.exit(0));
  const worker = new RunningWorker(startService);
  process.on("message", (message, socket) => worker.hear(message as ToWorker, socket as Socket | undefined));
  say({ kind: "awake" });
}

function say(message: FromWorker): Promise<void> {
  return new Promise((resolve) => {
    if (process.connected) process.send?.(message, undefined, {}, () => resolve());
    else resolve();
  });
}

class RunningWorker {
  readonly #metricsText = new CachedText(() => this.#metricsOfAll());
  /** Takes the metrics of all workers, which are asked for once at a time. */
  #metricsArrived: (text: string) => void = () => {};
  #readinessOfAll: ReadinessState = "loading";
  #service: WorkerService | undefined;
  #connections = 0;
  #draining = false;

  constructor(private readonly startService: StartWorkerService) {}

  hear(message: ToWorker, socket: Socket | undefined): void {
    switch (message.kind) {
      case "start":
        void this.#start(message);
        break;
      case "connection":
        this.#accept(socket);
        break;
      case "ping":
        void say({ kind: "pong", id: message.id, full: this.#isFull() });
        break;
      case "readiness":
        this.#readinessOfAll = message.state;
        break;
      case "read_metrics":
        void this.#sendMetrics(message.id);
        break;
      case "metrics":
        this.#metricsArrived(message.text);
        break;
      case "drain":
        void this.#drain();
        break;
    }
  }

  async #start(order: StartOrder): Promise<void> {
    try {
      if (order.protocol !== workerProtocol) throw otherProtocol(order.protocol);
      const service = await this.startService(order, {
        readinessOfAll: () => this.#readinessOfAll,
        metricsOfAll: () => this.#metricsText.get(),
        onReadiness: (state) => void say({ kind: "readiness", state }),
      });
      this.#service = service;
      await say({ kind: "serving", state: service.state() });
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      await say({ kind: "failed", message: error.message });
    }
  }

  #accept(socket: Socket | undefined): void {
    if (socket !== undefined) this.#open(socket);
    void say({ kind: "taken", full: this.#isFull() });
  }

  #open(socket: Socket): void {
    this.#connections += 1;
    socket.once("close", () => {
      const wasFull = this.#isFull();
      this.#connections -= 1;
      if (wasFull && !this.#isFull()) void say({ kind: "has_capacity" });
    });
    if (this.#service === undefined) socket.destroy();
    else this.#service.accept(socket);
  }

  #isFull(): boolean {
    return this.#service !== undefined && this.#connections >= this.#service.connectionsMax;
  }

  /** Asks the primary. When that is gone, this process ends too, so the promise needs no other end. */
  #metricsOfAll(): Promise<string> {
    return new Promise((resolve) => {
      this.#metricsArrived = resolve;
      void say({ kind: "metrics_wanted" });
    });
  }

  /** Nothing while it starts, so that nobody waits for it. */
  async #sendMetrics(id: number): Promise<void> {
    const reading = (await this.#service?.metrics()) ?? [];
    await say({ kind: "metrics_read", id, reading });
  }

  async #drain(): Promise<void> {
    if (this.#draining) return;
    this.#draining = true;
    await this.#service?.drain();
    // Otherwise what it counted since the last request would be lost.
    await this.#sendMetrics(0);
    process.exit(0);
  }
}

function otherProtocol(ofPrimary: number): OperatorError {
  return new OperatorError(
    `the program was replaced by one that its running primary cannot start (protocol ${ofPrimary}, not ${workerProtocol}): ` +
      "stop the command and start it again",
  );
}
