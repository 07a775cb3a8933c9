import type { ReplayMarketsDepthResponseSchema } from "../../gen/marketd/history/v1/market_history_pb.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import type { Failure } from "../domain/failure.js";
import type { ResumeTokens } from "../domain/resume-token.js";
import type { Call, ResponseStream } from "../domain/service.js";
import { chainChanged } from "../live/live.js";
import type { LiveState } from "../live/live-state.js";
import { packReplay, replayStream, type StreamResponse } from "../live/stream-kind.js";
import type { Subscriber } from "../live/subscriber.js";
import type { Reader } from "../store/connection/lease.js";
import { type OldestBegin, type PastBlock, readOldestBegins } from "../store/history-reads.js";
import { MarketCursor } from "./market-cursor.js";
import { Pace } from "./pace.js";
import type { Past } from "./past.js";
import { PendingBlocks } from "./pending-blocks.js";

/** Messages that wait to be taken, before blocks are merged or reading stops. */
export const readyMessagesMax = 64;

/** Changed levels of blocks that are merged for a slow reader, before reading stops. */
export const pendingLevelsMax = 50_000;

/** Updates that are decoded at once, over all markets. */
const updatesAtOnce = 2_048;
const updatesOfMarketMin = 16;

/** How long a replay computes before others have their turn, in milliseconds. */
const sliceMs = 2;

/** How often a read asks whether an empty message is due, in each heartbeat. */
const beatsPerHeartbeat = 4;

/** The pause between looks for a new block, in milliseconds. */
const newBlockPauseMs = 10;

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
  /** A stream sequence number, exclusive; undefined: the replay becomes live. */
  readonly until: bigint | undefined;
  /** Seconds of the past in a second; undefined: as fast as the reader takes. */
  readonly speed: number | undefined;
  /** A message for each block, however slow the reader is. */
  readonly everyUpdate: boolean;
  readonly storeId: string;
  readonly tokens: ResumeTokens;
}

/** What a replay is run with. */
export interface ReplayOptions {
  readonly past: Past;
  readonly call: Call;
  readonly messageBytesMax: number;
  readonly heartbeatMs: number;
  /** Called once when it reads the past no more. */
  readonly released: () => void;
  /** Converts an error to one that a client may see. */
  readonly toFailure: (thrown: unknown) => Failure;
}

const none: ReadonlyMap<string, string> = new Map();

