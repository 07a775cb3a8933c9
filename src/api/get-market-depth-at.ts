import {
  type GetMarketDepthAtRequest,
  GetMarketDepthAtResponseSchema,
  MarketHistoryService,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import { blockMetadata } from "../domain/block-headers.js";
import { quotaKey } from "../domain/client-address.js";
import { requireIdentifier } from "../domain/identifier.js";
import type { Metadata } from "../domain/metadata.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import type { History } from "../history/history.js";
import { type PastBook, readPastBook } from "../history/past-book.js";
import { BookResponse } from "../live/book-response.js";
import { EncodedLevels } from "../live/encoded-levels.js";
import type { Live } from "../live/live.js";
import { tradeMessage } from "../live/live-market.js";
import { requireMoment } from "./moment.js";

/** How long a final response may be kept without asking again, in seconds: a year, the longest that caches take. */
const immutableSeconds = 31_536_000;

/** GetMarketDepthAt: a book as it was at the end of a block. */
export function getMarketDepthAt(options: { readonly live: Live; readonly history: History }): UnaryMethod {
  const { live, history } = options;
  return unary(MarketHistoryService.method.getMarketDepthAt, async (request: GetMarketDepthAtRequest, call: Call) => {
    const marketId = requireIdentifier("market_id", request.marketId);
    const moment = requireMoment(request);
    live.state().requireMarket(marketId);
    return readPastBook(history.past, marketId, moment, call, async (book) => {
      const response = bookResponse(live, marketId, request.maxDepth ?? 0n, book);
      await response.prepare(call.codec ?? "json", quotaKey(call.clientAddress));
      return response;
    });
  });
}

function bookResponse(live: Live, marketId: string, maxDepth: bigint, book: PastBook) {
  const { block, levels, sequenceNumber, lastTrade, priceDecimals, sizeDecimals } = book;
  const schema = GetMarketDepthAtResponseSchema;
  const isAll = maxDepth === 0n || maxDepth >= Math.max(levels.buy.length, levels.sell.length);
  const levelsMax = isAll ? Number.POSITIVE_INFINITY : Number(maxDepth);
  const { height, timeNs: timestamp, streamSequence } = block;
  const rest = {
    ...(lastTrade === undefined ? {} : { lastTrade: tradeMessage(lastTrade) }),
    sequenceNumber,
    block: { height, timestamp, streamSequence },
    decimalPlaces: priceDecimals,
    positionDecimalPlaces: sizeDecimals,
  };
  const version = versionOf(live, book, isAll ? "" : `-${levelsMax}`);
  const parts = { metadata: metadataOf(book), ...(version === undefined ? {} : { version }) };
  return new BookResponse(schema, { schema, marketId, levels: new EncodedLevels(levels), levelsMax, rest }, parts);
}

/** Names the store: it may be loaded again, with other contents at the same block. */
function versionOf(live: Live, { block, newest }: PastBook, size: string): string | undefined {
  const { progress, chainVersion } = live.state();
  return progress.storeId === newest?.storeId ? `${chainVersion}-at-${block.streamSequence}${size}` : undefined;
}

function metadataOf({ newest, isFinal }: PastBook): Metadata {
  const { headers, trailers } = blockMetadata(newest);
  if (!isFinal) return { headers, trailers };
  const value = `public, max-age=${immutableSeconds}, immutable`;
  return { headers: new Map([...headers, ["cache-control", value]]), trailers };
}
