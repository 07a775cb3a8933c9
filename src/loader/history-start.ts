import { fromBinary } from "@bufbuild/protobuf";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import { entriesPerBlockMax, entryId, firstIdOfBlock } from "../domain/block-position.js";
import type { Connection } from "../store/connection/connection.js";
import type { VenueMarketRow } from "../store/depth-table.js";
import type { PastBlock } from "../store/history-reads.js";
import { type PastTradeRow, readHistorySequence, readPasts } from "../store/history-table.js";
import { type TradeRow, tradeRows } from "../store/market-table.js";
import type { Progress } from "../store/progress-table.js";
import { readTableDigests } from "../store/table-digest-table.js";
import { decimalsOf, type HistoryGap, type HistoryStart } from "./history-fold.js";

/**
 * Where trades from before the past was written lie in their block: their last positions, down from its end. Others count
 * from 0.
 */
const firstCarriedPosition = entriesPerBlockMax / 2;

/** Reads where the loader goes on, in the snapshot of the progress. */
export async function readHistoryStart(
  connection: Connection,
  progress: Progress | undefined,
  venueMarkets: readonly VenueMarketRow[],
): Promise<HistoryStart> {
  const height = progress?.height ?? 0n;
  const historySequence = await readHistorySequence(connection);
  const pasts = await readPasts(connection);
  const digests = await readTableDigests(connection, "history_digest");
  const ends = [firstIdOfBlock(height), entryId(height, firstCarriedPosition)];
  const [last] = await connection.query<{ id: bigint | null }>(
    "SELECT MAX(id) AS id FROM trade WHERE id >= ? AND id < ?",
    ends,
  );
  const position = last?.id == null ? 0 : Number(last.id - firstIdOfBlock(height)) + 1;
  const gap = await readGap(connection, height, historySequence, venueMarkets);
  return { historySequence, pasts, digests, tradeBlock: { height, position }, gap };
}

async function readGap(
  connection: Connection,
  newestHeight: bigint,
  historySequence: bigint,
  venueMarkets: readonly VenueMarketRow[],
): Promise<HistoryGap | undefined> {
  const placeSql = "SELECT height, time_ns AS timeNs, stream_sequence AS streamSequence FROM block";
  const [place] = await connection.query<{ [K in keyof PastBlock]: PastBlock[K] }>(`${placeSql} WHERE height = ?`, [
    newestHeight,
  ]);
  if (place === undefined || place.streamSequence <= historySequence) return undefined;
  const [before] = await connection.query<{ [K in keyof PastBlock]: PastBlock[K] }>(
    `${placeSql} WHERE stream_sequence <= ? ORDER BY stream_sequence DESC LIMIT 1`,
    [historySequence],
  );
  const after = { height: 0n, timeNs: 0n, ...before, streamSequence: historySequence };
  const stale = new Set(venueMarkets.filter((market) => market.stale).map(({ marketId }) => marketId));
  const bodies = await connection.query<{ marketId: string; body: Uint8Array }>(
    "SELECT market_id AS marketId, body FROM market",
  );
  const markets = bodies.map(({ marketId, body }) => {
    return [marketId, { decimals: decimalsOf(fromBinary(MarketSchema, body)), stale: stale.has(marketId) }] as const;
  });
  return { after, place, markets: new Map(markets), trades: await readLostTrades(connection, after) };
}

/** Blocks by which it is estimated how fast the past grows: their vanished levels are still there as tombstones. */
const estimatedBlocks = 100n;

/** Bytes of a changed level, with its part of a keyframe and of the indexes: docs/scale.md. */
const bytesPerChange = 8;

const secondsPerDay = 86_400;

/** What a store of before will keep from now on, and about how much, for its operator. */
export async function describeFirstPast(connection: Connection, { place, markets }: HistoryGap): Promise<string> {
  const [row] = await connection.query<{ levels: bigint; seconds: bigint | null }>(
    `SELECT COUNT(*) AS levels, CAST((? - MIN(before_it.time_ns)) / 1000000000 AS SIGNED) AS seconds
     FROM (SELECT time_ns, stream_sequence FROM block WHERE height <= ? ORDER BY height DESC LIMIT 1) AS before_it
     JOIN price_level ON changed_sequence > before_it.stream_sequence`,
    [place.timeNs, place.height - estimatedBlocks],
  );
  const perSecond = Number(row?.levels ?? 0n) / Math.max(1, Number(row?.seconds ?? 1n));
  const megabytes = Math.ceil((perSecond * secondsPerDay * bytesPerChange) / 1_000_000);
  return `from block ${place.height} on, the past of ${markets.size} books and every trade are kept: about ${megabytes} MB a day by the last ${estimatedBlocks} blocks; --keep-books says for how long`;
}

/** The last trades of markets that came after a place. */
async function readLostTrades(connection: Connection, after: PastBlock): Promise<PastTradeRow[]> {
  const trades = await connection.query<{ [K in keyof TradeRow]: TradeRow[K] }>(
    `${tradeRows.select} WHERE changed_sequence > ? ORDER BY market_id`,
    [after.streamSequence],
  );
  const heights = await connection.query<{ marketId: string; height: bigint }>(
    `SELECT market_id AS marketId, (
       SELECT b.height FROM block AS b WHERE b.stream_sequence >= changed_sequence
       ORDER BY b.stream_sequence LIMIT 1) AS height
     FROM last_trade WHERE changed_sequence > ?`,
    [after.streamSequence],
  );
  const heightOf = new Map(heights.map((row) => [row.marketId, row.height]));
  // A block that goes on after the past was lost may have some already.
  const [lowest] = await connection.query<{ id: bigint | null }>("SELECT MIN(id) AS id FROM trade WHERE id >= ?", [
    entryId(after.height, firstCarriedPosition),
  ]);
  const next = new Map<bigint, bigint>(lowest?.id == null ? [] : [[lowest.id >> 24n, lowest.id]]);
  return trades.map((trade) => {
    const height = heightOf.get(trade.marketId) ?? after.height;
    const id = (next.get(height) ?? firstIdOfBlock(height + 1n)) - 1n;
    next.set(height, id);
    return { id, ...trade };
  });
}
