import { AggregatorRegistry, Counter } from "prom-client";
import { addCounter, addGauge, createMetrics, type MetricsText } from "../telemetry/metrics.js";
import { CachedText } from "./cached-text.js";
import type { MetricsReading } from "./worker-messages.js";
import type { WorkerProcess } from "./worker-process.js";

/** How long the public `/metrics` waits for a busy worker. */
export const workerReadingMs = 2_000;

/** How long the admin listener's `/metrics` waits for a busy worker. Its response must take less than 100 ms. */
export const adminReadingMs = 50;

/** What the primary itself measures. */
export interface PrimaryNumbers {
  workers(): readonly WorkerProcess[];
  /** Workers that take connections. */
  serving(): number;
  /** Connections that the primary closed because no worker could take them. */
  refused(): number;
}

/**
 * The metrics of all workers as those of one service. A worker that does not reply in time counts with its last values.
 * Counters never decrease: the counts of a worker remain after its end; its gauges do not.
 */
export class WorkerMetrics implements MetricsText {
  readonly #readingMs: number;
  readonly #own = createMetrics();
  readonly #replaced: Counter;
  readonly #last = new Map<WorkerProcess, MetricsReading>();
  readonly #asked = new Map<number, { readonly worker: WorkerProcess; settle(): void }>();
  #ofTheEnded: MetricsReading = [];
  #questions = 0;
  readonly #text: CachedText;

  constructor(readingMs: number, numbers: PrimaryNumbers) {
    this.#readingMs = readingMs;
    this.#text = new CachedText(() => this.#collect(numbers.workers()));
    addGauge(this.#own, "marketd_workers", "Serving processes that take connections now.", numbers.serving);
    // Metrics with the same name as those of the workers are added up.
    const refusedHelp = "Connections refused because there are too many, by the reason of their error.";
    const refused = () => [["TOO_MANY_CONNECTIONS", numbers.refused()] as const];
    addCounter(this.#own, "marketd_connections_refused_total", refusedHelp, refused, { label: "reason" });
    this.#replaced = new Counter({
      name: "marketd_workers_replaced_total",
      help: "Serving processes that ended on their own and were replaced.",
      registers: [this.#own],
    });
  }

  get contentType(): MetricsText["contentType"] {
    return this.#own.contentType;
  }

  /** See {@link CachedText}. */
  metrics(): Promise<string> {
    return this.#text.get();
  }

  /** A worker's metrics, requested or not. */
  received(worker: WorkerProcess, id: number, reading: MetricsReading): void {
    this.#last.set(worker, reading);
    this.#asked.get(id)?.settle();
  }

  ended(worker: WorkerProcess, diedUnasked: boolean): void {
    if (diedUnasked) this.#replaced.inc();
    for (const asked of [...this.#asked.values()]) if (asked.worker === worker) asked.settle();
    const reading = this.#last.get(worker);
    if (reading === undefined) return;
    this.#last.delete(worker);
    const counted = reading.filter((metric) => countingTypes.has(String(metric.type)));
    const sum = AggregatorRegistry.aggregate([this.#ofTheEnded, counted]);
    // Typed as metrics, but holds their values.
    this.#ofTheEnded = sum.getMetricsAsArray() as MetricsReading;
  }

  async #collect(workers: readonly WorkerProcess[]): Promise<string> {
    const own = await this.#own.getMetricsAsJSON();
    await Promise.all(workers.map((worker) => this.#read(worker)));
    return AggregatorRegistry.aggregate([own, this.#ofTheEnded, ...this.#last.values()]).metrics();
  }

  #read(worker: WorkerProcess): Promise<void> {
    if (worker.hasEnded) return Promise.resolve();
    this.#questions += 1;
    const id = this.#questions;
    return new Promise((resolve) => {
      const settle = (): void => {
        clearTimeout(timer);
        this.#asked.delete(id);
        resolve();
      };
      const timer = setTimeout(settle, this.#readingMs);
      this.#asked.set(id, { worker, settle });
      worker.send({ kind: "read_metrics", id });
    });
  }
}

/** Kinds of metrics that never decrease. */
const countingTypes: ReadonlySet<string> = new Set(["counter", "histogram"]);
