import type { BlockHead } from "../domain/block-headers.js";
import { type PastFigures, registerPastMetrics } from "../store/history-table.js";
import { addCounter, addGauge, type Metrics } from "../telemetry/metrics.js";
import type { Source } from "./source.js";

/** What a loader waits for, or "ready" while it loads or would as soon as there is something. */
export type LoadState = "starting" | "ready" | "standby" | "database_lost" | "source_lost";

/** What a loader may lose. */
type Part = "database" | "source";

/** Hears of failures that are tried again. */
export interface OutageWatch {
  /** An attempt failed, and another follows. */
  failed(): void;
  /** An attempt succeeded, or there is none any more. */
  ended(): void;
}

/** What a loader tells of itself, for health checks and Prometheus. Several loads one after the other share it. */
export class LoadStatus {
  #turn: "unknown" | "active" | "standby" = "unknown";
  /** The last block that is in the database. */
  #reached: BlockHead | undefined;
  #source: Pick<Source, "messagesBehind"> | undefined;
  readonly #outages = { database: 0, source: 0 };
  readonly #retries = { database: 0, source: 0 };
  #blocks = 0;
  #events = 0;
  /** Undefined: not read yet. */
  past: PastFigures | undefined;

  get state(): LoadState {
    if (this.#outages.database > 0) return "database_lost";
    if (this.#outages.source > 0) return "source_lost";
    if (this.#turn === "unknown") return "starting";
    return this.#turn === "standby" ? "standby" : "ready";
  }

  /** It holds the turn to load, or needs none; or it waits for it. */
  setTurn(isActive: boolean): void {
    this.#turn = isActive ? "active" : "standby";
  }

  /** Where the database is; `blocks` and `events` were written since the last time. */
  reached(reached: BlockHead | undefined, blocks: number, events: number): void {
    this.#reached = reached;
    this.#blocks += blocks;
    this.#events += events;
  }

  /** Another source is read. */
  reads(source: Pick<Source, "messagesBehind">): void {
    this.#source = source;
  }

  /** For one series of attempts at a time. */
  watch(part: Part): OutageWatch {
    let isOut = false;
    return {
      failed: () => {
        this.#retries[part]++;
        if (!isOut) this.#outages[part]++;
        isOut = true;
      },
      ended: () => {
        if (isOut) this.#outages[part]--;
        isOut = false;
      },
    };
  }

  register(metrics: Metrics): void {
    registerPastMetrics(metrics, () => this.past);
    const gauge = (name: string, help: string, read: () => number | undefined) => {
      addGauge(metrics, `marketd_loader_${name}`, help, read);
    };
    gauge("turn", "1 while this loader holds the turn, or needs none; 0 while it stands by.", () => this.#active);
    gauge("block_height", "The height of the newest block in the database.", () => Number(this.#reached?.height ?? 0n));
    gauge(
      "block_age_seconds",
      "The age of the newest block in the database by its time; 0 before the first.",
      () => this.#age,
    );
    const behindHelp = "Messages of the topic that were not read yet.";
    gauge("source_messages_behind", behindHelp, () => this.#messagesBehind);
    const blocksHelp = "Blocks that this process has written.";
    addCounter(metrics, "marketd_loader_blocks_total", blocksHelp, () => this.#blocks);
    const eventsHelp = "Events that this process has written.";
    addCounter(metrics, "marketd_loader_events_total", eventsHelp, () => this.#events);
    const lost = () => Object.entries(this.#outages).map(([part, count]) => [part, Math.min(1, count)] as const);
    const lostHelp = "1 while the database or the source cannot be reached.";
    addGauge(metrics, "marketd_loader_lost", lostHelp, lost, { label: "part" });
    const retriesHelp = "Attempts at the database or the source that failed and were made again.";
    const retries = () => Object.entries(this.#retries);
    addCounter(metrics, "marketd_loader_retries_total", retriesHelp, retries, { label: "part" });
  }

  get #active(): number {
    return this.#turn === "active" ? 1 : 0;
  }

  get #age(): number {
    return this.#reached === undefined ? 0 : Math.max(0, Date.now() / 1_000 - Number(this.#reached.timeNs) / 1e9);
  }

  get #messagesBehind(): number | undefined {
    const behind = this.#source?.messagesBehind;
    return behind === undefined ? undefined : Number(behind);
  }
}
