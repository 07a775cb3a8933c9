import { setTimeout as sleep } from "node:timers/promises";
import { type ChangeReader, type Changes, isSameStore, type Place, withChangeReader } from "../store/changes.js";
import type { Database } from "../store/database.js";
import { isSilence } from "../store/database-error.js";
import { databaseProblem } from "../store/write-failure.js";
import type { Log } from "../telemetry/log.js";
import type { LiveLimits } from "./limits.js";

/** What the tail brings. Both are called between two requests, and what they throw makes it read everything again. */
export interface TailListener {
  /** A snapshot newer than the place, or the first of this store (`afresh`): it then holds everything there is. */
  onChanges(changes: Changes, afresh: boolean): void;
  /** The database holds nothing (any more). */
  onEmpty(): void;
}

/** Settings of a {@link Tail}. */
export interface TailOptions {
  readonly database: Database;
  readonly limits: Pick<LiveLimits, "pollIntervalMs" | "reconnectMaxMs" | "silenceMinMs" | "silenceMaxMs">;
  readonly log: Log;
  readonly listener: TailListener;
}

/**
 * Follows the committed blocks of a database: one cheap query per poll, on a connection of its own, and one snapshot of
 * what is new when it moved. The place never goes back, so a replica that lags brings nothing, and nothing wrong. While
 * the database is away it tries again and again, ever less often.
 */
export class Tail {
  readonly #options: TailOptions;
  readonly #stopped = new AbortController();
  readonly #firstPoll: Promise<void>;
  #answered: () => void = () => {};
  #place: Place | undefined;
  #running: Promise<void> = Promise.resolve();
  #contactedAt: number | undefined;
  #away = false;

  constructor(options: TailOptions) {
    this.#options = options;
    this.#firstPoll = new Promise((resolve) => {
      this.#answered = resolve;
    });
  }

  /** When the database last answered, by `performance.now()`; undefined: never. */
  get contactedAt(): number | undefined {
    return this.#contactedAt;
  }

  /** Begins. Resolves when the database answered for the first time, or the first attempt to reach it failed. */
  start(): Promise<void> {
    this.#running = this.#run();
    return this.#firstPoll;
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
      const follow = (reader: ChangeReader): Promise<void> => {
        connected = true;
        return this.#follow(reader);
      };
      try {
        await withChangeReader(database, follow, silenceMs);
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

  async #follow(reader: ChangeReader): Promise<void> {
    const { pollIntervalMs } = this.#options.limits;
    while (!this.#stopped.signal.aborted) {
      const polledAt = performance.now();
      await this.#poll(reader);
      this.#noteContact();
      this.#answered();
      await this.#pause(Math.max(0, pollIntervalMs - (performance.now() - polledAt)));
    }
  }

  async #poll(reader: ChangeReader): Promise<void> {
    const progress = await reader.progress();
    if (progress === undefined) return this.#empty();
    if (!isNewer(progress, this.#place)) return;
    const changes = await reader.changes(this.#place);
    if (changes === undefined) return this.#empty();
    // The snapshot may come from another replica than the question did.
    if (!isNewer(changes.progress, this.#place)) return;
    const afresh = this.#place === undefined || !isSameStore(this.#place, changes.progress);
    this.#place = undefined;
    this.#options.listener.onChanges(changes, afresh);
    this.#place = changes.progress;
    this.#options.database.knownPlace.follow(changes.progress);
  }

  #empty(): void {
    this.#place = undefined;
    this.#options.database.knownPlace.follow(undefined);
    this.#options.listener.onEmpty();
  }

  #noteContact(): void {
    this.#contactedAt = performance.now();
    if (this.#away) this.#options.log.info("the database is back; following it again");
    this.#away = false;
  }

  #noteAway(error: unknown): void {
    const meanwhile = this.#place === undefined ? "there is nothing to answer from" : "responses come from memory";
    const problem = databaseProblem(error);
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

/** Another store is always news; of the same store, only what lies ahead. */
function isNewer(there: Place, place: Place | undefined): boolean {
  return place === undefined || !isSameStore(place, there) || there.streamSequence > place.streamSequence;
}
