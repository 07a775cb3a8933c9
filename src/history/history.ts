import { quotaKey } from "../domain/client-address.js";
import { Failure, unavailable } from "../domain/failure.js";
import { noSelection, type ResumePlace, ResumeTokens, requireStore, selectionHash } from "../domain/resume-token.js";
import type { Call } from "../domain/service.js";
import type { Entry } from "../live/cohort.js";
import { chainChanged, type Live } from "../live/live.js";
import { replayStream } from "../live/stream-kind.js";
import type { Subscriber } from "../live/subscriber.js";
import type { Reader } from "../store/connection/lease.js";
import type { Database } from "../store/database.js";
import {
  type Moment,
  type OldestBegin,
  type PastBlock,
  readBlockAt,
  readOldestBegins,
  readOldestBooks,
  type StoreReach,
} from "../store/history-reads.js";
import type { Log } from "../telemetry/log.js";
import { addCounter, addGauge, type Metrics } from "../telemetry/metrics.js";
import { Past, type pastLimits } from "./past.js";
import { type FoundPlace, findPlace, firstPlace, nearestBook, notKept, requirePassed } from "./place.js";
import { PublishedNumbers } from "./published-at.js";
import { Replay, type ReplayPlan } from "./replay.js";
import { entryAt, reach } from "./resume.js";

/** Replays that read the past at once in a process. One that has become live does not count. */
export const replaysMax = 64;

/** The same of one client address; an IPv6 client is its /64 network. */
export const replaysPerAddressMax = 8;

/** Retry delay for a refused replay. */
const replayRetryMs = 5_000;

/** A replay that counts, from before it is planned until it reads the past no more. */
interface Admission {
  readonly address: string;
  replay?: Replay;
}

/** What a client asks to replay. */
export interface ReplayRequest {
  /** None: every market. */
  readonly marketIds: readonly string[];
  readonly from: Moment | undefined;
  readonly until: Moment | undefined;
  readonly resume: ResumePlace | undefined;
  readonly speed: number | undefined;
  readonly everyUpdate: boolean;
}

/** Options of {@link History}. */
export interface HistoryOptions {
  readonly database: Database;
  readonly live: Live;
  readonly log: Log;
  readonly limits?: typeof pastLimits;
}

