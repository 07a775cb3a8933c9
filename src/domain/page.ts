import type { PageInfo, Pagination } from "../../gen/datanode/api/v2/trading_data_pb.js";
import type { BlockHead } from "./block-headers.js";
import { invalidArgument } from "./failure.js";

/** Rows of a page by default. */
export const pageSizeDefault = 1000;

/** The maximum number of rows of a page; larger requests count as this. */
export const pageSizeMax = 5000;

/** A requested page. `P` is a position in the list's total order. */
export interface PageRequest<P> {
  /** The order of the list, and of the page. */
  readonly newestFirst: boolean;
  readonly size: number;
  /** False: `size` rows after the cursor, or the first ones. True: `size` rows before it, or the last ones. */
  readonly backwards: boolean;
  /** The position to continue from, exclusive. It need not be that of a selected row. */
  readonly cursor: P | undefined;
}

/** The rows of a page in list order, and whether there are more on either side. */
export interface Page<R, P> {
  readonly rows: readonly R[];
  readonly hasNext: boolean;
  readonly hasPrevious: boolean;
  /** The position to continue from if the page ended at the bound on work: the last one examined. */
  readonly reached?: P;
  /** The newest block when the page was read; undefined if there was none. */
  readonly newestBlock: BlockHead | undefined;
}

/** What a scan from the cursor, inclusive, found. */
export interface Found<R, P> {
  /** At least as many as wanted, unless the list or the scan ended before. */
  readonly rows: readonly R[];
  /** If it ended at the bound on work: the last position that was examined. */
  readonly reached?: P | undefined;
}

/**
 * The page of a request, from scans in either direction. The first takes one row more than the page, which tells
 * whether it is the last, and the row at the cursor. If that is there, as usual, the other side is not empty, and no
 * second scan is needed.
 */
export async function findPage<R, P>(
  { cursor, size, backwards, newestFirst }: PageRequest<P>,
  isAt: (row: R, cursor: P) => boolean,
  scan: (descending: boolean, want: number) => Promise<Found<R, P>>,
): Promise<Omit<Page<R, P>, "newestBlock">> {
  const descending = newestFirst !== backwards;
  const { rows: found, reached } = await scan(descending, size + (cursor === undefined ? 1 : 2));
  const [first] = found;
  const atCursor = cursor !== undefined && first !== undefined && isAt(first, cursor);
  const after = atCursor ? found.slice(1) : found;
  const rows = after.slice(0, size);
  const more = after.length > size || reached !== undefined;
  const behind = atCursor || (cursor !== undefined && isAny(await scan(!descending, 1)));
  const early = after.length <= size && reached !== undefined ? { reached } : {};
  return backwards
    ? { rows: rows.reverse(), hasNext: behind, hasPrevious: more, ...early }
    : { rows, hasNext: more, hasPrevious: behind, ...early };
}

function isAny({ rows, reached }: Found<unknown, unknown>): boolean {
  return rows.length > 0 || reached !== undefined;
}

/** Reads `pagination`; absent text is empty. @throws Failure naming the invalid field */
export function readPagination<P>(
  pagination: Pagination | undefined,
  decode: (field: string, text: string) => P,
): PageRequest<P> {
  const first = pagination?.first;
  const last = pagination?.last;
  const after = pagination?.after || undefined;
  const before = pagination?.before || undefined;
  refuseBoth("last", last, "first", first);
  refuseBoth("before", before, "after", after);
  refuseBoth("before", before, "first", first);
  refuseBoth("after", after, "last", last);
  const backwards = last !== undefined || before !== undefined;
  const size = backwards ? readSize("pagination.last", last) : readSize("pagination.first", first);
  const newestFirst = pagination?.newestFirst ?? true;
  if (before !== undefined) return { newestFirst, size, backwards, cursor: decode("pagination.before", before) };
  if (after !== undefined) return { newestFirst, size, backwards, cursor: decode("pagination.after", after) };
  return { newestFirst, size, backwards, cursor: undefined };
}

/** The same for a list by id, or one that is oldest first by default: `newest_first` reverses it. */
export function readForwardPagination<P>(
  pagination: Pagination | undefined,
  decode: (field: string, text: string) => P,
): PageRequest<P> {
  return { ...readPagination(pagination, decode), newestFirst: pagination?.newestFirst ?? false };
}

function refuseBoth(name: string, value: unknown, other: string, otherValue: unknown): void {
  if (value === undefined || otherValue === undefined) return;
  throw invalidArgument(
    `pagination.${name}`,
    `cannot be combined with pagination.${other}; page forwards with first and after, or backwards with last and before`,
    "INVALID_PAGINATION",
  );
}

function readSize(field: string, size: number | undefined): number {
  if (size === undefined) return pageSizeDefault;
  if (size < 1) throw invalidArgument(field, `is ${size}; it takes a number from 1`, "INVALID_PAGINATION");
  return Math.min(size, pageSizeMax);
}

/** The field that has the cursor of a page. */
export function cursorName({ backwards }: PageRequest<unknown>): string {
  return backwards ? "pagination.before" : "pagination.after";
}

/** A page as edges and a `PageInfo`; `cursorOf` encodes a position. */
export function connectionOf<R, P, E extends { readonly cursor: string }>(
  page: Pick<Page<R, P>, "rows" | "hasNext" | "hasPrevious" | "reached">,
  request: PageRequest<P>,
  edge: (row: R) => E,
  cursorOf: (position: P) => string,
): { readonly edges: E[]; readonly pageInfo: PageInfo } {
  const edges = page.rows.map(edge);
  const reached = page.reached === undefined ? {} : { reached: cursorOf(page.reached) };
  const cursors = { first: edges[0]?.cursor, last: edges.at(-1)?.cursor, ...reached };
  return { edges, pageInfo: pageInfo(page, request, cursors) };
}

/** The `PageInfo` of a page with these cursors. `reached` is the cursor of a page that ended at the bound on work. */
export function pageInfo(
  page: Pick<Page<unknown, unknown>, "hasNext" | "hasPrevious">,
  request: PageRequest<unknown>,
  cursors: { readonly first: string | undefined; readonly last: string | undefined; readonly reached?: string },
): PageInfo {
  const forwards = request.backwards ? undefined : cursors.reached;
  const backwards = request.backwards ? cursors.reached : undefined;
  return {
    $typeName: "datanode.api.v2.PageInfo",
    hasNextPage: page.hasNext,
    hasPreviousPage: page.hasPrevious,
    startCursor: backwards ?? cursors.first ?? forwards ?? "",
    endCursor: forwards ?? cursors.last ?? backwards ?? "",
  };
}
