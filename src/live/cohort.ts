import { MarketHistoryState as State } from "../../gen/marketd/history/v1/market_history_pb.js";
import { ResumeTokens, selectionHash } from "../domain/resume-token.js";
import type { LiveMarket, Published } from "./live-market.js";
import type { LiveState, StateChange } from "./live-state.js";
import type { HeldMarkets } from "./snapshot-log.js";
import { type StreamKind, type StreamResponse, statusOf } from "./stream-kind.js";

/** What the messages of a subscription are made with. */
export interface MessageSettings {
  readonly kind: StreamKind;
  readonly tokens: ResumeTokens;
  readonly bytesMax: number;
}

/**
 * The readers of one subscription that were last sent the same update. Their next message is the same, so they share
 * its bytes. Readers that are up to date form one cohort; readers that stopped at the same message form another. For
 * each market that published since, a cohort stores what its readers hold, and nothing else.
 */
export class Cohort {
  members = 0;
  readonly #pending = new Map<LiveMarket, Published | undefined>();
  /** Markets whose state readers are to be told, beside those that come whole in their first message. */
  readonly #states = new Map<LiveMarket, State>();
  #responses: readonly StreamResponse[] | undefined;

  /** `isNew`: its readers were sent nothing yet, and are always sent a message. */
  constructor(readonly isNew = false) {}

  /** Whether a message is pending for its readers. */
  get behind(): boolean {
    return this.#pending.size + this.#states.size > 0;
  }

  /** A market published after `held`; undefined: the whole book is pending. What readers hold is the first `held`. */
  addPending(market: LiveMarket, held: Published | undefined): void {
    if (held === undefined || !this.#pending.has(market)) this.#pending.set(market, held);
    this.#responses = undefined;
  }

  /** A market's state is pending, and no update if it is stale. */
  addState(market: LiveMarket, state: State): void {
    this.#states.set(market, state);
    if (state === State.STALE) this.#pending.delete(market);
    this.#responses = undefined;
  }

  /** The messages that bring its readers up to date: at most one update for each market, ordered by market id. */
  responses({ progress }: LiveState, { kind, tokens, bytesMax }: MessageSettings): readonly StreamResponse[] {
    if (this.#responses === undefined) {
      const states = new Map(this.#states);
      const updates = sorted(this.#pending).map(([market, held]) => {
        const isWhole = this.isNew && (held === undefined || market.isBestWhole(held));
        if (isWhole && !states.has(market)) states.set(market, State.WHOLE);
        return market.updateSince(isWhole ? undefined : held);
      });
      const statuses = kind.tellsStatus ? sorted(states).map(([market, state]) => statusOf(market, state)) : [];
      this.#responses = kind.pack(updates, { block: progress, statuses, caughtUp: this.isNew }, tokens, bytesMax);
    }
    return this.#responses;
  }
}

function sorted<V>(markets: ReadonlyMap<LiveMarket, V>): [LiveMarket, V][] {
  return [...markets].sort(([a], [b]) => (a.id < b.id ? -1 : 1));
}

/** Where readers of a subscription begin. */
export interface Entry {
  /** Readers of the same place share their first message. */
  readonly key: string;
  /** What they hold of each market that has changed since. */
  readonly held: HeldMarkets;
}

/** What was handed to readers since the start. */
export interface DepthTotals {
  /** Messages, heartbeats among them. A shared message counts each time. */
  messages: number;
}

/** A set of markets that readers follow in one kind of stream. Readers of the same set share one subscription. */
export class Subscription {
  readonly #state: LiveState;
  readonly #settings: MessageSettings;
  readonly #totals: DepthTotals;
  readonly #markets: ReadonlySet<LiveMarket> | undefined;
  readonly #cohorts = new Set<Cohort>();
  /** Of readers that were sent nothing yet, by their place; empty: from the start. */
  readonly #entries = new Map<string, Cohort>();
  #heartbeat: { readonly progress: LiveState["progress"]; readonly response: StreamResponse } | undefined;
  #newest: Cohort | undefined;

