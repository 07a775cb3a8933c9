import type { TimeRange } from "../../src/domain/date-range.js";
import type { PageRequest } from "../../src/domain/page.js";
import type { LedgerEntry } from "../../src/ledger/ledger-reader.js";
import type { AccountSide, LedgerFilter } from "../../src/ledger/selection.js";
import type { FixtureAccount, FixtureEntry } from "./ledger-fixture.js";

function sideMatches(side: AccountSide, account: FixtureAccount): boolean {
  return (
    (side.partyId === undefined || side.partyId === account.party) &&
    (side.assetId === undefined || side.assetId === account.asset) &&
    (side.marketIds.length === 0 || side.marketIds.includes(account.market)) &&
    (side.types.length === 0 || side.types.includes(account.type))
  );
}

/** Whether a filter selects an entry: the truth table, written as plainly as it goes. */
export function selects(filter: LedgerFilter, entry: FixtureEntry): boolean {
  if (filter.transferTypes.length > 0 && !filter.transferTypes.includes(entry.transferType)) return false;
  const from = filter.from === undefined ? undefined : sideMatches(filter.from, entry.from);
  const to = filter.to === undefined ? undefined : sideMatches(filter.to, entry.to);
  if (from === undefined) return to ?? true;
  if (to === undefined) return from;
  return filter.closed ? from && to : from || to;
}

/** All entries of a list, in its order. */
export function modelList(
  entries: readonly FixtureEntry[],
  filter: LedgerFilter,
  time: TimeRange,
  newestFirst: boolean,
): FixtureEntry[] {
  const list = entries.filter(
    (entry) =>
      selects(filter, entry) &&
      (time.startNs === undefined || entry.timeNs >= time.startNs) &&
      (time.endNs === undefined || entry.timeNs < time.endNs),
  );
  return newestFirst ? list.reverse() : list;
}

/** The page that a request asks for. */
export function modelPage(list: readonly FixtureEntry[], request: PageRequest<bigint>) {
  const { cursor, size, backwards, newestFirst } = request;
  const isAfter = (id: bigint) => cursor === undefined || (newestFirst ? id < cursor : id > cursor);
  const isBefore = (id: bigint) => cursor === undefined || (newestFirst ? id > cursor : id < cursor);
  const start = backwards
    ? Math.max(0, list.filter(({ id }) => isBefore(id)).length - size)
    : list.findIndex(({ id }) => isAfter(id));
  const begin = start < 0 ? list.length : start;
  const rows = backwards ? list.filter(({ id }) => isBefore(id)).slice(-size) : list.slice(begin, begin + size);
  return { rows, hasPrevious: begin > 0, hasNext: begin + rows.length < list.length };
}

/** Entries of the store as the model has them. */
export function plain(rows: readonly LedgerEntry[]): FixtureEntry[] {
  return rows.map(({ id, timeNs, quantity, entryClass, from, to, fromBalance, toBalance }) => ({
    id,
    timeNs: BigInt(timeNs),
    quantity,
    transferType: entryClass.transferType,
    from: { party: from.partyId, asset: from.kind.assetId, market: from.kind.marketId, type: from.kind.type },
    to: { party: to.partyId, asset: to.kind.assetId, market: to.kind.marketId, type: to.kind.type },
    fromBalance,
    toBalance,
  }));
}
