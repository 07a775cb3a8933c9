import { instant } from "../../src/domain/instant.js";
import { Amount } from "../components/amount.js";
import { Identifier } from "../components/identifier.js";
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
}

const ofParty = (party: string) =>
  queryHref(
    "ledger",
    new URLSearchParams({ "filter.fromAccountFilter.partyIds": party, "filter.toAccountFilter.partyIds": party }),
  );
const ofAsset = (asset: string) =>
  queryHref(
    "ledger",
    new URLSearchParams({ "filter.fromAccountFilter.assetId": asset, "filter.toAccountFilter.assetId": asset }),
  );

function Account(props: { party: string; type: string; market: string | undefined; balance: string }) {
  const { party, type, market, balance } = props;
  return (
    <>
      {party === networkParty ? party : <Identifier id={party} href={ofParty(party)} />}
      <span class="quiet">
        {enumName(type, "ACCOUNT_TYPE_")}
        {market === undefined ? "" : ` in ${market}`}
      </span>
      <span class="quiet balance">
        balance <Amount value={balance} />
      </span>
    </>
  );
}

/** Ledger entries, in the order of the list. */
export function LedgerTable({ edges, arrived, nameOf }: LedgerTableProps) {
  const marketOf = (id: string | undefined) => (id === undefined ? undefined : nameOf(id));
  return (
    <section class="scroll" aria-label="Ledger entries">
      <table id="entries" class="entries">
        <caption class="quiet">Amounts and balances are in the asset's smallest unit.</caption>
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
              <td>
                <Account
                  party={node.fromAccountPartyId}
                  type={node.fromAccountType}
                  market={marketOf(node.fromAccountMarketId)}
                  balance={node.fromAccountBalance}
                />
              </td>
              <td>
                <Account
                  party={node.toAccountPartyId}
                  type={node.toAccountType}
                  market={marketOf(node.toAccountMarketId)}
                  balance={node.toAccountBalance}
                />
              </td>
              <td class="number">
                <Amount value={node.quantity} />
              </td>
              <td>
                <Identifier id={node.assetId} href={ofAsset(node.assetId)} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
