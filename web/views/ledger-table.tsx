import { instant } from "../../src/domain/instant.js";
import { accountHref, accountText } from "../components/account-name.js";
import { AssetAmount } from "../components/asset-amount.js";
import { AssetName } from "../components/asset-name.js";
import { Identifier } from "../components/identifier.js";
import { Scroll } from "../components/scroll.js";
import { enumName } from "../format/names.js";
import { queryHref } from "../route.js";
import type { LedgerEntry } from "../service/messages.js";

/** What the service calls the owner of accounts without one. */
const networkParty = "network";

interface LedgerTableProps {
  readonly edges: readonly { readonly node: LedgerEntry; readonly cursor: string }[];
  /** Cursors of entries that arrived since the last response. */
  readonly arrived: ReadonlySet<string>;
  readonly nameOf: (marketId: string) => string;
  /** What is known of an asset without a name, in a few words, or empty. */
  readonly useOf: (assetId: string) => string;
}

const ofAsset = (asset: string) =>
  queryHref(
    "ledger",
    new URLSearchParams({ "filter.fromAccountFilter.assetId": asset, "filter.toAccountFilter.assetId": asset }),
  );

interface AccountProps {
  readonly party: string;
  readonly type: string;
  readonly marketId: string | undefined;
  readonly balance: string;
  readonly assetId: string;
  readonly nameOf: (marketId: string) => string;
}

function Account({ party, type, marketId = "", balance, assetId, nameOf }: AccountProps) {
  const account = { owner: party, asset: assetId, marketId, type };
  return (
    <>
      {party === networkParty ? party : <Identifier id={party} href={accountHref({ owner: party, asset: assetId })} />}
      <span class="quiet">
        <a href={accountHref(account)}>{accountText(account, nameOf)}</a>
      </span>
      <span class="quiet balance">
        balance <AssetAmount value={balance} assetId={assetId} />
      </span>
    </>
  );
}

/** Ledger entries, in the order of the list. */
export function LedgerTable({ edges, arrived, nameOf, useOf }: LedgerTableProps) {
  return (
    <Scroll label="Table of entries">
      <table id="entries" class="entries">
        <caption class="visually-hidden">Ledger entries, with the balances after each</caption>
        <thead>
          <tr>
            <th scope="col">Time (UTC)</th>
            <th scope="col">Transfer</th>
            <th scope="col">From</th>
            <th scope="col">To</th>
            <th scope="col" class="number">
              Amount
            </th>
            <th scope="col">Asset</th>
          </tr>
        </thead>
        <tbody>
          {edges.map(({ node, cursor }) => (
            <tr key={cursor} data-flash={arrived.has(cursor) ? "a" : undefined}>
              <td class="amount" title={instant(node.timestamp)}>
                {instant(node.timestamp).slice(0, 23)}
              </td>
              <td>{enumName(node.transferType, "TRANSFER_TYPE_")}</td>
              <td data-label="From">
                <Account
                  party={node.fromAccountPartyId}
                  type={node.fromAccountType}
                  marketId={node.fromAccountMarketId}
                  nameOf={nameOf}
                  balance={node.fromAccountBalance}
                  assetId={node.assetId}
                />
              </td>
              <td data-label="To">
                <Account
                  party={node.toAccountPartyId}
                  type={node.toAccountType}
                  marketId={node.toAccountMarketId}
                  nameOf={nameOf}
                  balance={node.toAccountBalance}
                  assetId={node.assetId}
                />
              </td>
              <td class="number">
                <AssetAmount value={node.quantity} assetId={node.assetId} />
              </td>
              <td>
                <AssetName assetId={node.assetId} href={ofAsset(node.assetId)} use={useOf(node.assetId)} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
