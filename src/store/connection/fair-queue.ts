import { quotaKey } from "../../domain/client-address.js";
import { Failure, unavailable } from "../../domain/failure.js";
import type { Call } from "../../domain/service.js";
import { turnsMax, WorkPacer } from "../../domain/work-pacer.js";
import { addCounter, addGauge, type Metrics } from "../../telemetry/metrics.js";

/**
 * Requests that may wait for the database: a second of work with pages of 64 rows. A waiting request takes 5 KB and no
 * CPU; a refused client that retries at once takes 0.2 ms of CPU each time.
 */
export const waitingMax = 1_000;

/** The longest wait for the database. Clients have usually given up by then. */
export const waitMsMax = 5_000;

/** The fraction of slots, also of a class, that one address may hold, so that another always finds a free one. */
export const addressShare = 0.8;

/** What a slot is used for. `internal`: the process's own statements. */
export type WorkClass = "ledger" | "export" | "history" | "internal";

/**
 * The fraction of slots that a class of work may hold. Exports run for long, and leave some to pages. Replays read
 * without end, and leave most to others.
 */
export const classShares: Readonly<Record<WorkClass, number>> = { ledger: 1, export: 0.8, history: 0.4, internal: 1 };

/** Retry delay for refused clients. */
export const busyRetryMs = 1_000;

/** Limits of a {@link FairQueue}. */
export interface QueueLimits {
  /** Requests at the database at once. */
  readonly slots: number;
  readonly waitingMax: number;
  readonly waitMsMax: number;
}

/** A request for a slot. */
export interface SlotRequest {
  readonly class: WorkClass;
  /** Undefined: the process itself, which has no share and waits without limit. */
  readonly call: Call | undefined;
  /** The call has started to respond, so this request goes before its client's others and waits without limit. */
  readonly started?: boolean;
}

/** What the process's own statements ask for. */
export const internalRequest: SlotRequest = { class: "internal", call: undefined };

