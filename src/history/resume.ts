import { setTimeout as sleep } from "node:timers/promises";
import { unavailable } from "../domain/failure.js";
import { type ResumePlace, requireStore, selectionHash } from "../domain/resume-token.js";
import type { Entry } from "../live/cohort.js";
import { liveRetryAfterMs } from "../live/limits.js";
import type { Live } from "../live/live.js";
import type { LiveState } from "../live/live-state.js";
import { abortFailure } from "../store/connection/fair-queue.js";

/** How long a stream waits for the block of its token, which another process has seen already. */
export const aheadWaitMsMax = 1_500;

/** The pause between looks at it. */
const aheadPauseMs = 10;

/** The pause of all that wait: a timer and a signal for each would cost ten times as much. */
let pause: Promise<void> | undefined;

function paused(): Promise<void> {
  pause ??= sleep(aheadPauseMs).then(() => {
    pause = undefined;
  });
  return pause;
}

/**
 * The numbers of the updates that markets had published up to a place. Of `changed` all are there, of `all` those that
 * began anew between the place and the snapshot `asOf`. Undefined: no update leads from the place to the present.
 */
export type PublishedAt = (
  streamSequence: bigint,
  all: readonly string[],
  changed: readonly string[],
) => Promise<{ readonly numbers: ReadonlyMap<string, bigint | undefined>; readonly asOf: bigint }>;

/**
 * Waits until this process has the block of a token.
 * @throws Failure `unavailable`, `failed_precondition` if the store is replaced, or the signal's reason
 */
export async function reach(live: Pick<Live, "state">, place: ResumePlace, signal: AbortSignal): Promise<LiveState> {
  const { streamSequence } = place;
  const until = performance.now() + aheadWaitMsMax;
  for (;;) {
    const state = live.state();
    requireStore(place, state.storeHash);
    if (state.progress.streamSequence >= streamSequence) return state;
    if (performance.now() > until) {
      const message = "the database does not hold the block of the resume token yet; try again";
      throw unavailable(message, "DATABASE_BEHIND", liveRetryAfterMs);
    }
    await paused();
    if (signal.aborted) throw abortFailure(signal);
  }
}

/**
 * Where readers of the live stream go on that have the books of a selection as of a place. Undefined: with whole books,
 * because the place is too old, or the token is of another selection.
 * @throws Failure `not_found` for an unknown market
 */
export async function entryAt(
  state: LiveState,
  { streamSequence, selection }: ResumePlace,
  marketIds: readonly string[],
  publishedAt: PublishedAt,
): Promise<Entry | undefined> {
  if (!selection.equals(selectionHash(marketIds))) return undefined;
  const key = String(streamSequence);
  const seen = state.log.heldAt(streamSequence);
  if (seen !== undefined) return { key, held: seen };
  const mark = state.log.markAt(streamSequence);
  if (mark === undefined) return undefined;
  const markets = marketIds.length === 0 ? state.announced : marketIds.map((id) => state.requireMarket(id));
  const all = markets.map(({ id }) => id);
  // A market without an update may have been announced since. One that became stale since begins anew, as `all` tells.
  const changed = markets.filter(
    ({ published, stale }) => !stale && (published.mark > mark || published.sequenceNumber === 0n),
  );
  const { numbers, asOf } = await publishedAt(
    streamSequence,
    all,
    changed.map(({ id }) => id),
  );
  // What changed meanwhile.
  const since = state.log.heldAt(asOf);
  if (since === undefined) return undefined;
  const held = new Map(since);
  for (const market of markets) {
    const beginsAnew = since.has(market) && since.get(market) === undefined;
    if (beginsAnew || !numbers.has(market.id)) continue;
    const number = numbers.get(market.id);
    if (number === market.published.sequenceNumber) held.delete(market);
    else held.set(market, number === undefined ? undefined : { mark, sequenceNumber: number });
  }
  return { key, held };
}
