import type { Codec } from "../domain/encoded-response.js";
import type { Cohort, Subscription } from "./cohort.js";
import { ReaderStream } from "./reader-stream.js";
import type { StreamResponse } from "./stream-kind.js";

const nothing: readonly StreamResponse[] = [];

/** What a subscriber needs of its hub. */
export interface SubscriberOwner {
  /** The number of sweeps so far. */
  readonly sweeps: number;
  responsesOf(cohort: Cohort, subscription: Subscription): readonly StreamResponse[];
  heartbeat(subscription: Subscription): StreamResponse;
  leave(subscriber: Subscriber): void;
}

/** One reader of a depth stream. Its cohort knows what it was sent last; it stores no updates. */
export class Subscriber extends ReaderStream<StreamResponse["schema"]> {
  readonly #owner: SubscriberOwner;
  #cohort: Cohort;
  /** An empty message is due: as the first message if there is no update, and after silence. */
  #heartbeatDue: boolean;
  #sentSweep: number;
  /** Taken from a cohort, and being encoded in turns of the event loop. */
  #preparing: readonly StreamResponse[] | undefined;
  #prepared: readonly StreamResponse[] | undefined;
  #thrown: { readonly thrown: unknown } | undefined;

  constructor(
    owner: SubscriberOwner,
    readonly subscription: Subscription,
    newSubscribers: Cohort,
    readonly clientAddress: string,
    readonly codec: Codec,
  ) {
    super();
    this.#owner = owner;
    this.#cohort = newSubscribers;
    subscription.move(undefined, newSubscribers);
    this.#heartbeatDue = !newSubscribers.behind;
    this.#sentSweep = owner.sweeps;
  }

  /** Whether updates are pending. */
  get behind(): boolean {
    return this.#cohort.behind;
  }

  take(): readonly StreamResponse[] {
    if (this.ended) return nothing;
    if (this.#thrown !== undefined) throw this.#thrown.thrown;
    const prepared = this.#prepared;
    const isIdle = !this.#cohort.behind && !this.#heartbeatDue;
    if (this.#preparing !== undefined || (prepared === undefined && isIdle)) {
      this.isWaiting = true;
      return nothing;
    }
    this.isWaiting = false;
    this.#sentSweep = this.#owner.sweeps;
    this.#heartbeatDue = false;
    this.#prepared = undefined;
    if (prepared !== undefined) return prepared;
    if (!this.#cohort.behind && !this.#cohort.isNew) return [this.#owner.heartbeat(this.subscription)];
    const responses = this.#owner.responsesOf(this.#cohort, this.subscription);
    this.#join(this.subscription.upToDate());
    const encoding = responses.flatMap((response) => response.prepare?.(this.codec) ?? []);
    if (encoding.length === 0) return responses;
    this.#prepare(responses, encoding);
    return nothing;
  }

  /** Whatever changes meanwhile is merged, and follows. */
  #prepare(responses: readonly StreamResponse[], encoding: readonly Promise<void>[]): void {
    this.isWaiting = true;
    this.#preparing = responses;
    Promise.all(encoding).then(
      () => {
        this.#preparing = undefined;
        this.#prepared = responses;
        this.wake();
      },
      (thrown: unknown) => {
        this.#preparing = undefined;
        this.#thrown = { thrown };
        this.wake();
      },
    );
  }

  protected left(): void {
    this.subscription.move(this.#cohort, undefined);
    this.#owner.leave(this);
  }

  /** Called at every sweep: makes an empty message due after `heartbeatSweeps` sweeps without a message. */
  sweep(heartbeatSweeps: number): void {
    if (this.#heartbeatDue || this.#owner.sweeps - this.#sentSweep < heartbeatSweeps) return;
    this.#heartbeatDue = true;
    this.wake();
  }

  #join(cohort: Cohort): void {
    const before = this.#cohort;
    this.#cohort = cohort;
    this.subscription.move(before, cohort);
  }
}
