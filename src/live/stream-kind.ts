import { create } from "@bufbuild/protobuf";
import { ObserveMarketsDepthUpdatesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import {
  type MarketHistoryState,
  type MarketHistoryStatus,
  MarketHistoryStatusSchema,
  ReplayMarketsDepthResponseSchema,
  MarketHistoryState as State,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import type { ResumeTokens } from "../domain/resume-token.js";
import { encodeBinary } from "../encoding/binary-encoder.js";
import type { Encodable } from "../encoding/field-values.js";
import { encodeJson } from "../encoding/json-encoder.js";
import type { PastBlock } from "../store/history-reads.js";
import { type DepthSegment, messageOf, packUpdates } from "./depth-segment.js";
import type { LiveMarket } from "./live-market.js";
import type { Envelope } from "./segment-response.js";

/** A message of a depth stream, or of a replay. */
export type StreamResponse = EncodedResponse<
  typeof ObserveMarketsDepthUpdatesResponseSchema | typeof ReplayMarketsDepthResponseSchema
>;

/** What a batch of messages says beside its updates. */
export interface BatchParts {
  /** The block that readers have everything of, once they have the batch. */
  readonly block: PastBlock;
  readonly statuses: readonly MarketHistoryStatus[];
  /** Whether the reader's books are those of the live stream from now on, and were not before. */
  readonly caughtUp: boolean;
}

/** How the updates of a subscription become messages, and what happens to a market whose book is not right. */
export interface StreamKind {
  /** True: streams tell which markets are stale or redefined, and go on. False: they end. */
  readonly tellsStatus: boolean;
  pack(
    updates: readonly DepthSegment[],
    parts: BatchParts,
    tokens: ResumeTokens,
    bytesMax: number,
  ): readonly StreamResponse[];
}

const depthUpdates: Envelope<typeof ObserveMarketsDepthUpdatesResponseSchema> = {
  schema: ObserveMarketsDepthUpdatesResponseSchema,
  open: '{"update":[',
  close: "]}",
};

/** ObserveMarketsDepthUpdates. */
export const depthStream: StreamKind = {
  tellsStatus: false,
  pack: (updates, { block }, tokens, bytesMax) => {
    const eventId = () => tokens.at("live", block.streamSequence);
    return packUpdates(updates, bytesMax, (content, _, isLast) =>
      messageOf(depthUpdates, content, isLast ? eventId : undefined),
    );
  },
};

/** The live part of ReplayMarketsDepth. */
export const replayStream: StreamKind = {
  tellsStatus: true,
  pack: (updates, parts, tokens, bytesMax) => {
    return packReplay(updates, { ...parts, resumeToken: tokens.at("live", parts.block.streamSequence) }, bytesMax);
  },
};

/** What a batch of a replay says. Without a block it is a part of one that goes on. */
export type ReplayParts = Omit<BatchParts, "block"> & { readonly block?: PastBlock; readonly resumeToken?: string };

/** The messages of a replay for one block. Only the last one has the block and the token. */
export function packReplay(
  updates: readonly DepthSegment[],
  { block, statuses, caughtUp, resumeToken }: ReplayParts,
  bytesMax: number,
): EncodedResponse<typeof ReplayMarketsDepthResponseSchema>[] {
  return packUpdates(updates, bytesMax, (content, isFirst, isLast) => {
    const status = isFirst ? statuses : [];
    if (!isLast || block === undefined) return messageOf(new ReplayEnvelope({ status }), content, undefined);
    const { height, timeNs: timestamp, streamSequence } = block;
    const last = { block: { height, timestamp, streamSequence }, resumeToken: resumeToken ?? "", caughtUp };
    return messageOf(new ReplayEnvelope({ status, ...last }), content, resumeToken);
  });
}

const emptyUpdates = '{"update":[';

/** A message of a replay around its updates. */
class ReplayEnvelope implements Envelope<typeof ReplayMarketsDepthResponseSchema> {
  readonly schema = ReplayMarketsDepthResponseSchema;
  readonly open = emptyUpdates;

  constructor(private readonly fields: Encodable<typeof ReplayMarketsDepthResponseSchema>) {}

  get close(): string {
    return encodeJson(this.schema, this.fields).slice(emptyUpdates.length);
  }

  get rest(): Uint8Array {
    return encodeBinary(this.schema, this.fields);
  }
}

/** The state of a market as readers are told. */
export function statusOf(market: LiveMarket, state: MarketHistoryState): MarketHistoryStatus {
  return create(MarketHistoryStatusSchema, {
    marketId: market.id,
    state: market.stale ? State.STALE : state,
    ...market.definition?.decimals,
  });
}
