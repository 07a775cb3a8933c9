import { useObservable } from "../hooks/observable.js";
import { assetDecimals, assetDecimalsMax, setAssetDecimals } from "../service/asset-decimals.js";
import { Amount } from "./amount.js";

function useDecimals(assetId: string): number {
  return useObservable(assetDecimals, (all) => all.get(assetId) ?? 0);
}

/** An amount of an asset: in its smallest unit, or scaled by the decimals that the reader gave. */
export function AssetAmount({ value, assetId }: { readonly value: string; readonly assetId: string }) {
  return <Amount value={value} places={useDecimals(assetId)} />;
}

/** Where the reader gives an asset's decimals. */
export function AssetDecimals({ assetId }: { readonly assetId: string }) {
  const decimals = useDecimals(assetId);
  const change = ({ currentTarget: input }: { currentTarget: HTMLInputElement }) => {
    setAssetDecimals(assetId, input.valueAsNumber);
    input.value = String(assetDecimals.value.get(assetId));
  };
  return (
    <input
      class="decimals"
      type="number"
      min={0}
      max={assetDecimalsMax}
      value={decimals}
      aria-label={`Decimals of asset ${assetId}`}
      onInput={change}
    />
  );
}
