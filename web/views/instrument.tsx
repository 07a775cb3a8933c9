import { instant } from "../../src/domain/instant.js";
import { AssetDecimals } from "../components/asset-amount.js";
import { Card } from "../components/card.js";
import { Facts } from "../components/facts.js";
import { Identifier } from "../components/identifier.js";
import { missing } from "../format/decimal.js";
import { queryHref } from "../route.js";
import type { Market } from "../service/messages.js";

/** A market's instrument and terms, in short and as the network announced them. */
export function Instrument({ market }: { readonly market: Market }) {
  const instrument = market.tradableInstrument?.instrument;
  const asset = instrument?.future?.settlementAsset ?? "";
  const fees = market.fees?.factors;
  const ofAsset = queryHref("ledger", new URLSearchParams({ "filter.fromAccountFilter.assetId": asset }));
  return (
    <Card title="Instrument">
      <Facts
        facts={[
          ["Code", instrument?.code || missing],
          ["Name", instrument?.name || missing],
          ["Quoted in", instrument?.future?.quoteName ?? missing],
          ["Settlement asset", asset === "" ? missing : <Identifier id={asset} href={ofAsset} />],
          ["Its decimals", asset === "" ? missing : <AssetDecimals assetId={asset} />],
          ["Decimals of prices, sizes", `${market.decimalPlaces}, ${market.positionDecimalPlaces}`],
          ["Fees: maker, infrastructure, liquidity", fees === undefined ? missing : Object.values(fees).join(", ")],
          ["Opened (UTC)", instant(market.marketTimestamps?.open).slice(0, 19) || missing],
          ["Closes (UTC)", instant(market.marketTimestamps?.close).slice(0, 19) || missing],
          ["Market", <Identifier id={market.id} />],
        ]}
      />
      <details>
        <summary>As the network announced it</summary>
        <pre>{JSON.stringify(market, undefined, 2)}</pre>
      </details>
    </Card>
  );
}
