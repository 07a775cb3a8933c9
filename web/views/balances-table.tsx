import type { ReadRange } from "../accounts/account-range.js";
import { type BalanceRow, balanceRows } from "../accounts/balances.js";
import { accountHref, accountText } from "../components/account-name.js";
import { AssetAmount } from "../components/asset-amount.js";
import { AssetName } from "../components/asset-name.js";
import { Scroll } from "../components/scroll.js";
import { shortTime } from "../format/time-text.js";
import type { Account } from "../service/messages.js";

/** Accounts of a party that are listed; the others are counted. */
const rowsMax = 100;

const { compare } = new Intl.Collator("en", { numeric: true });

interface BalancesTableProps {
  readonly range: ReadRange;
  /** The accounts at the bounds that the range has, its start first, and now. */
  readonly times: readonly (readonly Account[])[];
  /** Undefined: the accounts are of several assets, and have no sum. */
  readonly assetId: string | undefined;
  readonly nameOf: (marketId: string) => string;
}

const sumOf = (rows: readonly BalanceRow[], column: number) =>
  rows.reduce((sum, { balances }) => sum + (balances[column] ?? 0n), 0n);

/** What the bounds that a range has are called, its start first. */
function boundNames({ startNs, endNs, newestNs }: ReadRange): string[] {
  const names = [startNs, endNs].map((timeNs) => (timeNs === undefined ? "" : `Before ${shortTime(timeNs)}`));
  return names.with(1, newestNs === undefined ? (names[1] ?? "") : `Until ${shortTime(newestNs)}`).filter(Boolean);
}

/** What accounts hold: at the start and the end of a range, and now. */
export function BalancesTable({ range, times, assetId, nameOf }: BalancesTableProps) {
  const columns = [...boundNames(range), "Now"];
  const rows = balanceRows(times)
    .map((row) => ({ ...row, name: accountText(row.account, nameOf) }))
    .sort((a, b) => Number(a.account.marketId !== "") - Number(b.account.marketId !== "") || compare(a.name, b.name));
  const held = rows.filter(({ balances }) => balances.some((balance) => balance !== 0n));
  const shown = held.slice(0, rowsMax);
  const empty = rows.length - held.length;
  const unlisted = held.length - shown.length;
  return (
    <>
      <Scroll label="Balances">
        <table id="balances" class="stack">
          <thead>
            <tr>
              <th scope="col">Account</th>
              {columns.map((name) => (
                <th key={name} scope="col" class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map(({ account, balances, name: text }) => (
              <tr key={JSON.stringify(account)}>
                <th scope="row">
                  <a href={accountHref(account)}>{text}</a>{" "}
                  {assetId === undefined && <AssetName assetId={account.asset} />}
                </th>
                {columns.map((name, column) => (
                  <td key={name} class="number" data-label={name}>
                    <AssetAmount value={balances[column]} assetId={account.asset} />
                  </td>
                ))}
              </tr>
            ))}
            {assetId !== undefined && (
              <tr class="total">
                <th scope="row">together</th>
                {columns.map((name, column) => (
                  <td key={name} class="number" data-label={name}>
                    <AssetAmount value={sumOf(rows, column)} assetId={assetId} hasUnit />
                  </td>
                ))}
              </tr>
            )}
          </tbody>
        </table>
      </Scroll>
      {unlisted > 0 && <p class="quiet">{unlisted} more accounts are not listed.</p>}
      {empty > 0 && (
        <p class="quiet">{empty === 1 ? "One account is" : `${empty} accounts are`} empty at these times.</p>
      )}
    </>
  );
}
