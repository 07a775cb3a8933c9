import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import type { Trade } from "../../../gen/vega/vega_pb.js";
import type { MarketdClient } from "./client.js";
import { nodesOf, pages } from "./pages.js";
import { isOfOtherChain, isTransient } from "./retry.js";
import { type StreamOptions, silenceMaxMs, streamEnded, watched, withRetries } from "./stream.js";
import { nanosecondsOf, type Time } from "./time.js";

/** The header that names the newest block of a response: of a list its own, of a stream that of its start. */
const heightHeader = "x-block-height";

/**
 * A market's trades from a time on, oldest first, and then as they are made, for as long as the caller reads: each once,
 * in the order of the network.
 *
 * It lists what there is, opens the stream, and lists once more up to the block at which the stream began. When the
 * connection breaks, it does the same again after a wait, from the time of the last trade on. Of that time it leaves out
 * as many trades of each id as it has given before: venues may use an id more than once. So nothing is missing or
 * doubled, at any server of the database, and also if you read slowly. In a market that is quiet for longer than trades
 * are kept, it goes on if the market's last trade shows that nothing was missed.
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
  return withRetries(() => reader.read(), goesOnAfter, options);
}

function goesOnAfter(error: ConnectError): boolean {
  return isTransient(error) && error.code !== Code.DataLoss && !isOfOtherChain(error);
}

class TradeReader {
  readonly #client: MarketdClient;
  readonly #marketIds: string[];
  readonly #options: StreamOptions;
  /** Trades from this time on are to be read, but for those that were. Blocks can have the same time. */
  #timeNs: bigint | undefined;
  /** How many of each id were given, of this time. */
  readonly #given = new Map<string, number>();
  /** How many of each id the list or stream that is read has had, of this time. */
  readonly #had = new Map<string, number>();
  /** Whether everything that there was has been read once. */
  #isGoingOn = false;

  constructor(client: MarketdClient, marketId: string, fromNs: bigint | undefined, options: StreamOptions) {
    this.#client = client;
    this.#marketIds = [marketId];
    this.#timeNs = fromNs;
    this.#options = options;
  }

  /** The trades of one connection. Does not end. @throws ConnectError when it breaks */
  async *read(): AsyncGenerator<readonly Trade[], void> {
    // Without a stream at first: a server ends one whose reader is busy with the past for minutes.
    yield* this.#list(0n);
    let startedAt = 0n;
    const onHeader = (headers: Headers) => {
      startedAt = BigInt(headers.get(heightHeader) ?? 0);
    };
    const open = (signal: AbortSignal) => {
      return this.#client.observeTrades({ marketIds: this.#marketIds }, { signal, onHeader });
    };
    let isFirst = true;
    for await (const message of watched(open, this.#options)) {
      if (isFirst) {
        const reached = yield* this.#list(startedAt);
        // The stream goes on where the list ends, or has some of its trades again.
        const hadAll = [...this.#given].every(([id, count]) => this.#had.get(id) === count);
        if (reached !== startedAt || !hadAll) this.#had.clear();
      }
      isFirst = false;
      yield this.#unread(message.trades);
    }
    throw streamEnded();
  }

  /**
   * Trades up to a block, or later ones. Returns the block that they reach.
   * @throws ConnectError UNAVAILABLE if the server has not seen the block yet
   */
  async *#list(height: bigint): AsyncGenerator<readonly Trade[], bigint> {
    this.#had.clear();
    const { signal, silenceMaxMs: timeoutMs = silenceMaxMs } = this.#options;
    const range = this.#timeNs === undefined ? {} : { dateRange: { startTimestamp: this.#timeNs } };
    let request = { marketIds: this.#marketIds, ...range };
    let reached = 0n;
    const onHeader = (headers: Headers) => {
      reached = BigInt(headers.get(heightHeader) ?? 0);
    };
    const options = { timeoutMs, onHeader, ...(signal && { signal }) };
    const list = async (after: { readonly after?: string }) => {
      const pagination = { newestFirst: false, ...after };
      return (await this.#client.listTrades({ ...request, pagination }, options)).trades;
    };
    const read = async (after: { readonly after?: string }) => {
      try {
        return await list(after);
      } catch (thrown) {
        if (ConnectError.from(thrown).code !== Code.FailedPrecondition || !(await this.#hasLast(options))) throw thrown;
        // What is kept is newer than that time.
        request = { marketIds: this.#marketIds };
        return await list(after);
      }
    };
    for await (const edges of pages(read)) {
      const unread = this.#unread(nodesOf(edges));
      if (unread.length > 0) yield unread;
    }
    this.#isGoingOn = true;
    if (reached >= height) return reached;
    throw new ConnectError(`trades are listed up to block ${reached}, and streamed after ${height}`, Code.Unavailable);
  }

  /** Whether the market's last trade was given, so that none of those that are not kept any more is missing. */
  async #hasLast(options: CallOptions): Promise<boolean> {
    const [marketId = ""] = this.#marketIds;
    if (!this.#isGoingOn || this.#timeNs === undefined) return false;
    try {
      const { trade } = await this.#client.getLastTrade({ marketId }, options);
      if (trade?.timestamp === this.#timeNs) return this.#given.has(trade.id);
      return trade !== undefined && trade.timestamp < this.#timeNs;
    } catch (thrown) {
      if (ConnectError.from(thrown).code !== Code.NotFound) throw thrown;
      return true;
    }
  }

  /** Those that were not given before. */
  #unread(trades: readonly Trade[]): Trade[] {
    return trades.filter(({ id, timestamp }) => {
      if (this.#timeNs === undefined || timestamp > this.#timeNs) {
        this.#timeNs = timestamp;
        this.#given.clear();
        this.#had.clear();
      }
      if (timestamp < this.#timeNs) return false;
      const count = (this.#had.get(id) ?? 0) + 1;
      this.#had.set(id, count);
      if (count <= (this.#given.get(id) ?? 0)) return false;
      this.#given.set(id, count);
      return true;
    });
  }
}
