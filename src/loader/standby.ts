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
      await sleep(standbyPollMs, undefined, signal === undefined ? {} : { signal }).catch(() => {
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
    const take = (connection: Connection) => takeTurn(connection, found, this.id);
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
    const isFine = async (connection: Connection): Promise<boolean> => {
      if (this.#isOurs && (await beatTurn(connection, this.id))) return true;
      const now = await readTurn(connection);
      if (this.#isOurs) return now === undefined;
      return now?.loaderId === this.#found?.loaderId && now?.beat === this.#found?.beat;
    };
    await this.#whilePassing(isFine);
  }

  /**
   * Gives the turn up, because the source is lost; it is taken again with the next event.
   * @throws SecondWriterError if another loader has it already
   */
  async release(): Promise<void> {
    this.wasShown();
    await this.#whilePassing(async (connection) => {
      await endTurn(connection, this.id);
      const now = await readTurn(connection);
      if (now === undefined) return true;
      if (now.loaderId !== "") return false;
      this.#found = now;
      return true;
    });
    if (this.#found?.loaderId !== "") return;
    this.#isOurs = false;
    this.#hasWaited = true;
    this.retry.log.warn("this loader has lost its source: any loader that can read on may take the turn");
  }

  /** Gives the turn up for good, so that another loader need not wait. */
  async end(): Promise<void> {
    await this.writer.transaction((connection) => endTurn(connection, this.id)).catch(() => {});
  }

  /** While the database is away nothing is known; the next block, or the next call, tries again. */
  async #whilePassing(isFine: (connection: Connection) => Promise<boolean>): Promise<void> {
    try {
      if (await this.writer.transaction(isFine)) return;
    } catch (error) {
      if (isPassing(error)) return;
      throw error;
    }
    throw new SecondWriterError();
  }
}
