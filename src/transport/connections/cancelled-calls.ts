import { Failure } from "../../domain/failure.js";
import { exceededSecondsMax, RateLimit } from "../../domain/rate-limit.js";
import type { TransportLimits } from "../limits.js";

/**
 * A call is cancelled early when its client leaves it sooner than this after it began. Later cancellations are not
 * counted: a connection has so few streams at once that it can make but 200 calls a second in this way. Seconds, because
 * cancellations that wait for a busy process look later than they are.
 */
export const earlyCancelMs = 5_000;

/** Clients that are remembered; with more of them, those that cancelled nothing lately are forgotten. */
export const cancellingClientsMax = 8_192;

/** When a client that cancelled too many calls should try again: it surely may then. */
const retryMs = exceededSecondsMax * 1_000;

/** The response to a client that has to wait because it cancelled too many calls. */
export function tooManyCancelledCalls(): Failure {
  const message = "this client cancels calls faster than one address may; keep them open, or ask less often";
  return new Failure("resource_exhausted", message, { reason: "TOO_MANY_CANCELLED_CALLS", retryAfterMs: retryMs });
}

/**
 * Counts the calls that each client cancels early, over all its connections. Such a call costs as much as a response, and
 * makes room for the next at once, so that nothing else bounds them. Clients are named by their quota keys.
 */
export class CancelledCalls {
  readonly #burstMax: number;
  readonly #perSecondMax: number;
  /** Of clients that cancelled something lately, and of those that did before. */
  #recent = new Map<string, RateLimit>();
  #earlier = new Map<string, RateLimit>();
  #replacedMs = performance.now();
  /** Clients that went too far, until they are seen to have waited. */
  readonly #exceeded = new Set<string>();

  constructor(limits: Pick<TransportLimits, "cancelledCallBurstMax" | "cancelledCallsPerSecondMax">) {
    this.#burstMax = limits.cancelledCallBurstMax;
    this.#perSecondMax = limits.cancelledCallsPerSecondMax;
  }

  /** Clients that are remembered now. */
  get size(): number {
    return this.#recent.size + this.#earlier.size;
  }

  /** Whether some client may have cancelled too many; false: {@link exceededBy} need not be asked. */
  get anyExceeded(): boolean {
    return this.#exceeded.size > 0;
  }

  /** Counts a call that was cancelled early; false: the client has cancelled too many. */
  allows(client: string): boolean {
    const allowed = this.#limitOf(client).allows();
    if (!allowed) this.#exceeded.add(client);
    return allowed;
  }

  /** Whether the client has cancelled too many, and has to wait, {@link exceededSecondsMax} at most. */
  exceededBy(client: string): boolean {
    if (!this.#exceeded.has(client)) return false;
    if ((this.#recent.get(client) ?? this.#earlier.get(client))?.exceeded === true) return true;
    this.#exceeded.delete(client);
    return false;
  }

  #limitOf(client: string): RateLimit {
    const known = this.#recent.get(client);
    if (known !== undefined) return known;
    this.#evict();
    const limit = this.#earlier.get(client) ?? new RateLimit(this.#burstMax, this.#perSecondMax);
    this.#earlier.delete(client);
    this.#recent.set(client, limit);
    return limit;
  }

  /** Forgets clients that have cancelled nothing for so long that they may cancel as many as a new one. */
  #evict(): void {
    const nowMs = performance.now();
    const recoveryMs = (this.#burstMax / this.#perSecondMax + exceededSecondsMax) * 1_000;
    if (this.#recent.size < cancellingClientsMax / 2 && nowMs - this.#replacedMs < recoveryMs) return;
    this.#replacedMs = nowMs;
    this.#earlier = this.#recent;
    this.#recent = new Map();
    this.#exceeded.clear();
  }
}
