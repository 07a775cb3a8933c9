import { setTimeout as sleep } from "node:timers/promises";
import { OperatorError } from "../domain/operator-error.js";
import { OrderBooks } from "../domain/order-book.js";
import { readAccounts, readEntryClasses } from "../store/account-table.js";
import { readNewestBlocks, toMark } from "../store/block-table.js";
import type { Connection } from "../store/connection/connection.js";
import { ServerBehindError } from "../store/connection/database-error.js";
import { readBooks, readVenueMarkets } from "../store/depth-table.js";
import { pastFiguresIntervalMs, readPastFigures } from "../store/history-table.js";
import { readEntryText } from "../store/ledger-entry-table.js";
import {
  checkNotBehind,
  lockProgress,
  type Progress,
  readProgress,
  readTurn,
  SecondWriterError,
} from "../store/progress-table.js";
import { readChainStart } from "../store/table-digest-table.js";
import { isLocalInfileRefused } from "../store/table-rows.js";
import { openWriter, type Writer } from "../store/writer.js";
import type { Log } from "../telemetry/log.js";
import { type WholeBatch, writeBatch } from "./batch.js";
import { BlockChain } from "./block-chain.js";
import { BlockFold } from "./block-fold.js";
import { type Frame, FrameSplitter } from "./frames.js";
import { HistoryFold } from "./history-fold.js";
import { describeFirstPast, readHistoryStart } from "./history-start.js";
import { LedgerTextWriter } from "./ledger-text.js";
import type { LoadStatus } from "./load-status.js";
import { type LoadProgress, type LoadSummary, ProgressMeter } from "./load-summary.js";
import { behindMsMax, outageMsMax, type RetryOptions, withRetries } from "./retry.js";
import { plainBytes, type Source } from "./source.js";
import { beatIntervalMs, Turn } from "./standby.js";
import { readSumsStart, TableSums } from "./table-sums.js";
import { readTradeStart, TradeFold } from "./trade-fold.js";

/** A transaction is committed when it has this many bytes of ledger entries, markets and market data … */
export const transactionLedgerBytes = 4 * 1024 * 1024;

/** … or this many other rows … */
export const transactionRowsMax = 10_000;

/** … or when the input has nothing more for this long: then each block is written as it ends, if it is followed … */
export const inputIdleMs = 20;

/** … until this many bytes came without such a wait: they are a backlog. */
export const backlogBytes = 1024 * 1024;

/** When the load is to end, the current transaction has this long, in milliseconds … */
export const stopMsMax = 10_000;

/** … and is aborted sooner if the database is silent for this long. */
export const stopSilenceMsMax = 2_000;

/** Options of {@link load}. */
export interface LoadOptions {
  /** URL of a migrated database. */
  readonly database: string;
  /** Sources that are read one after the other, as one stream of events. */
  readonly sources: Iterable<Source> | AsyncIterable<Source>;
  /** The maximum number of whole blocks per second, with a transaction per block. */
  readonly pace?: number | undefined;
  /** One transaction per block from the start, for input that is produced as it is read. */
  readonly blockByBlock?: boolean | undefined;
  readonly log: Log;
  /** Called often. The progress is worked out when it is asked for. */
  readonly onProgress?: ((progress: () => LoadProgress) => void) | undefined;
  /** Ends the load after the current block; what was loaded stays. */
  readonly signal?: AbortSignal | undefined;
  /** How long to retry when the database fails. Default: {@link outageMsMax}. */
  readonly outageMsMax?: number | undefined;
  readonly status?: LoadStatus | undefined;
  /** Take turns with other loaders: wait until none is loading, then load. */
  readonly standby?: boolean | undefined;
  /** Whether to try LOAD DATA LOCAL; default true. */
  readonly localInfile?: boolean | undefined;
  /** How much of the books' past is kept before the newest block, in nanoseconds. Default: all. */
  readonly keepBooks?: bigint | "all" | "off" | undefined;
  /** How long trades are kept before the newest block, in nanoseconds. Default: all are. */
  readonly keepTrades?: bigint | "all" | undefined;
  readonly transactionRowsMax?: number | undefined;
}

/**
 * Loads recordings into a database, as its only writer. The rows do not depend on how the recording is cut, or on when
 * the process is killed and restarted. While the database is unreachable, it keeps what it has read and pauses reading.
 * @throws RecordingError for invalid input; the blocks before it are kept
 * @throws SecondWriterError if another process loads into the same database
 */