/** A stream of books from the past on, which becomes the live one. */
export class Replay implements ResponseStream<StreamResponse["schema"]> {
  readonly headers = none;
  readonly trailers = none;
  readonly #plan: ReplayPlan;
  readonly #options: ReplayOptions;
  readonly #state: LiveState;
  readonly #cursors = new Map<string, MarketCursor>();
  /** Cursors with an event, the earliest first. */
  readonly #order: MarketCursor[] = [];
  readonly #pending = new PendingBlocks();
  readonly #pace: Pace;
  #ready: ReplayResponse[] = [];
  /** The last block whose changes are in {@link #pending}, or were sent. */
  #block: PastBlock;
  /** Everything up to here is read. */
  #upTo: bigint;
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
    this.#state = options.past.live.state();
    this.#block = plan.from;
    this.#upTo = plan.from.streamSequence;
    this.#pace = new Pace(plan.speed, options.heartbeatMs);
    this.#run().then(
      () => this.#release(),
      (thrown: unknown) => this.fail(options.toFailure(thrown)),
    );
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
    this.#listener();
  }

  #release(): void {
    this.#options.released();
  }

  async #run(): Promise<void> {
    const { until, speed } = this.#plan;
    await this.#begin();
    while (!this.#isOver) {
      const { streamSequence } = this.#newest().progress;
      const upTo = until !== undefined && until <= streamSequence ? until - 1n : streamSequence;
      await this.#advance(upTo);
      if (this.#isOver) return;
      if (until !== undefined && upTo === until - 1n) return this.#end();
      if (until === undefined && (speed === undefined || speed > 1) && this.#join()) return;
      if (this.#newest().progress.streamSequence === upTo) await this.#idle(newBlockPauseMs);
    }
  }

  get #isOver(): boolean {
    return this.#closed || this.#ended;
  }

  /** @throws Failure `unavailable` once the database holds another store */
  #newest(): LiveState {
    const state = this.#options.past.live.state();
    if (state === this.#state) return state;
    throw chainChanged();
  }

  /** Sends the books of the beginning, in parts as they are read. */
  async #begin(): Promise<void> {
    const { begins, from, withBooks } = this.#plan;
    for (const [marketId, oldest] of begins) {
      const cursor = this.#addCursor(marketId, from.streamSequence, oldest);
      const state = await cursor.begin((use) => this.#lease(from.streamSequence, use), from, withBooks);
      if (this.#isOver) return;
      if (state === undefined) continue;
      if (withBooks || state.kind === "stale") this.#pending.add(marketId, state);
      else this.#pending.hold(marketId, state);
      if (this.#pending.levels >= pendingLevelsMax) {
        await this.#send(undefined);
        await this.#capacity();
      }
    }
    await this.#send(from);
    this.#pace.start(from.timeNs);
  }

  #addCursor(marketId: string, position: bigint, begins: OldestBegin | undefined): MarketCursor {
    const cursor = new MarketCursor(this.#options.past, marketId, position, begins);
    this.#cursors.set(marketId, cursor);
    return cursor;
  }

  /** Replays all blocks up to a place. */
  async #advance(upTo: bigint): Promise<void> {
    await this.#findMarkets();
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
    for (let next = this.#order[0]; next !== undefined && !this.#isOver; next = this.#order[0]) {
      await this.#replayBlock(next, upTo);
    }
    if (!this.#pending.isEmpty && !this.#isOver) await this.#send(this.#block);
    this.#upTo = upTo;
  }

  /** Markets that were announced since the last look. */
  async #findMarkets(): Promise<void> {
    const { marketIds } = this.#plan;
    const all = marketIds.length === 0 ? this.#newest().announced.map(({ id }) => id) : marketIds;
    const missing = all.filter((id) => !this.#cursors.has(id));
    if (missing.length === 0) return;
    const begins = await this.#lease(this.#upTo, (reader) => readOldestBegins(reader, missing));
    const known = new Map(begins.map((begin) => [begin.marketId, begin]));
    for (const id of missing) this.#addCursor(id, this.#upTo, known.get(id));
  }

  async #fill(cursor: MarketCursor, upTo: bigint): Promise<void> {
    if (cursor.head === undefined && cursor.needsFill(upTo)) {
      const count = Math.max(updatesOfMarketMin, Math.floor(updatesAtOnce / this.#cursors.size));
      await this.#lease(upTo, (reader) => cursor.fill(reader, upTo, count));
    }
    if (cursor.head !== undefined) this.#insert(cursor);
  }

  /** Reads that depend on a place. They may wait for their turn and for the database, but the reader hears of it. */
  #lease<T>(streamSequence: bigint, use: (reader: Reader) => Promise<T>): Promise<T> {
    const { past, call, heartbeatMs } = this.#options;
    const beats = setInterval(() => this.#beat(), Math.ceil(heartbeatMs / beatsPerHeartbeat));
    const read = past.lease(call, use, { storeId: this.#plan.storeId, streamSequence });
    return read.finally(() => clearInterval(beats));
  }

  /** An empty message after a long silence. It names no block: the next one may be half read. */
  #beat(): void {
    if (this.#isOver || this.#ready.length > 0 || !this.#pace.isSilent) return;
    this.#ready.push(...packReplay([], { statuses: [], caughtUp: false }, this.#options.messageBytesMax));
    this.#pace.sent();
    this.#listener();
  }

  /** All events of the earliest block. */
  async #replayBlock(first: MarketCursor, upTo: bigint): Promise<void> {
    const { block, place } = first.head ?? { block: this.#block, place: 0n };
    await this.#until(block);
    if (this.#isOver) return;
    this.#block = block;
    const emptied: MarketCursor[] = [];
    for (let next = this.#order[0]; next?.head?.place === place; next = this.#order[0]) {
      this.#order.shift();
      this.#pending.add(next.marketId, next.head);
      next.shift();
      if (next.head === undefined) emptied.push(next);
      else this.#insert(next);
    }
    await this.#afterBlock(block);
    for (const cursor of emptied) {
      if (this.#isOver) return;
      await this.#fill(cursor, upTo);
    }
  }

  /** Waits for the moment of a block, and for others' turns. */
  async #until({ timeNs }: PastBlock): Promise<void> {
    for (let waitMs = this.#pace.waitMs(timeNs); waitMs > 0 && !this.#isOver; waitMs = this.#pace.waitMs(timeNs)) {
      if (!this.#pending.isEmpty) await this.#send(this.#block);
      await this.#idle(waitMs);
    }
    if (performance.now() < this.#sliceEnd) return;
    await this.#options.past.turn();
    this.#sliceEnd = performance.now() + sliceMs;
  }

  /** Sends a block, unless it is to be merged with the next. */
  async #afterBlock(block: PastBlock): Promise<void> {
    const next = this.#order[0]?.head?.block;
    const isLate = next !== undefined && this.#pace.isLate(next.timeNs);
    const mayMerge = !this.#plan.everyUpdate && this.#pending.levels < pendingLevelsMax;
    if (mayMerge && (isLate || this.#ready.length >= readyMessagesMax)) return;
    await this.#capacity();
    if (!this.#isOver) await this.#send(block);
  }

  /** Makes messages of what is pending; without a block, it is a part that the next message goes on with. */
  async #send(block: PastBlock | undefined): Promise<void> {
    const { call, messageBytesMax } = this.#options;
    const { updates, statuses } = this.#pending.take();
    const place = block && { block, resumeToken: this.#plan.tokens.at("past", block.streamSequence) };
    const responses = packReplay(updates, { statuses, caughtUp: false, ...place }, messageBytesMax);
    const encoding = responses.flatMap((response) => response.prepare?.(call.codec ?? "json") ?? []);
    if (encoding.length > 0) await Promise.all(encoding);
    if (this.#isOver) return;
    const wasEmpty = this.#ready.length === 0;
    this.#ready.push(...responses);
    this.#pace.sent();
    if (wasEmpty) this.#listener();
  }

  /** Resolves when the reader has taken what is ready. */
  async #capacity(): Promise<void> {
    while (this.#ready.length >= readyMessagesMax && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#taken = resolve;
      });
    }
  }

  /** Waits, and sends an empty message after a long silence. */
  async #idle(ms: number): Promise<void> {
    await this.#pace.sleep(ms);
    if (!this.#pace.isSilent || this.#isOver) return;
    if (this.#ready.length === 0) await this.#send(this.#block);
    else this.#pace.sent();
  }

  #end(): void {
    this.#ended = true;
    this.#listener();
  }

  /** Becomes the live stream, if that still knows what changed since the last block. */
  #join(): boolean {
    const { past, call } = this.#options;
    const state = this.#newest();
    const changed = state.log.heldAt(this.#upTo);
    if (changed === undefined) return false;
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
    this.#live = past.live.observe(marketIds, { clientAddress, codec, kind: replayStream, entry: { key, held } });
    this.#live.onReady(this.#listener);
    this.#listener();
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
