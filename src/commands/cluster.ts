import cluster, { type Worker } from "node:cluster";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { fileURLToPath } from "node:url";
import type { Listen, ServiceConfig } from "../config.js";
import { OperatorError } from "../domain/operator-error.js";
import type { Log, LogLevel } from "../telemetry/log.js";
import { hangUpWithWorker } from "./connection-on-its-way.js";
import { listenError } from "./listen-error.js";
import type { FromWorker, ReadinessState, ToWorker } from "./worker-messages.js";
import { WorkerMetrics } from "./worker-metrics.js";

/** A worker that died is replaced no sooner than this after it was started. It doubles while workers die young. */
export const workerRestartMs = 1_000;

/** The longest pause before a worker is started again, however often it died: a crash loop stays quiet. */
export const workerRestartMsMax = 30_000;

/** A worker that dies before this age has died young. */
export const workerYouthMs = 10_000;

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

/** How the first start of all workers comes to an end. */
interface Start {
  done(url: string): void;
  failed(error: OperatorError): void;
}

/**
 * The primary's side: starts the workers, replaces one that dies, tells all of them what they are together, and gathers
 * their metrics. It hands connections out in turn to whoever is free, so that long-lived ones are spread too, and
 * serves nothing itself.
 */
class Primary {
  readonly #options: ClusterOptions;
  /** Of workers that listen. */
  readonly #states = new Map<number, ReadinessState>();
  readonly #startedAt = new Map<number, number>();
  readonly #metrics: WorkerMetrics;
  readonly #restarts = new Set<NodeJS.Timeout>();
  /** Until all workers have listened once. */
  #start: Start | undefined;
  #restartMs = workerRestartMs;
  #draining = false;

