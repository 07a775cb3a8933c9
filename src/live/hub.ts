import type { Codec } from "../domain/encoded-response.js";
import type { Failure } from "../domain/failure.js";
import { ResumeTokens } from "../domain/resume-token.js";
import type { Log } from "../telemetry/log.js";
import { type Cohort, type Entry, Subscription } from "./cohort.js";
import type { FeedCounts } from "./feed.js";
import type { LiveLimits } from "./limits.js";
import type { LiveMarket } from "./live-market.js";
import { bookStale, type LiveState, marketRedefined, type StateChange } from "./live-state.js";
import { Waker } from "./reader-stream.js";
import { depthStream, type StreamKind, type StreamResponse } from "./stream-kind.js";
import { Subscriber, type SubscriberOwner } from "./subscriber.js";

/** Silent streams are found within a heartbeat divided by this. */
const sweepsPerHeartbeat = 4;

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

interface Following {
  readonly subscription: Subscription;
  readonly subscribers: Set<Subscriber>;
}

/** All subscribers of the depth streams of one chain. */
export class Hub implements SubscriberOwner {
  sweeps = 0;
  /** Messages handed to subscribers, for metrics. A shared message counts each time. */
  messages = 0;
  readonly #state: LiveState;
  readonly #limits: LiveLimits;
  readonly #following = new Map<string, Following>();
  readonly #sweeper: NodeJS.Timeout;
  readonly #heartbeatSweeps: number;
  readonly #waker: Waker<Subscriber>;

  constructor(state: LiveState, limits: LiveLimits, log: Log) {
    this.#state = state;
    this.#limits = limits;
    this.#waker = new Waker(limits.fanOutSliceMs, (error, { clientAddress }) => {
      log.error({ err: error, client: clientAddress }, "a depth stream's reader failed");
    });
    const sweepMs = Math.max(1, Math.min(limits.sweepIntervalMs, Math.floor(limits.heartbeatMs / sweepsPerHeartbeat)));
    this.#heartbeatSweeps = Math.ceil(limits.heartbeatMs / sweepMs);
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs);
    this.#sweeper.unref();
  }

  /** Opens a stream of these distinct markets; undefined: all, including those announced later. */
  open(markets: readonly LiveMarket[] | undefined, options: StreamOptions): Subscriber {
    const { clientAddress, codec = "json", kind = depthStream, entry } = options;
    const { subscription, subscribers } = this.#followingOf(markets, kind);
    const cohort = subscription.newSubscribers(this.#state.announced, entry);
    const subscriber = new Subscriber(this, subscription, cohort, clientAddress, codec);
    subscribers.add(subscriber);
    return subscriber;
  }

  /** Publishes the changes of a snapshot to subscribers, in slices with turns of the event loop in between. */
  publish(change: StateChange): void {
    for (const { subscription, subscribers } of [...this.#following.values()]) {
      const failure = endOf(subscription, change);
      if (failure !== undefined) {
        for (const subscriber of [...subscribers]) subscriber.fail(failure);
        continue;
      }
      if (subscription.note(change)) this.#waker.add(subscribers);
    }
    this.#waker.wake();
  }

  /** Ends every stream. No stream may be opened afterwards. */
  end(failure: Failure): void {
    clearInterval(this.#sweeper);
    for (const { subscribers } of [...this.#following.values()]) {
      for (const subscriber of [...subscribers]) subscriber.fail(failure);
    }
  }

  counts(): FeedCounts {
    let subscribers = 0;
    let lagging = 0;
    for (const following of this.#following.values()) {
      subscribers += following.subscribers.size;
      for (const subscriber of following.subscribers) if (subscriber.behind) lagging++;
    }
    return { subscribers, lagging };
  }

  responsesOf(cohort: Cohort, subscription: Subscription): readonly StreamResponse[] {
    const responses = cohort.responses(this.#state, subscription.settings);
    this.messages += responses.length;
    return responses;
  }

  heartbeat(subscription: Subscription): StreamResponse {
    this.messages++;
    return subscription.heartbeat(this.#state);
  }

  leave(subscriber: Subscriber): void {
    this.#waker.delete(subscriber);
    const { key } = subscriber.subscription;
    const following = this.#following.get(key);
    if (following === undefined) return;
    following.subscribers.delete(subscriber);
    if (following.subscribers.size === 0) this.#following.delete(key);
  }

  #followingOf(markets: readonly LiveMarket[] | undefined, kind: StreamKind): Following {
    const ids = markets === undefined ? "" : JSON.stringify(markets.map((market) => market.id).sort());
    const key = kind.tellsStatus ? `replay ${ids}` : ids;
    let following = this.#following.get(key);
    if (following === undefined) {
      const settings = { kind, bytesMax: this.#limits.messageBytesMax };
      const tokensOf = (selection: Buffer) => new ResumeTokens(this.#state.storeHash, selection);
      following = { subscription: new Subscription(key, markets, settings, tokensOf), subscribers: new Set() };
      this.#following.set(key, following);
    }
    return following;
  }

  #sweep(): void {
    this.sweeps++;
    for (const { subscribers } of this.#following.values()) {
      for (const subscriber of subscribers) subscriber.sweep(this.#heartbeatSweeps);
    }
  }
}

/** Why a change ends the streams of a subscription; undefined: it does not. */
function endOf(subscription: Subscription, change: StateChange): Failure | undefined {
  if (subscription.settings.kind.tellsStatus) return undefined;
  const redefined = subscription.holds(change.redefined);
  if (redefined !== undefined) return marketRedefined(redefined.id);
  const stale = subscription.holds(change.stale);
  return stale === undefined ? undefined : bookStale(stale.id);
}
