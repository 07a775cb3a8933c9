import { AssetDecimals } from "../components/asset-amount.js";
import { Card } from "../components/card.js";
import { Identifier } from "../components/identifier.js";

interface LedgerAssetsProps {
  readonly assetIds: readonly string[];
  /** What is known of an asset, in a few words, or empty. */
  readonly useOf: (assetId: string) => string;
}

/** The assets of a page of entries, and how their amounts are scaled. */
export function LedgerAssets({ assetIds, useOf }: LedgerAssetsProps) {
  return (
    <Card title="Assets of these entries">
      <p class="quiet">
        The service knows assets by their identifiers and not their decimals. Give those of an asset, and this page
        scales its amounts and stakes. This browser remembers them.
      </p>
      <table id="assets" class="plain">
        <thead>
          <tr>
            <th scope="col">Asset</th>
            <th scope="col">Decimals</th>
          </tr>
        </thead>
        <tbody>
          {assetIds.map((id) => (
            <tr key={id}>
              <td>
                <Identifier id={id} /> <span class="quiet">{useOf(id)}</span>
              </td>
              <td>
                <AssetDecimals assetId={id} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}
