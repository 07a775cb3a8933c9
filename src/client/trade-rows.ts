import { setTimeout as sleep } from "node:timers/promises";
import { ConnectError } from "@connectrpc/connect";
import { pages } from "../../clients/typescript/src/pages.js";
import { isTransient, retryWaitMs } from "../../clients/typescript/src/retry.js";
import type { TradeEdge } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { Side, Trade_Type } from "../../gen/vega/vega_pb.js";
import { positionBits } from "../domain/block-position.js";
import { decodePositionCursor } from "../domain/cursor.js";
import { isoInstant } from "../domain/instant.js";
import { exitUnavailable, OperatorError } from "../domain/operator-error.js";
import { pageSizeMax } from "../domain/page.js";
import { printable } from "../domain/printable.js";
import type { MarketSubject, Patience } from "./change-rows.js";
import { reasonOf, responseMaxMs, type Server } from "./server.js";

const columns = "time,block,position,trade_id,price,size,buyer,seller,aggressor,type";

/** What was written so far. */
export interface TradeCount {
  rows: number;
}

const decode = decodePositionCursor("trades");

/**
 * The trades of a market as lines of CSV, oldest first, counted in `count`. Prices and sizes are the whole numbers that
 * ListTrades gives. A page that fails is asked for again.
 * @throws ConnectError, OperatorError
 */
export async function* tradeRows(
  server: Server,
  { marketId, from, until }: MarketSubject,
  count: TradeCount,
  patience: Patience,
): AsyncGenerator<string> {
  yield `${columns}\n`;
  // Without a start, the list begins with the oldest trade that is kept; a range of time would have to name it.
  const dateRange = from === undefined ? {} : { dateRange: { startTimestamp: from, endTimestamp: until } };
  const list = pages((after) =>
    patiently(server, patience, async (signal) => {
      const pagination = { first: pageSizeMax, newestFirst: false, ...after };
      return (await server.client.listTrades({ marketIds: [marketId], ...dateRange, pagination }, { signal })).trades;
    }),
  );
  for await (const page of list) {
    const edges = page.filter(({ node }) => node !== undefined && node.timestamp < until);
    count.rows += edges.length;
    yield edges.map(lineOf).join("");
    if (edges.length < page.length) return;
  }
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

/** Repeats a call that fails for a while. @throws ConnectError, OperatorError if the server is away for too long */
async function patiently<T>(
  { url }: Server,
  { giveUpMs, signal, onFailure }: Patience,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const startedAt = performance.now();
  for (let failures = 1; ; failures++) {
    try {
      return await call(AbortSignal.any([signal, AbortSignal.timeout(responseMaxMs)]));
    } catch (thrown) {
      signal.throwIfAborted();
      const error = ConnectError.from(thrown);
      if (!isTransient(error)) throw error;
      const waitMs = retryWaitMs(error, failures);
      if (performance.now() + waitMs - startedAt > giveUpMs) {
        throw new OperatorError(`${url}: ${reasonOf(error)}`, exitUnavailable, error);
      }
      onFailure(reasonOf(error));
      await sleep(waitMs, undefined, { signal });
    }
  }
}
