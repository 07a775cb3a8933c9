import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  AggregatedLedgerEntriesEdge,
  AggregatedLedgerEntry,
  DateRangeSchema,
  LedgerEntryFilterSchema,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import type { MarketdClient } from "./client.js";
import { type ListOptions, pages } from "./pages.js";

/** Which ledger entries, and in which order. Everything is optional. */
export interface LedgerQuery extends ListOptions {
  /** Absent: every entry. */
  readonly filter?: MessageInitShape<typeof LedgerEntryFilterSchema>;
  /** In nanoseconds: start inclusive, end exclusive. */
  readonly dateRange?: MessageInitShape<typeof DateRangeSchema>;
  /** Default: true. */
  readonly newestFirst?: boolean;
  /** A cursor: only entries after it, in the order of the list. */
  readonly after?: string;
}

/** A ledger entry, and the cursor that goes on after it. */
export type LedgerEdge = AggregatedLedgerEntriesEdge & { readonly node: AggregatedLedgerEntry };

/**
 * Every entry that the query selects, each exactly once, a page at a time; also while new entries arrive. Leave the
 * loop whenever you have enough: no page is fetched before it is needed.
 * @throws ConnectError when a page cannot be read; go on with the last `cursor` as `after`. DATA_LOSS if the server's
 *   cursors do not advance
 */
export async function* ledgerEntries(client: MarketdClient, query: LedgerQuery = {}): AsyncGenerator<LedgerEdge, void> {
  const { filter, dateRange, newestFirst, pageSize, after, signal } = query;
  const request = { ...(filter && { filter }), ...(dateRange && { dateRange }) };
  const order = {
    ...(newestFirst !== undefined && { newestFirst }),
    ...(pageSize !== undefined && { first: pageSize }),
  };
  const read = async (cursor: { readonly after?: string }) => {
    const pagination = { ...order, ...cursor };
    return (await client.listLedgerEntries({ ...request, pagination }, signal && { signal })).ledgerEntries;
  };
  for await (const edges of pages(read, after)) yield* edges.filter(hasNode);
}

function hasNode(edge: AggregatedLedgerEntriesEdge): edge is LedgerEdge {
  return edge.node !== undefined;
}
