import { instant } from "../../src/domain/instant.js";
import { useAsset } from "../components/asset-amount.js";
import { AssetName } from "../components/asset-name.js";
import { Card } from "../components/card.js";
import { Facts } from "../components/facts.js";
import { WholeIdentifier } from "../components/whole-identifier.js";
import { missing } from "../format/decimal.js";
import { cut, printable } from "../format/names.js";
import { queryHref } from "../route.js";
import type { Market } from "../service/messages.js";

/** The network's texts may be much longer. All of them are below, as it announced them. */
const textLengthMax = 120;

const shown = (text: string | undefined) => cut(printable(text || missing), textLengthMax);

/** A market's instrument and terms, in short and as the network announced them. */
export function Instrument({ market }: { readonly market: Market }) {
  const instrument = market.tradableInstrument?.instrument;
  const asset = instrument?.future?.settlementAsset ?? "";
  const decimals = useAsset(asset)?.decimals;
  const fees = market.fees?.factors;
  const ofAsset = queryHref("ledger", new URLSearchParams({ "filter.fromAccountFilter.assetId": asset }));
  return (
    <Card title="Instrument">
      <Facts
        facts={[
          ["Code", shown(instrument?.code)],
          ["Name", shown(instrument?.name)],
          ["Quoted in", shown(instrument?.future?.quoteName)],
          ["Settlement asset", asset === "" ? missing : <AssetName assetId={asset} href={ofAsset} />],
          ["Its decimals", asset === "" ? missing : (decimals ?? "not known: its amounts are unscaled")],
          ["Decimals of prices, sizes", `${market.decimalPlaces}, ${market.positionDecimalPlaces}`],
          ["Fees: maker, infrastructure, liquidity", fees === undefined ? missing : Object.values(fees).join(", ")],
          ["Opened (UTC)", instant(market.marketTimestamps?.open).slice(0, 19) || missing],
          ["Closes (UTC)", instant(market.marketTimestamps?.close).slice(0, 19) || missing],
          ["Market", <WholeIdentifier id={market.id} name="market identifier" />],
        ]}
      />
      <details>
        <summary>As the network announced it</summary>
        <pre>{JSON.stringify(market, undefined, 2).split("\n").map(printable).join("\n")}</pre>
      </details>
    </Card>
  );
}
