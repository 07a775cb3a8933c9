import cluster, { type Worker } from "node:cluster";
import { AggregatorRegistry } from "prom-client";
import type { ServiceConfig } from "../config.js";
import { OperatorError } from "../domain/operator-error.js";
import type { Log, LogLevel } from "../telemetry/log.js";
import type { FromWorker, ReadinessState, ToWorker } from "./worker-messages.js";

/** A worker that died is replaced no sooner than this after it was started, so that a crash loop stays quiet. */
export const workerRestartMs = 1_000;

/** How long beyond its drain time a worker may take to end, before it is killed. */
export const workerEndGraceMs = 2_000;

/** What all workers are started with. */
export interface ClusterOptions {
  readonly config: ServiceConfig;
  readonly databaseUrl: string;
  readonly logLevel: LogLevel;
  readonly workers: number;
  readonly log: Log;
}

/** Several serving processes behind one port. */
export interface ServiceCluster {
  /** Base URL of the port that all workers share. */
  readonly url: string;
  /** Lets every client go, and ends all workers. */
  drain(): Promise<void>;
}

/**
 * The primary's side: starts the workers, replaces one that dies, tells all of them what they are together, and gathers
 * their metrics. It serves nothing itself.
 */
class Primary {
  readonly #options: ClusterOptions;
  readonly #states = new Map<number, ReadinessState>();
  readonly #startedAt = new Map<number, number>();
  readonly #metrics = new AggregatorRegistry();
  #draining = false;
  #onListening: (url: string) => void = () => {};
  #onFailed: (error: OperatorError) => void = () => {};

  constructor(options: ClusterOptions) {
    this.#options = options;
    cluster.setupPrimary({ exec: new URL("./worker.js", import.meta.url).pathname, args: [] });
    cluster.on("message", (worker, message: FromWorker) => this.#hear(worker, message));
    cluster.on("exit", (worker, code, signal) => this.#replace(worker, code, signal));
  }

  /** Resolves with the URL once every worker listens. @throws OperatorError when the first ones cannot */
  async start(): Promise<string> {
    let listening = 0;
    const url = await new Promise<string>((resolve, reject) => {
      this.#onListening = (at) => {
        listening += 1;
        if (listening === this.#options.workers) resolve(at);
      };
      this.#onFailed = reject;
      for (let n = 0; n < this.#options.workers; n++) this.#fork();
    });
    return url;
  }

  async drain(): Promise<void> {
    this.#draining = true;
    const workers = Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);
    await Promise.all(workers.map((worker) => this.#end(worker)));
  }

  #fork(): void {
    const worker = cluster.fork();
    this.#startedAt.set(worker.id, Date.now());
    const { config, databaseUrl, logLevel } = this.#options;
    const listenWhenReady = this.#together() === "ready";
    send(worker, { kind: "start", config, databaseUrl, logLevel, listenWhenReady });
  }

  #end(worker: Worker): Promise<void> {
    return new Promise((resolve) => {
      const killer = setTimeout(() => worker.process.kill("SIGKILL"), this.#options.config.drainMs + workerEndGraceMs);
      worker.once("exit", () => {
        clearTimeout(killer);
        resolve();
      });
      send(worker, { kind: "drain" });
    });
  }

  #hear(worker: Worker, message: FromWorker): void {
    switch (message.kind) {
      case "listening":
        this.#states.set(worker.id, message.state);
        this.#tellReadiness();
        this.#onListening(message.url);
        break;
      case "readiness":
        if (this.#states.has(worker.id)) this.#states.set(worker.id, message.state);
        this.#tellReadiness();
        break;
      case "metrics_wanted":
        this.#gatherMetrics(worker, message.id);
        break;
      case "failed":
        this.#onFailed(new OperatorError(message.message));
        break;
    }
  }

  #gatherMetrics(worker: Worker, id: number): void {
    this.#metrics.clusterMetrics().then(
      (text) => send(worker, { kind: "metrics", id, text }),
      (error) => {
        this.#options.log.warn({ err: error }, "metrics of all workers could not be gathered");
        send(worker, { kind: "metrics", id, text: "" });
      },
    );
  }

  #replace(worker: Worker, code: number, signal: string): void {
    this.#states.delete(worker.id);
    const age = Date.now() - (this.#startedAt.get(worker.id) ?? 0);
    this.#startedAt.delete(worker.id);
    if (this.#draining) return;
    this.#options.log.error({ worker: worker.process.pid, code, signal }, "worker died; starting another");
    setTimeout(() => this.#fork(), Math.max(0, workerRestartMs - age));
    this.#tellReadiness();
  }

  /** Ready when all are that connections can go to. */
  #together(): ReadinessState {
    if (this.#draining) return "draining";
    const states = [...this.#states.values()];
    return states.length > 0 && states.every((state) => state === "ready") ? "ready" : "loading";
  }

  #tellReadiness(): void {
    const state = this.#together();
    for (const worker of Object.values(cluster.workers ?? {})) {
      if (worker !== undefined) send(worker, { kind: "readiness", state });
    }
  }
}

function send(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.send(message, () => {});
}

/** Starts `workers` serving processes on one port. @throws OperatorError when they cannot start */
export async function startCluster(options: ClusterOptions): Promise<ServiceCluster> {
  const primary = new Primary(options);
  const url = await primary.start();
  return { url, drain: () => primary.drain() };
}
