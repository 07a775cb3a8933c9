import type { MarketDepthUpdate } from "../service/messages.js";
import { apiUrl, paths } from "../service/service.js";

/** The service sends something at least every 15 seconds; after this long the connection counts as lost. */
const silenceMaxMs = 35_000;
const retryMinMs = 1_000;
const retryMaxMs = 30_000;

/** What a stream tells its owner. */
export interface DepthStreamListener {
  /** A connection was opened: whole books of all markets follow. */
  opened(): void;
  /** @returns false when something is missing before an update, so that the stream has to be opened again */
  received(updates: readonly MarketDepthUpdate[]): boolean;
  /** The connection is lost, and will be opened again. `reason` as in the error of the service, or empty. */
  lost(message: string, reason: string): void;
}

interface StreamError {
  readonly error: { readonly message: string; readonly details?: readonly { readonly reason?: string }[] };
}

/** The depth stream of all markets over server-sent events. A lost connection is opened again, later and later. */
export class DepthStream {
  readonly #listener: DepthStreamListener;
  #source: EventSource | undefined;
  #retryMs = retryMinMs;
  #silenceTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(listener: DepthStreamListener) {
    this.#listener = listener;
  }

  open(): void {
    const source = new EventSource(apiUrl(paths.depthUpdates, [["alt", "sse"]]));
    this.#source = source;
    this.#awaitMessage();
    source.addEventListener("open", () => this.#listener.opened());
    source.addEventListener("message", (event: MessageEvent<string>) => {
      this.#awaitMessage();
      this.#retryMs = retryMinMs;
      const { result } = JSON.parse(event.data) as { result: { update: MarketDepthUpdate[] } };
      if (!this.#listener.received(result.update)) this.#openAgain("an update was missing", "");
    });
    // A lost connection, or an error that the service sent: the latter has data.
    source.addEventListener("error", (event) => {
      const data =
        "data" in event && typeof event.data === "string" ? (JSON.parse(event.data) as StreamError) : undefined;
      const reason = data?.error.details?.find((detail) => detail.reason !== undefined)?.reason ?? "";
      this.#openAgain(data?.error.message ?? "connection lost", reason);
    });
  }

  #awaitMessage(): void {
    clearTimeout(this.#silenceTimer);
    this.#silenceTimer = setTimeout(() => this.#openAgain("the stream is silent", ""), silenceMaxMs);
  }

  #openAgain(message: string, reason: string): void {
    clearTimeout(this.#silenceTimer);
    this.#source?.close();
    this.#listener.lost(message, reason);
    setTimeout(() => this.open(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, retryMaxMs);
  }
}
