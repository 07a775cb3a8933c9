import { setImmediate as turn } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { scaledPrice, scaledSize } from "../../clients/typescript/src/decimals.js";
import { type DepthChange, type ReplayOptions, replay } from "../../clients/typescript/src/depth-reader.js";
import { MarketHistoryState } from "../../gen/marketd/history/v1/market_history_pb.js";
import type { BlockHead } from "../domain/block-headers.js";
import { isGone } from "../domain/depth-book.js";
import { isoInstant } from "../domain/instant.js";
import { exitUnavailable, OperatorError } from "../domain/operator-error.js";
import { type Patience, patiently } from "./patience.js";
import { reasonOf, type Server } from "./server.js";

/** Lines are handed on in pieces of about this many characters. */
const pieceCharacters = 65_536;

const columns = "time,block,stream_sequence,side,price,volume,orders";

/** Volume and orders of a level that is gone. */
const gone = "0,0";

/** A market, and block times in Unix nanoseconds. */
export interface MarketSubject {
  readonly marketId: string;
  /** Undefined: from the oldest that is kept. */
  readonly from: bigint | undefined;
  /** Exclusive. */
  readonly until: bigint;
  /** The newest block when the export began; undefined: there was none. */
  readonly newest: BlockHead | undefined;
}

/** What was written so far. */
export interface ChangeCount {
  rows: number;
  /** Blocks that have rows. */
  blocks: number;
  /** Times that the book was unknown: the venue's updates were wrong or missing, or the past is not kept. */
  gaps: number;
}

/**
 * The changes of a market's book as lines of CSV, counted in `count`. Folding them gives the
 * right book after each block: where a book comes whole, levels that it has no more are removed. Broken connections
 * are opened again, for `giveUpMs` at most.
 * @throws ConnectError, OperatorError
 */
export async function* changeRows(
  server: Server,
  { marketId, from, until, newest }: MarketSubject,
  count: ChangeCount,
  patience: Patience,
): AsyncGenerator<string> {
  const { client, url } = server;
  const { giveUpMs, signal, onFailure } = patience;
  const givenUp = new AbortController();
  let heardAt = performance.now();
  const onDisconnect = (error: ConnectError, waitMs: number) => {
    if (performance.now() + waitMs - heardAt > giveUpMs) givenUp.abort(error);
    else onFailure(reasonOf(error));
  };
  /** The book as the lines have it: levels as `side,price`. */
  const written = new Set<string>();
  let isStale = false;
  let piece = `${columns}\n`;
  const options: ReplayOptions = {
    marketIds: [marketId],
    ...(from !== undefined && { from }),
    until,
    everyUpdate: true,
    signal: AbortSignal.any([signal, givenUp.signal]),
    onDisconnect,
    onStatus: ({ state }) => {
      const wasStale = isStale;
      isStale = state === MarketHistoryState.STALE;
      // A stream that was resumed says so again.
      if (isStale && !wasStale) count.gaps++;
    },
  };
  const begin = async () => {
    const changes = replay(client, options);
    return { changes, first: await changes.next() };
  };
  const isBehind = ({ code }: ConnectError) => code === Code.OutOfRange && until <= (newest?.timeNs ?? 0n) + 1n;
  const { changes, first } = await patiently(server, patience, begin, isBehind);
  try {
    for (let { value: change } = first; change !== undefined; { value: change } = await changes.next()) {
      heardAt = performance.now();
      const lines = linesOf(change, written);
      count.rows += lines.length;
      if (lines.length > 0) count.blocks++;
      for (const line of lines) piece += `${line}\n`;
      if (piece.length < pieceCharacters) continue;
      yield piece;
      piece = "";
      // Signals and timers need their turns.
      await turn();
    }
  } finally {
    await changes.return();
  }
  yield piece;
  signal.throwIfAborted();
  if (givenUp.signal.aborted) {
    const error = ConnectError.from(givenUp.signal.reason);
    throw new OperatorError(`${url}: ${reasonOf(error)}`, exitUnavailable, error);
  }
}

function linesOf({ update, block, scale }: DepthChange, written: Set<string>): string[] {
  if (block === undefined || scale === undefined) return [];
  const place = `${isoInstant(block.timestamp)},${block.height},${block.streamSequence}`;
  const levels = new Map<string, string>();
  for (const side of ["buy", "sell"] as const) {
    for (const level of update[side]) {
      const rest = isGone(level) ? gone : `${scaledSize(scale, level.volume)},${level.numberOfOrders}`;
      levels.set(`${side},${scaledPrice(scale, level.price)}`, rest);
    }
  }
  if (update.previousSequenceNumber === 0n)
    for (const level of written) if (!levels.has(level)) levels.set(level, gone);
  for (const [level, rest] of levels) {
    if (rest === gone) written.delete(level);
    else written.add(level);
  }
  return Array.from(levels, ([level, rest]) => `${place},${level},${rest}`);
}
