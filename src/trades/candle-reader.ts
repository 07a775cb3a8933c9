import type { Candle } from "../domain/candle.js";
import { always, type TimeRange } from "../domain/date-range.js";
import { cursorName, findPage, type Page, type PageRequest } from "../domain/page.js";
import type { Call } from "../domain/service.js";
import { candleRows } from "../store/candle-table.js";
import type { Reader } from "../store/connection/lease.js";
import { type BlockPlace, checkCursor, parsePlace, placeSql } from "../store/connection/store-place.js";
import type { Database } from "../store/database.js";
import type { OldestKept } from "../store/ledger-entry-table.js";
import { readKept, readTradeExtent, type TradeExtent, tradesNotKept } from "./trade-reader.js";

/** The candles of a market and an interval. */
export interface CandleSeries {
  readonly marketId: string;
  readonly seconds: number;
}

/** The place of a candle in its list. */
export type CandlePlace = Pick<Candle, "startNs" | "firstTrade">;

/**
 * One page of the candles whose periods begin in a range of time, by these beginnings, the running one included.
 * @throws Failure `failed_precondition` if trades of the range or behind the cursor are not kept
 */
export function readCandles(
  database: Pick<Database, "lease">,
  series: CandleSeries,
  { startNs, endNs }: TimeRange,
  request: PageRequest<CandlePlace>,
  call: Call,
): Promise<Page<Candle, CandlePlace>> {
  const readIn = async (reader: Reader, extent: TradeExtent) => {
    const oldest = oldestCandle(series, extent);
    const { cursor } = request;
    checkKept("from_timestamp", startNs, oldest);
    checkKept(cursorName(request), cursor?.startNs, oldest);
    checkCursor(cursor?.firstTrade, extent.newest);
    let newestBlock: BlockPlace | undefined;
    const low = startNs ?? oldest.timeNs;
    const page = await findPage(request, isAt, async (descending, want) => {
      const range = { low, high: endNs, from: cursor, descending };
      const { candles, place } = await scanCandles(reader, series, range, want);
      // The rows are of the first scan.
      newestBlock ??= place;
      return { rows: candles };
    });
    return { ...page, newestBlock: newestBlock ?? extent.newest };
  };
  return database.lease({ class: "ledger", call }, async (reader) => {
    if (series.seconds > 0) return readIn(reader, await readTradeExtent(reader, always));
    return readKept(reader, always, (extent) => readIn(reader, extent));
  });
}

/** From when on a series is kept: candles of a block go with its trades. */
function oldestCandle({ seconds }: CandleSeries, { oldest, oldestOfCandles }: TradeExtent): OldestKept {
  return seconds === 0 ? oldest : oldestOfCandles;
}

function isAt({ startNs, firstTrade }: Candle, cursor: CandlePlace): boolean {
  return startNs === cursor.startNs && firstTrade === cursor.firstTrade;
}

/** Candles that one read for a stream gives. */
const candlesPerRead = 1_000;

/** The newest candle of a series, as it is now, if there is one, and from when on its periods are kept whole. */
export async function readNewestCandle(
  reader: Reader,
  series: CandleSeries,
): Promise<{ readonly newest: Candle | undefined; readonly oldestNs: bigint }> {
  const { timeNs: oldestNs } = oldestCandle(series, await readTradeExtent(reader, always));
  const range = { low: oldestNs, high: undefined, from: undefined, descending: true };
  return { newest: (await scanCandles(reader, series, range, 1)).candles[0], oldestNs };
}

/**
 * All candles that begin at a time or later, as they are now.
 * @throws Failure `failed_precondition`, at last, if some of the blocks behind a height are not kept any more
 */
export async function* readCandlesFrom(
  reader: Reader,
  series: CandleSeries,
  low: bigint,
  seenHeight: bigint,
): AsyncGenerator<Candle> {
  for (let from: CandlePlace | undefined; ; ) {
    const range = { low, high: undefined, from, descending: false };
    const { candles } = await scanCandles(reader, series, range, candlesPerRead);
    yield* candles;
    if (candles.length < candlesPerRead) break;
    from = candles.at(-1);
  }
  // Afterwards, because the loader may drop candles at any time.
  const oldest = oldestCandle(series, await readTradeExtent(reader, always));
  if (seenHeight + 1n < oldest.height) throw tradesNotKept("candle_id", oldest);
}

/** A candle as a message. */
export function candleMessage({ startNs, lastNs, high, low, open, close, volume }: Candle) {
  return { start: startNs, lastUpdate: lastNs, high, low, open, close, volume };
}

/** A period that began before all trades were kept has a candle of some of them. From height 0 on, all are kept. */
function checkKept(path: string, timeNs: bigint | undefined, oldest: OldestKept): void {
  if (oldest.height > 0n && timeNs !== undefined && timeNs < oldest.timeNs) throw tradesNotKept(path, oldest);
}

interface CandleRange {
  readonly low: bigint;
  readonly high: bigint | undefined;
  readonly from: CandlePlace | undefined;
  readonly descending: boolean;
}

/** Candles from a place on, inclusive. The same statement tells the newest block that they have. */
async function scanCandles(
  reader: Reader,
  { marketId, seconds }: CandleSeries,
  { low, high, from, descending }: CandleRange,
  want: number,
): Promise<{ readonly candles: Candle[]; readonly place: BlockPlace | undefined }> {
  const [order, beyond, before] = descending ? ["DESC", "<=", ">"] : ["ASC", ">=", "<"];
  const bounds = [`start_ns >= ${low}`, ...(high === undefined ? [] : [`start_ns < ${high}`])];
  if (from !== undefined) {
    bounds.push(`start_ns ${beyond} ${from.startNs}`);
    bounds.push(`NOT (start_ns = ${from.startNs} AND first_trade ${before} ${from.firstTrade})`);
  }
  const rows = await reader.query<Candle & { readonly place: string | null }>(
    `${candleRows.select.replace("SELECT", `SELECT ${placeSql} AS place,`)} FORCE INDEX (PRIMARY)
     WHERE market_id = ? AND period_seconds = ${seconds} AND ${bounds.join(" AND ")}
     ORDER BY start_ns ${order}, first_trade ${order} LIMIT ${want}`,
    [marketId],
  );
  const [row] = rows;
  const place = row === undefined ? undefined : parsePlace(row.place);
  if (place !== undefined) reader.found(place);
  return { candles: rows, place };
}