  constructor(options: ClusterOptions) {
    this.#options = options;
    this.#metrics = new WorkerMetrics(
      (worker, id) => send(worker, { kind: "read_metrics", id }),
      () => this.#states.size,
    );
    cluster.setupPrimary({ exec: fileURLToPath(new URL("./worker.js", import.meta.url)), args: [] });
    cluster.on("message", (worker, message: FromWorker) => this.#hear(worker, message));
    cluster.on("exit", (worker, code, signal) => this.#ended(worker, signal ?? `code ${code}`));
  }

  /** Resolves with the URL once every worker listens. @throws OperatorError when one cannot */
  async start(): Promise<string> {
    try {
      return await new Promise<string>((done, failed) => {
        this.#start = { done, failed };
        for (let n = 0; n < this.#options.workers; n++) this.#fork();
      });
    } catch (error) {
      this.#draining = true;
      await Promise.all(livingWorkers().map((worker) => kill(worker)));
      throw error;
    }
  }

  async drain(): Promise<void> {
    this.#draining = true;
    for (const restart of this.#restarts) clearTimeout(restart);
    this.#tellReadiness();
    await Promise.all(livingWorkers().map((worker) => this.#end(worker)));
  }

  #fork(): void {
    const worker = cluster.fork();
    hangUpWithWorker(worker);
    this.#startedAt.set(worker.id, Date.now());
    worker.on("error", (error) => {
      this.#options.log.error({ err: error }, "a worker could not be started or reached");
      // One that never ran does not exit either.
      if (worker.process.pid === undefined) this.#ended(worker, "nothing");
    });
  }

  #tellStart(worker: Worker): void {
    const { config, databaseUrl, logLevel } = this.#options;
    const listenWhenReady = this.#together() === "ready";
    send(worker, { kind: "start", config, databaseUrl, logLevel, listenWhenReady });
  }

  async #end(worker: Worker): Promise<void> {
    const killer = setTimeout(() => worker.process.kill("SIGKILL"), this.#options.config.drainMs + workerEndGraceMs);
    const ended = exitOf(worker);
    send(worker, { kind: "drain" });
    await ended;
    clearTimeout(killer);
  }

  #hear(worker: Worker, message: FromWorker): void {
    switch (message.kind) {
      case "awake":
        if (this.#draining) send(worker, { kind: "drain" });
        else this.#tellStart(worker);
        break;
      case "listening":
        this.#states.set(worker.id, message.state);
        this.#listening(message.url);
        this.#tellReadiness();
        break;
      case "readiness":
        if (this.#states.has(worker.id)) this.#states.set(worker.id, message.state);
        this.#tellReadiness();
        break;
      case "metrics_wanted":
        void this.#gatherMetrics(worker, message.id);
        break;
      case "metrics_read":
        this.#metrics.told(message.id, message.reading);
        break;
      case "failed":
        this.#failed(worker, message.message);
        break;
    }
  }

  #listening(url: string): void {
    if (this.#states.size < this.#options.workers) return;
    this.#start?.done(url);
    this.#start = undefined;
  }

  #failed(worker: Worker, message: string): void {
    if (this.#start === undefined) this.#options.log.error({ worker: worker.process.pid }, message);
    else this.#start.failed(new OperatorError(message));
    worker.process.kill("SIGKILL");
  }

  async #gatherMetrics(worker: Worker, id: number): Promise<void> {
    send(worker, { kind: "metrics", id, text: await this.#metrics.text(livingWorkers()) });
  }

  #ended(worker: Worker, how: string): void {
    this.#states.delete(worker.id);
    this.#metrics.ended(worker.id, !this.#draining);
    const ageMs = Date.now() - (this.#startedAt.get(worker.id) ?? 0);
    this.#startedAt.delete(worker.id);
    if (this.#draining) return;
    if (this.#start !== undefined) {
      this.#start.failed(new OperatorError(`a worker ended with ${how} before it could serve`));
      return;
    }
    if (ageMs > workerYouthMs) this.#restartMs = workerRestartMs;
    const pauseMs = Math.max(0, this.#restartMs - ageMs);
    this.#restartMs = Math.min(this.#restartMs * 2, workerRestartMsMax);
    this.#options.log.error({ worker: worker.process.pid, how, pauseMs }, "a worker died; starting another");
    const restart = setTimeout(() => {
      this.#restarts.delete(restart);
      this.#fork();
    }, pauseMs);
    this.#restarts.add(restart);
    this.#tellReadiness();
  }

  /** Ready when all are that connections can go to; at the start, when all are. */
  #together(): ReadinessState {
    if (this.#draining) return "draining";
    if (this.#start !== undefined || this.#states.size === 0) return "loading";
    return [...this.#states.values()].every((state) => state === "ready") ? "ready" : "loading";
  }

  #tellReadiness(): void {
    const state = this.#together();
    for (const worker of livingWorkers()) send(worker, { kind: "readiness", state });
  }
}

function livingWorkers(): Worker[] {
  return Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined && !worker.isDead()) as Worker[];
}

function exitOf(worker: Worker): Promise<void> {
  return new Promise((resolve) => {
    if (worker.isDead()) resolve();
    else worker.once("exit", () => resolve());
  });
}

async function kill(worker: Worker): Promise<void> {
  const ended = exitOf(worker);
  worker.process.kill("SIGKILL");
  await ended;
}

function send(worker: Worker, message: ToWorker): void {
  // One that is about to die may hang up in the same moment: it is replaced, and the next one is told anew.
  if (worker.isConnected()) worker.send(message, () => {});
}

/** A free port is chosen once and for all: workers that come later must find it, also when nobody is left who has it. */
async function fixedPort({ listen }: ServiceConfig): Promise<Listen> {
  if (listen.port !== 0) return listen;
  const probe = createServer();
  try {
    await once(probe.listen(0, listen.host), "listening");
  } catch (error) {
    throw listenError(error, `${listen.host}:0`);
  }
  const { port } = probe.address() as AddressInfo;
  await once(probe.close(), "close");
  return { ...listen, port };
}

/** Starts `workers` serving processes on one port. @throws OperatorError when they cannot start */
export async function startCluster(options: ClusterOptions): Promise<ServiceCluster> {
  const primary = new Primary({ ...options, config: { ...options.config, listen: await fixedPort(options.config) } });
  const url = await primary.start();
  return { url, drain: () => primary.drain() };
}
