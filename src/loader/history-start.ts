import { decodeUpdate } from "../domain/book-history.js";
import type { Connection } from "../store/connection/connection.js";
import type { VenueMarketRow } from "../store/depth-table.js";
import type { PastBlock } from "../store/history-reads.js";
import { readHistorySequence, readPasts, type StoredPast, segmentStates } from "../store/history-table.js";
import type { Progress } from "../store/progress-table.js";
import { readTableDigests } from "../store/table-digest-table.js";
import type { HistoryGap, HistoryStart } from "./history-fold.js";
import { readDecimals } from "./market-decimals.js";

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
  const gap = await readGap(connection, height, { historySequence, pasts }, venueMarkets);
  return { historySequence, pasts, digests, gap };
}

const selectBlock = "SELECT height, time_ns AS timeNs, stream_sequence AS streamSequence FROM block";

async function readGap(
  connection: Connection,
  newestHeight: bigint,
  written: Pick<HistoryStart, "historySequence" | "pasts">,
  venueMarkets: readonly VenueMarketRow[],
): Promise<HistoryGap | undefined> {
  const [place] = await connection.query<PastBlock>(`${selectBlock} WHERE height = ?`, [newestHeight]);
  if (place === undefined || place.streamSequence <= written.historySequence) return undefined;
  const after = await readLastWritten(connection, written);
  const stale = new Set(venueMarkets.filter((market) => market.stale).map(({ marketId }) => marketId));
  const markets = [...(await readDecimals(connection))].map(([marketId, decimals]) => {
    return [marketId, { decimals, stale: stale.has(marketId) }] as const;
  });
  return { after, place, markets: new Map(markets) };
}

/**
 * The last block whose past is written, as far as that is known. If its height was loaded once more since, the table of
 * blocks has only its later end, but the changes that it made tell of the one before.
 */
async function readLastWritten(
  connection: Connection,
  { historySequence, pasts }: Pick<HistoryStart, "historySequence" | "pasts">,
): Promise<PastBlock> {
  const [before] = await connection.query<PastBlock>(
    `${selectBlock} WHERE stream_sequence <= ? ORDER BY stream_sequence DESC LIMIT 1`,
    [historySequence],
  );
  const known = before ?? { height: 0n, timeNs: 0n, streamSequence: 0n };
  let last: Omit<PastBlock, "timeNs"> = known;
  for (const past of pasts) last = laterEnd(last, past);
  if (last === known) return known;
  const [row] = await connection.query<PastBlock>(`${selectBlock} WHERE height = ?`, [last.height]);
  return { ...last, timeNs: row?.timeNs ?? known.timeNs };
}

/** The block in which a market's book changed last, if it is later. */
function laterEnd(block: Omit<PastBlock, "timeNs">, { newest, changes }: StoredPast): Omit<PastBlock, "timeNs"> {
  const change = changes.at(-1);
  if (change !== undefined && change.streamSequence > block.streamSequence) {
    const { height, streamSequence } = decodeUpdate(change.streamSequence, change.body);
    return { height, streamSequence };
  }
  const isLater = newest.state !== segmentStates.notKept && newest.firstSequence > block.streamSequence;
  return isLater ? { height: newest.height, streamSequence: newest.firstSequence } : block;
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
