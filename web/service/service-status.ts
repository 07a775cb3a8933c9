import type { BookStore } from "../books/book-store.js";
import { Observable } from "../hooks/observable.js";
import type { StatusResponse } from "./messages.js";
import { getStatus } from "./service.js";

const pollMs = 2_000;
/** A response that is older says nothing of now. Browsers run the timers of a page that is long hidden once a minute. */
const responseMaxMs = 10_000;

/** What the service tells of itself. */
export interface Status {
  /** Whether the newest request was answered. */
  readonly reachable: boolean;
  /** When `reachable` became what it is, in milliseconds. */
  readonly since: number;
  /** The newest response; undefined before the first. */
  readonly response: StatusResponse | undefined;
  /** When that came, by the page's monotonic clock in milliseconds. */
  readonly respondedAt: number;
}

/** Follows the service's status. */
export class ServiceStatus {
  readonly status = new Observable<Status>({ reachable: true, since: Date.now(), response: undefined, respondedAt: 0 });

  /** Asks at once when a stream ends. */
  start(books: BookStore): void {
    books.stream.subscribe(() => {
      if (books.stream.value.state === "lost") void this.#poll();
    });
    this.#follow();
  }

  #follow(): void {
    void this.#poll().finally(() => setTimeout(() => this.#follow(), pollMs));
  }

  async #poll(): Promise<void> {
    const last = this.status.value;
    try {
      const response = await getStatus();
      const since = last.reachable ? last.since : Date.now();
      this.status.set({ reachable: true, since, response, respondedAt: performance.now() });
    } catch {
      this.status.set({ ...last, reachable: false, since: last.reachable ? Date.now() : last.since });
    }
  }
}

/** The age of the newest block now, by the service's clock, in seconds; undefined: it is not known, or there is none. */
export function blockAgeSeconds({ response, respondedAt }: Status): number | undefined {
  const age = response?.blockAgeSeconds;
  const sinceMs = performance.now() - respondedAt;
  return age === undefined || sinceMs > responseMaxMs ? undefined : age + sinceMs / 1_000;
}
