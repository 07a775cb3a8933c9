import { existsSync, readFileSync, realpathSync } from "node:fs";
import { type ListenAddress, urlOf } from "../domain/listen-address.js";
import { OperatorError } from "../domain/operator-error.js";
import type { Log } from "../telemetry/log.js";
import { AdminListener, adminConnectionsMax } from "./admin-listener.js";
import { ConnectionDistributor, type RefuseConnection } from "./connection-distributor.js";
import {
  connectionsFew,
  connectionsOfWorker,
  connectionsWaiting,
  descriptorLimit,
  requireDescriptors,
} from "./descriptors.js";
import { listenError } from "./listen-error.js";
import { type FromWorker, type ReadinessState, workerProtocol } from "./worker-messages.js";
import { adminReadingMs, WorkerMetrics, workerReadingMs } from "./worker-metrics.js";
import { WorkerProcess, type WorkerStart } from "./worker-process.js";

/** The minimum time between starts of a worker that died, doubled while workers die young. */
export const workerRestartMs = 1_000;

/** The longest pause before a worker is restarted. */
export const workerRestartMsMax = 30_000;

/** A worker that dies before this age counts as dying young. */
export const workerYouthMs = 10_000;

/** How long after its drain time a worker may take to end, before it is killed. */
export const workerEndGraceMs = 2_000;

/** Time limits of a {@link Primary}. */
export interface PrimaryLimits {
  /** Interval of pings to each worker. */
  readonly pingIntervalMs: number;
  /**
   * A worker that leaves this many consecutive pings unanswered hangs, and is killed and replaced. Pings are counted,
   * not timed, so that a primary that was stopped itself kills no worker.
   */
  readonly pingsUnansweredMax: number;
  /** In a rolling restart: the time from the start of a worker to its readiness. */
  readonly readyMaxMs: number;
}

/** A worker counts as hung after 20 s; none of its own work blocks it for even one. */
export const defaultPrimaryLimits: PrimaryLimits = {
  pingIntervalMs: 1_000,
  pingsUnansweredMax: 20,
  readyMaxMs: 60_000,
};

/** Options of a {@link Primary}. Workers read all other settings themselves. */
export interface PrimaryOptions {
  /** Path of the compiled worker of the newest build, which may lead through a link. */
  readonly program: string;
  /** Paths of files that the settings name. Workers get their texts as they were at the latest restart that succeeded. */
  readonly files?: readonly string[];
  /** Flags of Node and V8 for workers, in addition to those of this process. */
  readonly flags?: readonly string[];
  /** Arguments of the command, without node and script; each worker parses them itself. */
  readonly argv: readonly string[];
  /** The database URL, if the arguments do not name a database. */
  readonly databaseUrl: string | undefined;
  readonly listen: ListenAddress;
  readonly tls: boolean;
  /** The address of a separate listener for health and metrics. */
  readonly adminListen: ListenAddress | undefined;
  readonly workers: number;
  readonly drainMs: number;
  /** Connections of a worker if descriptors suffice. */
  readonly connectionsMax: number;
  readonly refuse: RefuseConnection;
  readonly log: Log;
  /** Limits that differ from the defaults. */
  readonly limits?: Partial<PrimaryLimits>;
}

/** The addresses of a service. */
export interface ServiceUrls {
  readonly url: string;
  readonly adminUrl: string | undefined;
}

/** How the start of a worker ends. */
interface Start {
  done(): void;
  failed(error: OperatorError): void;
}

/**
 * The process that an operator starts and signals. It listens, hands connections to workers, replaces workers that die
 * or hang, and collects their metrics. It serves no clients. It may outlive the build that it was started from, so it
 * imports nothing after its start. A restart tries the newest build and files; a worker that dies is replaced by one of
 * those that were last seen to work.
 */
