import { quotaKey } from "../domain/client-address.js";
import { Failure, unavailable } from "../domain/failure.js";
import type { Call } from "../domain/service.js";
import { turnsMax, WorkPacer } from "../domain/work-pacer.js";

/**
 * Requests that may wait for the database: a second of work with pages of 64 rows. A waiting request takes 5 KB and no
 * CPU; a refused client that retries at once takes 0.2 ms of CPU each time.
 */
export const waitingMax = 1_000;

/** The longest wait for the database. Clients have usually given up by then. */
export const waitMsMax = 5_000;

/** The fraction of slots that one address may hold, so that another address always finds a free one. */
export const addressShare = 0.8;

/** Retry delay for refused clients. */
export const busyRetryMs = 1_000;

/** Limits of a {@link DatabaseGate}. */
export interface GateLimits {
  /** Requests at the database at once. */
  readonly slots: number;
  readonly waitingMax: number;
  readonly waitMsMax: number;
}

/** The reasons of refusals. */
export const refusalReasons = ["SERVER_BUSY", "TOO_MANY_REQUESTS_OF_CLIENT"] as const;

type RefusalReason = (typeof refusalReasons)[number];

/** Created once, because refusals must be cheap. */
const refusals: Readonly<Record<RefusalReason, Failure>> = {
  SERVER_BUSY: unavailable(
    "this server has as many requests to answer as it can; try again",
    "SERVER_BUSY",
    busyRetryMs,
  ),
  TOO_MANY_REQUESTS_OF_CLIENT: new Failure(
    "resource_exhausted",
    "this client has more requests waiting than its share; send fewer at once",
    { reason: "TOO_MANY_REQUESTS_OF_CLIENT", retryAfterMs: busyRetryMs },
  ),
};

/** A waiting request. */
interface Waiting {
  start(): void;
  refuse(failure: Failure): void;
}

/** The requests of one address. */
interface Client {
  readonly key: string;
  running: number;
  /** The first requests of calls, in order of arrival. */
  readonly first: Set<Waiting>;
  /**
   * Further requests of calls that have started to respond. They go first and are never refused, so that no file is cut
   * short.
   */
  readonly further: Set<Waiting>;
}

/**
 * Limits how many requests are at the database and how many wait. Client addresses take turns.
 *
 * If too many wait, the newest request of the address with the most is refused, so a quota applies only while others
 * wait too. An aborted request leaves at once, but its slot stays taken until its statement has ended.
 */
export class DatabaseGate {
  readonly #limits: GateLimits;
  readonly #runningPerAddressMax: number;
  readonly #clients = new Map<string, Client>();
  /** Addresses with waiting requests, in the order of their turns. */
  readonly #turns = new Set<Client>();
  readonly #pacer = new WorkPacer();
  readonly #refused = new Map<RefusalReason, number>();
  #running = 0;
  /** First requests of calls only. */
  #waiting = 0;

  constructor(limits: GateLimits) {
    this.#limits = limits;
    this.#runningPerAddressMax = Math.max(1, Math.floor(limits.slots * addressShare));
  }

  /** Requests at the database now, including those whose client has left. */
  get running(): number {
    return this.#running;
  }

