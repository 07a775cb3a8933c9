import { Book, type Side } from "../chaos/book.js";
import type { KeptPast, Standing } from "./kept-past.js";
import type { BlockEnd, MarketPast } from "./market-past.js";

/** The messages of a replay, as JSON has them. */
export interface ReplayMessage {
  readonly update: readonly DepthUpdate[];
  readonly block?: { readonly height: string; readonly timestamp: string; readonly streamSequence: string };
  readonly resumeToken: string;
  readonly status: readonly MarketStatus[];
  readonly caughtUp: boolean;
}

export interface DepthUpdate {
  readonly marketId: string;
  readonly buy: readonly PriceLevel[];
  readonly sell: readonly PriceLevel[];
  readonly sequenceNumber: string;
  readonly previousSequenceNumber: string;
}

interface PriceLevel {
  readonly price: string;
  readonly numberOfOrders: string;
  readonly volume: string;
}

interface MarketStatus {
  readonly marketId: string;
  readonly state: string;
  readonly decimalPlaces: string;
  readonly positionDecimalPlaces: string;
}

/** What a reader holds of a market. */
interface Held {
  state: "whole" | "stale" | "expected";
  book: Book;
  sequenceNumber: bigint;
  decimals: string;
}

const states: Readonly<Record<string, Held["state"]>> = {
  MARKET_HISTORY_STATE_WHOLE: "expected",
  MARKET_HISTORY_STATE_REDEFINED: "expected",
  MARKET_HISTORY_STATE_STALE: "stale",
};

/** A reader of a replay: folds its messages, and holds the books of each block against the oracle's. */
export class ReplayedBooks {
  readonly #held = new Map<string, Held>();
  /** Of the last message with a block; the reader can go on after it. */
  token: string | undefined;
  block: BlockEnd | undefined;
  first: BlockEnd | undefined;
  hasCaughtUp = false;
  /** Messages with a block. */
  blocks = 0;
  /** Numbers that a reader is known to have by the server; undefined: those that it holds. */
  #numbersAtToken: ReadonlyMap<string, bigint> | undefined;
  #numbers = new Map<string, bigint>();
  /** Messages that go on in the next one. */
  #parts: ReplayMessage[] = [];

  /** @param marketIds empty: all */
  constructor(
    private readonly kept: KeptPast,
    readonly marketIds: readonly string[],
  ) {}

  /** The connection broke: the next message comes after {@link token}. */
  resume(): void {
    this.hasCaughtUp = false;
    this.#parts = [];
    this.#numbersAtToken = this.#numbers;
  }

  /** Folds a message. @returns what is wrong with it */
  apply(message: ReplayMessage): string | undefined {
    this.#parts.push(message);
    if (message.caughtUp && this.hasCaughtUp) return "caught_up twice";
    this.hasCaughtUp ||= message.caughtUp;
    if (message.block === undefined) return message.resumeToken === "" ? undefined : "a token without a block";
    const parts = this.#parts;
    this.#parts = [];
    for (const part of parts) {
      const problem = this.#fold(part);
      if (problem !== undefined) return problem;
    }
    return this.#endBlock(message.block, message.resumeToken);
  }

  #fold(message: ReplayMessage): string | undefined {
    for (const status of message.status) {
      const problem = this.#setState(status);
      if (problem !== undefined) return problem;
    }
    for (const update of message.update) {
      const problem = this.#update(update);
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  #setState({ marketId, state, decimalPlaces, positionDecimalPlaces }: MarketStatus): string | undefined {
    const next = states[state];
    if (next === undefined) return `state ${state} of ${marketId}`;
    const decimals = `${decimalPlaces} ${positionDecimalPlaces}`;
    this.#held.set(marketId, { state: next, book: new Book(), sequenceNumber: 0n, decimals });
    return undefined;
  }

