import { setTimeout as sleep } from "node:timers/promises";
import { type Changes, isSameStore, type Place, readChanges } from "../store/changes.js";
import type { Connection } from "../store/connection/connection.js";
import { databaseErrorCode, databaseProblem, isSilence } from "../store/connection/database-error.js";
import type { Database } from "../store/database.js";
import { readProgress } from "../store/progress-table.js";
import type { Log } from "../telemetry/log.js";
import type { LiveLimits } from "./limits.js";
import { PollRhythm } from "./poll-rhythm.js";

/** What a {@link Tail} follows, and who receives what it reads: if that throws, it reads everything again. */
export interface TailOptions {
  readonly database: Database;
  readonly limits: Pick<LiveLimits, "pollIntervalMs" | "reconnectMaxMs" | "silenceMinMs" | "silenceMaxMs">;
  readonly log: Log;
  /**
   * A newer snapshot, or the first of this store (`afresh`), which holds everything. Resolves when it was applied, at
   * once and between two requests. Nothing else is read until then.
   */
  onChanges(changes: Changes, afresh: boolean): Promise<void>;
  /** The database holds no blocks, or none any more. */
  onEmpty(): void;
}

/**
 * Follows the committed blocks of a database on its own connection: one cheap query per poll, and one snapshot when
 * there are newer blocks. It polls as {@link PollRhythm} says. It never goes back, so a lagging replica does no harm.
 * While the database is unreachable it retries at growing intervals.
 */
export class Tail {
  readonly #options: TailOptions;
  readonly #stopped = new AbortController();
  readonly #rhythm: PollRhythm;
  #answered: () => void = () => {};
  #place: Place | undefined;
  #running: Promise<void> = Promise.resolve();
  #contactedAt: number | undefined;
  #away = false;

  constructor(options: TailOptions) {
    this.#options = options;
    this.#rhythm = new PollRhythm(options.limits.pollIntervalMs, performance.now());
  }

  /** When the database last replied, by `performance.now()`; undefined: never. */
  get contactedAt(): number | undefined {
    return this.#contactedAt;
  }

  /** Starts. Resolves after the first reply of the database, or the first failed attempt to reach it. */
  start(): Promise<void> {
    return new Promise((resolve) => {
      this.#answered = resolve;
      this.#running = this.#run();
    });
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { database, limits } = this.#options;
    const firstWaitMs = Math.min(limits.pollIntervalMs, limits.reconnectMaxMs);
    let waitMs = firstWaitMs;
    let silenceMs = limits.silenceMinMs;
    while (!this.#stopped.signal.aborted) {
      const contactedBefore = this.#contactedAt;
      let connected = false;
      const follow = (connection: Connection): Promise<void> => {
        connected = true;
        return this.#follow(connection);
      };
      try {
        await database.withOwnConnection(follow, silenceMs);
      } catch (error) {
        if (this.#stopped.signal.aborted) break;
        if (isSilence(error)) database.suspect();
        const wasHeard = this.#contactedAt !== contactedBefore;
        if (wasHeard) waitMs = firstWaitMs;
        silenceMs = connected && !wasHeard ? Math.min(silenceMs * 2, limits.silenceMaxMs) : limits.silenceMinMs;
        this.#noteAway(error);
        this.#answered();
        await this.#pause(waitMs);
        waitMs = Math.min(waitMs * 2, limits.reconnectMaxMs);
      }
    }
    this.#answered();
  }

  async #follow(connection: Connection): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const polledAt = performance.now();
      await this.#poll(connection);
      this.#noteContact();
      this.#answered();
      await this.#pause(Math.max(0, this.#rhythm.next(polledAt) - performance.now()));
    }
  }

  async #poll(connection: Connection): Promise<void> {
    const progress = await readProgress(connection);
    if (progress === undefined) return this.#empty();
    if (!isNewer(progress, this.#place)) return;
    const changes = await readChanges(connection, this.#place);
    if (changes === undefined) return this.#empty();
    // The snapshot may come from another replica than the progress.
    if (!isNewer(changes.progress, this.#place)) return;
    this.#rhythm.found(performance.now());
    const afresh = this.#place === undefined || !isSameStore(this.#place, changes.progress);
    this.#place = undefined;
    await this.#options.onChanges(changes, afresh);
    this.#place = changes.progress;
    this.#options.database.knownPlace.follow(changes.progress);
  }

  #empty(): void {
    this.#place = undefined;
    this.#options.database.knownPlace.follow(undefined);
    this.#options.onEmpty();
  }

  #noteContact(): void {
    this.#contactedAt = performance.now();
    if (this.#away) this.#options.log.info("the database is back; following it again");
    this.#away = false;
  }

  #noteAway(error: unknown): void {
    const meanwhile = this.#place === undefined ? "there is nothing to answer from" : "responses come from memory";
    const problem = isUnmigrated(error)
      ? "the database has no tables yet: run marketd load or marketd migrate"
      : databaseProblem(error);
    if (!this.#away && problem === undefined) {
      this.#options.log.warn({ err: error }, `the database cannot be followed; meanwhile ${meanwhile}`);
    } else if (!this.#away) {
      this.#options.log.warn(`${problem}; meanwhile ${meanwhile}`);
    }
    this.#away = true;
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stopped.signal }).catch(() => {});
  }
}

/** Whether the database, or its tables, do not exist yet. */
function isUnmigrated(error: unknown): boolean {
  return ["ER_NO_SUCH_TABLE", "ER_BAD_DB_ERROR"].includes(databaseErrorCode(error) ?? "");
}

/** Another store always counts as newer; the same store only if it has newer blocks. */
function isNewer(there: Place, place: Place | undefined): boolean {
  return place === undefined || !isSameStore(place, there) || there.streamSequence > place.streamSequence;
}
