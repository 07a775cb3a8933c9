import type { ReplayMarketsDepthResponseSchema } from "../../gen/marketd/history/v1/market_history_pb.js";
import { quotaKey } from "../domain/client-address.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import type { Failure } from "../domain/failure.js";
import type { ResumeTokens } from "../domain/resume-token.js";
import type { Call, ResponseStream } from "../domain/service.js";
import { ReadyResponse } from "../encoding/message-response.js";
import { clientFailure } from "../encoding/status.js";
import { levelsAtOnceMax } from "../live/encoded-levels.js";
import { chainChanged } from "../live/live.js";
import type { LiveState } from "../live/live-state.js";
import { packReplay, replayStream, type StreamResponse } from "../live/stream-kind.js";
import type { Subscriber } from "../live/subscriber.js";
import type { Reader } from "../store/connection/lease.js";
import { type OldestBegin, type PastBlock, readOldestBegins, readReach } from "../store/history-reads.js";
import type { Log } from "../telemetry/log.js";
import { type CursorReads, MarketCursor } from "./market-cursor.js";
import { Pace } from "./pace.js";
import type { Past } from "./past.js";
import { PendingBlocks } from "./pending-blocks.js";
import { pieceMs } from "./turns.js";

/** Messages that wait to be taken, before blocks are merged or reading stops. */
export const readyMessagesMax = 64;

/** Changed levels of blocks that are merged for a slow reader, before reading stops. */
export const pendingLevelsMax = 50_000;

/** Markets whose next segments are read at once before they are needed. */
const readsAheadMax = 2;

/** How often a read asks whether an empty message is due, in each heartbeat. */
const beatsPerHeartbeat = 4;

/** The pause between looks for a new block, in milliseconds. */
const newBlockPauseMs = 10;

/** The same while the past is not written. */
const unwrittenPauseMs = 500;

type ReplayResponse = EncodedResponse<typeof ReplayMarketsDepthResponseSchema>;

/** What to replay. */
export interface ReplayPlan {
  /** None: every market, those announced later included. */
  readonly marketIds: readonly string[];
  /** The oldest segment of each that has one. */
  readonly begins: ReadonlyMap<string, OldestBegin>;
  readonly from: PastBlock;
  /** False: the reader has the books as of `from`. */
  readonly withBooks: boolean;
  /** A stream sequence number, exclusive; undefined: the replay does not end. */
  readonly until: bigint | undefined;
  /** It does not end, and is fast enough to come to the newest block. */
  readonly becomesLive: boolean;
  /** Seconds of the past in a second; undefined: as fast as the reader takes. */
  readonly speed: number | undefined;
  /** A message for each block, however slow the reader is. */
  readonly everyUpdate: boolean;
  /** When it was planned. */
  readonly state: LiveState;
  readonly storeId: string;
  readonly tokens: ResumeTokens;
  /** Of readers that lack a book: it goes on with whole ones. */
  readonly wholeTokens: ResumeTokens;
}

/** What a replay is run with. */
export interface ReplayOptions {
  readonly past: Past;
  readonly call: Call;
  /** Called when it reads the past no more; it may be called again. */
  readonly released: () => void;
  readonly log: Log;
}

const none: ReadonlyMap<string, string> = new Map();

/** A stream of books from the past on, which becomes the live one. */
export class Replay implements ResponseStream<StreamResponse["schema"]> {
  readonly headers = none;
  readonly trailers = none;
  readonly #plan: ReplayPlan;
  readonly #options: ReplayOptions;
  readonly #reads: CursorReads;
  readonly #cursors = new Map<string, MarketCursor>();
  /** Cursors with an event, the earliest first. */
  readonly #order: MarketCursor[] = [];
  readonly #pending = new PendingBlocks();
  readonly #pace: Pace;
  #ready: ReplayResponse[] = [];
  /** Bytes of {@link #ready}, but for empty messages. */
  #readyBytes = 0;
  /** The last block whose changes are in {@link #pending}, or were sent. */
  #block: PastBlock;
  /** Everything up to here is read. */
  #upTo: bigint;
  /** The newest block when it was last asked how far the past is written, which reads depend on. */
  #newestSequence: bigint;
  /** Whether it was written up to that block. */
  #isWritten = true;
  #listener: () => void = () => {};
  #taken: () => void = () => {};
  #live: Subscriber | undefined;
  #failure: Failure | undefined;
  #ended = false;
  #closed = false;
  #sliceEnd = 0;

  constructor(plan: ReplayPlan, options: ReplayOptions) {
    this.#plan = plan;
    this.#options = options;
    const { signal, clientAddress } = options.call;
    const client = quotaKey(clientAddress);
    this.#reads = { lease: (use) => this.#lease(use), signal, client, aheadLeft: readsAheadMax };
    this.#block = plan.from;
    this.#upTo = plan.from.streamSequence;
    this.#newestSequence = this.#upTo;
    this.#pace = new Pace(plan.speed, plan.state.limits.heartbeatMs);
    void this.#run();
  }

