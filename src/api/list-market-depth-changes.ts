import {
  type ListMarketDepthChangesRequest,
  ListMarketDepthChangesResponseSchema,
  MarketHistoryService,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import { numberCursors } from "../domain/cursor.js";
import { requireIdentifier } from "../domain/identifier.js";
import { connectionOf, readForwardPagination } from "../domain/page.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import { type PastChange, readChanges } from "../history/changes-page.js";
import type { History } from "../history/history.js";
import type { Live } from "../live/live.js";
import { readMoment } from "./moment.js";
import { pageResponse } from "./page-response.js";

const cursors = numberCursors("changes");

/** ListMarketDepthChanges: a page of the changes of a market's book, an update for each block. */
export function listMarketDepthChanges(options: { readonly live: Live; readonly history: History }): UnaryMethod {
  const { live, history } = options;
  return unary(
    MarketHistoryService.method.listMarketDepthChanges,
    async (request: ListMarketDepthChangesRequest, call: Call) => {
      const marketId = requireIdentifier("market_id", request.marketId);
      const range = readRange(request);
      const pageRequest = readForwardPagination(request.pagination, cursors.decode);
      live.state().requireMarket(marketId);
      const page = await readChanges(history.past, marketId, range, pageRequest, call);
      const edgeOf = (change: PastChange) => edge(marketId, change);
      const changes = connectionOf(page, pageRequest, edgeOf, cursors.encode);
      return pageResponse(ListMarketDepthChangesResponseSchema, page, { changes });
    },
  );
}

/** The moments between which a request lies, of the fields that begin with `from_` and `until_`. */
export function readRange(request: {
  readonly fromBlockHeight?: bigint | undefined;
  readonly fromTimestamp?: bigint | undefined;
  readonly fromStreamSequence?: bigint | undefined;
  readonly untilBlockHeight?: bigint | undefined;
  readonly untilTimestamp?: bigint | undefined;
  readonly untilStreamSequence?: bigint | undefined;
}) {
  const { fromBlockHeight, fromTimestamp, fromStreamSequence } = request;
  const { untilBlockHeight, untilTimestamp, untilStreamSequence } = request;
  const from = { blockHeight: fromBlockHeight, timestamp: fromTimestamp, streamSequence: fromStreamSequence };
  const until = { blockHeight: untilBlockHeight, timestamp: untilTimestamp, streamSequence: untilStreamSequence };
  return { from: readMoment(from, "from_"), until: readMoment(until, "until_") };
}

function edge(marketId: string, { block, levels, sequenceNumber, previousSequenceNumber }: PastChange) {
  const { height, timeNs: timestamp, streamSequence } = block;
  return {
    block: { height, timestamp, streamSequence },
    update: { marketId, buy: levels.buy, sell: levels.sell, sequenceNumber, previousSequenceNumber },
    cursor: cursors.encode(streamSequence),
  };
}
