import { ObserveMarketsDataResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import type { FeedSource } from "./feed.js";
import type { LiveMarket } from "./live-market.js";
import type { LiveState } from "./live-state.js";
import { type Segment, SegmentResponse } from "./segment-response.js";

type Schema = typeof ObserveMarketsDataResponseSchema;
type Messages = ReturnType<FeedSource<Schema>["next"]>;

const envelope = { schema: ObserveMarketsDataResponseSchema, open: '{"marketData":[', close: "]}" } as const;

/** The market data of some markets, as it changes. A place is that of a block: a slow reader gets the newest of each. */
export class MarketDataFeed implements FeedSource<Schema> {
  readonly kind = "market_data";
  readonly heartbeat = new SegmentResponse(envelope, []);
  /** By the place before, as of the newest snapshot. */
  readonly #known = new Map<bigint, Messages>();
  #streamSequence = -1n;

  /** `markets` undefined: every market, also those announced later. */
  constructor(
    private readonly state: LiveState,
    private readonly markets: readonly LiveMarket[] | undefined,
  ) {}

  next(place: bigint): Messages {
    const { streamSequence } = this.state.progress;
    if (streamSequence !== this.#streamSequence) this.#known.clear();
    this.#streamSequence = streamSequence;
    let messages = this.#known.get(place);
    if (messages === undefined) {
      const markets = this.markets ?? this.state.announced;
      const changed = markets.flatMap(({ data, dataShownSequence }) => {
        return data === undefined || dataShownSequence <= place ? [] : [data.segment];
      });
      messages = { responses: this.#pack(changed), place: streamSequence };
      this.#known.set(place, messages);
    }
    return messages;
  }

  /** Messages of at most `messageBytesMax`, unless the data of one market exceeds it. */
  #pack(segments: readonly Segment[]): EncodedResponse<Schema>[] {
    const { messageBytesMax } = this.state.limits;
    const messages: Segment[][] = [];
    let bytes = Number.POSITIVE_INFINITY;
    for (const segment of segments) {
      // In UTF-8, a character has three bytes at most.
      const size = 3 * segment.json().length;
      if (bytes + size > messageBytesMax) {
        messages.push([]);
        bytes = 0;
      }
      messages.at(-1)?.push(segment);
      bytes += size;
    }
    return messages.map((message) => new SegmentResponse(envelope, message));
  }
}
