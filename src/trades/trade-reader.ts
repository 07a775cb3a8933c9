import { firstIdOfBlock } from "../domain/block-position.js";
import { always, type TimeRange } from "../domain/date-range.js";
import { Failure, unavailable, worded } from "../domain/failure.js";
import { type BranchCursor, type BranchKey, kWayMerge } from "../domain/k-way-merge.js";
import { cursorName, type Found, findPage, type Page, type PageRequest } from "../domain/page.js";
import type { Call } from "../domain/service.js";
import { asText } from "../store/connection/column.js";
import type { Reader } from "../store/connection/lease.js";
import { type BlockPlace, checkCursor, parsePlace, placeSql } from "../store/connection/store-place.js";
import type { Database } from "../store/database.js";
import { type PastTradeRow, pastTradeRows } from "../store/history-table.js";
import { beyond, type IdRange } from "../store/id-range.js";
import { everythingKept, notRetained, type OldestKept } from "../store/ledger-entry-table.js";
import { parseTradeProgress, tradeProgressSql } from "../store/trade-table.js";

/** Which trades are selected; an empty list selects by nothing. */
export interface TradeFilter {
  readonly marketIds: readonly string[];
  /** Of the buyer or the seller. */
  readonly partyIds: readonly string[];
  /** Of the buy order or the sell order. */
  readonly orderIds: readonly string[];
}

/** Keys of trades that a page examines at most. Then it is short, with a cursor to go on from. */
export const tradeKeysMax = 40_000;

/** Branches that one statement reads as far as the page may need of each; of more, a merge reads less. */
const unionBranchesMax = 4;

/** Values of lists in one statement that merges branches; beyond it the lists are written once, and not for each branch. */
const valuesPerStatementMax = 256;

/** What a store has of a range of time. */
export interface TradeExtent {
  readonly newest: BlockPlace | undefined;
  readonly oldest: OldestKept;
  /** Of candles; those of a block go with its trades. */
  readonly oldestOfCandles: OldestKept;
  /** Ids of the trades in the range that are kept; `low` > `high`: there are none. */
  readonly low: bigint;
  readonly high: bigint;
}

/** FAILED_PRECONDITION, because a request needs trades that are not kept. */
export function tradesNotKept(path: string, oldest: OldestKept): Failure {
  return worded(({ field }) => notRetained(field(path), "trades", oldest, "TRADES_NOT_RETAINED"));
}

/**
 * Reads which trades there are. What is read afterwards depends on that.
 * @throws Failure `failed_precondition` if they are not kept up to the newest block, or not from the start of the range
 */
export async function readTradeExtent(reader: Reader, { startNs, endNs }: TimeRange): Promise<TradeExtent> {
  const heightAt = (timeNs: bigint | undefined) =>
    timeNs === undefined
      ? "NULL"
      : `(SELECT height FROM block WHERE time_ns >= ${timeNs} ORDER BY time_ns, height LIMIT 1)`;
  const [row] = await reader.query<{
    place: string | null;
    trades: string | null;
    startHeight: bigint | null;
    endHeight: bigint | null;
  }>(
    `SELECT ${placeSql} AS place, ${tradeProgressSql} AS trades,
       ${heightAt(startNs)} AS startHeight, ${heightAt(endNs)} AS endHeight`,
  );
  const newest = parsePlace(row?.place ?? null);
  reader.found(newest);
  const progress = parseTradeProgress(row?.trades);
  if (newest !== undefined && progress?.streamSequence !== newest.streamSequence) {
    const message = "the newest trades are not kept: blocks were loaded by a release before trades were served";
    throw new Failure("failed_precondition", message, { reason: "TRADES_NOT_RETAINED" });
  }
  const { oldest = everythingKept, oldestOfCandles = everythingKept } = progress ?? {};
  const startHeight = startNs === undefined ? 0n : row?.startHeight;
  const hasRange = startNs !== undefined || endNs !== undefined;
  if (hasRange && startHeight != null && startHeight < oldest.height) {
    throw tradesNotKept("date_range.start_timestamp", oldest);
  }
  if (newest === undefined || startHeight == null) return { newest, oldest, oldestOfCandles, low: 1n, high: 0n };
  const low = firstIdOfBlock(startHeight > oldest.height ? startHeight : oldest.height);
  return { newest, oldest, oldestOfCandles, low, high: firstIdOfBlock(row?.endHeight ?? newest.height + 1n) - 1n };
}

/** Reads of one request, when the loader drops trades between the statements of each. */
const keptAttemptsMax = 5;

