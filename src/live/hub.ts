import type { Codec } from "../domain/encoded-response.js";
import type { Failure } from "../domain/failure.js";
import type { Log } from "../telemetry/log.js";
import { type DepthTotals, type Entry, Subscription } from "./cohort.js";
import type { LiveMarket } from "./live-market.js";
import { bookStale, type LiveState, marketRedefined, type StateChange } from "./live-state.js";
import { type ReaderCounts, ReaderGroups } from "./reader-stream.js";
import { depthStream, type StreamKind } from "./stream-kind.js";
import { Subscriber } from "./subscriber.js";

/** How a stream begins, and what it is. */
export interface StreamOptions {
  readonly clientAddress: string;
  /** The form in which its messages are sent. Default: JSON. */
  readonly codec?: Codec | undefined;
  /** Default: {@link depthStream}. */
  readonly kind?: StreamKind;
  /** Default: with whole books. */
  readonly entry?: Entry | undefined;
  /** Without an entry: whether the reader may still hold books of an earlier stream. Default: false. */
  readonly mayHoldBooks?: boolean;
}

/** All subscribers of the depth streams of one chain. */
export class Hub {
  readonly #groups: ReaderGroups<Subscription, Subscriber>;

  /** Adds what it counts to `totals`. */
  constructor(
    private readonly state: LiveState,
    log: Log,
    private readonly totals: DepthTotals,
  ) {
    this.#groups = new ReaderGroups(state.limits, (error, { clientAddress }) => {
      log.error({ err: error, client: clientAddress }, "a depth stream's reader failed");
    });
  }

  /** Opens a stream of these distinct markets; undefined: all, including those announced later. */
  open(markets: readonly LiveMarket[] | undefined, options: StreamOptions): Subscriber {
    const { clientAddress, codec = "json", kind = depthStream, entry } = options;
    const ids = markets === undefined ? "" : JSON.stringify(markets.map((market) => market.id).sort());
    const key = kind.tellsStatus ? `replay ${ids}` : ids;
    const settings = { kind, bytesMax: this.state.limits.messageBytesMax };
    const group = this.#groups.groupOf(key, () => new Subscription(this.state, markets, settings, this.totals));
    const cohort = group.source.newSubscribers(entry);
    const subscriber = new Subscriber(group.source, cohort, clientAddress, codec, group.leave);
    group.readers.add(subscriber);
    return subscriber;
  }

  /** Publishes the changes of a snapshot to subscribers, in slices with turns of the event loop in between. */
  publish(change: StateChange): void {
    for (const { source: subscription, readers } of this.#groups.all()) {
      const failure = endOf(subscription, change);
      if (failure !== undefined) this.#groups.fail(readers, failure);
      else if (subscription.note(change)) this.#groups.queue(readers);
    }
    this.#groups.wake();
  }

  /** Ends every stream. No stream may be opened afterwards. */
  end(failure: Failure): void {
    this.#groups.end(failure);
  }

  counts(): ReaderCounts {
    return this.#groups.counts();
  }
}

/** Why a change ends the streams of a subscription; undefined: it does not. */
function endOf(subscription: Subscription, change: StateChange): Failure | undefined {
  if (subscription.tellsStatus) return undefined;
  const redefined = subscription.holds(change.redefined);
  if (redefined !== undefined) return marketRedefined(redefined.id);
  const stale = subscription.holds(change.stale);
  return stale === undefined ? undefined : bookStale(stale.id);
}
