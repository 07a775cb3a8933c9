import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { OperatorError } from "../domain/operator-error.js";
import type { Connection } from "../store/connection/connection.js";
import { isPassing } from "../store/connection/database-error.js";
import { beatTurn, endTurn, type LoaderTurn, readTurn, SecondWriterError, takeTurn } from "../store/progress-table.js";
import type { Writer } from "../store/writer.js";
import { type RetryOptions, withRetries } from "./retry.js";

/** How often the loader that loads shows that it lives, in milliseconds, when it has nothing to write. */
export const beatIntervalMs = 300;

/** How long it shows nothing before one that stands by takes over, in milliseconds of that one's monotonic clock. */
export const beatSilenceMsMax = 1_500;

/** How often one that stands by looks, in milliseconds. */
export const standbyPollMs = 100;

/**
 * The turn to load, for one of several loaders of a database. A loader that finds the turn free reads its source first,
 * and takes the turn with the next event that is needed: one that cannot read never keeps the others from loading. Two
 * may still load for a moment; the compare-and-set of the progress, which every block is written with, stops one of them.
 */
export class Turn {
  /** Names this loader in the database. */
  readonly id = randomBytes(12).toString("hex");
  /** As it was when this loader found it free; undefined: the database is empty. */
  #found: LoaderTurn | undefined;
  #isOurs = false;
  #hasWaited = false;
  #shownMs = performance.now();

  constructor(
    private readonly writer: Writer,
    private readonly retry: RetryOptions,
  ) {}

  /** Whether this loader may write. In an empty database every loader may: the first block decides. */
  get isOurs(): boolean {
    return this.#isOurs;
  }

  /** Whether it is time for {@link show}. */
  get isDue(): boolean {
    return performance.now() - this.#shownMs >= beatIntervalMs;
  }

  /**
   * Resolves when no other loader loads: at once in an empty database or after one that ended, otherwise when the one
   * that loads has been silent for {@link beatSilenceMsMax}.
   * @throws OperatorError when it is stopped before
   */
  async untilFree(): Promise<void> {
    const { signal, log } = this.retry;
    let seen: LoaderTurn | undefined;
    let movedMs = performance.now();
    for (;;) {
      // A transaction, because it notices a connection that is dead.
      const isFree = await withRetries(async (attempt) => {
        const turn = await this.writer.transaction(readTurn);
        // While the database was away, the loader that loads could not show that it lives.
        if (attempt > 0 || turn?.loaderId !== seen?.loaderId || turn?.beat !== seen?.beat) movedMs = performance.now();
        seen = turn;
        return !turn?.loaderId || performance.now() - movedMs >= beatSilenceMsMax;
      }, this.retry);
      if (isFree) break;
      if (!this.#hasWaited) log.info("another loader is loading; standing by");
      this.#hasWaited = true;
      await sleep(standbyPollMs, undefined, { signal }).catch(() => {
        throw new OperatorError("stopped while it stood by; nothing was loaded", 0);
      });
    }
    this.#found = seen;
    this.#isOurs = seen === undefined;
  }

  /** Takes the turn, with the next event read. @throws SecondWriterError if another loader has taken it */
  async take(): Promise<void> {
    const found = this.#found;
    if (this.#isOurs || found === undefined) return;
    // An earlier attempt may have been committed without a response.
    const take = async (connection: Connection) =>
      (await takeTurn(connection, found, this.id)) || (await readTurn(connection))?.loaderId === this.id;
    if (!(await withRetries(() => this.writer.transaction(take), this.retry))) throw new SecondWriterError();
    this.#isOurs = true;
    this.wasShown();
    if (this.#hasWaited) this.retry.log.warn("no other loader is loading any more; it is this one's turn");
  }

  /** A block was written, which shows that this loader lives. */
  wasShown(): void {
    this.#shownMs = performance.now();
  }

  /**
   * Shows that this loader lives, or checks that nobody has taken the turn that it found free.
   * @throws SecondWriterError if another loader has the turn
   */
  async show(): Promise<void> {
    this.wasShown();
    const isFine = await this.#unlessAway(async (connection) => {
      if (this.#isOurs && (await beatTurn(connection, this.id))) return true;
      const now = await readTurn(connection);
      if (this.#isOurs) return now === undefined;
      return now?.loaderId === this.#found?.loaderId && now?.beat === this.#found?.beat;
    });
    if (isFine === false) throw new SecondWriterError();
  }

  /**
   * Gives the turn up, because the source is lost; it is taken again with the next event.
   * @throws SecondWriterError if another loader has it already
   */
  async release(): Promise<void> {
    this.wasShown();
    const now = await this.#unlessAway(async (connection) => {
      await endTurn(connection, this.id);
      return await readTurn(connection);
    });
    if (now === undefined) return;
    if (now.loaderId !== "") throw new SecondWriterError();
    this.#found = now;
    this.#isOurs = false;
    this.#hasWaited = true;
    this.retry.log.warn("this loader has lost its source: any loader that can read on may take the turn");
  }

  /** Gives the turn up for good, so that another loader need not wait. */
  async end(): Promise<void> {
    await this.writer.transaction((connection) => endTurn(connection, this.id)).catch(() => {});
  }

  /** Undefined while the database is away: nothing is known then. The next block, or the next call, tries again. */
  async #unlessAway<T>(work: (connection: Connection) => Promise<T>): Promise<T | undefined> {
    try {
      return await this.writer.transaction(work);
    } catch (error) {
      if (isPassing(error)) return undefined;
      throw error;
    }
  }
}
