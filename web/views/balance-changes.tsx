import type { AccountRange } from "../accounts/account-range.js";
import { accountOf } from "../accounts/balances.js";
import { type AccountHistory, changesMax } from "../accounts/read-account.js";
import { accountHref, accountText } from "../components/account-name.js";
import { AssetAmount, useAsset } from "../components/asset-amount.js";
import { AssetName } from "../components/asset-name.js";
import { BalanceChart } from "../components/balance-chart.js";
import { Pager } from "../components/pager.js";
import { Scroll } from "../components/scroll.js";
import { Time } from "../components/time.js";
import { grouped, missing, scaled } from "../format/decimal.js";
import type { BalanceChange, Connection } from "../service/messages.js";

interface HistoryChartProps {
  readonly assetId: string;
  readonly range: AccountRange;
  readonly history: AccountHistory;
  /** Time of the newest block, in nanoseconds. */
  readonly newestNs: bigint;
}

/** What accounts of an asset held together, over a range of times. */
export function HistoryChart({ assetId, range, history, newestNs }: HistoryChartProps) {
  const asset = useAsset(assetId);
  const { first, steps, since, isCut } = history;
  const endNs = range.endNs === undefined || range.endNs > newestNs ? newestNs : range.endNs;
  const last = steps.at(-1) ?? { timestamp: "0", total: first };
  const end = endNs > BigInt(last.timestamp) ? [{ timestamp: String(endNs), total: last.total }] : [];
  const drawn = [...(since === undefined ? [] : [{ timestamp: since, total: first }]), ...steps, ...end];
  if (steps.length === 0 || drawn.length < 2) return null;
  const places = asset?.decimals ?? 0;
  const description = `What the accounts held together, at the end ${scaled(last.total, places)}`;
  return (
    <>
      <BalanceChart steps={drawn} places={places} description={description} />
      {isCut && <p class="quiet">The newest {grouped(String(changesMax(range)))} changes are drawn.</p>}
    </>
  );
}

/** By how much a change moved its account, with its sign. */
export function Move({ moved, assetId }: { readonly moved: bigint | undefined; readonly assetId: string }) {
  if (moved === undefined) return <span>{missing}</span>;
  return (
    <span class="change" data-trend={moved < 0n ? "down" : "up"}>
      {moved < 0n ? "−" : "+"}
      <AssetAmount value={moved < 0n ? -moved : moved} assetId={assetId} />
    </span>
  );
}

interface BalanceChangesProps {
  readonly query: URLSearchParams;
  readonly page: Connection<BalanceChange>;
  /** Undefined: it is not read yet. */
  readonly history: AccountHistory | undefined;
  readonly nameOf: (marketId: string) => string;
}

/** The balances that changed, a row for each block and account. */
export function BalanceChanges({ query, page, history, nameOf }: BalanceChangesProps) {
  if (page.edges.length === 0)
    return (
      <p id="no-changes" class="quiet">
        No balance changed in this time.
      </p>
    );
  const isOfAll = (query.get("filter.assetId") ?? "") === "";
  return (
    <>
      <Scroll label="Changes">
        <table id="changes" class="stack">
          <thead>
            <tr>
              <th scope="col">Block time (UTC)</th>
              <th scope="col">Account</th>
              <th scope="col" class="number">
                Change
              </th>
              <th scope="col" class="number">
                Balance after it
              </th>
            </tr>
          </thead>
          <tbody>
            {page.edges.map(({ node, cursor }) => (
              <tr key={cursor}>
                <th scope="row">
                  <Time at={node.timestamp} />
                </th>
                <td data-label="Account">
                  <a href={accountHref(accountOf(node))}>{accountText(accountOf(node), nameOf)}</a>{" "}
                  {isOfAll && <AssetName assetId={node.assetId} />}
                </td>
                <td class="number" data-label="Change">
                  <Move moved={history?.moveOf.get(cursor)} assetId={node.assetId} />
                </td>
                <td class="number" data-label="Balance after it">
                  <AssetAmount value={node.balance} assetId={node.assetId} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <Pager view="account" query={query} pageInfo={page.pageInfo} rows={page.edges.length} />
    </>
  );
}