  #update(update: DepthUpdate): string | undefined {
    const { marketId } = update;
    const [sequenceNumber, previous] = [BigInt(update.sequenceNumber), BigInt(update.previousSequenceNumber)];
    const what = `update ${previous} to ${sequenceNumber} of market ${marketId}`;
    const held = this.#held.get(marketId);
    if (held === undefined) return `${what}, whose state was not told`;
    if (held.state === "stale") return `${what}, which is stale`;
    if (previous === 0n) held.book = new Book();
    else if (held.state === "expected") return `${what}, where its whole book was to come`;
    else {
      const expected = this.#numbersAtToken?.get(marketId) ?? held.sequenceNumber;
      if (previous !== expected) return `${what}, where ${expected} was held`;
      if (sequenceNumber <= previous) return `${what} goes back`;
    }
    held.state = "whole";
    held.sequenceNumber = sequenceNumber;
    for (const [side, levels] of [[1, update.buy] as const, [2, update.sell] as const])
      setLevels(held.book, side, levels);
    return undefined;
  }

  #endBlock(told: NonNullable<ReplayMessage["block"]>, token: string): string | undefined {
    const { oracle } = this.kept;
    const block = oracle.blockAt("sequence", BigInt(told.streamSequence));
    const text = `block ${told.height} at ${told.timestamp}, ${told.streamSequence}`;
    if (block === undefined || `${block.sequence}` !== told.streamSequence) return `${text}: there is none`;
    const isTold = (end: BlockEnd | undefined) =>
      `${end?.height} ${end?.timeNs}` === `${told.height} ${told.timestamp}`;
    // Where the height of a token's block was repeated meanwhile, the store has only the one before it.
    const isResumed = this.#numbersAtToken !== undefined;
    if (!isTold(block) && !(isResumed && isTold(oracle.blocks[block.index - 1]))) return `${text}: it is another`;
    if (this.block !== undefined && block.index < this.block.index) return `${text} goes back`;
    if (token === "" || token.length > 64) return `${text}: the token is "${token}"`;
    const problem = this.differsAt(block);
    if (problem !== undefined) return `${text}: ${problem}`;
    this.first ??= block;
    this.block = block;
    this.token = token;
    this.blocks++;
    this.#numbersAtToken = undefined;
    this.#numbers = new Map([...this.#held].map(([marketId, { sequenceNumber }]) => [marketId, sequenceNumber]));
    return undefined;
  }

  /** What is not as it was at the end of a block. */
  differsAt(block: BlockEnd): string | undefined {
    const { markets } = this.kept.oracle;
    for (const marketId of this.marketIds.length === 0 ? markets.keys() : this.marketIds) {
      const problem = this.#differs(marketId, markets.get(marketId), block);
      if (problem !== undefined) return `market ${marketId} ${problem}`;
    }
    return undefined;
  }

  /** What of a market is not as it was at the end of a block. */
  #differs(marketId: string, past: MarketPast | undefined, block: BlockEnd): string | undefined {
    const held = this.#held.get(marketId);
    const standing = this.kept.standing(past, block);
    if (held?.state === "expected") return "was said to be whole, and did not come";
    if (held?.state === "whole" && standing.kind === "stale") return "is stale, which was not said";
    if (held?.state !== "whole") return this.#lacks(held?.state, past, standing, block);
    if (standing.kind === "unknown") return notAnnounced;
    const update = past?.updateAt(block.index);
    const decimals = past?.decimals.at(block.index);
    if (held.decimals !== `${decimals?.price} ${decimals?.size}`) return `is said to have decimals ${held.decimals}`;
    const sequenceNumber = update?.sequenceNumber ?? 0n;
    if (held.sequenceNumber !== sequenceNumber)
      return `is at ${held.sequenceNumber}, and should be at ${sequenceNumber}`;
    return held.book.digest === (update?.digest ?? new Book().digest) ? undefined : "has another book";
  }

  /** Why a reader should hold a book that it does not. @param state what it was told of the market */
  #lacks(state: "stale" | undefined, past: MarketPast | undefined, standing: Standing, block: BlockEnd) {
    // Of what is old, nobody knows any more when it was announced, or what it was.
    if (this.kept.mayBePruned(block)) return undefined;
    // A part that is not kept is told of with the last block before it.
    const next = this.kept.oracle.blocks[block.index + 1];
    const nextStanding = next === undefined ? standing : this.kept.standing(past, next);
    const isLast = [standing, nextStanding].some(
      (each) => each.kind === "not kept" || (each.kind === "unknown" && each.isLost),
    );
    if (standing.kind === "unknown") return state === undefined || isLast ? undefined : notAnnounced;
    if (standing.kind !== "whole") return undefined;
    if (state === undefined) return "is missing";
    return isLast ? undefined : `is said to be stale, and is whole since ${standing.since.sequence}`;
  }
}

const notAnnounced = "is not announced yet";

export function setLevels(book: Book, side: Side, levels: readonly PriceLevel[]): void {
  for (const { price, volume, numberOfOrders } of levels) {
    book.set(side, { price, volume: BigInt(volume), orders: BigInt(numberOfOrders) });
  }
}
