/**
 * What becomes of a market. Heights are block heights; every market but those of the last row of kinds goes through an
 * opening auction first.
 *
 * - `continuous`: trades all the time.
 * - `monitored`: continuous, with an auction by price or liquidity monitoring now and then.
 * - `batch`: frequent batch auctions, each of which ends in trades at one price.
 * - `opening`: never leaves its opening auction, so that its book may be crossed.
 * - `terminating`: continuous, then terminated, settled, and its accounts cleared.
 * - `quiet`: open, with market data, but nobody sends an order.
 * - `later`: continuous, announced only at {@link announcementHeight}.
 * - `proposed`, `rejected`, `cancelled`, `closed`: announced, never open; without market data and orders.
 */
export type MarketRole =
  | "continuous"
  | "monitored"
  | "batch"
  | "opening"
  | "terminating"
  | "quiet"
  | "later"
  | "proposed"
  | "rejected"
  | "cancelled"
  | "closed";

const roles: readonly MarketRole[] = [
  "continuous",
  "monitored",
  "quiet",
  "proposed",
  "opening",
  "later",
  "terminating",
  "batch",
  "rejected",
  "cancelled",
  "closed",
];

/** The role of the market with this index: one of each, then continuous ones. */
export function roleOf(index: number): MarketRole {
  return roles[index] ?? "continuous";
}

/** When opening auctions end. */
export const openingHeight = 5;
/** When the market of role `later` is announced. */
export const announcementHeight = 30;
/** A monitoring auction begins at every multiple of this height. */
export const monitoringInterval = 60;
export const monitoringBlocks = 10;
/** A batch auction ends at every multiple of this height. */
export const batchInterval = 4;
export const terminationHeight = 120;
export const settlementHeight = 125;

/** Whether the role ever trades. */
export function isTrading(role: MarketRole): boolean {
  return !["quiet", "proposed", "rejected", "cancelled", "closed"].includes(role);
}

/** Whether the role ever has market data. */
export function hasMarketData(role: MarketRole): boolean {
  return isTrading(role) || role === "quiet";
}