  /** Requests that wait now. */
  get waiting(): number {
    let further = 0;
    for (const client of this.#turns) further += client.further.size;
    return this.#waiting + further;
  }

  /** Addresses with a request at the database or in the queue. */
  get clients(): number {
    return this.#clients.size;
  }

  /** Requests refused since the start. */
  refused(reason: RefusalReason): number {
    return this.#refused.get(reason) ?? 0;
  }

  /**
   * Runs `work` when a slot is free, and frees the slot when it settles. `further`: the call has started to respond, so
   * its request waits without limit.
   * @throws Failure `unavailable` or `resource_exhausted` at once if too many wait, `unavailable` after `waitMsMax`,
   * the reason of the call's signal when it is aborted, or whatever the work throws
   */
  async run<T>(call: Call | undefined, work: () => Promise<T>, further = false): Promise<T> {
    const client = this.#clientOf(quotaKey(call?.clientAddress ?? ""));
    const waits = !this.#hasSlotFor(client);
    const refusal = waits && !further ? this.#evict(client) : undefined;
    if (refusal !== undefined) {
      this.#forgetIdle(client);
      throw refusal;
    }
    const signal = call?.signal;
    if (signal?.aborted === true) {
      this.#forgetIdle(client);
      throw abortFailure(signal);
    }
    return new Promise<T>((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const refuse = (failure: Failure): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        reject(failure);
      };
      const request: Waiting = {
        refuse,
        start: () => {
          clearTimeout(timer);
          const done = (): void => signal?.removeEventListener("abort", onAbort);
          this.#work(client, signal, work).then(resolve, reject).finally(done);
        },
      };
      const onAbort = (): void => {
        this.#leave(client, request);
        refuse(abortFailure(signal));
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      if (!waits) return request.start();
      this.#turns.add(client);
      if (further) {
        client.further.add(request);
        return;
      }
      client.first.add(request);
      this.#waiting++;
      timer = setTimeout(() => {
        this.#leave(client, request);
        refuse(this.#refusal("SERVER_BUSY"));
      }, this.#limits.waitMsMax);
    });
  }

  /** Runs the work, and frees the slot when its result may be used. */
  async #work<T>(client: Client, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    this.#clients.set(client.key, client);
    client.running++;
    this.#running++;
    try {
      const result = await work();
      await new Promise<void>((resolve) => this.#pacer.push(resolve, signal?.aborted === true ? turnsMax : 0));
      return result;
    } finally {
      client.running--;
      this.#running--;
      this.#forgetIdle(client);
      this.#startNext();
    }
  }

  #hasSlotFor(client: Client): boolean {
    return this.#running < this.#limits.slots && client.running < this.#runningPerAddressMax;
  }

  #startNext(): void {
    for (const client of this.#turns) {
      if (this.#running >= this.#limits.slots) return;
      if (client.running >= this.#runningPerAddressMax) continue;
      const [request] = client.further.size > 0 ? client.further : client.first;
      if (request === undefined) continue;
      // Its next request follows those of the others; this loop reaches it again.
      this.#turns.delete(client);
      this.#turns.add(client);
      this.#leave(client, request);
      request.start();
    }
  }

  #leave(client: Client, request: Waiting): void {
    if (client.first.delete(request)) this.#waiting--;
    else client.further.delete(request);
    if (client.first.size + client.further.size === 0) this.#turns.delete(client);
    this.#forgetIdle(client);
  }

  /** Why one more request of a client cannot wait; undefined if it can, possibly in place of another's. */
  #evict(client: Client): Failure | undefined {
    if (this.#waiting < this.#limits.waitingMax) return undefined;
    let longest = client;
    for (const other of this.#turns) if (other.first.size > longest.first.size) longest = other;
    const newest = [...longest.first].at(-1);
    if (newest === undefined || longest.first.size <= client.first.size + 1) {
      const share = this.#waiting / this.#turns.size;
      return this.#refusal(client.first.size > share ? "TOO_MANY_REQUESTS_OF_CLIENT" : "SERVER_BUSY");
    }
    this.#leave(longest, newest);
    newest.refuse(this.#refusal("TOO_MANY_REQUESTS_OF_CLIENT"));
    return undefined;
  }

  #refusal(reason: RefusalReason): Failure {
    this.#refused.set(reason, this.refused(reason) + 1);
    return refusals[reason];
  }

  #clientOf(key: string): Client {
    let client = this.#clients.get(key);
    if (client === undefined) {
      client = { key, running: 0, first: new Set(), further: new Set() };
      this.#clients.set(key, client);
    }
    return client;
  }

  #forgetIdle(client: Client): void {
    if (client.running + client.first.size + client.further.size === 0) this.#clients.delete(client.key);
  }
}

/** Why a call was aborted, as a failure. */
function abortFailure(signal: AbortSignal | undefined): Failure {
  if (signal?.reason instanceof Failure) return signal.reason;
  return new Failure("cancelled", "the request was cancelled", { reason: "CANCELLED" });
}