export async function load(options: LoadOptions): Promise<LoadSummary> {
  // Somebody migrated it, so a server that nobody reaches now is down, and no mistake in the URL.
  const writer = await withRetries(() => openWriter(options.database), retryOptions(options));
  const hasten = () => endSoon(writer);
  options.signal?.addEventListener("abort", hasten, { once: true });
  // While it connected.
  if (options.signal?.aborted === true) hasten();
  const turn = options.standby === true ? new Turn(writer, retryOptions(options)) : undefined;
  try {
    if (turn !== undefined) options.status?.setTurn(false);
    await turn?.untilFree();
    const loader = await Loader.start(writer, options, turn);
    return await loader.run();
  } finally {
    options.signal?.removeEventListener("abort", hasten);
    await turn?.end();
    writer.close();
  }
}

function endSoon(writer: Writer): void {
  writer.hurry(stopSilenceMsMax);
  setTimeout(() => writer.close(), stopMsMax).unref();
}

/** Reads where the store is, in one snapshot. */
async function readStart(connection: Connection, keepBooks: LoadOptions["keepBooks"]) {
  const progress = await readProgress(connection);
  const height = progress?.height ?? 0n;
  const { orders, places } = await readBooks(connection);
  const [accounts, classes] = [await readAccounts(connection), await readEntryClasses(connection)];
  const { markets: venueMarkets, levels } = await readVenueMarkets(connection);
  const blocks = await readNewestBlocks(connection, height);
  const position = blocks[0]?.height === height ? blocks[0].ledgerEntries : 0;
  const marks = blocks.map(toMark);
  const entries = await readEntryText(connection, height, position);
  const { text: root } = await readChainStart(connection);
  const past = keepBooks === "off" ? undefined : await readHistoryStart(connection, progress, venueMarkets);
  const isFirstPast = past?.gap !== undefined && past.pasts.length === 0;
  return {
    ...{ progress, position, orders, places, levels, venueMarkets, past },
    chain: { root, marks, entries, accounts, classes },
    notice: isFirstPast ? await describeFirstPast(connection, past.gap) : undefined,
    trades: await readTradeStart(connection, progress),
    sums: await readSumsStart(connection, marks[0]),
  };
}

/**
 * What a load goes on from. It is made after the transaction that read the store: of millions of accounts that takes
 * longer than a server lets a transaction be silent.
 */
function loaderStart(store: Awaited<ReturnType<typeof readStart>>, { log, keepBooks, keepTrades }: LoadOptions) {
  const { progress, position, venueMarkets, past, chain } = store;
  const ledger = new LedgerTextWriter(chain.accounts, chain.classes);
  const books = OrderBooks.restore(store.orders, store.places, store.levels);
  const history = past && new HistoryFold(books, past, limitNs(keepBooks));
  const trades = new TradeFold(store.trades, limitNs(keepTrades));
  const fold = new BlockFold({
    ...{ progress, position, books, ledger, venueMarkets, history, trades },
    chain: new BlockChain(chain),
    onNotice: (text) => log.warn(text),
  });
  const sums = new TableSums(store.sums);
  return { fold, sums, history, trades, progress, newestDigest: chain.marks[0]?.digest };
}

class Loader {
  readonly #retry: RetryOptions;
  readonly #meter: ProgressMeter;
  #progress: Progress | undefined;
  #newestDigest: Uint8Array | undefined;
  /**
   * The transaction on its way: while the server writes one batch, the next is made. One that failed stays, and throws
   * wherever it is waited for.
   */
  #writing: Promise<void> | undefined;
  /** Since when the server that was reached holds less than what was committed. */
  #behindSince: number | undefined;
  #localInfile: boolean;
  /** Bytes since the loader last waited for input that it follows. */
  #bytesSinceWait = Number.POSITIVE_INFINITY;
  #nextBlockAt = 0;
  /** The one that is being read. */
  #source: Source | undefined;
  /** The newest batch of which every statement was run: its transaction may be committed. */
  #complete: WholeBatch | undefined;
  /** When the figures of the past are due to be read again. */
  #figuresAt = 0;
  /** Events in the batches that were handed over. */
  #eventsTaken = 0;

  private constructor(
    private readonly writer: Writer,
    private readonly options: LoadOptions,
    /** Undefined: it takes no turns with other loaders. */
    private readonly turn: Turn | undefined,
    private readonly from: ReturnType<typeof loaderStart>,
  ) {
    this.#retry = retryOptions(options);
    this.#progress = from.progress;
    this.#newestDigest = from.newestDigest;
    this.#localInfile = options.localInfile ?? true;
    this.#meter = new ProgressMeter(from.fold);
  }

  static async start(writer: Writer, options: LoadOptions, turn: Turn | undefined): Promise<Loader> {
    const read = () => writer.transaction((connection) => readStart(connection, options.keepBooks));
    const store = await withRetries(read, retryOptions(options));
    if (store.notice !== undefined) options.log.info(store.notice);
    return new Loader(writer, options, turn, loaderStart(store, options));
  }

