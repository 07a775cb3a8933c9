import { pages } from "../../clients/typescript/src/pages.js";
import type { TradeEdge } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { Side, Trade_Type } from "../../gen/vega/vega_pb.js";
import { type BlockHead, blockHeadOf } from "../domain/block-headers.js";
import { positionBits } from "../domain/block-position.js";
import { numberCursors } from "../domain/cursor.js";
import { isoInstant } from "../domain/instant.js";
import { pageSizeMax } from "../domain/page.js";
import { printable } from "../domain/printable.js";
import type { MarketSubject } from "./change-rows.js";
import { type Patience, patiently } from "./patience.js";
import { isBehind, type Server } from "./server.js";

const columns = "time,block,position,trade_id,price,size,buyer,seller,aggressor,type";

/** What was written so far. */
export interface TradeCount {
  rows: number;
}

const { decode } = numberCursors("trades");

/**
 * The trades of a market as lines of CSV, oldest first, counted in `count`. Prices and sizes are the whole numbers that
 * ListTrades gives. A page that fails is asked for again. So is the last page if its server lacks a block that was there
 * when the export began.
 * @throws ConnectError, OperatorError
 */
export async function* tradeRows(
  server: Server,
  { marketId, from, until, newest }: MarketSubject,
  count: TradeCount,
  patience: Patience,
): AsyncGenerator<string> {
  yield `${columns}\n`;
  // Without a start, the list begins with the oldest trade that is kept; a range of time would have to name it.
  const dateRange = from === undefined ? {} : { dateRange: { startTimestamp: from, endTimestamp: until } };
  const list = pages((after) =>
    patiently(server, patience, async (signal) => {
      const pagination = { first: pageSizeMax, newestFirst: false, ...after };
      let reached: BlockHead | undefined;
      const onHeader = (headers: Headers) => {
        reached = blockHeadOf(headers.get("x-block-height"), headers.get("x-block-timestamp"));
      };
      const request = { marketIds: [marketId], ...dateRange, pagination };
      const { trades } = await server.client.listTrades(request, { signal, onHeader });
      if (trades?.pageInfo?.hasNextPage !== true && lacksBlocks(reached, until, newest)) throw isBehind();
      return trades;
    }),
  );
  for await (const page of list) {
    const edges = page.filter(({ node }) => node !== undefined && node.timestamp < until);
    count.rows += edges.length;
    yield edges.map(lineOf).join("");
    if (edges.length < page.length) return;
  }
}

/** Whether a list up to a block lacks one before `until` that was there. Blocks can have the same time. */
function lacksBlocks(reached: BlockHead | undefined, until: bigint, newest: BlockHead | undefined): boolean {
  if (reached === undefined || newest === undefined) return false;
  return reached.timeNs < until && reached.height < newest.height;
}

function lineOf({ node, cursor }: TradeEdge): string {
  if (node === undefined) return "";
  const id = decode("cursor", cursor);
  const place = `${id >> positionBits},${id & ((1n << positionBits) - 1n)}`;
  const parties = `${field(node.buyer)},${field(node.seller)}`;
  const names = `${nameOf(Side[node.aggressor])},${nameOf(Trade_Type[node.type])}`;
  return `${isoInstant(node.timestamp)},${place},${field(node.id)},${field(node.price)},${node.size},${parties},${names}\n`;
}

/** Empty for an unspecified value, and one that this program does not know. */
function nameOf(name: string | undefined): string {
  return name === undefined || name === "UNSPECIFIED" ? "" : name.toLowerCase();
}

/** Text of a server as a field of CSV, on one line. */
function field(text: string): string {
  const plain = printable(text);
  return /[",]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}
