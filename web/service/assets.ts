import { printable, shortId, withLabels } from "../format/names.js";
import { Observable } from "../hooks/observable.js";
import type { Asset } from "./messages.js";
import { listAssets } from "./service.js";

/** Assets that are read: as many as one response holds. Further ones are shown like assets that the service lacks. */
const assetsMax = 5_000;
const pollMs = 10_000;

/** An asset and what it is called. */
export interface NamedAsset {
  readonly id: string;
  /** Its symbol, or what stands for it. */
  readonly name: string;
  /** The symbol, cut, and the identifier where other assets have the same: no two assets have the same label. */
  readonly label: string;
  /** Its long name; empty: it has none. */
  readonly title: string;
  readonly decimals: number;
}

/** The service's assets by their identifiers; undefined: they are not read yet. */
export const assets = new Observable<ReadonlyMap<string, NamedAsset> | undefined>(undefined);

/** Reads the assets, again and again: the network may announce more. */
export function followAssets(): void {
  listAssets([["pagination.first", String(assetsMax)]])
    .then(
      ({ edges }) => assets.set(namedById(edges.map(({ node }) => node))),
      () => assets.value ?? assets.set(new Map()),
    )
    .finally(() => setTimeout(followAssets, pollMs));
}

function namedById(all: readonly Asset[]): ReadonlyMap<string, NamedAsset> {
  const named = all.map(({ id, details }) => ({
    id,
    name: printable(details?.symbol || details?.name || "") || shortId(id),
    title: printable(details?.name ?? ""),
    decimals: Number(details?.decimals ?? 0),
  }));
  return new Map(withLabels(named).map((asset) => [asset.id, asset]));
}

/**
 * The identifier of the asset that a reader names by identifier, label, symbol or name. Other text is taken for an
 * identifier.
 * @throws {Error} at a symbol or name that several assets have
 */
export function assetIdOf(text: string): string {
  const all = [...(assets.value?.values() ?? [])];
  const exact = all.find(({ id, label }) => id === text || label === text);
  const called = (names: (asset: NamedAsset) => string) =>
    all.filter((asset) => names(asset).toLowerCase() === text.toLowerCase());
  const symbols = called(({ name }) => name);
  const same = symbols.length > 0 || text === "" ? symbols : called(({ title }) => title);
  if (exact === undefined && same.length > 1) {
    throw new Error(`${same.length} assets are called "${text}": choose one, or give its id`);
  }
  return (exact ?? same[0])?.id ?? text;
}
