import { clone, equals } from "@bufbuild/protobuf";
import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import type { TradeConnection } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { type Trade, TradeSchema } from "../../../gen/vega/vega_pb.js";
import type { MarketdClient } from "./client.js";
import { pages } from "./pages.js";
import { isOfOtherChain, isTransient, ofOtherChain } from "./retry.js";
import { type StreamOptions, silenceMaxMs, streamEnded, watched, withRetries } from "./stream.js";
import { nanosecondsOf, type Time } from "./time.js";

/**
 * A market's trades from a time on, oldest first, and then as they are made, for as long as the caller reads: each once,
 * in the order of the network.
 *
 * It lists what there is, opens the stream, and goes on with the list up to the time at which the stream began; of the
 * stream it gives what is later. When the connection breaks, it does the same again after a wait, from the time of the last
 * trade on. Of that time it leaves out as many trades as it has given before. So nothing is missing or doubled, at any
 * server of the database, and also if you read slowly, or if a venue uses an id more than once. In a market that is quiet
 * for longer than trades are kept, it goes on if the market's last trade is the last one that was given.
 * @param from absent: from the first trade that is kept
 * @throws ConnectError when trying again is of no use: NOT_FOUND for an unknown market, FAILED_PRECONDITION with the
 *   reason TRADES_NOT_RETAINED if trades from that time on are not kept, UNAVAILABLE with the reason CHAIN_CHANGED when
 *   the database holds another chain
 */
export function trades(
  client: MarketdClient,
  marketId: string,
  from?: Time,
  options: StreamOptions = {},
): AsyncGenerator<Trade, void> {
  const reader = new TradeReader(client, marketId, from === undefined ? undefined : nanosecondsOf(from), options);
  return withRetries(
    () => reader.read(),
    (error) => reader.goesOnAfter(error),
    options,
  );
}

/** How far the list of one connection was read. */
interface ListPlace {
  /** The time of the last trade that was given before it. Its first `known` trades of that time are not given again. */
  readonly fromNs: bigint;
  known: number;
  /** Trades up to this time are not given at all. */
  floorNs: bigint | undefined;
  after: string | undefined;
  /** The newest time that the list is known to have reached. It has all trades of earlier times. */
  reachedNs: bigint;
  /** Of the newest block that the list has had since the stream began. */
  height: bigint;
}

class TradeReader {
  readonly #client: MarketdClient;
  readonly #marketIds: string[];
  readonly #options: StreamOptions;
  /** Trades from this time on are to be read, but for the first ones, which were. Blocks can have the same time. */
  #timeNs: bigint | undefined;
  /** How many of this time were given, and the last one. */
  #given = 0;
  #last: Trade | undefined;
  /** Whether everything that there was has been read once. */
  #isGoingOn = false;
  /** Whether a list is read, and not the stream. */
  #isListing = false;

  constructor(client: MarketdClient, marketId: string, fromNs: bigint | undefined, options: StreamOptions) {
    this.#client = client;
    this.#marketIds = [marketId];
    this.#timeNs = fromNs;
    this.#options = options;
  }

  /** What a stream has no more may have been given: the next list tells. */
  goesOnAfter(error: ConnectError): boolean {
    if (error.code === Code.FailedPrecondition) return !this.#isListing;
    return isTransient(error) && error.code !== Code.DataLoss && !isOfOtherChain(error);
  }

