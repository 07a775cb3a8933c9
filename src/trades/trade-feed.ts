import { ObserveTradesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { firstIdOfBlock, positionBits } from "../domain/block-position.js";
import { always } from "../domain/date-range.js";
import { Failure } from "../domain/failure.js";
import { type Call, sharedCall } from "../domain/service.js";
import { MessageResponse } from "../encoding/message-response.js";
import { type FeedOwner, type FeedReader, type FeedSource, Retry } from "../live/feed.js";
import { tradeMessage } from "../live/live-market.js";
import type { LiveState } from "../live/live-state.js";
import type { Reader } from "../store/connection/lease.js";
import type { Database } from "../store/database.js";
import { type PastTradeRow, pastTradeRows } from "../store/history-table.js";
import { readTradeExtent, type TradeFilter, tradesNotKept } from "./trade-reader.js";

type Schema = typeof ObserveTradesResponseSchema;
type Messages = ReturnType<FeedSource<Schema>["next"]>;

/** Trades in memory: a reader that is further behind reads the table until it has caught up. */
export const tradesInMemoryMax = 10_000;

/** Trades that one read of the table gives. */
const tradesPerRead = 1_000;

/** A trade is at most 1.5 KB of JSON, so a message has less than 1 MiB. */
const tradesPerMessageMax = 500;

/** Reads of the table that wait for their readers, which may be gone; those of before are read again. */
const readsHeldMax = 64;

/** The pause before a read of the table is tried again. */
const retryMs = 500;

/** The newest trades of a store in memory, while somebody follows them. One for all selections. */
export class TradeFollower {
  readonly #database: Pick<Database, "lease">;
  readonly #state: LiveState;
  #trades: PastTradeRow[] = [];
  /** All trades behind this id, up to `reached`, are in memory. */
  #from = 0n;
  #reached = 0n;
  /** The block of which, and of all before it, there is nothing behind `reached`. */
  #seenHeight = 0n;
  #reading: Promise<void> | undefined;
  #feeds = 0;
  readonly #tradesMax: number;

  constructor(database: Pick<Database, "lease">, state: LiveState, tradesMax = tradesInMemoryMax) {
    this.#database = database;
    this.#state = state;
    this.#tradesMax = tradesMax;
    this.#beginAnew();
  }

  /** Somebody follows: where nobody did, what came meanwhile is left out. */
  enter(): void {
    if (this.#feeds++ === 0) this.#beginAnew();
  }

  #beginAnew(): void {
    this.#trades = [];
    this.#reached = this.newest;
    this.#from = this.#reached;
    this.#seenHeight = this.#state.progress.height;
  }

  leave(): void {
    this.#feeds--;
  }

  /**
   * The id of the newest trade, or the last id before the newest block, if that has no trade. Not the last id of that
   * block: a height that is repeated has further trades.
   */
  get newest(): bigint {
    const { lastTradeId, progress } = this.#state;
    const before = firstIdOfBlock(progress.height) - 1n;
    return lastTradeId > before ? lastTradeId : before;
  }

  get reached(): bigint {
    return this.#reached;
  }

  /** The first trades behind an id, up to `rowsMax`; undefined: not all of them are in memory. */
  behind(id: bigint, rowsMax: number): readonly PastTradeRow[] | undefined {
    if (id < this.#from) return undefined;
    const first = this.#trades.findLastIndex((trade) => trade.id <= id) + 1;
    return this.#trades.slice(first, first + rowsMax);
  }

  /**
   * Reads what is new, in part if that is much. Calls at the same time share a read.
   * @throws Failure `failed_precondition` if trades behind the last one are not kept; it goes on with the newest block
   */
  async refresh(): Promise<void> {
    if (this.#reached >= this.newest) return;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
  }

  async #read(): Promise<void> {
    const bound = this.newest;
    const { height } = this.#state.progress;
    const before = this.#reached;
    const seenHeight = this.#seenHeight;
    const found = await this.read(before, bound, this.#tradesMax, { seenHeight }).catch((error: unknown) => {
      if (isNotKept(error)) this.#beginAnew();
      throw error;
    });
    // Meanwhile everybody left, and somebody began anew.
    if (this.#reached !== before) return;
    const isAll = found.length < this.#tradesMax;
    this.#reached = isAll ? bound : (found.at(-1)?.id ?? bound);
    this.#seenHeight = isAll ? height : heightSeen(this.#reached);
    this.#trades.push(...found);
    const surplus = this.#trades.length - this.#tradesMax;
    if (surplus > 0) this.#from = this.#trades.splice(0, surplus).at(-1)?.id ?? this.#from;
  }

  /**
   * Trades behind an id, in order. Of blocks up to `seenHeight` there are none. With a call, in the turns of its client.
   * @throws Failure `failed_precondition` if they are not kept
   */
  read(
    after: bigint,
    upTo: bigint,
    rowsMax: number,
    { seenHeight = heightSeen(after), call }: { readonly seenHeight?: bigint; readonly call?: Call } = {},
  ): Promise<PastTradeRow[]> {
    const { storeId, streamSequence } = this.#state.progress;
    const place = { storeId, streamSequence };
    return this.#database.lease({ class: "history", call, place }, async (reader: Reader) => {
      const trades = await reader.query<PastTradeRow>(
        `${pastTradeRows.select} WHERE id > ${after} AND id <= ${upTo} AND ${reader.holds} ORDER BY id LIMIT ${rowsMax}`,
      );
      // Afterwards, because the loader may drop trades at any time.
      const { oldest } = await readTradeExtent(reader, always);
      if (seenHeight + 1n < oldest.height) throw tradesNotKept("market_ids", oldest);
      return trades;
    });
  }
}