/** Replays and resumed streams, with their limits. */
export class History {
  readonly past: Past;
  readonly #options: HistoryOptions;
  readonly #numbers: PublishedNumbers;
  readonly #admissions = new Set<Admission>();
  /** Why replays are not opened any more. */
  #closed: Failure | undefined;
  /** Refused replays, by the reason of their error. */
  readonly #refused = new Map([
    ["TOO_MANY_REPLAYS", 0],
    ["TOO_MANY_REPLAYS_OF_CLIENT", 0],
  ]);

  constructor(options: HistoryOptions) {
    this.#options = options;
    this.past = new Past(options.database, options.live, options.limits);
    this.#numbers = new PublishedNumbers(this.past);
    // What was read ahead is of the store before.
    options.live.onReadiness((isReady) => {
      if (!isReady) this.#end(chainChanged());
    });
  }

  /** Registers metrics of replays. */
  register(metrics: Metrics): void {
    addGauge(metrics, "marketd_replays_reading", "Replays that read the past now.", () => this.#admissions.size);
    const help = "Replays refused because too many read the past, by the reason of their error.";
    addCounter(metrics, "marketd_replays_refused_total", help, () => this.#refused, { label: "reason" });
  }

  /**
   * Where a live stream goes on that has everything up to a place; undefined: with whole books.
   * @throws Failure `unavailable` if this process does not reach the place soon
   */
  async resume(place: ResumePlace, marketIds: readonly string[], call: Call): Promise<Entry | undefined> {
    const state = await reach(this.past.live, place, call.signal);
    const key = `${state.chainVersion} ${selectionHash(marketIds).toString("hex")}`;
    const entry = await entryAt(state, place, marketIds, this.#numbers.of(key, call));
    // The store may have been replaced meanwhile. If it was read anew, the entry is of markets that nobody follows.
    const newest = this.past.live.state();
    requireStore(place, newest.storeHash);
    if (newest !== state) throw chainChanged();
    return entry;
  }

  /** Opens a replay, or the live stream where its token is of that. @throws Failure as docs/api.md says */
  async replay(request: ReplayRequest, call: Call): Promise<Replay | Subscriber> {
    const { live, log } = this.#options;
    const { marketIds, resume, until, speed } = request;
    // Up to a token's place another process may have seen markets that this one has not.
    if (resume !== undefined) await reach(live, resume, call.signal);
    for (const id of marketIds) live.state().requireMarket(id);
    const becomesLive = until === undefined && (speed === undefined || speed > 1);
    if (resume?.kind === "live" && becomesLive) {
      const entry = await this.resume(resume, marketIds, call);
      const { clientAddress, codec } = call;
      return live.observe(marketIds, { clientAddress, codec, kind: replayStream, entry });
    }
    const admission = this.#admit(quotaKey(call.clientAddress));
    const released = () => this.#admissions.delete(admission);
    try {
      const plan = await this.past.lease(call, (reader) => this.#plan(reader, request, becomesLive));
      if (this.#closed !== undefined) throw this.#closed;
      admission.replay = new Replay(plan, { past: this.past, call, released, log });
      return admission.replay;
    } catch (thrown) {
      released();
      throw thrown;
    }
  }

  /** Ends every replay that reads the past, also those that are being opened. */
  close(failure: Failure): void {
    this.#closed = failure;
    this.#end(failure);
  }

  #end(failure: Failure): void {
    for (const { replay } of [...this.#admissions]) replay?.fail(failure);
  }

  async #plan(reader: Reader, request: ReplayRequest, becomesLive: boolean): Promise<ReplayPlan> {
    const { marketIds, resume, until, speed, everyUpdate } = request;
    const moment = resume === undefined ? request.from : await momentOf(reader, resume);
    const { block, reach: stored } = await startOf(reader, moment, marketIds);
    const from = resume === undefined ? block : await blockOf(reader, block, resume);
    // After the block is found, so that no market whose past has started by then is missing.
    const oldest = await readOldestBegins(reader, marketIds);
    await requireKept(reader, from, oldest);
    const state = this.past.live.state();
    // The store may have been replaced meanwhile, and what was read be of the new one.
    if (resume !== undefined) requireStore(resume, state.storeHash);
    const selection = selectionHash(marketIds);
    return {
      marketIds,
      begins: new Map(oldest.map((begin) => [begin.marketId, begin])),
      from,
      withBooks: resume === undefined || !resume.selection.equals(selection),
      until: until === undefined ? undefined : await endOf(reader, until, stored),
      becomesLive,
      speed,
      everyUpdate,
      state,
      storeId: stored.newest?.storeId ?? "",
      tokens: new ResumeTokens(state.storeHash, selection),
      wholeTokens: new ResumeTokens(state.storeHash, noSelection),
    };
  }

  #admit(address: string): Admission {
    if (this.#admissions.size >= replaysMax) {
      throw this.#refuse(
        unavailable("this server replays as much as it can; try again", "TOO_MANY_REPLAYS", replayRetryMs),
      );
    }
    const ofAddress = [...this.#admissions].filter((admission) => admission.address === address);
    if (ofAddress.length >= replaysPerAddressMax) {
      const message = `this client has ${replaysPerAddressMax} replays open, as many as one address may; close some`;
      const parts = { reason: "TOO_MANY_REPLAYS_OF_CLIENT", retryAfterMs: replayRetryMs };
      throw this.#refuse(new Failure("resource_exhausted", message, parts));
    }
    const admission = { address };
    this.#admissions.add(admission);
    return admission;
  }

  #refuse(failure: Failure): Failure {
    this.#refused.set(failure.reason, (this.#refused.get(failure.reason) ?? 0) + 1);
    return failure;
  }
}

/** The block that a replay begins with. */
async function startOf(reader: Reader, moment: Moment | undefined, marketIds: readonly string[]): Promise<FoundPlace> {
  if (moment !== undefined) {
    return findPlace(reader, moment, async (streamSequence) => {
      return streamSequence === 0n
        ? oldestPlace(reader, marketIds)
        : (await readBlockAt(reader, { streamSequence })).block;
    });
  }
  const [first] = inOrder(await readOldestBooks(reader, marketIds));
  if (first === undefined) throw notKept(undefined);
  const { reach: stored } = await readBlockAt(reader, { height: first.height });
  return { block: first, reach: stored };
}

/** The moment of a token: of an end of the first block, whose height is repeated, that block. */
async function momentOf(reader: Reader, { streamSequence }: ResumePlace): Promise<Moment> {
  const { block } = await readBlockAt(reader, { height: 0n }, true);
  return block !== undefined && streamSequence < block.streamSequence ? { height: block.height } : { streamSequence };
}

/**
 * The block of a token, whose place may be behind the last block up to there: in the past, where the height of the next
 * one is repeated; of the newest books, where the network stopped to be upgraded.
 */
async function blockOf(reader: Reader, last: PastBlock, { kind, streamSequence }: ResumePlace): Promise<PastBlock> {
  if (last.streamSequence === streamSequence) return last;
  const { block = last } = kind === "past" ? await readBlockAt(reader, { streamSequence }, true) : { block: last };
  return { ...block, streamSequence };
}

/** @throws Failure `failed_precondition` if the past of no market is kept so early */
async function requireKept(
  reader: Reader,
  { streamSequence }: PastBlock,
  oldest: readonly OldestBegin[],
): Promise<void> {
  const [first] = inOrder(oldest);
  if (first === undefined || first.streamSequence <= streamSequence || first.isAnnouncement) return;
  const ids = oldest.map(({ marketId }) => marketId);
  throw notKept(await oldestPlace(reader, ids));
}

/** The oldest block at whose last end a market has a book. */
async function oldestPlace(reader: Reader, marketIds: readonly string[]): Promise<PastBlock | undefined> {
  const places: PastBlock[] = [];
  for (const { marketId, height, streamSequence } of inOrder(await readOldestBooks(reader, marketIds))) {
    if (places.some((place) => place.height <= height)) break;
    const place = await nearestBook(reader, marketId, streamSequence - 1n);
    if (place !== undefined) places.push(place);
  }
  return inOrder(places)[0];
}

function inOrder<B extends PastBlock>(begins: readonly B[]): B[] {
  return [...begins].sort((a, b) => (a.streamSequence < b.streamSequence ? -1 : 1));
}

/** The stream sequence number at which a replay ends, exclusive. */
async function endOf(reader: Reader, until: Moment, stored: StoreReach): Promise<bigint> {
  requirePassed(until, stored, 1n);
  const end = await firstPlace(reader, until);
  const { historySequence } = stored;
  if (end - 1n <= historySequence) return end;
  throw notKept((await readBlockAt(reader, { streamSequence: historySequence })).block);
}