  /** The trades of one connection. Does not end. @throws ConnectError when it breaks */
  async *read(): AsyncGenerator<readonly Trade[], void> {
    const place: ListPlace = {
      fromNs: this.#timeNs ?? 0n,
      known: this.#given,
      floorNs: undefined,
      after: undefined,
      reachedNs: 0n,
      height: 0n,
    };
    // Without a stream at first: a server ends one whose reader is busy with the past for minutes.
    yield* this.#list(place);
    let start = { height: 0n, timeNs: 0n };
    const onHeader = (headers: Headers) => {
      start = blockOf(headers);
    };
    const open = (signal: AbortSignal) => {
      return this.#client.observeTrades({ marketIds: this.#marketIds }, { signal, onHeader });
    };
    let until: bigint | undefined;
    let overlaps = false;
    place.height = -1n;
    for await (const { trades } of watched(open, this.#options)) {
      const untilNs = until ?? later(start.timeNs, this.#timeNs ?? 0n);
      until = untilNs;
      const streamed = trades.filter(({ timestamp }) => timestamp > untilNs);
      overlaps ||= streamed.length < trades.length;
      // Blocks of one time can be on both sides of the stream's start. If it has a trade of such a block, only a list that
      // reaches a later time has all of that time.
      const isListed = () => {
        const hasStart = place.height >= start.height && place.known === 0 && !overlaps;
        return place.reachedNs > untilNs || (place.reachedNs === untilNs && hasStart);
      };
      if (!isListed()) yield* this.#list(place, untilNs);
      if (!isListed() && streamed.length > 0) {
        throw new ConnectError(`trades are streamed after ${untilNs}, and not listed up to there`, Code.Unavailable);
      }
      this.#give(streamed);
      yield streamed;
    }
    throw streamEnded();
  }

  /**
   * Goes on with a list, up to the newest trade, or to a time.
   * @throws ConnectError UNAVAILABLE if the server has another chain
   */
  async *#list(place: ListPlace, untilNs?: bigint): AsyncGenerator<readonly Trade[], void> {
    this.#isListing = true;
    for await (const edges of pages((after) => this.#page(place, after.after), place.after)) {
      const unread: Trade[] = [];
      for (const { node, cursor } of edges) {
        if (node === undefined) continue;
        place.reachedNs = later(place.reachedNs, node.timestamp);
        if (untilNs !== undefined && node.timestamp > untilNs) break;
        place.after = cursor;
        if (this.#isUnread(place, node)) unread.push(node);
      }
      this.#give(unread);
      if (unread.length > 0) yield unread;
      if (untilNs !== undefined && place.reachedNs > untilNs) break;
    }
    if (place.known > 0 && place.reachedNs > place.fromNs) throw ofOtherChain();
    this.#isGoingOn = true;
    this.#isListing = false;
  }

  async #page(place: ListPlace, after: string | undefined): Promise<TradeConnection | undefined> {
    const { signal, silenceMaxMs: timeoutMs = silenceMaxMs } = this.#options;
    let newest = { height: 0n, timeNs: 0n };
    const onHeader = (headers: Headers) => {
      newest = blockOf(headers);
    };
    const options = { timeoutMs, onHeader, ...(signal && { signal }) };
    const list = async (from: { startTimestamp?: bigint; after?: string }) => {
      const { startTimestamp, after } = from;
      const dateRange = startTimestamp === undefined ? {} : { dateRange: { startTimestamp } };
      const pagination = { newestFirst: false, ...(after !== undefined && { after }) };
      return (await this.#client.listTrades({ marketIds: this.#marketIds, ...dateRange, pagination }, options)).trades;
    };
    const start = this.#timeNs === undefined ? {} : { startTimestamp: place.fromNs };
    const page = await list(after === undefined ? start : { after }).catch(async (thrown: unknown) => {
      if (ConnectError.from(thrown).code !== Code.FailedPrecondition || !(await this.#hasLast(options))) throw thrown;
      // All that was given is older than what is kept, but for blocks of that time.
      place.known = 0;
      place.floorNs = this.#given > 0 ? this.#timeNs : undefined;
      return list({});
    });
    // How far the list reaches is told by its last page.
    if (page?.pageInfo?.hasNextPage !== true) {
      place.reachedNs = later(place.reachedNs, newest.timeNs);
      place.height = newest.height;
    }
    return page;
  }

  /**
   * Whether the market's last trade was given, so that none of those that are not kept any more is missing.
   * @throws ConnectError if the server lacks those that were given
   */
  async #hasLast(options: CallOptions): Promise<boolean> {
    const [marketId = ""] = this.#marketIds;
    if (!this.#isGoingOn || this.#timeNs === undefined) return false;
    const trade = await this.#client.getLastTrade({ marketId }, options).then(
      (response) => response.trade,
      (thrown: unknown) => {
        if (ConnectError.from(thrown).code !== Code.NotFound) throw thrown;
        return undefined;
      },
    );
    const isBefore = trade === undefined || trade.timestamp < this.#timeNs;
    if (isBefore && this.#given > 0) throw ofOtherChain();
    return isBefore || this.#isLast(trade);
  }

  /** Whether it is the last one that was given. Others can have its id and its time. */
  #isLast(trade: Trade): boolean {
    return this.#last !== undefined && equals(TradeSchema, trade, this.#last);
  }

  /** Whether a trade of a list was not given before. @throws ConnectError if those that were are not there */
  #isUnread(place: ListPlace, trade: Trade): boolean {
    const { timestamp } = trade;
    if (place.known === 0) return place.floorNs === undefined || timestamp > place.floorNs;
    place.known--;
    if (timestamp !== place.fromNs || (place.known === 0 && !this.#isLast(trade))) throw ofOtherChain();
    return false;
  }

  #give(trades: readonly Trade[]): void {
    for (const trade of trades) {
      this.#given = trade.timestamp === this.#timeNs ? this.#given + 1 : 1;
      this.#timeNs = trade.timestamp;
    }
    const last = trades.at(-1);
    // A copy: the caller may change what it is given.
    if (last !== undefined) this.#last = clone(TradeSchema, last);
  }
}

/** The newest block of a response: of a list its own, of a stream that of its start. 0: there is none. */
function blockOf(headers: Headers): { readonly height: bigint; readonly timeNs: bigint } {
  return { height: BigInt(headers.get("x-block-height") ?? 0), timeNs: BigInt(headers.get("x-block-timestamp") ?? 0) };
}

function later(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