const retryAfterMs = 1_000;

/** What `read` finds in the extent, read again where the loader dropped trades meanwhile. */
export async function readKept<T>(
  reader: Reader,
  time: TimeRange,
  read: (extent: TradeExtent) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; attempt <= keptAttemptsMax; attempt++) {
    const extent = await readTradeExtent(reader, time);
    const found = await read(extent);
    const { oldest } = await readTradeExtent(reader, always);
    if (oldest.height === extent.oldest.height) return found;
  }
  throw unavailable("old trades are being dropped faster than they are read; try again", "SERVER_BUSY", retryAfterMs);
}

/** @throws Failure `failed_precondition`, ReadBehindError for a cursor of a block that is not there */
export function checkTradeCursor(cursor: bigint | undefined, { newest, oldest }: TradeExtent, path: string): void {
  if (cursor === undefined || newest === undefined) return;
  if (cursor < firstIdOfBlock(oldest.height)) throw tradesNotKept(path, oldest);
  checkCursor(cursor, newest);
}

/** One page of the trades that a filter selects, in the order of the network. */
export function readTrades(
  database: Pick<Database, "lease">,
  filter: TradeFilter,
  time: TimeRange,
  request: PageRequest<bigint>,
  call: Call,
): Promise<Page<PastTradeRow, bigint>> {
  const readIn = async (reader: Reader, extent: TradeExtent) => {
    checkTradeCursor(request.cursor, extent, cursorName(request));
    const { cursor } = request;
    const page = await findPage(request, isAt, async (descending, want) => {
      const { low, high } = extent;
      const range = {
        low: descending || cursor === undefined || cursor < low ? low : cursor,
        high: !descending || cursor === undefined || cursor > high ? high : cursor,
        descending,
      };
      return range.low > range.high ? { rows: [] } : scanTrades(reader, filter, range, want);
    });
    return { ...page, newestBlock: extent.newest };
  };
  return database.lease({ class: "ledger", call }, (reader) => {
    return readKept(reader, time, (extent) => readIn(reader, extent));
  });
}

function isAt({ id }: PastTradeRow, cursor: bigint): boolean {
  return id === cursor;
}

/** The trades of a range of ids, in its direction. */
async function scanTrades(
  reader: Reader,
  filter: TradeFilter,
  range: IdRange,
  want: number,
): Promise<Found<PastTradeRow, bigint>> {
  const selection = branchesOf(filter);
  const [only, ...others] = selection.branches;
  if (only !== undefined && others.length === 0 && selection.rest.sql === "") {
    const { sql, parameters } = rangeSql(only, range, reader.holds);
    const found = `${pastTradeRows.select} ${sql} LIMIT ${want}`;
    return { rows: await reader.query<PastTradeRow>(found, parameters) };
  }
  if (selection.rest.sql === "" && selection.branches.length <= unionBranchesMax) {
    return { rows: await readUnion(reader, selection.branches, range, want) };
  }
  const { keys: ids, reached } = await mergeBranches(reader, selection, range, want);
  if (ids.length === 0) return { rows: [], reached };
  const rows = await reader.query<PastTradeRow>(
    `${pastTradeRows.select} WHERE id IN (${ids.join(", ")}) AND ${reader.holds}`,
  );
  return { rows: rows.sort((a, b) => compareIds(a.id, b.id, range)), reached };
}

/** The first trades of all branches, in one statement. */
async function readUnion(reader: Reader, branches: readonly Branch[], range: IdRange, want: number) {
  const own = branches.map((branch) => rangeSql(branch, range));
  const union = own.map(({ sql }) => `(SELECT id FROM trade ${sql} LIMIT ${want})`).join(" UNION ");
  const order = `ORDER BY id ${range.descending ? "DESC" : "ASC"}`;
  return reader.query<PastTradeRow>(
    `${pastTradeRows.select} JOIN (${union} ${order} LIMIT ${want}) AS page USING (id) WHERE ${reader.holds} ${order}`,
    own.flatMap(({ parameters }) => parameters),
  );
}

/** Trades of one value in one index. */
interface Branch {
  readonly index: string;
  /** Undefined: all trades. */
  readonly column: string | undefined;
  readonly value: string;
}

/** What every trade of a selection has to match beside its branch; no SQL: nothing. */
interface Rest {
  readonly sql: string;
  readonly parameters: readonly (readonly string[])[];
}

interface TradeSelection {
  readonly branches: readonly Branch[];
  readonly rest: Rest;
}