/** Refusals by their reason. Created once, because they must be cheap. */
const refusals = {
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

type RefusalReason = keyof typeof refusals;

/** A waiting request. */
interface Waiting {
  readonly class: WorkClass;
  start(): void;
  refuse(failure: Failure): void;
}

/** The requests of one address, or of the process itself. */
interface Client {
  readonly key: string;
  /** The fraction of slots that it may hold. */
  readonly share: number;
  running: number;
  readonly runningOf: Record<WorkClass, number>;
  /** The first requests of calls, in order of arrival. */
  readonly first: Set<Waiting>;
  /** Requests without a limit, which go before those. So no file is cut short. */
  readonly unlimited: Set<Waiting>;
}

/**
 * Limits how many requests are at the database and how many wait. Client addresses take turns, and no class of work
 * holds more than its share.
 *
 * If too many wait, the newest request of the address with the most is refused, so a quota applies only while others
 * wait too. An aborted request leaves at once, but its slot stays taken until its statement has ended.
 */
export class FairQueue {
  readonly #clients = new Map<string, Client>();
  /** Addresses with waiting requests, in the order of their turns. */
  readonly #turns = new Set<Client>();
  readonly #pacer = new WorkPacer();
  readonly #refused: Record<RefusalReason, number> = { SERVER_BUSY: 0, TOO_MANY_REQUESTS_OF_CLIENT: 0 };
  /** Requests at the database, by class. */
  readonly #runningOf = noneOf();
  #running = 0;
  /** First requests of calls only. */
  #waiting = 0;

  constructor(private readonly limits: QueueLimits) {}

  /** Requests at the database now, including those whose client has left. */
  get running(): number {
    return this.#running;
  }

  /** Requests that wait now. */
  get waiting(): number {
    let unlimited = 0;
    for (const client of this.#turns) unlimited += client.unlimited.size;
    return this.#waiting + unlimited;
  }

  /** Addresses with a request at the database or in the queue. */
  get clients(): number {
    return this.#clients.size;
  }

  /** Requests refused since the start. */
  refused(reason: RefusalReason): number {
    return this.#refused[reason];
  }

  /** Registers metrics of running, waiting and refused requests. */
  register(metrics: Metrics): void {
    addGauge(metrics, "marketd_database_requests_running", "Requests at the database now.", () => this.running);
    const waitingHelp = "Requests that wait for the database now.";
    addGauge(metrics, "marketd_database_requests_waiting", waitingHelp, () => this.waiting);
    const refusedHelp = "Requests refused because too many wait for the database, by the reason of their error.";
    const refused = () => Object.entries(this.#refused);
    addCounter(metrics, "marketd_database_requests_refused_total", refusedHelp, refused, { label: "reason" });
  }

  /**
   * Runs `work` when a slot is free, and frees the slot when it settles.
   * @throws Failure `unavailable` or `resource_exhausted` at once if too many wait, `unavailable` after `waitMsMax`,
   * the reason of the call's signal when it is aborted, or whatever the work throws
   */
  async run<T>(asked: SlotRequest, work: () => Promise<T>): Promise<T> {
    const client = this.#clientOf(asked.call);
    const isUnlimited = asked.call === undefined || asked.started === true;
    const waits = !this.#hasSlotFor(client, asked.class);
    const signal = asked.call?.signal;
    const refusal = waits && !isUnlimited ? this.#evict(client) : undefined;
    if (refusal !== undefined || signal?.aborted === true) {
      this.#forgetIdle(client);
      throw refusal ?? abortFailure(signal);
    }
    return new Promise<T>((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const stopWaiting = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
      };
      const request: Waiting = {
        class: asked.class,
        refuse: (failure) => {
          stopWaiting();
          reject(failure);
        },
        start: () => {
          clearTimeout(timer);
          this.#work(client, asked, work).then(resolve, reject).finally(stopWaiting);
        },
      };
      const onAbort = (): void => {
        this.#leave(client, request);
        request.refuse(abortFailure(signal));
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      if (!waits) return request.start();
      this.#turns.add(client);
      if (isUnlimited) {
        client.unlimited.add(request);
        return;
      }
      client.first.add(request);
      this.#waiting++;
      timer = setTimeout(() => {
        this.#leave(client, request);
        request.refuse(this.#refusal("SERVER_BUSY"));
      }, this.limits.waitMsMax);
    });
  }

  /** Runs the work, and frees the slot when its result may be used. */
  async #work<T>(client: Client, { class: workClass, call }: SlotRequest, work: () => Promise<T>): Promise<T> {
    // Its only request left the queue to start, and so it was forgotten.
    this.#clients.set(client.key, client);
    client.running++;
    client.runningOf[workClass]++;
    this.#running++;
    this.#runningOf[workClass]++;
    try {
      const result = await work();
      if (call === undefined) return result;
      await new Promise<void>((resolve) => this.#pacer.push(resolve, call.signal.aborted ? turnsMax : 0, client.key));
      return result;
    } finally {
      client.running--;
      client.runningOf[workClass]--;
      this.#running--;
      this.#runningOf[workClass]--;
      this.#forgetIdle(client);
      this.#startNext();
    }
  }

  #hasSlotFor(client: Client, workClass: WorkClass): boolean {
    const { slots } = this.limits;
    if (this.#running >= slots || client.running >= shareOf(slots, client.share)) return false;
    const ofClass = shareOf(slots, classShares[workClass]);
    return this.#runningOf[workClass] < ofClass && client.runningOf[workClass] < shareOf(ofClass, client.share);
  }

  #startNext(): void {
    for (const client of this.#turns) {
      if (this.#running >= this.limits.slots) return;
      const request = this.#nextOf(client);
      if (request === undefined) continue;
      // Its next request follows those of the others; this loop reaches it again.
      this.#turns.delete(client);
      this.#turns.add(client);
      this.#leave(client, request);
      request.start();
    }
  }

  /** The request of a client whose turn comes next; undefined: none may start now. */
  #nextOf(client: Client): Waiting | undefined {
    for (const requests of [client.unlimited, client.first]) {
      for (const request of requests) if (this.#hasSlotFor(client, request.class)) return request;
    }
    return undefined;
  }

  #leave(client: Client, request: Waiting): void {
    if (client.first.delete(request)) this.#waiting--;
    else client.unlimited.delete(request);
    if (client.first.size + client.unlimited.size === 0) this.#turns.delete(client);
    this.#forgetIdle(client);
  }

  /** Why one more request of a client cannot wait; undefined if it can, possibly in place of another's. */
  #evict(client: Client): Failure | undefined {
    if (this.#waiting < this.limits.waitingMax) return undefined;
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
    this.#refused[reason]++;
    return refusals[reason];
  }

  #clientOf(call: Call | undefined): Client {
    const key = call === undefined ? internalKey : quotaKey(call.clientAddress);
    let client = this.#clients.get(key);
    if (client === undefined) {
      const share = call === undefined ? 1 : addressShare;
      client = { key, share, running: 0, runningOf: noneOf(), first: new Set(), unlimited: new Set() };
      this.#clients.set(key, client);
    }
    return client;
  }

  #forgetIdle(client: Client): void {
    if (client.running + client.first.size + client.unlimited.size === 0) this.#clients.delete(client.key);
  }
}

function noneOf(): Record<WorkClass, number> {
  return { ledger: 0, export: 0, history: 0, internal: 0 };
}

/** The key of the process itself, which is no address. */
const internalKey = "internal";

/** A share of the slots: at least one. */
function shareOf(slots: number, share: number): number {
  return Math.max(1, Math.floor(slots * share));
}

/** Why a call was aborted, as a failure. */
export function abortFailure(signal: AbortSignal | undefined): Failure {
  if (signal?.reason instanceof Failure) return signal.reason;
  return new Failure("cancelled", "the request was cancelled", { reason: "CANCELLED" });
}
