import type { DepthResponse } from "./depth-segment.js";
import { packUpdates } from "./depth-segment.js";
import type { LiveMarket, Published } from "./live-market.js";
import type { StateChange } from "./live-state.js";

/**
 * The readers of one subscription that were last sent the same update. Their next message is the same, so they share
 * its bytes. Readers that are up to date form one cohort; readers that stopped at the same message form another. For
 * each market that published since, a cohort stores what its readers hold, and nothing else.
 */
export class Cohort {
  members = 0;
  readonly #pending = new Map<LiveMarket, Published | undefined>();
  #responses: readonly DepthResponse[] | undefined;

  constructor(readonly version: number) {}

  /** Whether updates are pending for its readers. */
  get behind(): boolean {
    return this.#pending.size > 0;
  }

  /** A market published after `held`; undefined: the whole book is pending. */
  addPending(market: LiveMarket, held: Published | undefined): void {
    if (held === undefined || !this.#pending.has(market)) this.#pending.set(market, held);
    this.#responses = undefined;
  }

  /** The merged updates that bring its readers up to date: at most one for each market, ordered by market id. */
  responses(eventId: string, messageBytesMax: number): readonly DepthResponse[] {
    if (this.#responses === undefined) {
      const pending = [...this.#pending].sort(([a], [b]) => (a.id < b.id ? -1 : 1));
      const updates = pending.map(([market, held]) => market.updateSince(held));
      this.#responses = packUpdates(updates, eventId, messageBytesMax);
    }
    return this.#responses;
  }
}

/** A set of markets that readers follow. Readers of the same set share one subscription. */
export class Subscription {
  readonly #markets: ReadonlySet<LiveMarket> | undefined;
  readonly #cohorts = new Set<Cohort>();
  #version = 0;
  #newest: Cohort | undefined;
  #newSubscribers: Cohort | undefined;

  /** `markets` undefined: every market, including those announced later. */
  constructor(
    readonly key: string,
    markets: readonly LiveMarket[] | undefined,
  ) {
    this.#markets = markets === undefined ? undefined : new Set(markets);
  }

  /** The cohort of readers that were sent nothing yet: every book is pending. */
  newSubscribers(announced: readonly LiveMarket[]): Cohort {
    if (this.#newSubscribers === undefined) {
      this.#newSubscribers = new Cohort(-1);
      for (const market of this.#markets ?? announced) {
        if (!market.stale) this.#newSubscribers.addPending(market, undefined);
      }
      this.#cohorts.add(this.#newSubscribers);
    }
    return this.#newSubscribers;
  }

  /** The cohort of readers that were sent everything. */
  upToDate(): Cohort {
    if (this.#newest?.version !== this.#version || this.#newest.members === 0) {
      this.#newest = new Cohort(this.#version);
      this.#cohorts.add(this.#newest);
    }
    return this.#newest;
  }

  /** Moves a reader to another cohort; `to` undefined: the reader has left. */
  move(from: Cohort | undefined, to: Cohort | undefined): void {
    if (to !== undefined) to.members++;
    if (from === undefined) return;
    from.members--;
    if (from.members > 0) return;
    this.#cohorts.delete(from);
    if (from === this.#newSubscribers) this.#newSubscribers = undefined;
  }

  /** One of these markets that its readers hold a book of; undefined: none. */
  holds(markets: readonly LiveMarket[]): LiveMarket | undefined {
    return markets.find((market) => this.#markets?.has(market) ?? true);
  }

  /** Adds the changes of a snapshot; returns whether they concern this subscription. */
  note(change: StateChange): boolean {
    const concerned = this.#concerned(change);
    if (concerned.size === 0) return false;
    this.#version++;
    for (const cohort of this.#cohorts) {
      for (const [market, held] of concerned) cohort.addPending(market, held);
    }
    return true;
  }

  #concerned(change: StateChange): Map<LiveMarket, Published | undefined> {
    const concerned = new Map<LiveMarket, Published | undefined>();
    const { published, shown } = change;
    const markets = this.#markets;
    // The smaller set: a block may change a thousand markets, and ten thousand subscriptions may have one each.
    const candidates = markets !== undefined && markets.size < published.size ? markets : published.keys();
    for (const market of candidates) {
      const before = published.get(market);
      // Nobody follows a market before it is announced, or while it is stale.
      if (before === undefined || market.market === undefined || market.stale) continue;
      if (markets === undefined || markets.has(market)) concerned.set(market, before);
    }
    if (markets === undefined) for (const market of shown) concerned.set(market, undefined);
    return concerned;
  }
}
