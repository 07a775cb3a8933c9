import type { Random } from "./random.js";

/**
 * Sets of assets and markets. `varied`: every magnitude, state and trading mode, for tests. `realistic`: familiar ones.
 */
export type MarketProfile = "varied" | "realistic";

/** An asset of the simulated network. */
export interface Asset {
  readonly id: string;
  readonly symbol: string;
  /** The amount of one tick of price times one lot of size. */
  readonly unit: bigint;
  /** The amount of one deposit of a party. */
  readonly deposit: bigint;
  /** The initial amount of the liquidity provider. */
  readonly endowment: bigint;
}

/**
 * From small to huge: one whose amounts fit 64 bits, one with 18 decimals whose amounts do not, and one whose balances
 * have up to 78 digits, the most of 256 bits.
 */
const assetKinds = [
  { symbol: "tUSD", unit: 7n, deposit: 25_000_000_003n, endowment: 900_000_000_000_001n },
  { symbol: "tETH", unit: 1_000_003_000_000n, deposit: 10n ** 22n + 7n, endowment: 3n * 10n ** 26n + 11n },
  { symbol: "tWEI", unit: 10n ** 60n + 987_654_321n, deposit: 10n ** 73n + 13n, endowment: 105n * 10n ** 75n + 17n },
] as const;

/** Familiar currencies with 6 decimals. The unit is one whole. */
const realisticKinds = [
  { symbol: "USD", unit: 1_000_000n, deposit: 50_000_000_000n, endowment: 2_500_000_000_000_000n },
  { symbol: "EUR", unit: 1_000_000n, deposit: 50_000_000_000n, endowment: 2_500_000_000_000_000n },
] as const;

/** The assets of a {@link MarketProfile}. */
export function makeAssets(random: Random, profile: MarketProfile): Asset[] {
  const kinds = profile === "realistic" ? realisticKinds : assetKinds;
  return kinds.map((kind) => ({ id: random.identifier(), ...kind }));
}
