import { AccountType as A, TransferType as T } from "../../gen/vega/vega_pb.js";
import type { TimeRange } from "../../src/domain/date-range.js";
import type { AccountSide, LedgerFilter } from "../../src/ledger/selection.js";
import {
  assetId,
  busyParty,
  coldParty,
  fewParty,
  hotParty,
  longAgoParty,
  marketId,
  oldAsset,
  oldMarket,
  partyId,
} from "./dataset.js";

/** A filter of the bench. */
export interface BenchFilter {
  readonly name: string;
  readonly filter: LedgerFilter;
  /** The part of all time, as fractions; undefined: all of it. */
  readonly part?: readonly [number, number];
}

function side(parts: Partial<AccountSide>): AccountSide {
  return { partyId: undefined, assetId: undefined, marketIds: [], types: [], ...parts };
}

function filter(parts: Partial<LedgerFilter>): LedgerFilter {
  return { from: undefined, to: undefined, closed: false, transferTypes: [], ...parts };
}

function both(parts: Partial<AccountSide>, rest: Partial<LedgerFilter> = {}): LedgerFilter {
  return filter({ from: side(parts), to: side(parts), ...rest });
}

const hot = { partyId: partyId(hotParty) };
const busy = { partyId: partyId(busyParty) };
const network = { partyId: "network" };

/** What people ask a ledger, and what is hard for one. */
export const filters: readonly BenchFilter[] = [
  { name: "no filter", filter: filter({}) },
  { name: "party, hot", filter: both(hot) },
  { name: "party, hot, from only", filter: filter({ from: side(hot) }) },
  { name: "party, cold", filter: both({ partyId: partyId(coldParty) }) },
  { name: "party, long ago", filter: both({ partyId: partyId(longAgoParty) }) },
  { name: "party, few entries", filter: both({ partyId: partyId(fewParty) }) },
  { name: "party, hot, own transfers", filter: both(hot, { closed: true }) },
  {
    name: "party, hot, to settlement",
    filter: filter({ from: side(hot), to: side({ types: [A.SETTLEMENT] }), closed: true }),
  },
  { name: "party, hot, rare type", filter: both(hot, { transferTypes: [T.LOSS] }) },
  { name: "party, hot, one market", filter: both({ ...hot, marketIds: [marketId(0)] }) },
  { name: "two parties, open", filter: filter({ from: side(hot), to: side({ partyId: partyId(coldParty) }) }) },
  { name: "two busy parties, closed", filter: filter({ from: side(hot), to: side(busy), closed: true }) },
  { name: "network to party, closed", filter: filter({ from: side(network), to: side(hot), closed: true }) },
  { name: "network, open", filter: both(network) },
  { name: "asset", filter: both({ assetId: assetId(1) }) },
  { name: "asset, long ago", filter: both({ assetId: assetId(oldAsset) }) },
  { name: "market", filter: both({ marketIds: [marketId(7)] }) },
  { name: "market, long ago", filter: both({ marketIds: [marketId(oldMarket)] }) },
  { name: "account type, a third of all", filter: filter({ from: side({ types: [A.GENERAL] }) }) },
  {
    name: "account types, closed",
    filter: filter({ from: side({ types: [A.MARGIN] }), to: side({ types: [A.INSURANCE] }), closed: true }),
  },
  { name: "transfer type", filter: filter({ transferTypes: [T.MTM_WIN] }) },
  { name: "transfer type, rare", filter: filter({ transferTypes: [T.LOSS] }) },
  { name: "date range", filter: filter({}), part: [0.4, 0.41] },
  { name: "date range, party hot", filter: both(hot), part: [0.4, 0.45] },
  { name: "nothing matches", filter: both({ partyId: partyId(hotParty), assetId: assetId(3) }) },
];

/** The span of block times of a part of the ledger. */
export function timeOf(part: BenchFilter["part"], first: bigint, last: bigint): TimeRange {
  if (part === undefined) return { startNs: undefined, endNs: undefined };
  const at = (fraction: number) => first + ((last - first) * BigInt(Math.round(fraction * 1000))) / 1000n;
  return { startNs: at(part[0]), endNs: at(part[1]) };
}