  get ended(): boolean {
    if (this.#closed) return true;
    return this.#ready.length === 0 && (this.#live?.ended ?? this.#ended);
  }

  get failure(): Failure | undefined {
    return this.#ready.length > 0 ? undefined : (this.#failure ?? this.#live?.failure);
  }

  onReady(listener: () => void): void {
    this.#listener = listener;
    this.#live?.onReady(listener);
  }

  take(): readonly StreamResponse[] {
    if (this.#closed) return [];
    const ready = this.#ready;
    if (ready.length === 0) return this.#live?.take() ?? [];
    this.#ready = [];
    this.#readyBytes = 0;
    this.#taken();
    return ready;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#pace.stop();
    this.#taken();
    this.#live?.close();
    this.#release();
  }

  /** Ends the stream with an error, behind what is ready. */
  fail(failure: Failure): void {
    if (this.#closed || this.#ended || this.#live !== undefined) return;
    this.#failure = failure;
    this.#ended = true;
    this.#pace.stop();
    this.#taken();
    this.#release();
    this.#notify();
  }

  #release(): void {
    for (const cursor of this.#cursors.values()) cursor.close();
    this.#options.released();
  }

  /** Calls the listener. One that throws takes nothing any more. */
  #notify(): void {
    try {
      this.#listener();
    } catch (thrown) {
      clientFailure(thrown, this.#options.log);
      this.close();
    }
  }

  /** Lets the reader take what is ready: before each wait, so that many messages are one write. */
  #flush(): void {
    if (this.#ready.length > 0) this.#notify();
  }

  async #run(): Promise<void> {
    try {
      await this.#replay();
    } catch (thrown) {
      this.fail(clientFailure(thrown, this.#options.log));
    } finally {
      this.#release();
    }
  }

  async #replay(): Promise<void> {
    const { from, until, becomesLive } = this.#plan;
    let upTo = await this.#reached();
    // Also where the end is before the oldest books that are kept.
    const isEmpty = until !== undefined && from.streamSequence >= until;
    if (isEmpty) return this.#end();
    await this.#begin(upTo);
    for (; !this.#isOver; upTo = await this.#reached()) {
      await this.#advance(upTo);
      if (this.#isOver) return;
      if (until !== undefined && upTo === until - 1n) return this.#end();
      if (becomesLive && this.#join()) return;
      const hasMore = () => this.#newest().progress.streamSequence > this.#newestSequence;
      if (!this.#isWritten) await this.#idle(unwrittenPauseMs);
      else if (!hasMore()) await this.#idle(newBlockPauseMs);
      // One that becomes live tries again.
      while (!becomesLive && this.#isWritten && !this.#isOver && !hasMore()) {
        await this.#idle(newBlockPauseMs);
      }
    }
  }

  /**
   * Up to where it may read now. Not beyond what is written of the past: a loader that keeps it again tells only then
   * of what was not kept, and where books begin anew.
   */
  async #reached(): Promise<bigint> {
    const { until, from } = this.#plan;
    this.#newestSequence = this.#newest().progress.streamSequence;
    // The database may be ahead of this process.
    if (this.#newestSequence < from.streamSequence) this.#newestSequence = from.streamSequence;
    const { historySequence } = await this.#patiently(this.#lease(readReach));
    this.#isWritten = historySequence >= this.#newestSequence;
    const reached = this.#isWritten ? this.#newestSequence : historySequence;
    return until !== undefined && until <= reached ? until - 1n : reached;
  }

  get #isOver(): boolean {
    return this.#closed || this.#ended;
  }

  /** @throws Failure `unavailable` once the database holds another store */
  #newest(): LiveState {
    const state = this.#options.past.live.state();
    if (state === this.#plan.state) return state;
    throw chainChanged();
  }

  /** Sends the books of the beginning, in parts as they are read. */
  async #begin(upTo: bigint): Promise<void> {
    const { begins, from, withBooks } = this.#plan;
    const reached = upTo > from.streamSequence ? upTo : from.streamSequence;
    for (const [marketId, oldest] of begins) {
      const cursor = this.#addCursor(marketId, from.streamSequence, oldest);
      const state = await this.#patiently(cursor.begin(from, withBooks, reached));
      if (this.#isOver) return;
      if (state === undefined) continue;
      if (withBooks || state.kind === "stale") this.#pending.add(marketId, state);
      else this.#pending.hold(marketId, state);
      // A message of several markets is encoded in one piece.
      if (this.#pending.levels >= levelsAtOnceMax) await this.#sendNow(undefined);
    }
    await this.#sendNow(from);
    this.#pace.start(from.timeNs);
  }

  #addCursor(marketId: string, position: bigint, begins: OldestBegin): MarketCursor {
    const cursor = new MarketCursor(this.#options.past, this.#reads, marketId, position, begins);
    this.#cursors.set(marketId, cursor);
    return cursor;
  }

  /** Replays all blocks up to a place. */
  async #advance(upTo: bigint): Promise<void> {
    await this.#findMarkets(upTo);
    const changed = this.#newest().log.heldAt(this.#upTo);
    const ids = changed === undefined ? undefined : new Set([...changed.keys()].map(({ id }) => id));
    for (const cursor of this.#cursors.values()) {
      // What this process has seen since its last look at the past need not be read to know that nothing happened.
      // But a book that is not kept is whole again without a change.
      const isQuiet = ids?.has(cursor.marketId) === false && !cursor.isStale;
      if (isQuiet && cursor.isAt(this.#upTo)) cursor.skipTo(upTo);
      else await this.#fill(cursor, upTo);
      if (this.#isOver) return;
    }
    await this.#replayBlocks(upTo);
    if (!this.#pending.isEmpty && !this.#isOver) await this.#sendNow(this.#block);
    this.#upTo = upTo;
  }

  /** Markets whose past begins since the last look. */
  async #findMarkets(upTo: bigint): Promise<void> {
    const { marketIds } = this.#plan;
    const all = marketIds.length === 0 ? this.#newest().announced.map(({ id }) => id) : marketIds;
    const missing = all.filter((id) => !this.#cursors.has(id));
    if (missing.length === 0 || this.#upTo === upTo) return;
    const begins = await this.#patiently(this.#lease((reader) => readOldestBegins(reader, missing)));
    for (const begin of begins) this.#addCursor(begin.marketId, this.#upTo, begin);
  }

  async #fill(cursor: MarketCursor, upTo: bigint): Promise<void> {
    if (!cursor.isAt(upTo)) await this.#patiently(cursor.fill(upTo));
    if (cursor.head !== undefined) this.#insert(cursor);
  }

  /** Reads that depend on the newest block. */
  #lease<T>(use: (reader: Reader) => Promise<T>): Promise<T> {
    const { past, call } = this.#options;
    return past.lease(call, use, { storeId: this.#plan.storeId, streamSequence: this.#newestSequence });
  }

  /** Reads, and large messages, may wait for their turn and for the database, but the reader hears of it. */
  #patiently<T>(work: Promise<T>): Promise<T> {
    this.#flush();
    const { heartbeatMs } = this.#plan.state.limits;
    const beats = setInterval(() => this.#beat(), Math.ceil(heartbeatMs / beatsPerHeartbeat));
    return work.finally(() => clearInterval(beats));
  }

  /** An empty message after a long silence. It names no block: the next one may be half read. */
  #beat(): void {
    if (this.#isOver || this.#ready.length > 0 || !this.#pace.isSilent) return;
    this.#ready.push(...packReplay([], { statuses: [], caughtUp: false }, this.#plan.state.limits.messageBytesMax));
    this.#pace.sent();
    this.#notify();
  }

  /** All events that are read, block by block. It waits only where it must: awaits for each block would cost half of all. */
  async #replayBlocks(upTo: bigint): Promise<void> {
    for (let first = this.#order[0]?.head; first !== undefined && !this.#isOver; first = this.#order[0]?.head) {
      const { block, place } = first;
      if (!this.#isDue(block)) await this.#until(block);
      if (this.#isOver) return;
      this.#block = block;
      const emptied = this.#takeEvents(place);
      if (this.#isFull) this.#flush();
      const mayMerge = this.#mayMerge();
      if (!mayMerge && this.#isFull) await this.#capacity();
      const encoding = mayMerge ? undefined : this.#send(block);
      if (encoding !== undefined) await encoding;
      for (const cursor of emptied) {
        if (this.#isOver) return;
        await this.#fill(cursor, upTo);
      }
    }
  }

  /** Adds all events of a place to what is pending. @returns the cursors that have no further one */
  #takeEvents(place: bigint): MarketCursor[] {
    const emptied: MarketCursor[] = [];
    for (let next = this.#order[0]; next?.head?.place === place; next = this.#order[0]) {
      this.#order.shift();
      this.#pending.add(next.marketId, next.head);
      next.shift();
      if (next.head === undefined) emptied.push(next);
      else this.#insert(next);
    }
    return emptied;
  }

  /** Whether a block may be sent now, and it is not the turn of others. */
  #isDue({ timeNs }: PastBlock): boolean {
    return this.#pace.waitMs(timeNs) <= 0 && performance.now() < this.#sliceEnd;
  }

  /** Waits for the moment of a block, and for others' turns. */
  async #until({ timeNs }: PastBlock): Promise<void> {
    for (let waitMs = this.#pace.waitMs(timeNs); waitMs > 0 && !this.#isOver; waitMs = this.#pace.waitMs(timeNs)) {
      if (!this.#pending.isEmpty) await this.#sendNow(this.#block);
      await this.#idle(waitMs);
    }
    if (performance.now() < this.#sliceEnd) return;
    this.#flush();
    await this.#options.past.turns.next(this.#reads.client);
    this.#sliceEnd = performance.now() + pieceMs;
  }

  /** Whether what is pending may be merged with the next block. */
  #mayMerge(): boolean {
    if (this.#plan.everyUpdate || this.#pending.levels >= pendingLevelsMax) return false;
    const next = this.#order[0]?.head?.block;
    return this.#isFull || (next !== undefined && this.#pace.isLate(next.timeNs));
  }

  get #isFull(): boolean {
    return this.#ready.length >= readyMessagesMax || this.#readyBytes >= this.#options.past.limits.readyBytesMax;
  }

  /** Sends what is pending, and lets the reader take it. */
  async #sendNow(block: PastBlock | undefined): Promise<void> {
    await this.#send(block);
    this.#flush();
    if (this.#isFull) await this.#capacity();
  }

  /**
   * Makes messages of what is pending; without a block, it is a part that the next message goes on with. A promise, if
   * they are large and have to be encoded in turns.
   */
  #send(block: PastBlock | undefined): Promise<void> | undefined {
    if (this.#isOver) return undefined;
    const { call } = this.#options;
    const { messageBytesMax } = this.#plan.state.limits;
    const { updates, statuses } = this.#pending.take();
    const tokens = this.#pending.isKept ? this.#plan.tokens : this.#plan.wholeTokens;
    const place = block && { block, resumeToken: tokens.at("past", block.streamSequence) };
    const responses = packReplay(updates, { statuses, caughtUp: false, ...place }, messageBytesMax);
    const encoding = responses.flatMap(
      (response) => response.prepare?.(call.codec ?? "json", this.#reads.client) ?? [],
    );
    if (encoding.length === 0) {
      this.#push(responses);
      return undefined;
    }
    return this.#patiently(Promise.all(encoding)).then(() => this.#push(responses));
  }

  #push(responses: readonly ReplayResponse[]): void {
    if (this.#isOver) return;
    const { codec = "json" } = this.#options.call;
    for (const response of responses) {
      const ready = new ReadyResponse(response, codec);
      this.#readyBytes += ready.bytes.length;
      this.#ready.push(ready);
    }
    this.#pace.sent();
  }

  /** Resolves when the reader has taken what is ready. */
  async #capacity(): Promise<void> {
    while (this.#isFull && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#taken = resolve;
      });
    }
  }

  /** Waits, and sends an empty message after a long silence. */
  async #idle(ms: number): Promise<void> {
    this.#flush();
    await this.#pace.sleep(ms);
    if (!this.#pace.isSilent || this.#isOver) return;
    if (this.#ready.length === 0) await this.#sendNow(this.#block);
    else this.#pace.sent();
  }

  #end(): void {
    this.#ended = true;
    this.#notify();
  }

  /** Becomes the live stream, if that still knows what changed since the last block. */
  #join(): boolean {
    const { past, call } = this.#options;
    const state = this.#newest();
    const changed = state.log.heldAt(this.#upTo);
    // Where the past is not written, reading on does not help: all books come whole.
    if (changed === undefined && this.#isWritten) return false;
    const held = new Map(changed);
    const { marketIds } = this.#plan;
    const ids = marketIds.length === 0 ? undefined : new Set(marketIds);
    let differs = false;
    for (const market of state.announced) {
      if (ids?.has(market.id) === false || (held.has(market) && held.get(market) === undefined)) continue;
      const before = held.get(market) ?? market.published;
      if (this.#pending.sent(market.id) === before.sequenceNumber || market.stale) continue;
      // Its past was not kept up to here.
      held.set(market, undefined);
      differs = true;
    }
    const key = differs ? `${this.#upTo} ${uniqueKeys++}` : String(this.#upTo);
    const { clientAddress, codec } = call;
    const entry = changed === undefined ? undefined : { key, held };
    this.#live = past.live.observe(marketIds, { clientAddress, codec, kind: replayStream, entry });
    this.#live.onReady(this.#listener);
    this.#notify();
    return true;
  }

  /** Keeps {@link #order} sorted by the place of the next event. */
  #insert(cursor: MarketCursor): void {
    const place = cursor.head?.place ?? 0n;
    let low = 0;
    let high = this.#order.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#order[middle]?.head?.place ?? 0n) <= place) low = middle + 1;
      else high = middle;
    }
    this.#order.splice(low, 0, cursor);
  }
}

/** Distinguishes readers that hold something else than others at the same place. */
let uniqueKeys = 0;
