import { missing } from "../format/decimal.js";
import { shortId } from "../format/names.js";
import { useObservable } from "../hooks/observable.js";
import { assets, type NamedAsset } from "../service/assets.js";
import { Amount } from "./amount.js";

const unscaledTitle = "The service does not know the decimals of this asset: the amount is in its smallest unit.";

/** An asset by its identifier; undefined: the service does not know it, or the assets are not read yet. */
export function useAsset(assetId: string): NamedAsset | undefined {
  return useObservable(assets, (all) => all?.get(assetId));
}

/** Whether the service's assets are read, and this one is not among them. */
export function useIsUnscaled(assetId: string): boolean {
  return useObservable(assets, (all) => all !== undefined && !all.has(assetId));
}

interface AssetAmountProps {
  readonly value: string | bigint | undefined;
  readonly assetId: string;
  /** Whether the asset's symbol follows the amount. */
  readonly hasUnit?: boolean;
}

/** An amount of an asset, scaled by its decimals. One of an asset that the service does not know says that it is not. */
export function AssetAmount({ value, assetId, hasUnit = false }: AssetAmountProps) {
  const asset = useAsset(assetId);
  const isUnscaled = useIsUnscaled(assetId);
  if (asset === undefined && !isUnscaled) return <span>{missing}</span>;
  return (
    <span>
      <Amount value={value} places={asset?.decimals ?? 0} />
      {hasUnit && <span class="unit"> {asset?.label ?? shortId(assetId)}</span>}
      {isUnscaled && (
        <span class="unscaled" title={unscaledTitle}>
          {" "}
          unscaled
        </span>
      )}
    </span>
  );
}
