import { Code, ConnectError } from "@connectrpc/connect";
import type { PageInfo } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { quoted } from "../../../src/domain/printable.js";

/** How a list is read. */
export interface ListOptions {
  /** Rows per request, 1 to 5000. Default: 1000. */
  readonly pageSize?: number;
  readonly signal?: AbortSignal;
}

/** A page of a list, as every method of the service that lists has it. */
interface Page<E> {
  readonly edges: readonly E[];
  readonly pageInfo?: Pick<PageInfo, "hasNextPage" | "endCursor"> | undefined;
}

/** Reads the page after a cursor. */
export type ReadPage<E> = (after: { readonly after?: string }) => Promise<Page<E> | undefined>;

/**
 * The pages of a list until its end, each read when it is needed.
 * @param start a cursor: only what comes after it
 * @throws ConnectError DATA_LOSS if the server's cursors do not advance
 */
export async function* pages<E>(read: ReadPage<E>, start?: string): AsyncGenerator<readonly E[], void> {
  const check = new CursorCheck(start);
  for (let cursor = start; ; ) {
    const { edges = [], pageInfo } = (await read(cursor === undefined ? {} : { after: cursor })) ?? {};
    // A page can be short, or even empty, and not the last.
    const next = pageInfo?.hasNextPage === true ? pageInfo.endCursor : undefined;
    if (next !== undefined) check.advance(next);
    yield edges;
    if (next === undefined) return;
    cursor = next;
  }
}

/** What a list holds. @throws ConnectError as {@link pages} */
export async function* nodes<N>(read: ReadPage<{ readonly node?: N | undefined }>): AsyncGenerator<N, void> {
  for await (const edges of pages(read)) yield* nodesOf(edges);
}

export function nodesOf<N>(edges: readonly { readonly node?: N | undefined }[]): N[] {
  return edges.flatMap(({ node }) => (node === undefined ? [] : [node]));
}

/**
 * Finds out that a list leads in a circle. It keeps one cursor (Brent's algorithm): the first, second, fourth, eighth …
 * of the list. A circle comes back to one of them.
 */
export class CursorCheck {
  #kept: string | undefined;
  #steps = 0;
  #stepsMax = 1;

  /** @param start where the list begins */
  constructor(start: string | undefined) {
    this.#kept = start;
  }

  /** Takes the cursor of the next page. @throws ConnectError DATA_LOSS if it leads back */
  advance(cursor: string): void {
    if (cursor === "" || cursor === this.#kept) {
      throw new ConnectError(`the list does not advance: it leads back to the cursor ${quoted(cursor)}`, Code.DataLoss);
    }
    if (++this.#steps < this.#stepsMax) return;
    this.#kept = cursor;
    this.#steps = 0;
    this.#stepsMax *= 2;
  }
}
