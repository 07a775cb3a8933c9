import type { BookStore } from "../books/book-store.js";
import { Observable } from "../hooks/observable.js";
import type { StatusResponse } from "./messages.js";
import { getStatus } from "./service.js";

const pollMs = 2_000;
/** A request without a response for this long has failed: the service may be frozen, or the network cut. */
const responseMaxMs = 5_000;

/** What the service tells of itself. */
export interface Status {
  /** Whether the newest request was answered in time. */
  readonly reachable: boolean;
  /** When the newest response came, in milliseconds; before the first: when the page was opened. */
  readonly since: number;
  /** The newest response; undefined before the first. */
  readonly response: StatusResponse | undefined;
  /** `since` by the page's monotonic clock. */
  readonly respondedAt: number;
}

/** Follows the service's status. */
export class ServiceStatus {
  readonly status = new Observable<Status>({ reachable: true, since: Date.now(), response: undefined, respondedAt: 0 });

  /**
   * Asks again and again, and at once when a stream ends, and when the page is shown: hidden ones may run their timers
   * once a minute. Opens a lost stream when the service responds again.
   */
  start(books: BookStore): void {
    books.stream.subscribe(() => {
      if (books.stream.value.state === "lost") void this.#poll(books);
    });
    document.addEventListener("visibilitychange", () => document.hidden || void this.#poll(books));
    this.#follow(books);
  }

  #follow(books: BookStore): void {
    void this.#poll(books).finally(() => setTimeout(() => this.#follow(books), pollMs));
  }

  async #poll(books: BookStore): Promise<void> {
    const askedAt = performance.now();
    try {
      const response = await getStatus(AbortSignal.timeout(responseMaxMs));
      const { reachable } = this.status.value;
      this.status.set({ reachable: true, since: Date.now(), response, respondedAt: performance.now() });
      if (!reachable) books.retry();
    } catch {
      const last = this.status.value;
      // Unless another request was answered meanwhile.
      if (last.respondedAt < askedAt) this.status.set({ ...last, reachable: false });
    }
  }
}

/** The age now of the newest block that is known, by the service's clock, in seconds; undefined: none is known. */
export function blockAgeSeconds({ response, respondedAt }: Status): number | undefined {
  const age = response?.blockAgeSeconds;
  return age === undefined ? undefined : age + (performance.now() - respondedAt) / 1_000;
}
