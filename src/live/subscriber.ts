import { quotaKey } from "../domain/client-address.js";
import type { Codec } from "../domain/encoded-response.js";
import type { Cohort, Subscription } from "./cohort.js";
import { ReaderStream } from "./reader-stream.js";
import type { StreamResponse } from "./stream-kind.js";

const nothing: readonly StreamResponse[] = [];

/** One reader of a depth stream. Its cohort knows what it was sent last; it stores no updates. */
export class Subscriber extends ReaderStream<StreamResponse["schema"]> {
  readonly #subscription: Subscription;
  readonly #onClose: (subscriber: Subscriber) => void;
  #cohort: Cohort;
  /** Taken from a cohort, and being encoded in turns of the event loop. */
  #preparing: readonly StreamResponse[] | undefined;
  #prepared: readonly StreamResponse[] | undefined;
  #thrown: { readonly thrown: unknown } | undefined;

  constructor(
    subscription: Subscription,
    newSubscribers: Cohort,
    readonly clientAddress: string,
    readonly codec: Codec,
    onClose: (subscriber: Subscriber) => void,
  ) {
    super();
    this.#subscription = subscription;
    this.#onClose = onClose;
    this.#cohort = newSubscribers;
    subscription.move(undefined, newSubscribers);
    this.heartbeatDue = !newSubscribers.behind;
  }

  get behind(): boolean {
    return this.#cohort.behind;
  }

  take(): readonly StreamResponse[] {
    if (this.ended) return nothing;
    if (this.#thrown !== undefined) throw this.#thrown.thrown;
    const prepared = this.#prepared;
    const isIdle = !this.#cohort.behind && !this.heartbeatDue;
    if (this.#preparing !== undefined || (prepared === undefined && isIdle)) {
      this.isWaiting = true;
      return nothing;
    }
    this.isWaiting = false;
    this.noteSent();
    this.#prepared = undefined;
    if (prepared !== undefined) return prepared;
    if (!this.#cohort.behind && !this.#cohort.isNew) return [this.#subscription.heartbeat()];
    const responses = this.#subscription.responsesOf(this.#cohort);
    this.#join(this.#subscription.upToDate());
    const encoding = responses.flatMap(
      (response) => response.prepare?.(this.codec, quotaKey(this.clientAddress)) ?? [],
    );
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
    this.#subscription.move(this.#cohort, undefined);
    this.#onClose(this);
  }

  #join(cohort: Cohort): void {
    const before = this.#cohort;
    this.#cohort = cohort;
    this.#subscription.move(before, cohort);
  }
}