export class Primary {
  readonly #options: PrimaryOptions;
  readonly #limits: PrimaryLimits;
  readonly #connections: ConnectionDistributor;
  readonly #metrics: WorkerMetrics;
  readonly #admin: AdminListener | undefined;
  readonly #workers = new Set<WorkerProcess>();
  /** States of the workers that take connections. */
  readonly #states = new Map<WorkerProcess, ReadinessState>();
  /** Starts that somebody waits for: those of the first workers, and of new ones in a rolling restart. */
  readonly #starts = new Map<WorkerProcess, Start>();
  /** Workers that are to end, and are not replaced. */
  readonly #dismissed = new WeakSet<WorkerProcess>();
  readonly #restarts = new Set<NodeJS.Timeout>();
  /** What the latest worker that became ready on trial was started from. */
  #proven: WorkerStart;
  /** The worker whose replacement is on trial. */
  #replacing: WorkerProcess | undefined;
  #pings: NodeJS.Timeout | undefined;
  #restartMs = workerRestartMs;
  /** The number of rolling restarts. */
  #generation = 0;
  #started = false;
  #rolling = false;
  #draining = false;

  /** @throws OperatorError if this process may open too few files */
  constructor(options: PrimaryOptions) {
    this.#options = options;
    this.#proven = this.#newest();
    this.#limits = { ...defaultPrimaryLimits, ...options.limits };
    const { adminListen, workers, connectionsMax, log } = options;
    const limit = descriptorLimit();
    const ofAdmin = adminListen === undefined ? 0 : adminConnectionsMax;
    requireDescriptors(limit, workers, ofAdmin);
    const connections = connectionsOfWorker(limit, connectionsMax);
    if (connections < connectionsFew) {
      log.warn(`a process may open only ${limit} files (ulimit -n): ${connections} connections per worker at most`);
    }
    this.#connections = new ConnectionDistributor(connectionsWaiting(limit, workers, ofAdmin), options.refuse);
    this.#metrics = new WorkerMetrics(adminListen === undefined ? workerReadingMs : adminReadingMs, {
      workers: () => [...this.#workers],
      serving: () => this.#states.size,
      refused: () => this.#connections.refused,
    });
    if (adminListen !== undefined) {
      this.#admin = new AdminListener({ readiness: () => this.#readiness(), metrics: this.#metrics });
    }
  }

  /** Resolves when every worker takes connections. @throws OperatorError if one cannot, or an address is taken */
  async start(): Promise<ServiceUrls> {
    const { listen, adminListen, tls, workers } = this.#options;
    const first = this.#proven;
    const starting = Promise.all(Array.from({ length: workers }, () => this.#startOnTrial(first, false)));
    starting.catch(() => {});
    try {
      const port = await this.#listen(this.#connections, listen, "--listen");
      const admin = this.#admin &&
        adminListen && { ...adminListen, port: await this.#listen(this.#admin, adminListen, "--admin-listen") };
      this.#pings = setInterval(() => this.#watch(), this.#limits.pingIntervalMs);
      await starting;
      this.#started = true;
      this.#reportReadiness();
      return {
        url: urlOf(tls ? "https" : "http", { ...listen, port }),
        adminUrl: admin && urlOf("http", admin),
      };
    } catch (error) {
      this.#draining = true;
      for (const worker of this.#workers) worker.kill();
      await this.#connections.close();
      await this.#close();
      throw error;
    }
  }

  /** Drains and ends all workers. */
  async drain(): Promise<void> {
    this.#draining = true;
    for (const restart of this.#restarts) clearTimeout(restart);
    this.#reportReadiness();
    await this.#connections.close();
    await Promise.all([...this.#workers].map((worker) => this.#end(worker)));
    await this.#close();
  }

  /**
   * Replaces the workers one by one with ones of the current program and files. If a new worker does not become ready,
   * the restart ends and the remaining ones stay. A further call extends a running restart until all workers are of the
   * latest call.
   */
  async restartWorkers(): Promise<void> {
    const { log } = this.#options;
    if (this.#draining) return;
    this.#generation += 1;
    if (this.#rolling) return;
    this.#rolling = true;
    log.info("replacing the workers one by one");
    try {
      this.#restartMs = workerRestartMs;
      let [generation, dead] = [0, 0];
      while (!this.#draining) {
        if (generation !== this.#generation) [generation, dead] = [this.#generation, this.#restarts.size];
        // First those that had died: what they died of may be corrected now. One that dies later waits as always.
        const isDead = dead-- > 0 && this.#cancelRestart();
        const old = isDead ? undefined : this.#oldest();
        if (!isDead && old === undefined) break;
        await this.#replace(old);
      }
      if (!this.#draining) log.info("all workers were replaced");
    } catch (error) {
      if (!this.#draining) {
        log.error(`the workers are not replaced; the running ones keep serving: ${(error as Error).message}`);
      }
    } finally {
      this.#rolling = false;
    }
  }

  async #close(): Promise<void> {
    clearInterval(this.#pings);
    this.#admin?.close();
    await Promise.all([...this.#workers].map((worker) => worker.ended));
  }

  async #listen(listener: ConnectionDistributor | AdminListener, at: ListenAddress, flag: string): Promise<number> {
    try {
      return await listener.listen(at.host, at.port);
    } catch (error) {
      throw listenError(error, `${at.host}:${at.port}`, flag);
    }
  }

  /** A worker that was started before the latest restart. */
  #oldest(): WorkerProcess | undefined {
    const isOld = (worker: WorkerProcess) => worker.start.generation < this.#generation && !this.#dismissed.has(worker);
    return [...this.#workers].find(isOld);
  }

  /**
   * Replaces a worker, or one that has died, by one of the newest build.
   * @throws OperatorError if that does not become ready, and no later restart was requested
   */
  async #replace(old: WorkerProcess | undefined): Promise<void> {
    const generation = this.#generation;
    this.#replacing = old;
    try {
      await this.#startOnTrial(this.#newest(), true);
    } catch (error) {
      if (this.#draining) return;
      // It was not replaced when it died, because this one was to take its place.
      if (old === undefined || old.hasEnded) this.#startLater(0);
      if (generation === this.#generation) throw error;
      return;
    } finally {
      this.#replacing = undefined;
    }
    if (old?.hasEnded === false && !this.#draining) await this.#end(old);
  }

  /** Whether there was a worker that is to be started later. */
  #cancelRestart(): boolean {
    const [restart] = this.#restarts;
    clearTimeout(restart);
    return restart !== undefined && this.#restarts.delete(restart);
  }

  /** What a worker of the newest build starts from. A file that cannot be read is left to the worker to report. */
  #newest(): WorkerStart {
    const { program, files = [] } = this.#options;
    const texts = files.flatMap((path) => {
      const text = readIfThere(path);
      return text === undefined ? [] : [[path, text]];
    });
    return {
      program: existsSync(program) ? realpathSync(program) : program,
      files: Object.fromEntries(texts),
      generation: this.#generation,
    };
  }

  /** Starts a worker that is not replaced when it fails. @throws Error if it cannot start, or does not become ready */
  async #startOnTrial(from: WorkerStart, inTime: boolean): Promise<void> {
    const worker = this.#fork(from);
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(limit);
        this.#starts.delete(worker);
      };
      const start = {
        done: () => {
          settle();
          this.#proven = from;
          resolve();
        },
        failed: (error: OperatorError) => {
          settle();
          this.#dismissed.add(worker);
          worker.kill();
          reject(error);
        },
      };
      const late = `a new worker was not ready within ${this.#limits.readyMaxMs} ms`;
      const limit = inTime
        ? setTimeout(() => start.failed(new OperatorError(late)), this.#limits.readyMaxMs)
        : undefined;
      this.#starts.set(worker, start);
    });
  }

  /** @throws Error if the system cannot start a process */
  #fork(start: WorkerStart): WorkerProcess {
    const worker = new WorkerProcess(start, this.#options.flags ?? [], {
      message: (from, message) => this.#hear(from, message),
      free: () => this.#connections.handOut(),
      returned: (_, socket) => this.#connections.wait(socket),
      ended: (from, how) => this.#ended(from, how),
    });
    this.#workers.add(worker);
    return worker;
  }

  /** Drains a worker and ends it. */
  async #end(worker: WorkerProcess): Promise<void> {
    this.#dismissed.add(worker);
    this.#connections.remove(worker);
    this.#states.delete(worker);
    const killer = setTimeout(() => worker.kill(), this.#options.drainMs + workerEndGraceMs);
    worker.send({ kind: "drain" });
    await worker.ended;
    clearTimeout(killer);
  }

  #hear(worker: WorkerProcess, message: FromWorker): void {
    switch (message.kind) {
      case "awake":
        this.#order(worker);
        break;
      case "serving":
        this.#serving(worker, message.state);
        break;
      case "readiness":
        if (this.#states.has(worker)) this.#states.set(worker, message.state);
        this.#reportReadiness();
        break;
      case "metrics_wanted":
        void this.#sendMetrics(worker);
        break;
      case "metrics_read":
        this.#metrics.received(worker, message.id, message.reading);
        break;
      case "failed":
        this.#failed(worker, message.message);
        break;
    }
  }

  #order(worker: WorkerProcess): void {
    if (this.#draining) {
      worker.send({ kind: "drain" });
      return;
    }
    const { argv, databaseUrl = null } = this.#options;
    const serveWhenReady = this.#started && (this.#starts.has(worker) || this.#readiness() === "ready");
    const { files } = worker.start;
    worker.send({ kind: "start", protocol: workerProtocol, argv, databaseUrl, files, serveWhenReady });
  }

  #serving(worker: WorkerProcess, state: ReadinessState): void {
    // It may have come to serve just before it heard that it is to end.
    if (this.#draining || worker.hasEnded || this.#dismissed.has(worker)) return;
    this.#states.set(worker, state);
    this.#connections.add(worker);
    this.#starts.get(worker)?.done();
    this.#reportReadiness();
  }

  #failed(worker: WorkerProcess, message: string): void {
    const start = this.#starts.get(worker);
    if (start === undefined) this.#options.log.error({ worker: worker.pid }, message);
    else start.failed(new OperatorError(message));
    worker.kill();
  }

  async #sendMetrics(worker: WorkerProcess): Promise<void> {
    worker.send({ kind: "metrics", text: await this.#metrics.metrics() });
  }

  #ended(worker: WorkerProcess, how: string): void {
    this.#starts.get(worker)?.failed(new OperatorError(`a worker ended with ${how} before it could serve`));
    const died = !this.#draining && !this.#dismissed.has(worker);
    this.#workers.delete(worker);
    this.#states.delete(worker);
    this.#connections.remove(worker);
    this.#metrics.ended(worker, died);
    if (died) this.#restart(worker, how);
    this.#connections.handOut();
    this.#reportReadiness();
  }

  #restart(worker: WorkerProcess, how: string): void {
    const ageMs = performance.now() - worker.startedAtMs;
    if (ageMs > workerYouthMs) this.#restartMs = workerRestartMs;
    const pauseMs = Math.max(0, this.#nextRestartMs() - ageMs);
    this.#options.log.error({ worker: worker.pid, how, pauseMs }, "a worker died; starting another");
    // The one that is on trial takes its place.
    if (worker !== this.#replacing) this.#startLater(pauseMs);
  }

  /** The time between starts of a worker, which the next one doubles. */
  #nextRestartMs(): number {
    const restartMs = this.#restartMs;
    this.#restartMs = Math.min(restartMs * 2, workerRestartMsMax);
    return restartMs;
  }

  /** Starts a worker from what was last seen to work; from the newest build if that one's is gone. */
  #startLater(pauseMs: number): void {
    const restart = setTimeout(() => {
      this.#restarts.delete(restart);
      const { program, log } = this.#options;
      try {
        this.#fork(existsSync(this.#proven.program) ? this.#proven : { ...this.#proven, program });
      } catch (err) {
        // The system has no memory for a process, or Node's own program is being replaced.
        const nextMs = this.#nextRestartMs();
        log.error({ err, pauseMs: nextMs }, "a worker could not be started; trying again");
        this.#startLater(nextMs);
      }
    }, pauseMs);
    this.#restarts.add(restart);
  }

  /** Finds workers that hang, and connections that waited too long. */
  #watch(): void {
    this.#connections.expire();
    for (const worker of this.#workers) {
      if (worker.ping() <= this.#limits.pingsUnansweredMax) continue;
      this.#options.log.error({ worker: worker.pid }, "a worker does not answer; ending it");
      worker.kill();
    }
  }

  /** Ready if all workers that take connections are; at the start, if all workers serve. */
  #readiness(): ReadinessState {
    if (this.#draining) return "draining";
    const states = [...this.#states.values()];
    return this.#started && states.length > 0 && states.every((state) => state === "ready") ? "ready" : "loading";
  }

  #reportReadiness(): void {
    const state = this.#readiness();
    for (const worker of this.#workers) worker.send({ kind: "readiness", state });
  }
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
