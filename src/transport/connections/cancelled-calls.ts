import { Failure } from "../../domain/failure.js";
import { exceededSecondsMax, RateLimit } from "../../domain/rate-limit.js";
import type { TransportLimits } from "../limits.js";

/**
 * A cancellation within this time after the start of the call is early. Later ones are not counted: the limit on open
 * streams bounds them to about 200 calls a second. Seconds, because a busy process sees cancellations late.
 */
export const earlyCancelMs = 5_000;

/** Clients that are tracked. Beyond it, clients without recent cancellations are dropped. */
export const cancellingClientsMax = 8_192;

/** Retry delay for a client that cancelled too many calls. It is certain to be admitted then. */
const retryMs = exceededSecondsMax * 1_000;

/** The failure of calls from a client that cancelled too many. */
export function tooManyCancelledCalls(): Failure {
  const message = "this client cancels calls faster than one address may; keep them open, or ask less often";
  return new Failure("resource_exhausted", message, { reason: "TOO_MANY_CANCELLED_CALLS", retryAfterMs: retryMs });
}

/**
 * Counts each client's early cancellations over all its connections. A cancelled call costs as much as a response and
 * frees its stream at once, so the limit on streams does not bound such calls. The quota key identifies the client.
 */
export class CancelledCalls {
  readonly #burstMax: number;
  readonly #perSecondMax: number;
  /** Clients with recent cancellations, and those of the period before. */
  #recent = new Map<string, RateLimit>();
  #earlier = new Map<string, RateLimit>();
  #replacedMs = performance.now();
  /** Clients beyond the limit, until their wait is over. */
  readonly #exceeded = new Set<string>();

  constructor(limits: Pick<TransportLimits, "cancelledCallBurstMax" | "cancelledCallsPerSecondMax">) {
    this.#burstMax = limits.cancelledCallBurstMax;
    this.#perSecondMax = limits.cancelledCallsPerSecondMax;
  }

  /** The number of tracked clients. */
  get size(): number {
    return this.#recent.size + this.#earlier.size;
  }

  /** Whether any client may be beyond the limit. False: {@link exceededBy} need not be called. */
  get anyExceeded(): boolean {
    return this.#exceeded.size > 0;
  }

  /** Counts an early cancellation. False: the client is beyond the limit. */
  allows(client: string): boolean {
    const allowed = this.#limitOf(client).allows();
    if (!allowed) this.#exceeded.add(client);
    return allowed;
  }

  /** Whether the client is beyond the limit and must wait, at most {@link exceededSecondsMax}. */
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

  /** Drops clients whose last cancellations are so old that their limit is whole again. */
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
