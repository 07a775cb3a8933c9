import type { Asset } from "../../../gen/vega/assets_pb.js";
import { scaled } from "../../../src/domain/decimal-text.js";
import { quoted } from "../../../src/domain/printable.js";

/** The most decimal places that a market or an asset can have, before or after the point: numbers have at most 78 digits. */
export const decimalPlacesMax = 78;

/** Decimal places of a market's prices and sizes. Those of sizes may be negative: -3 counts in thousands. */
export interface Decimals {
  readonly price: number;
  readonly size: number;
}

/** What says how a market's numbers are scaled: a `Market`, a `MarketHistoryStatus`, or a book of the past. */
export interface Scale {
  readonly id?: string;
  readonly marketId?: string;
  readonly decimalPlaces: bigint;
  readonly positionDecimalPlaces: bigint;
}

/** The decimal places of a market. @throws RangeError that names the market, beyond {@link decimalPlacesMax} */
export function decimalsOf({ id, marketId, decimalPlaces, positionDecimalPlaces }: Scale): Decimals {
  const name = id ?? marketId ?? "";
  return {
    price: placesOf("market", name, decimalPlaces),
    size: placesOf("market", name, positionDecimalPlaces),
  };
}

function placesOf(what: string, id: string, places: bigint): number {
  if (places <= decimalPlacesMax && places >= -decimalPlacesMax) return Number(places);
  throw new RangeError(`${what} ${quoted(id)} has ${places} decimal places; at most ${decimalPlacesMax} can be right`);
}

/** A price of a market as a decimal number: `"12345"` with 2 decimal places is `123.45`. @throws RangeError */
export function scaledPrice(market: Scale, price: string | bigint): string {
  return scaled(price, decimalsOf(market).price, "");
}

/** A volume or size of a market as a decimal number. @throws RangeError */
export function scaledSize(market: Scale, size: bigint | string): string {
  return scaled(size, decimalsOf(market).size, "");
}

/** An amount of an asset, such as a balance, as a decimal number. @throws RangeError that names the asset */
export function scaledAmount({ id, details }: Pick<Asset, "id" | "details">, amount: bigint | string): string {
  return scaled(amount, placesOf("asset", id, details?.decimals ?? 0n), "");
}
