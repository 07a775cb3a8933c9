import { create } from "@bufbuild/protobuf";
import { Asset_Status, type Asset as AssetMessage, AssetSchema } from "../../gen/vega/assets_pb.js";
import type { Random } from "./random.js";

/**
 * Sets of assets and markets. `varied`: every magnitude, state and trading mode, for tests. `realistic`: familiar ones.
 */
export type MarketProfile = "varied" | "realistic";

/** What is told of an asset. */
export interface AssetDefinition {
  readonly id: string;
  readonly symbol: string;
  readonly name: string;
  readonly decimals: number;
}

/** An asset of the simulated network. */
export interface Asset extends AssetDefinition {
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
  {
    symbol: "tUSD",
    name: "Simulated dollar",
    decimals: 6,
    unit: 7n,
    deposit: 25_000_000_003n,
    endowment: 900_000_000_000_001n,
  },
  {
    symbol: "tETH",
    name: "Simulated ether",
    decimals: 18,
    unit: 1_000_003_000_000n,
    deposit: 10n ** 22n + 7n,
    endowment: 3n * 10n ** 26n + 11n,
  },
  {
    symbol: "tWEI",
    name: "Simulated coin of tiny parts",
    decimals: 60,
    unit: 10n ** 60n + 987_654_321n,
    deposit: 10n ** 73n + 13n,
    endowment: 105n * 10n ** 75n + 17n,
  },
] as const;

/** Familiar currencies with 6 decimals. The unit is one whole. */
const realisticKinds = [
  {
    symbol: "USD",
    name: "US dollar",
    decimals: 6,
    unit: 1_000_000n,
    deposit: 50_000_000_000n,
    endowment: 2_500_000_000_000_000n,
  },
  {
    symbol: "EUR",
    name: "Euro",
    decimals: 6,
    unit: 1_000_000n,
    deposit: 50_000_000_000n,
    endowment: 2_500_000_000_000_000n,
  },
] as const;

/** The assets of a {@link MarketProfile}. */
export function makeAssets(random: Random, profile: MarketProfile): Asset[] {
  const kinds = profile === "realistic" ? realisticKinds : assetKinds;
  return kinds.map((kind) => ({ id: random.identifier(), ...kind }));
}

/** How an asset is announced, from its proposal to its use: the builtin ones and those of contracts take turns. */
export function assetLife({ id, name, symbol, decimals }: AssetDefinition, index: number): AssetMessage[] {
  const contractAddress = `0x${id.slice(0, 40)}`;
  const source =
    index % 2 === 0
      ? { case: "builtinAsset" as const, value: { maxFaucetAmountMint: "1000000000" } }
      : { case: "erc20" as const, value: { contractAddress, lifetimeLimit: "9000000000", withdrawThreshold: "1" } };
  const details = { name, symbol, decimals: BigInt(decimals), quantum: "1", source };
  const life = [Asset_Status.PROPOSED, Asset_Status.PENDING_LISTING, Asset_Status.ENABLED];
  return life.map((status) => create(AssetSchema, { id, details, status }));
}
