import { cut, nameLengthMax } from "../format/names.js";
import { useAsset } from "./asset-amount.js";
import { Identifier } from "./identifier.js";

interface AssetNameProps {
  readonly assetId: string;
  readonly href?: string;
  /** What is known of an asset without a name, in a few words, or empty. */
  readonly use?: string;
}

/** An asset's symbol and name; the identifier is in its tooltip, and stands for a symbol that is not known. */
export function AssetName({ assetId, href, use = "" }: AssetNameProps) {
  const asset = useAsset(assetId);
  return (
    <>
      <Identifier id={assetId} href={href} label={asset?.label} />{" "}
      <span class="quiet name">{cut(asset?.title ?? use, nameLengthMax)}</span>
    </>
  );
}
