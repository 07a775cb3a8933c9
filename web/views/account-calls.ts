import type { Call } from "../calls/call.js";
import { requestMessage } from "../calls/request-message.js";
import { paths } from "../service/service.js";

/** The parameters of the ledger's list that select the entries of accounts. */
export function entriesQuery(filter: URLSearchParams, range: URLSearchParams): URLSearchParams {
  const sides = ["fromAccountFilter", "toAccountFilter"];
  const given = [...filter].flatMap(([name, value]) =>
    sides.map((side) => [name.replace("filter.", `filter.${side}.`), value]),
  );
  return new URLSearchParams([...given, ...range].map(([name = "", value = ""]) => [name, value]));
}

/** The calls behind the view of accounts. `asOf` is the last nanosecond of the range, or empty. */
export function accountCalls(filter: URLSearchParams, range: URLSearchParams, asOf: string): readonly Call[] {
  const balances = (title: string, query: URLSearchParams): Call => ({
    title,
    path: paths.accounts,
    query,
    method: "ListAccounts",
    request: requestMessage(query),
    response: "message",
  });
  const changes = new URLSearchParams([...filter, ...range]);
  const entries = entriesQuery(filter, range);
  return [
    ...(asOf === "" ? [] : [balances("What it held", new URLSearchParams([...filter, ["asOf", asOf]]))]),
    balances("What it holds now", filter),
    {
      title: "When that changed",
      path: paths.balanceChanges,
      query: changes,
      method: "ListBalanceChanges",
      request: requestMessage(changes),
      response: "message",
    },
    {
      title: "What moved it",
      path: paths.ledger,
      query: entries,
      method: "ListLedgerEntries",
      request: requestMessage(entries),
      response: "message",
    },
  ];
}
