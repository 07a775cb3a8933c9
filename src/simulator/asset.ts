import type { Random } from "./random.js";

/** An asset of the simulated network. */
export interface Asset {
  readonly id: string;
  readonly symbol: string;
  /** The amount of one tick of price times one lot of size. */
  readonly unit: bigint;
  /** What a party deposits at a time. */
  readonly deposit: bigint;
  /** What the liquidity provider holds from the beginning. */
  readonly endowment: bigint;
}

/**
 * From small to huge: one whose amounts fit 64 bits, one with 18 decimals whose amounts don't, and one whose balances
 * have up to 78 digits, as many as 256 bits can hold.
 */
const assetKinds = [
  { symbol: "tUSD", unit: 7n, deposit: 25_000_000_003n, endowment: 900_000_000_000_001n },
  { symbol: "tETH", unit: 1_000_003_000_000n, deposit: 10n ** 22n + 7n, endowment: 3n * 10n ** 26n + 11n },
  { symbol: "tWEI", unit: 10n ** 60n + 987_654_321n, deposit: 10n ** 73n + 13n, endowment: 105n * 10n ** 75n + 17n },
] as const;

export function makeAssets(random: Random): Asset[] {
  return assetKinds.map((kind) => ({ id: random.identifier(), ...kind }));
}
