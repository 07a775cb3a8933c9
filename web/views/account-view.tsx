import { useState } from "preact/hooks";
import { type AccountRange, dayOf, dayText, rangeOf } from "../accounts/account-range.js";
import type { AppProps } from "../app.js";
import { Calls } from "../calls/calls.js";
import { Card } from "../components/card.js";
import { WholeIdentifier } from "../components/whole-identifier.js";
import { shortTime } from "../format/time-text.js";
import { useMarketNames } from "../hooks/use-market-names.js";
import { accountCalls } from "./account-calls.js";
import { AccountForm, DayChoice } from "./account-form.js";
import { AccountPanels } from "./account-panels.js";
import { useLinkQuery } from "./form-query.js";

/** A range of times in words; empty: it is all time. */
function rangeText(range: AccountRange): string {
  const day = dayOf(range);
  if (day !== undefined) return `${dayText(day)} (UTC)`;
  const { startNs, endNs } = range;
  const bounds = [
    ...(startNs === undefined ? [] : [`from ${shortTime(startNs)}`]),
    ...(endNs === undefined ? [] : [`before ${shortTime(endNs)}`]),
  ];
  return bounds.length === 0 ? "" : `${bounds.join(" ")} (UTC)`;
}

const only = (query: URLSearchParams, prefix: string) =>
  new URLSearchParams([...query].filter(([name]) => name.startsWith(prefix)));
/** What is read: the same at every page. */
const keyOf = (query: URLSearchParams) => `${only(query, "filter.")} ${only(query, "dateRange.")}`;

/** The accounts of a party: what they held, when that changed, and by which entries. */
export function AccountView({ query: link, ...app }: AppProps & { readonly query: URLSearchParams }) {
  const { query, problem, isLoading, setProblem } = useLinkQuery(link);
  const [filter, times] = [only(query, "filter."), only(query, "dateRange.")];
  const range = rangeOf(times);
  const markets = useMarketNames(app.books, app.directory);
  const party = filter.get("filter.partyIds") ?? "";
  const key = keyOf(query);
  /** Counts readings of the same query. */
  const [reading, setReading] = useState(0);
  const shown = (given: URLSearchParams) => {
    setProblem("");
    if (keyOf(given) === key) setReading((last) => last + 1);
  };
  const asOf = range.endNs === undefined ? "" : String(range.endNs - 1n);
  return (
    <>
      <div class="heading">
        <h1>Account</h1>
        <p class="quiet">{party !== "" && <WholeIdentifier id={party} name="party identifier" />}</p>
      </div>
      <Card title="Party and time">
        <AccountForm {...{ query, markets, problem }} onProblem={setProblem} onShow={shown} />
        {party !== "" && <DayChoice query={query} range={range} />}
      </Card>
      {party === "" ? (
        <p id="no-party" class="notice">
          Give a party to see what it holds, what it held at any time, and what moved it. Parties are linked in the{" "}
          <a href="#/ledger">ledger</a>.
        </p>
      ) : problem !== "" || isLoading ? null : (
        <>
          <AccountPanels
            key={`${key} ${reading}`}
            {...{ query, filter, times, range, ...app }}
            rangeText={rangeText(range)}
          />
          <Calls calls={accountCalls(filter, times, asOf)} />
        </>
      )}
    </>
  );
}
