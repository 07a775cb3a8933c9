import { Observable } from "../hooks/observable.js";

const storageKey = "marketd-asset-decimals";
/** More than any asset has. */
export const assetDecimalsMax = 30;

/**
 * Decimal places by which the reader has amounts of an asset scaled, by its identifier. The API does not state them,
 * so an asset without is shown in its smallest unit. This browser remembers them.
 */
export const assetDecimals = new Observable<ReadonlyMap<string, number>>(remembered());

function remembered(): ReadonlyMap<string, number> {
  try {
    return new Map(JSON.parse(localStorage.getItem(storageKey) ?? "[]") as [string, number][]);
  } catch {
    return new Map();
  }
}

/** Sets an asset's decimals, cut to an integer from 0 to {@link assetDecimalsMax}. */
export function setAssetDecimals(assetId: string, wanted: number): void {
  const decimals = Math.min(assetDecimalsMax, Math.max(0, Math.trunc(wanted) || 0));
  assetDecimals.set(new Map(assetDecimals.value).set(assetId, decimals));
  try {
    localStorage.setItem(storageKey, JSON.stringify([...assetDecimals.value]));
  } catch {
    // A browser that stores nothing forgets them with the page.
  }
}
