import {
  MarketHistoryService,
  type ReplayMarketsDepthRequest,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import { invalidArgument, invalidParameter, worded } from "../domain/failure.js";
import { requireIdentifier } from "../domain/identifier.js";
import { liveToken, readResumeToken } from "../domain/resume-token.js";
import { type Call, type StreamMethod, serverStreaming } from "../domain/service.js";
import type { History } from "../history/history.js";
import type { Live } from "../live/live.js";
import { replayStream } from "../live/stream-kind.js";
import type { Moment } from "../store/history-reads.js";
import { lastEventId } from "./last-event-id.js";
import { readRange } from "./list-market-depth-changes.js";
import { refuseBoth } from "./moment.js";

const speedMin = 0.01;
const speedMax = 1_000;

/** ReplayMarketsDepth: books of the past as they changed, and then the live stream. */
export function replayMarketsDepth(options: { readonly live: Live; readonly history: History }): StreamMethod {
  const { live, history } = options;
  return serverStreaming(
    MarketHistoryService.method.replayMarketsDepth,
    (request: ReplayMarketsDepthRequest, call: Call) => {
      const marketIds = [...new Set(request.marketIds.map((id) => requireIdentifier("market_ids", id)))];
      const { from, until } = readRange(request);
      // A browser repeats the first request when it reconnects, with the token of the last message beside it.
      const id = lastEventId(call);
      const token = id ?? (request.resumeToken || undefined);
      if (from !== undefined && request.resumeToken) throw refuseBoth("resume_token", fieldOf(from));
      const speed = readSpeed(request.speed);
      const everyUpdate = request.everyUpdate ?? false;
      if (token === liveToken) {
        if (until !== undefined || speed !== undefined || everyUpdate) throw notOfPast();
        return live.observe(marketIds, { clientAddress: call.clientAddress, codec: call.codec, kind: replayStream });
      }
      if (everyUpdate && until === undefined) throw endless();
      const field = id === undefined ? "resume_token" : "Last-Event-ID";
      const resume = token === undefined ? undefined : readResumeToken(field, token, live.state().storeHash);
      return history.replay({ marketIds, from, until, resume, speed, everyUpdate }, call);
    },
  );
}

/** The field that gave a moment. */
function fieldOf(from: Moment): string {
  return "height" in from ? "from_block_height" : "timeNs" in from ? "from_timestamp" : "from_stream_sequence";
}

function readSpeed(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  const speed = /^[0-9]{1,4}(\.[0-9]{1,20})?$/.test(text) ? Number(text) : Number.NaN;
  if (speed >= speedMin && speed <= speedMax) return speed;
  throw invalidArgument("speed", `takes a decimal number from ${speedMin} to ${speedMax}`, "INVALID_SPEED");
}

function notOfPast() {
  return invalidArgument(
    "resume_token",
    `${liveToken} opens the live stream, which has no end and no speed`,
    "INVALID_TOKEN",
  );
}

function endless() {
  return worded(({ field }) =>
    invalidParameter(
      field("every_update"),
      `needs an end: give ${field("until_block_height")}, ${field("until_timestamp")} or ${field("until_stream_sequence")}`,
      "INVALID_PLACE",
    ),
  );
}
