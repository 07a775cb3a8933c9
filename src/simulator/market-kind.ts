import type { Asset } from "./asset.js";
import { type MarketRole, roleOf } from "./market-role.js";
import type { Scale } from "./simulated-order.js";

/** The names of a market, and the scale of its integers. */
export interface Listing {
  /** What is traded. */
  readonly base: string;
  readonly code: string;
  readonly name: string;
  readonly decimalPlaces: number;
  readonly positionDecimalPlaces: number;
}

/** The definition of a simulated market. */
export interface MarketKind {
  readonly listing: Listing;
  /** The settlement asset. */
  readonly asset: Asset;
  readonly scale: Scale;
  readonly role: MarketRole;
  /** The price in ticks at which the market starts, and near which it stays. Undefined: any start, without such a pull. */
  readonly usualPrice: number | undefined;
  /** The volatility of prices and the spread of orders, relative to 1. */
  readonly volatility: number;
}

const bases = ["BTC", "ETH", "SOL", "XAU", "OIL", "EURUSD", "AVAX", "LINK", "DOT", "UNI", "GAS", "WHEAT"];

const scales: readonly Scale[] = [
  { price: String, size: BigInt },
  // Prices above 2^64.
  { price: (ticks) => (BigInt(ticks) * 1_000_000_000_000_007n).toString(), size: (lots) => BigInt(lots) * 100_000n },
  { price: (ticks) => `${ticks}000`, size: (lots) => BigInt(lots) * 1_000n },
  // Volumes above 2^53.
  { price: (ticks) => `${ticks}00000`, size: (lots) => BigInt(lots) * 20_000_000_000_003n },
];

/** Markets for tests: one of each role, with prices and volumes of every magnitude. */
export function variedMarket(index: number, assets: readonly Asset[]): MarketKind {
  const asset = assets[index % assets.length];
  const scale = scales[index % scales.length];
  if (asset === undefined || scale === undefined) throw new RangeError("a market needs an asset and a scale");
  const base = bases[index % bases.length] ?? "BTC";
  const series = Math.floor(index / bases.length) + 1;
  const listing = {
    base,
    code: `${base}/${asset.symbol}.F${series}`,
    name: `${base} future ${series}, settled in ${asset.symbol}`,
    decimalPlaces: 2 + (index % 5),
    positionDecimalPlaces: index % 4 === 3 ? -1 : index % 4,
  };
  return { listing, asset, scale, role: roleOf(index), usualPrice: undefined, volatility: 1 };
}

/** A market as a real exchange might list it. */
interface RealisticListing extends Listing {
  /** Index of the quote and settlement asset: 0 USD, 1 EUR. */
  readonly quote: 0 | 1;
  /** Smallest step of the price, in units of the last decimal place. */
  readonly tick: number;
  /** Smallest size of an order, in units of the last position decimal place. */
  readonly lot: number;
  /** In ticks, from 10,000 to 80,000. */
  readonly usualPrice: number;
  /** See {@link MarketKind.volatility}. */
  readonly volatility: number;
}

function realistic(
  code: string,
  name: string,
  [usualPrice, tick, decimalPlaces]: readonly [number, number, number],
  [lot, positionDecimalPlaces]: readonly [number, number],
  volatility = 1,
): RealisticListing {
  const [base = "", quoteSymbol] = code.split("/");
  const quote = quoteSymbol === "EUR" ? 1 : 0;
  return { base, code, name, decimalPlaces, positionDecimalPlaces, quote, tick, lot, usualPrice, volatility };
}

/** Code, name, [price in ticks, tick, decimals], [lot, position decimals], volatility. */
const realisticListings: readonly RealisticListing[] = [
  realistic("BTC/USD", "Bitcoin in US dollars", [64_200, 10, 1], [5, 3]),
  realistic("ETH/USD", "Ether in US dollars", [31_480, 10, 2], [5, 2]),
  realistic("EUR/USD", "Euro in US dollars", [54_250, 2, 5], [1_000, 0], 0.15),
  realistic("SOL/USD", "Solana in US dollars", [14_820, 1, 2], [5, 1]),
  realistic("XAU/USD", "Gold, troy ounce, in US dollars", [23_510, 10, 2], [1, 1], 0.5),
  realistic("GBP/USD", "Pound sterling in US dollars", [63_550, 2, 5], [1_000, 0], 0.15),
  realistic("WTI/USD", "Crude oil, barrel, in US dollars", [15_680, 5, 3], [10, 0]),
  realistic("BTC/EUR", "Bitcoin in euros", [59_170, 10, 1], [5, 3]),
  realistic("ETH/EUR", "Ether in euros", [29_010, 10, 2], [5, 2]),
  realistic("AVAX/USD", "Avalanche in US dollars", [36_400, 1, 3], [1, 0]),
  realistic("LINK/USD", "Chainlink in US dollars", [17_850, 1, 3], [2, 0]),
  realistic("XAU/EUR", "Gold, troy ounce, in euros", [21_670, 10, 2], [1, 1], 0.5),
];

/** Markets for demos: familiar prices, sizes and stakes, and all of them trade. */
export function realisticMarket(index: number, assets: readonly Asset[]): MarketKind {
  const listing = realisticListings[index % realisticListings.length];
  const asset = assets[listing?.quote ?? 0];
  if (listing === undefined || asset === undefined) throw new RangeError("a market needs a listing and an asset");
  const { tick, lot, decimalPlaces, positionDecimalPlaces, usualPrice, volatility } = listing;
  const decimals = decimalPlaces + positionDecimalPlaces;
  // An asset's unit is the amount of one tick times one lot.
  const unit = (BigInt(tick * lot) * asset.unit) / 10n ** BigInt(decimals);
  const scale = { price: (ticks: number) => String(ticks * tick), size: (lots: number) => BigInt(lots * lot) };
  const series = Math.floor(index / realisticListings.length) + 1;
  const code = series === 1 ? listing.code : `${listing.code}.${series}`;
  return {
    listing: { ...listing, code },
    asset: { ...asset, unit },
    scale,
    role: "continuous",
    usualPrice,
    volatility,
  };
}
