import {
  type ObserveMarketsDepthUpdatesRequest,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { requireIdentifier } from "../domain/identifier.js";
import { parseResumeToken, readResumeToken } from "../domain/resume-token.js";
import { type Call, type StreamMethod, serverStreaming } from "../domain/service.js";
import type { History } from "../history/history.js";
import type { Live } from "../live/live.js";
import { lastEventId } from "./last-event-id.js";

/**
 * ObserveMarketsDepthUpdates: the books of the given markets, or of all, then each change. A client of server-sent
 * events goes on where its connection broke. See docs/depth-stream.md.
 */
export function observeMarketsDepthUpdates(options: {
  readonly live: Pick<Live, "state" | "observe">;
  readonly history: Pick<History, "resume">;
}): StreamMethod {
  const { live, history } = options;
  return serverStreaming(
    TradingDataService.method.observeMarketsDepthUpdates,
    (request: ObserveMarketsDepthUpdatesRequest, call: Call) => {
      const { marketIds } = request;
      for (const id of marketIds) requireIdentifier("market_ids", id);
      const id = lastEventId(call);
      const { clientAddress, codec } = call;
      const options = { clientAddress, codec, mayHoldBooks: id !== undefined };
      // Ids of earlier releases are heights of blocks: they begin with whole books.
      if (id === undefined || parseResumeToken(id) === undefined) return live.observe(marketIds, options);
      const place = readResumeToken("Last-Event-ID", id, live.state().storeHash);
      return history.resume(place, marketIds, call).then((entry) => live.observe(marketIds, { ...options, entry }));
    },
  );
}