  async run(): Promise<LoadSummary> {
    let upgrade = false;
    this.options.status?.reached(this.#progress, 0, 0);
    this.#tellTurn();
    try {
      for await (const source of this.options.sources) {
        this.from.fold.beginSource(source.repeats);
        this.#source = source;
        this.options.status?.reads(source);
        upgrade = await this.#read(source);
        if (upgrade || this.#isAborted()) break;
      }
    } finally {
      // Also when the input is broken: the blocks before the break are whole.
      if (this.turn?.isOurs !== false && this.from.fold.hasBatch) await this.#flush();
      await this.#writing;
    }
    return {
      ...this.from.fold.summary(),
      rows: this.#meter.rows,
      seconds: this.#meter.seconds,
      localInfile: this.#localInfile,
      protocolUpgrade: upgrade,
      progress: this.#progress,
    };
  }

  /** Whether a protocol upgrade ended it. */
  async #read(source: Source): Promise<boolean> {
    const splitter = new FrameSplitter(source.name);
    const chunks = plainBytes(source, this.from.fold.needed, (bytes) => this.#meter.read(bytes));
    this.#meter.beginSource(source.totalBytes);
    try {
      while (!this.#isAborted()) {
        const next = await this.#nextChunk(chunks, source.followed);
        if (next === undefined) return false;
        if (next.done === true) {
          if (!this.#isAborted()) splitter.end();
          return false;
        }
        this.#bytesSinceWait += next.value.length;
        if (await this.#frames(splitter.frames(next.value))) return true;
        // Input that is known already, or a block without an end, is read for long without a transaction.
        if (this.turn?.isDue === true && this.#writing === undefined) await this.#showTurn(this.turn);
        this.options.onProgress?.(() => this.#meter.progress);
      }
      return false;
    } finally {
      // Not awaited: a source that waits for input ends only when that comes, or by its own signal.
      void chunks.return(undefined).catch(() => {});
    }
  }

  /** Whether a protocol upgrade ended it. */
  async #frames(frames: Iterable<Frame>): Promise<boolean> {
    const { counts } = this.from.fold;
    for (const frame of frames) {
      const known = counts.events;
      const outcome = this.from.fold.apply(frame);
      if (this.turn?.isOurs === false && counts.events > known) {
        await this.turn.take();
        this.#tellTurn();
      }
      if (outcome === "protocol_upgrade") return true;
      if (outcome !== "block_end") continue;
      if (this.#isBatchFull()) await this.#flush();
      if (this.options.pace !== undefined) await this.#wait(this.options.pace);
      if (this.#isAborted()) return false;
    }
    return false;
  }

  /** The next bytes; whole blocks are written when those keep us waiting. Undefined: aborted. */
  async #nextChunk(
    chunks: AsyncIterator<Uint8Array>,
    followed: boolean,
  ): Promise<IteratorResult<Uint8Array> | undefined> {
    const next = chunks.next();
    if (await settlesWithin(next, inputIdleMs)) return await next;
    if (followed) this.#bytesSinceWait = 0;
    if (this.from.fold.hasBatch) await this.#flush();
    await this.#writing;
    return await this.#waitFor(next);
  }

  /**
   * Waits with no transaction on its way; undefined: aborted. Other loaders are shown meanwhile that this one lives.
   * @throws SecondWriterError when another took its turn
   */
  async #waitFor<T>(promise: Promise<T>): Promise<T | undefined> {
    const outcome = untilAborted(promise, this.options.signal);
    const turn = this.turn;
    if (turn !== undefined) while (!(await settlesWithin(outcome, beatIntervalMs))) await this.#showTurn(turn);
    return await outcome;
  }

  async #showTurn(turn: Turn): Promise<void> {
    if (turn.isOurs && this.#source?.isLost === true) await turn.release();
    else await turn.show();
    this.#tellTurn();
  }

  #tellTurn(): void {
    this.options.status?.setTurn(this.turn?.isOurs !== false);
  }

  /** Whether each block has a transaction of its own. */
  get #blockByBlock(): boolean {
    const { blockByBlock, pace } = this.options;
    return blockByBlock === true || pace !== undefined || this.#bytesSinceWait < backlogBytes;
  }

  #isBatchFull(): boolean {
    if (this.#blockByBlock) return true;
    const { bytes, rows } = this.from.fold.size;
    return bytes >= transactionLedgerBytes || rows >= (this.options.transactionRowsMax ?? transactionRowsMax);
  }

  /** Hands the batch over to be written, when the one before is. */
  async #flush(): Promise<void> {
    await this.#writing;
    const batch = this.from.fold.take();
    const events = this.from.fold.counts.events - this.#eventsTaken;
    this.#eventsTaken += events;
    this.#writing = this.#write(batch, events);
    // Until somebody waits for it.
    this.#writing.catch(() => {});
    if (this.#blockByBlock) await this.#writing;
  }

  /** Writes the batch exactly once, however often that is tried. */
  async #write(batch: WholeBatch, events: number): Promise<void> {
    this.#progress = await withRetries((attempt) => this.#attempt(batch, attempt > 0), this.#retry);
    this.#writing = undefined;
    this.turn?.wasShown();
    this.options.status?.reached(this.#progress, batch.blocks.size, events);
    this.#newestDigest = batch.blocks.get(batch.reached.height)?.digest ?? this.#newestDigest;
    this.#meter.written(batch);
  }

  async #attempt(batch: WholeBatch, isRetry: boolean): Promise<Progress> {
    try {
      const progress = await this.#transact(batch, isRetry);
      this.#behindSince = undefined;
      return progress;
    } catch (error) {
      if (error instanceof ServerBehindError) this.#checkNothingLost(error);
      if (!this.#localInfile || !isLocalInfileRefused(error)) throw error;
      this.#localInfile = false;
      this.options.log.warn("the server forbids LOAD DATA LOCAL: loading with INSERT, which is slower");
      return await this.#transact(batch, isRetry);
    }
  }

  /** An earlier attempt may have been committed, or still be: its lock on the progress is waited for. */
  #transact(batch: WholeBatch, isRetry: boolean): Promise<Progress> {
    return this.writer.transaction(async (connection) => {
      const reached = isRetry ? await lockProgress(connection) : undefined;
      const { chainId, streamSequence } = batch.reached;
      if (reached?.chainId === chainId && reached.streamSequence === streamSequence) {
        await this.#checkOurs(connection, batch);
        return reached;
      }
      if (isRetry) checkNotBehind(this.#progress, reached);
      // An earlier attempt was not committed.
      this.#complete = undefined;
      const progress = await writeBatch(connection, batch, this.#progress, {
        localInfile: this.#localInfile,
        loaderId: this.turn?.id ?? "",
        newestDigest: this.#newestDigest,
        sumsAfter: this.from.sums.after,
        prunePast: this.from.history?.prune,
        pruneTrades: this.from.trades.prune,
      });
      await this.#readFigures(connection);
      this.#complete = batch;
      return progress;
    });
  }

  /** @throws SecondWriterError if another loader has written the blocks of the batch, or has taken the turn since */
  async #checkOurs(connection: Connection, batch: WholeBatch): Promise<void> {
    const turn = await readTurn(connection);
    if (this.#complete !== batch || turn?.loaderId !== (this.turn?.id ?? "")) throw new SecondWriterError();
  }

  /** Now and then, for the metrics. */
  async #readFigures(connection: Connection): Promise<void> {
    const { status } = this.options;
    if (status === undefined || performance.now() < this.#figuresAt) return;
    status.past = await readPastFigures(connection);
    this.#figuresAt = performance.now() + pastFiguresIntervalMs;
  }

  /** @throws OperatorError when the server has been behind for too long to catch up */
  #checkNothingLost({ committed, found }: ServerBehindError): void {
    this.#behindSince ??= performance.now();
    if (performance.now() - this.#behindSince < Math.min(behindMsMax, this.#retry.outageMsMax)) return;
    throw new OperatorError(
      `the database has lost blocks that were committed: it was at event ${committed} and is at ${found ?? "none"} now, as after a fail-over to a replica that lags; load again to continue from there`,
    );
  }

  async #wait(pace: number): Promise<void> {
    const now = performance.now();
    const wait = this.#nextBlockAt - now;
    this.#nextBlockAt = Math.max(now, this.#nextBlockAt) + 1_000 / pace;
    if (wait <= 0) return;
    await this.#waitFor(sleep(wait, undefined, { signal: this.options.signal }).catch(() => {}));
  }

  #isAborted(): boolean {
    return this.options.signal?.aborted === true;
  }
}

function retryOptions({ log, signal, outageMsMax: givenMs, status }: LoadOptions): RetryOptions {
  return { log, signal, outageMsMax: givenMs ?? outageMsMax, watch: status?.watch("database") };
}

/** Nanoseconds before the newest block; undefined: no limit. */
function limitNs(keep: LoadOptions["keepBooks"]): bigint | undefined {
  return typeof keep === "bigint" ? keep : undefined;
}

/** Whether a promise settles in time. If it fails later, nobody need be waiting for it. */
function settlesWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, false);
    const settled = () => {
      clearTimeout(timer);
      resolve(true);
    };
    promise.then(settled, settled);
  });
}

/** Settles as `promise` does, or with undefined when the signal aborts. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T | undefined> {
  if (signal === undefined) return promise;
  if (signal.aborted) return Promise.resolve(undefined);
  return new Promise((resolve, reject) => {
    const onAbort = () => resolve(undefined);
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
