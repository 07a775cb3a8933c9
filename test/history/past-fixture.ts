import { entryId } from "../../src/domain/block-position.js";
import { encodeKeyframe, encodeUpdate, numberBase, SegmentEncoder } from "../../src/domain/book-history.js";
import { Failure } from "../../src/domain/failure.js";
import type { ChangedLevel } from "../../src/domain/order-book.js";
import { sortLevels } from "../../src/domain/price-ladder.js";
import type { Connection } from "../../src/store/connection/connection.js";
import {
  bookChangeRows,
  firstChangesPart,
  pastTradeRows,
  segmentPartRows,
  segmentRows,
  segmentStates,
  toParts,
} from "../../src/store/history-table.js";
import { insertRows } from "../../src/store/table-rows.js";
import { MarketFixture, writeBlock } from "../live/market-fixture.js";
import type { BlockRows, BookText, ModelBlock, ModelNetwork } from "../live/model-network.js";

/** What a block does, and what happens to markets besides. */
export interface PastStep extends ModelBlock {
  /** Markets that become stale, and those that are no longer. */
  readonly stale?: readonly string[];
  readonly healed?: readonly string[];
  /** The block is written by a program that keeps no past. */
  readonly unkept?: boolean;
}

/** The truth about a market at the end of a block, kept apart from the code that stores it. */
export interface MarketAt {
  readonly state: "unknown" | "whole" | "stale" | "unkept";
  readonly book: BookText;
  readonly number: bigint;
  readonly decimals: bigint;
  readonly trade: string | undefined;
  /** The block changed its levels. */
  readonly changed: readonly ChangedLevel[];
  /** It begins anew with this block. */
  readonly begins: boolean;
}

/** A block, and every market as it was then. */
export interface BlockAt {
  readonly height: bigint;
  readonly timeNs: bigint;
  readonly streamSequence: bigint;
  readonly markets: ReadonlyMap<string, MarketAt>;
}

/** Changed levels after which the fixture seals. */
const sealAfter = 6;

interface Open {
  readonly firstSequence: bigint;
  readonly encoder: SegmentEncoder;
}

const nowhere: MarketAt = {
  state: "unknown",
  book: { buy: [], sell: [] },
  number: 0n,
  decimals: 0n,
  trade: undefined,
  changed: [],
  begins: false,
};

/** A store with books of the past, written block by block by simple code, and the truth about each block. */
export class PastFixture {
  readonly blocks: BlockAt[] = [];
  readonly #open = new Map<string, Open>();
  #unkept = false;
  #keptSequence = 0n;
  #prunedBefore = 0n;

  private constructor(readonly fixture: MarketFixture) {}

  static async create(): Promise<PastFixture> {
    return new PastFixture(await MarketFixture.create());
  }

  get network(): ModelNetwork {
    return this.fixture.network;
  }

  /** The block of a place, and the market as it was then. */
  at(streamSequence: bigint): BlockAt | undefined {
    return this.blocks.findLast((block) => block.streamSequence <= streamSequence);
  }

  async add(step: PastStep): Promise<void> {
    const rows = this.network.add({
      ...step,
      quiet: [...(step.quiet ?? []), ...(step.stale ?? []), ...(step.healed ?? [])],
    });
    const started = !this.#unkept || step.unkept === true ? [] : this.network.announced;
    const block = this.#note(rows, step);
    await this.fixture.database.withTransaction(async (connection) => {
      await writeBlock(connection, rows);
      const { height, timeNs, streamSequence } = block;
      await connection.run(
        "REPLACE INTO block (height, time_ns, stream_sequence, ledger_entries) VALUES (?, ?, ?, 0)",
        [height, timeNs, streamSequence],
      );
      for (const id of step.stale ?? []) await setStale(connection, id, 1);
      for (const id of step.healed ?? []) await setStale(connection, id, 0);
      if (step.unkept !== true) await this.#write(connection, block, rows, started);
      // Writing the progress anew has reset it.
      await connection.run("UPDATE progress SET history_sequence = ?", [this.#keptSequence]);
    });
    this.#unkept = step.unkept === true;
  }

  /** Drops the segments that ended before a place. */
  async prune(before: bigint): Promise<void> {
    this.#prunedBefore = before;
    // At once, as the loader does: a segment without its parts is damage.
    await this.fixture.database.withTransaction(async (connection) => {
      for (const table of ["book_segment_part", "book_segment"]) {
        await connection.run(
          `DELETE FROM ${table} WHERE EXISTS (SELECT 1 FROM (SELECT market_id, first_sequence FROM book_segment) AS n
           WHERE n.market_id = ${table}.market_id AND n.first_sequence > ${table}.first_sequence
           AND n.first_sequence < ${before})`,
        );
      }
      await connection.run(
        `UPDATE book_history AS h SET oldest_digest = IF(oldest_sequence = (SELECT MIN(first_sequence)
           FROM book_segment AS s WHERE s.market_id = h.market_id), oldest_digest, REPEAT(CHAR(7), 32)),
         oldest_sequence = (SELECT MIN(first_sequence) FROM book_segment AS s WHERE s.market_id = h.market_id)`,
      );
    });
  }

  get prunedBefore(): bigint {
    return this.#prunedBefore;
  }

  #note({ progress, levels, trades }: BlockRows, step: PastStep): BlockAt {
    const before = this.blocks.at(-1);
    const markets = new Map<string, MarketAt>();
    for (const id of this.network.announced) {
      const was = before?.markets.get(id) ?? nowhere;
      const isAnnounced = step.announce?.includes(id) === true;
      const state = stateOf(id, step, was.state);
      const changed = levels.filter((level) => level.marketId === id) as unknown as ChangedLevel[];
      markets.set(id, {
        state,
        book: this.network.now(id),
        number: this.network.depth(id)?.publishedSequenceNumber ?? 0n,
        decimals: isAnnounced ? progress.height : was.decimals,
        trade: trades.find((trade) => trade.marketId === id)?.tradeId ?? was.trade,
        changed,
        begins: state === "whole" && (was.state !== "whole" || isAnnounced),
      });
    }
    const { height, timeNs, streamSequence } = progress;
    const block = { height, timeNs, streamSequence, markets };
    this.blocks.push(block);
    return block;
  }

  async #write(connection: Connection, block: BlockAt, rows: BlockRows, started: readonly string[]): Promise<void> {
    const { height, streamSequence } = block;
    for (const [position, trade] of rows.trades.entries()) {
      await insertRows(connection, pastTradeRows, [{ ...trade, id: entryId(height, position) }]);
    }
    const kept = this.blocks.findLast(
      (each) => each !== block && ![...each.markets.values()].some(({ state }) => state === "unkept"),
    );
    for (const [id, market] of block.markets) {
      const before = this.blocks.at(-2)?.markets.get(id) ?? nowhere;
      if (started.includes(id) && kept?.markets.has(id)) {
        await this.#seal(connection, id);
        const gap = { ...kept, streamSequence: kept.streamSequence + 1n, markets: kept.markets };
        await this.#begin(connection, id, gap, segmentStates.notKept);
      }
      if (market.state === "stale") {
        if (before.state === "stale" && !started.includes(id)) continue;
        await this.#seal(connection, id);
        await this.#begin(connection, id, block, segmentStates.stale);
      } else if (market.begins) {
        await this.#seal(connection, id);
        await this.#begin(connection, id, block, segmentStates.whole);
      } else if (market.changed.length > 0) {
        await this.#append(connection, id, block, market);
      }
    }
    this.#keptSequence = streamSequence;
  }