/** The newest block that ends before what is behind an id, as far as the id tells. */
function heightSeen(id: bigint): bigint {
  return ((id + 1n) >> positionBits) - 1n;
}

/** The trades of a selection as they come, each once. A place is the id of the last one that a reader has passed. */
export class TradeFeed implements FeedSource<Schema> {
  readonly kind = "trades";
  readonly heartbeat = new MessageResponse(ObserveTradesResponseSchema, { trades: [] });
  readonly #follower: TradeFollower;
  readonly #selects: (trade: PastTradeRow) => boolean;
  readonly #owner: FeedOwner;
  readonly #retry: Retry;
  /** By the place before, as far as the follower had reached then. */
  readonly #known = new Map<bigint, Messages>();
  #knownAt = -1n;
  /** A read of what is new goes on. */
  #isFollowing = false;
  /** What was read of the table for readers that are behind, until all that waited for it have it. */
  readonly #past = new Map<bigint, { readonly messages: Messages; readonly waiting: Set<FeedReader> }>();
  /** Who waits for a read of the table that goes on, by its place. */
  readonly #reading = new Map<bigint, Set<FeedReader>>();

  constructor(follower: TradeFollower, { marketIds, partyIds }: Omit<TradeFilter, "orderIds">, owner: FeedOwner) {
    this.#follower = follower;
    const [markets, parties] = [new Set(marketIds), new Set(partyIds)];
    this.#selects = ({ marketId, buyer, seller }) =>
      (markets.size === 0 || markets.has(marketId)) &&
      (parties.size === 0 || parties.has(buyer) || parties.has(seller));
    this.#owner = owner;
    this.#retry = new Retry(() => this.changed(), retryMs, owner.log);
    follower.enter();
  }

  ended(): void {
    this.#retry.end();
    this.#follower.leave();
  }

  changed(): void {
    if (this.#isFollowing || this.#retry.hasEnded) return;
    this.#isFollowing = true;
    this.#follower
      .refresh()
      .then(
        () => this.#owner.wakeAll(),
        // Readers of what is not kept find that when they ask for it.
        (error: unknown) => (isNotKept(error) ? this.#owner.wakeAll() : this.#retry.later(error)),
      )
      .finally(() => {
        this.#isFollowing = false;
        if (!this.#retry.isDue && this.#follower.reached < this.#follower.newest) this.changed();
      });
  }

  next(place: bigint, reader: FeedReader): Messages {
    const past = this.#past.get(place);
    past?.waiting.delete(reader);
    if (past?.waiting.size === 0) this.#past.delete(place);
    const { reached } = this.#follower;
    if (reached !== this.#knownAt) this.#known.clear();
    this.#knownAt = reached;
    const known = past?.messages ?? this.#known.get(place);
    if (known !== undefined) return known;
    // The reader came with a block that the follower has not read yet.
    if (place >= reached) return { responses: [], place };
    const trades = this.#follower.behind(place, tradesPerRead);
    if (trades === undefined) {
      this.#catchUp(place, reader);
      return { responses: [], place };
    }
    const messages = this.#messagesOf(trades, reached);
    this.#known.set(place, messages);
    return messages;
  }

  /** Reads what comes behind a place that is no longer in memory, once for all readers that wait for it. */
  #catchUp(place: bigint, reader: FeedReader): void {
    const waiting = this.#reading.get(place) ?? new Set();
    waiting.add(reader);
    if (this.#reading.has(place)) return;
    this.#reading.set(place, waiting);
    const bound = this.#follower.reached;
    const call = sharedCall(reader.clientAddress);
    this.#follower.read(place, bound, tradesPerRead, { call }).then(
      (trades) => {
        this.#past.set(place, { messages: this.#messagesOf(trades, bound), waiting });
        const [oldest = place] = this.#past.keys();
        if (this.#past.size > readsHeldMax) this.#past.delete(oldest);
        this.#reading.delete(place);
        this.#owner.wakeAll();
      },
      (error: unknown) => {
        this.#reading.delete(place);
        if (isNotKept(error)) for (const each of waiting) each.fail(error);
        else this.#retry.later(error);
      },
    );
  }

  /** Of trades up to an id, or of the first of them. */
  #messagesOf(trades: readonly PastTradeRow[], upTo: bigint): Messages {
    const place = trades.length < tradesPerRead ? upTo : (trades.at(-1)?.id ?? upTo);
    return { responses: this.#pack(trades), place };
  }

  #pack(trades: readonly PastTradeRow[]): MessageResponse<Schema>[] {
    const selected = trades.filter(this.#selects).map(tradeMessage);
    const messages: MessageResponse<Schema>[] = [];
    for (let at = 0; at < selected.length; at += tradesPerMessageMax) {
      messages.push(
        new MessageResponse(ObserveTradesResponseSchema, { trades: selected.slice(at, at + tradesPerMessageMax) }),
      );
    }
    return messages;
  }
}

function isNotKept(error: unknown): error is Failure {
  return error instanceof Failure && error.code === "failed_precondition";
}