/** By orders if they are given, as there are the fewest trades of each; otherwise by parties, or by markets. */
function branchesOf({ orderIds, partyIds, marketIds }: TradeFilter): TradeSelection {
  const ofMarkets = { sql: "market_id IN (?)", parameters: [marketIds] };
  const ofParties = { sql: "(buyer IN (?) OR seller IN (?))", parameters: [partyIds, partyIds] };
  const selection = (columns: readonly string[], values: readonly string[], ...parts: readonly Rest[]) => {
    const used = parts.filter(({ parameters }) => parameters.every((list) => list.length > 0));
    const sql = used.map((part) => part.sql).join(" AND ");
    return {
      branches: values.flatMap((value) => columns.map((column) => ({ index: `trade_${column}`, column, value }))),
      rest: { sql, parameters: used.flatMap(({ parameters }) => parameters) },
    };
  };
  if (orderIds.length > 0) return selection(["buy_order", "sell_order"], orderIds, ofMarkets, ofParties);
  if (partyIds.length > 0) return selection(["buyer", "seller"], partyIds, ofMarkets);
  const { branches, rest } = selection(["market_id"], marketIds);
  if (branches.length === 0) return { branches: [{ index: "PRIMARY", column: undefined, value: "" }], rest };
  return { branches: branches.map((branch) => ({ ...branch, index: "trade_market" })), rest };
}

function rangeSql({ index, column, value }: Branch, { low, high, descending }: IdRange, holds?: string) {
  const selected = column === undefined ? [] : [`${column} = ?`];
  const conditions = [...selected, `id >= ${low}`, `id <= ${high}`, ...(holds === undefined ? [] : [holds])];
  const order = descending ? "DESC" : "ASC";
  const sql = `FORCE INDEX (${index}) WHERE ${conditions.join(" AND ")} ORDER BY id ${order}`;
  return { sql, parameters: column === undefined ? [] : [value] };
}

function compareIds(a: bigint, b: bigint, { descending }: IdRange): number {
  if (a === b) return 0;
  return a < b === descending ? 1 : -1;
}

/**
 * The first ids of all branches. `reached`: the last key up to which all were examined, if that is not everything.
 */
async function mergeBranches(reader: Reader, { branches, rest }: TradeSelection, range: IdRange, want: number) {
  const { sql: fits, parameters: values } = rest.sql === "" ? { ...rest, sql: "1" } : rest;
  const read = async (cursors: readonly BranchCursor<Branch, bigint>[], limit: number) => {
    // A long list is written once. A short one is cheaper where it saves a column.
    const isOnce = values.flat().length * cursors.length > valuesPerStatementMax;
    const own = cursors.map(({ branch, last }) => rangeSql(branch, last === undefined ? range : beyond(range, last)));
    const parts = own.map(({ sql }, number) => {
      const columns = isOnce ? "buyer, seller, market_id" : `${fits} AS fits`;
      return `(SELECT ${number} AS branch, id, ${columns} FROM trade ${sql} LIMIT ${limit})`;
    });
    const [last, fitting] = [range.descending ? "MIN(id)" : "MAX(id)", `IF(${isOnce ? fits : "fits"}, id, NULL)`];
    const keys = asText(`CONCAT_WS(' ', branch, COUNT(*), ${last}, GROUP_CONCAT(${fitting} SEPARATOR ' '))`);
    const sql = `SELECT ${keys} AS keys_read FROM (${parts.join(" UNION ALL ")}) AS scanned GROUP BY branch`;
    const inParts = own.flatMap(({ parameters }) => [...(isOnce ? [] : values), ...parameters]);
    const rows = await reader.query<{ keys_read: string }>(sql, [...(isOnce ? values : []), ...inParts]);
    return rows.flatMap(({ keys_read }) => parseKeys(keys_read));
  };
  const compare = (a: bigint, b: bigint) => compareIds(a, b, range);
  return kWayMerge({ branches, want, keysMax: tradeKeysMax, isSparse: true, compare, read });
}

/** The keys that fit of those that were read of a branch; its last key, if it does not fit, stands for all that do not. */
function parseKeys(text: string): BranchKey<bigint>[] {
  const [number, count, last = "", ...ids] = text.split(" ");
  const fitting = ids.map((id) => ({ number: Number(number), key: BigInt(id), matches: true, read: 1 }));
  return [...fitting, { number: Number(number), key: BigInt(last), matches: false, read: Number(count) - ids.length }];
}
