import type { Worker } from "node:cluster";
import { AggregatorRegistry, Counter, Gauge } from "prom-client";
import { createMetrics } from "../telemetry/metrics.js";
import type { MetricsReading } from "./worker-messages.js";

/** How long a worker may take to tell its numbers; a busy one is then counted with those it told last. */
export const workerReadingMs = 2_000;

type Asked = (reading: MetricsReading | undefined) => void;

/**
 * The metrics of all workers as those of one service. Counters never fall: what a worker had counted when it was last
 * asked stays counted after its death, so that rates stay true. Its gauges go with it.
 */
export class WorkerMetrics {
  /** Asks a worker for its numbers; the answer comes to {@link told}. */
  readonly #ask: (worker: Worker, id: number) => void;
  readonly #own = createMetrics();
  readonly #replaced: Counter;
  readonly #last = new Map<number, MetricsReading>();
  readonly #asked = new Map<number, { readonly worker: number; readonly settle: Asked }>();
  #ofTheDead: MetricsReading = [];
  #questions = 0;

  constructor(ask: (worker: Worker, id: number) => void, running: () => number) {
    this.#ask = ask;
    const registers = [this.#own];
    const workers = new Gauge({
      name: "marketd_workers",
      help: "Serving processes that take connections now.",
      registers,
      collect() {
        this.set(running());
      },
    });
    void workers;
    this.#replaced = new Counter({
      name: "marketd_workers_replaced_total",
      help: "Serving processes that ended on their own and were replaced.",
      registers,
    });
  }

  /** In the text that Prometheus reads. */
  async text(workers: readonly Worker[]): Promise<string> {
    const own = await this.#own.getMetricsAsJSON();
    await Promise.all(workers.map((worker) => this.#read(worker)));
    return AggregatorRegistry.aggregate([own, this.#ofTheDead, ...this.#last.values()]).metrics();
  }

  /** A worker's answer to a question. */
  told(id: number, reading: MetricsReading): void {
    this.#asked.get(id)?.settle(reading);
  }

  /** A worker has ended; nobody waits for it any longer. */
  ended(workerId: number, willBeReplaced: boolean): void {
    if (willBeReplaced) this.#replaced.inc();
    for (const { worker, settle } of [...this.#asked.values()]) if (worker === workerId) settle(undefined);
    const reading = this.#last.get(workerId);
    if (reading === undefined) return;
    this.#last.delete(workerId);
    const counted = reading.filter((metric) => countingTypes.has(String(metric.type)));
    const sum = AggregatorRegistry.aggregate([this.#ofTheDead, counted]);
    // What it gives are the metrics themselves, with their values.
    this.#ofTheDead = sum.getMetricsAsArray() as MetricsReading;
  }

  #read(worker: Worker): Promise<void> {
    if (!worker.isConnected()) return Promise.resolve();
    this.#questions += 1;
    const id = this.#questions;
    return new Promise((resolve) => {
      const settle: Asked = (reading) => {
        clearTimeout(timer);
        this.#asked.delete(id);
        if (reading !== undefined) this.#last.set(worker.id, reading);
        resolve();
      };
      const timer = setTimeout(() => settle(undefined), workerReadingMs);
      this.#asked.set(id, { worker: worker.id, settle });
      this.#ask(worker, id);
    });
  }
}

/** Kinds of metrics that only ever rise. */
const countingTypes: ReadonlySet<string> = new Set(["counter", "histogram"]);