  /** `markets` undefined: every market, including those announced later. Adds what it counts to `totals`. */
  constructor(
    state: LiveState,
    markets: readonly LiveMarket[] | undefined,
    settings: Omit<MessageSettings, "tokens">,
    totals: DepthTotals,
  ) {
    this.#state = state;
    this.#markets = markets === undefined ? undefined : new Set(markets);
    const selection = selectionHash(markets?.map(({ id }) => id) ?? []);
    this.#settings = { ...settings, tokens: new ResumeTokens(state.storeHash, selection) };
    this.#totals = totals;
  }

  /** Whether its streams tell which markets are stale or redefined, and go on. */
  get tellsStatus(): boolean {
    return this.#settings.kind.tellsStatus;
  }

  /** The cohort of readers that were sent nothing yet. Without an entry, every book is pending. */
  newSubscribers(entry?: Entry): Cohort {
    const key = entry?.key ?? "";
    let cohort = this.#entries.get(key);
    if (cohort === undefined) {
      cohort = new Cohort(true);
      for (const market of this.#markets ?? this.#state.announced) {
        const isHeld = entry !== undefined && !entry.held.has(market);
        if (market.stale) this.#addState(cohort, market, State.STALE);
        else if (!isHeld) cohort.addPending(market, entry?.held.get(market));
      }
      this.#cohorts.add(cohort);
      this.#entries.set(key, cohort);
    }
    return cohort;
  }

  /** The cohort of readers that were sent everything. */
  upToDate(): Cohort {
    if (this.#newest === undefined || this.#newest.behind || this.#newest.members === 0) {
      this.#newest = new Cohort();
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
    if (!from.isNew) return;
    for (const [key, cohort] of this.#entries) if (cohort === from) this.#entries.delete(key);
  }

  /** The messages that bring the readers of a cohort up to date. */
  responsesOf(cohort: Cohort): readonly StreamResponse[] {
    const responses = cohort.responses(this.#state, this.#settings);
    this.#totals.messages += responses.length;
    return responses;
  }

  /** A message without updates. */
  heartbeat(): StreamResponse {
    const { progress } = this.#state;
    if (this.#heartbeat?.progress !== progress) {
      const [response] = new Cohort().responses(this.#state, this.#settings);
      if (response === undefined) throw new Error("a heartbeat is one message");
      this.#heartbeat = { progress, response };
    }
    this.#totals.messages++;
    return this.#heartbeat.response;
  }

  /** One of these markets that its readers hold a book of; undefined: none. */
  holds(markets: readonly LiveMarket[]): LiveMarket | undefined {
    return markets.find((market) => this.#markets?.has(market) ?? true);
  }

  /** Adds the changes of a snapshot; returns whether they concern this subscription. */
  note(change: StateChange): boolean {
    const concerned = this.#concerned(change);
    const states = this.tellsStatus ? this.#statesOf(change) : noStates;
    if (concerned.size + states.size === 0) return false;
    for (const cohort of this.#cohorts) {
      for (const [market, held] of concerned) cohort.addPending(market, held);
      for (const [market, state] of states) this.#turn(cohort, market, state);
    }
    return true;
  }

  #turn(cohort: Cohort, market: LiveMarket, state: State): void {
    if (!market.stale) cohort.addPending(market, undefined);
    this.#addState(cohort, market, state);
  }

  #addState(cohort: Cohort, market: LiveMarket, state: State): void {
    if (this.tellsStatus) cohort.addState(market, market.stale ? State.STALE : state);
  }

  #statesOf({ shown, stale, announcedStale, redefined }: StateChange): Map<LiveMarket, State> {
    const states = new Map<LiveMarket, State>();
    const add = (markets: readonly LiveMarket[], state: State) => {
      for (const market of markets) if (this.#markets?.has(market) ?? true) states.set(market, state);
    };
    add(redefined, State.REDEFINED);
    add([...stale, ...announcedStale], State.STALE);
    add(shown, State.WHOLE);
    return states;
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
      if (before === undefined || market.definition === undefined || market.stale) continue;
      if (markets === undefined || markets.has(market)) concerned.set(market, before);
    }
    if (markets === undefined) for (const market of shown) concerned.set(market, undefined);
    return concerned;
  }
}

const noStates: ReadonlyMap<LiveMarket, State> = new Map();
