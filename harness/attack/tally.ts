/** Statuses that input alone must never cause. */
const forbidden: ReadonlySet<number> = new Set([500, 502, 504]);

/** What an attack sent and got, over all of its connections. */
export class Tally {
  requests = 0;
  connections = 0;
  /** Answers by HTTP status; a gRPC status N counts as 1000 + N. */
  readonly statuses = new Map<number, number>();
  /** What else was measured, for the report. */
  readonly notes: string[] = [];
  /** What must not have happened, each once, with how often. */
  readonly #wrong = new Map<string, number>();

  /** A response with an HTTP status arrived. `retryable`: it says when to try again. `what` says what was sent. */
  answered(status: number, retryable: boolean, what: () => string): void {
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
    if (forbidden.has(status)) this.wrong(`status ${status} for ${what()}`);
    else if (status === 503 && !retryable) this.wrong(`503 without Retry-After for ${what()}`);
  }

  /** A gRPC call ended with a status. INTERNAL, UNKNOWN and DEADLINE_EXCEEDED count as wrong unless `allowed`. */
  ended(code: number, retryable: boolean, what: () => string, allowed: readonly number[] = []): void {
    this.statuses.set(1000 + code, (this.statuses.get(1000 + code) ?? 0) + 1);
    if ([2, 4, 13].includes(code) && !allowed.includes(code)) this.wrong(`gRPC status ${code} for ${what()}`);
    else if (code === 14 && !retryable) this.wrong(`UNAVAILABLE without RetryInfo for ${what()}`);
  }

  /** Something that must not happen has happened. */
  wrong(what: string): void {
    this.#wrong.set(what, (this.#wrong.get(what) ?? 0) + 1);
  }

  /** The first few wrong things, for the report; empty: none. */
  get failures(): string[] {
    return [...this.#wrong].slice(0, 8).map(([what, times]) => `${what} (${times} times)`);
  }

  /** Counts of responses in words: `200: 12, 503: 4, gRPC 5: 1`. */
  get summary(): string {
    const sorted = [...this.statuses].sort(([a], [b]) => a - b);
    return sorted.map(([status, count]) => `${status < 1000 ? status : `gRPC ${status - 1000}`}: ${count}`).join(", ");
  }
}
