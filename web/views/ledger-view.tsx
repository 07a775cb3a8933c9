import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { AppProps } from "../app.js";
import type { Call } from "../calls/call.js";
import { Calls } from "../calls/calls.js";
import { requestMessage } from "../calls/request-message.js";
import { Card } from "../components/card.js";
import { Pager, pageSize, withPage } from "../components/pager.js";
import { cut, nameLengthMax } from "../format/names.js";
import { useObservable } from "../hooks/observable.js";
import { staleNetwork, stalePoll } from "../hooks/staleness.js";
import { assetUse, type NamedMarket, useMarketNames } from "../hooks/use-market-names.js";
import { usePoll } from "../hooks/use-poll.js";
import { marketName } from "../service/market-directory.js";
import type { Connection, LedgerEntry } from "../service/messages.js";
import { listLedgerEntries, paths } from "../service/service.js";
import { useLinkQuery } from "./form-query.js";
import { exportQuery, LedgerDownload } from "./ledger-download.js";
import { LedgerForm } from "./ledger-form.js";
import { LedgerTable } from "./ledger-table.js";

const headPollMs = 2_000;
/** A network that has made no entry yet may never make one. */
const emptyPollMs = 30_000;

function ledgerCalls(query: URLSearchParams): readonly Call[] {
  const exported = exportQuery(query);
  const list: Call = {
    title: "These entries",
    path: paths.ledger,
    query,
    method: "ListLedgerEntries",
    request: requestMessage(query),
    response: "message",
  };
  if (exported.get("partyId") === "" || exported.get("assetId") === "") return [list];
  const file: Call = {
    title: "All entries of the party and the asset as CSV",
    path: paths.ledgerExport,
    query: [...exported, ["alt", "media"]],
    method: "ExportLedgerEntries",
    request: requestMessage(exported),
    response: "csv",
  };
  return [list, file];
}

/** Whether later blocks can have further entries of a range of times. */
function isOpen(query: URLSearchParams, newest: string | undefined): boolean {
  const end = query.get("dateRange.endTimestamp") ?? "";
  return newest === undefined || !/^[0-9]+$/.test(end) || BigInt(end) > BigInt(newest);
}

/** Cursors that the page before, of the same list, did not have. */
function useArrived(page: Connection<LedgerEntry> | undefined, key: string): ReadonlySet<string> {
  const last = useRef<{ key: string; cursors: ReadonlySet<string> } | undefined>(undefined);
  return useMemo(() => {
    if (page === undefined) return new Set<string>();
    const cursors = new Set(page.edges.map(({ cursor }) => cursor));
    const before = last.current?.key === key ? last.current.cursors : cursors;
    last.current = { key, cursors };
    return new Set([...cursors].filter((cursor) => !before.has(cursor)));
  }, [page, key]);
}

/** The ledger: a form for every filter, pages, and the CSV of a party and an asset. */
export function LedgerView({ query: link, ...app }: AppProps & { readonly query: URLSearchParams }) {
  const read = useLinkQuery(link);
  const named = useMarketNames(app.books, app.directory);
  return (
    <>
      <h1>Ledger</h1>
      <Card title="Filter">
        <LedgerForm {...read} markets={named} />
      </Card>
      {read.problem === "" && !read.isLoading && <LedgerEntries query={read.query} named={named} {...app} />}
    </>
  );
}

interface LedgerEntriesProps extends AppProps {
  readonly query: URLSearchParams;
  readonly named: readonly NamedMarket[];
}

function LedgerEntries({ query, named, directory, status }: LedgerEntriesProps) {
  const isPaged = ["first", "last"].some((name) => query.has(`pagination.${name}`));
  const network = useObservable(status.status, (value) => value);
  const grows = isOpen(query, network.response?.blockTimestamp);
  const isHead = !isPaged && query.get("pagination.newestFirst") !== "false" && grows;
  const asked = isPaged ? query : withPage(query, { first: String(pageSize) });
  const key = asked.toString();
  const isFiltered = [...query.keys()].some((name) => !name.startsWith("pagination."));
  const [isEmpty, setEmpty] = useState(false);
  const page = usePoll(() => listLedgerEntries(asked), isHead ? (isEmpty ? emptyPollMs : headPollMs) : 0, key);
  useEffect(() => {
    setEmpty(!isFiltered && page.value?.edges.length === 0);
  }, [isFiltered, page.value]);
  const standstill = staleNetwork(network);
  const stale = stalePoll(page) ?? (isHead ? standstill : undefined);
  const arrived = useArrived(page.value, key);
  const markets = useObservable(directory.markets, (value) => value);
  const useOf = (assetId: string) => assetUse(assetId, named);
  return (
    <>
      {page.error !== undefined && page.value === undefined && (
        <p id="problem" class="notice" role="alert">
          {page.error.message}
        </p>
      )}
      <Card title={isHead ? "Newest entries, live" : "Entries"} stale={stale}>
        {isEmpty && <p class="quiet">This network has no ledger entries yet.</p>}
        {page.value === undefined && <p class="quiet">{page.error === undefined ? "Loading…" : "None."}</p>}
        {page.value !== undefined && !isEmpty && (
          <>
            <LedgerTable
              edges={page.value.edges}
              arrived={arrived}
              nameOf={(id) => cut(marketName(id, markets.get(id)), nameLengthMax)}
              useOf={useOf}
            />
            <Pager view="ledger" query={query} pageInfo={page.value.pageInfo} rows={page.value.edges.length} />
          </>
        )}
      </Card>
      <LedgerDownload query={query} />
      <Calls calls={ledgerCalls(asked)} />
    </>
  );
}