  async #append(
    connection: Connection,
    id: string,
    { height, timeNs, streamSequence, markets }: BlockAt,
    market: MarketAt,
  ): Promise<void> {
    const open = this.#open.get(id);
    if (open === undefined) throw new Error(`${id} has no open segment`);
    const numberOffset = market.number - numberBase(timeNs);
    const update = { streamSequence, height, numberOffset, levels: sortLevels(market.changed) };
    open.encoder.append(update);
    await insertRows(connection, bookChangeRows, [{ marketId: id, streamSequence, body: encodeUpdate(update) }]);
    if (open.encoder.changedLevels < sealAfter) return;
    await this.#seal(connection, id);
    await this.#begin(connection, id, { height, timeNs, streamSequence, markets }, segmentStates.continued);
  }

  async #seal(connection: Connection, marketId: string): Promise<void> {
    const open = this.#open.get(marketId);
    this.#open.delete(marketId);
    const digest = Buffer.alloc(32, 7);
    await connection.run("UPDATE book_segment SET digest = ? WHERE market_id = ? AND digest IS NULL", [
      digest,
      marketId,
    ]);
    await connection.run("DELETE FROM book_change WHERE market_id = ?", [marketId]);
    if (open === undefined || open.encoder.changedLevels === 0) return;
    const { firstSequence } = open;
    await insertRows(
      connection,
      segmentPartRows,
      toParts({ marketId, firstSequence }, firstChangesPart, open.encoder.content()),
    );
  }

  async #begin(connection: Connection, marketId: string, block: BlockAt, state: number): Promise<void> {
    const { height, timeNs, streamSequence: firstSequence } = block;
    const market = block.markets.get(marketId) ?? nowhere;
    const hasBook = state === segmentStates.continued || state === segmentStates.whole;
    const levels = hasBook ? levelsOf(market.book) : [];
    const row = {
      ...{ marketId, firstSequence, state, height, timeNs, publishedSequenceNumber: market.number },
      ...{ priceDecimals: market.decimals, sizeDecimals: 0n, keyframeLevels: levels.length, digest: undefined },
    };
    await insertRows(connection, segmentRows, [row]);
    await connection.run("INSERT IGNORE INTO book_history VALUES (?, ?, '', ?, '')", [
      marketId,
      firstSequence,
      firstSequence,
    ]);
    if (!hasBook) return;
    this.#open.set(marketId, { firstSequence, encoder: new SegmentEncoder({ firstSequence, height }) });
    const key = { marketId, firstSequence };
    if (levels.length > 0) await insertRows(connection, segmentPartRows, toParts(key, 0, encodeKeyframe(levels)));
  }
}

function stateOf(id: string, step: PastStep, before: MarketAt["state"]): MarketAt["state"] {
  if (step.unkept === true) {
    // Afterwards nothing here would say that it still is.
    if (before === "stale") throw new Error(`${id} is stale; heal it before a block that is not kept`);
    return "unkept";
  }
  if (step.stale?.includes(id)) return "stale";
  return before === "stale" && !step.healed?.includes(id) ? "stale" : "whole";
}

function levelsOf({ buy, sell }: BookText): ChangedLevel[] {
  const parse = (side: 1 | 2) => (text: string) => {
    const [price = "", volume = "", orders = ""] = text.split(" ");
    return { side, price, volume: BigInt(volume), numberOfOrders: BigInt(orders) };
  };
  return [...buy.map(parse(1)), ...sell.map(parse(2))];
}

async function setStale(connection: Connection, marketId: string, stale: number): Promise<void> {
  await connection.run("REPLACE INTO venue_market VALUES (?, 0, 0, 0, 0, NULL, ?)", [marketId, stale]);
}

/** The failure of a promise. Any other error is thrown. */
export async function failureOf(promise: Promise<unknown>): Promise<Failure> {
  const thrown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (thrown instanceof Failure) return thrown;
  throw thrown ?? new Error("it did not fail");
}
