import { Observable } from "../hooks/observable.js";
import { request } from "./service.js";

const pollMs = 2_000;

/** What the service tells of itself. A figure that it does not tell here is undefined. */
export interface Status {
  /** Whether the newest request was answered. */
  readonly reachable: boolean;
  /** When `reachable` became what it is, in milliseconds. */
  readonly since: number;
  /** "ready", or why the service may not be sent traffic. */
  readonly readiness: string | undefined;
  readonly blockHeight: string | undefined;
  readonly blockAgeSeconds: number | undefined;
  readonly streamSequence: string | undefined;
  readonly openStreams: string | undefined;
  /** Seconds since the database last answered. */
  readonly databaseSilenceSeconds: number | undefined;
}

const unknown: Status = {
  reachable: true,
  since: Date.now(),
  readiness: undefined,
  blockHeight: undefined,
  blockAgeSeconds: undefined,
  streamSequence: undefined,
  openStreams: undefined,
  databaseSilenceSeconds: undefined,
};

/** Follows the service's readiness and metrics, which stay at the root whatever the base path. */
export class ServiceStatus {
  readonly status = new Observable<Status>(unknown);

  start(): void {
    void this.#poll().finally(() => setTimeout(() => this.start(), pollMs));
  }

  async #poll(): Promise<void> {
    const last = this.status.value;
    try {
      const ready = await request(new URL("/readyz", location.origin));
      const { status: readiness } = (await ready.json()) as { status: string };
      const staleness = ready.headers.get("marketd-staleness");
      const metrics = await this.#metrics();
      const since = last.reachable ? last.since : Date.now();
      const blockAgeSeconds = staleness === null ? undefined : Number(staleness);
      const blockHeight = ready.headers.get("x-block-height") ?? undefined;
      this.status.set({ ...unknown, blockAgeSeconds, blockHeight, ...metrics, readiness, reachable: true, since });
    } catch {
      this.status.set({ ...last, reachable: false, since: last.reachable ? Date.now() : last.since });
    }
  }

  /** An operator may keep metrics away from the public port: then there are none. */
  async #metrics(): Promise<Partial<Status>> {
    const response = await request(new URL("/metrics", location.origin));
    if (!response.ok) return {};
    const text = await response.text();
    const silence = metric(text, "marketd_database_silence_seconds");
    return {
      streamSequence: metric(text, "marketd_stream_sequence"),
      openStreams: metric(text, "marketd_depth_stream_subscribers"),
      databaseSilenceSeconds: silence === undefined ? undefined : Number(silence),
    };
  }
}

/** A metric without labels, from Prometheus text. */
function metric(text: string, name: string): string | undefined {
  return new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1];
}
