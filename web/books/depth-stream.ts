import type { MarketDepthUpdate } from "../service/messages.js";
import { apiUrl, paths } from "../service/service.js";

/** The service sends something at least every 15 seconds; after this long the connection counts as lost. */
const silenceMaxMs = 35_000;
const retryMinMs = 1_000;
const retryMaxMs = 30_000;
/**
 * A page that is hidden for this long closes its stream. Over HTTP/1.1 a browser opens six connections to a host, for
 * all tabs together, and each stream takes one. A user who is soon back sees no gap.
 */
const hiddenMaxMs = 5_000;

/** What a stream tells its owner. */
export interface DepthStreamListener {
  /** A connection was opened: whole books of all markets follow. */
  opened(): void;
  /**
   * @param blockHeight of the newest block that the updates are of
   * @returns false when something is missing before an update, so that the stream has to be opened again
   */
  received(updates: readonly MarketDepthUpdate[], blockHeight: bigint): boolean;
  /** The connection is lost, and will be opened again. */
  lost(loss: StreamLoss): void;
  /** The page is hidden. The connection was closed, and will be opened when the page is shown. */
  paused(): void;
}

/** Why a stream ended. */
export interface StreamLoss {
  readonly message: string;
  /** As in the error of the service; otherwise empty. */
  readonly reason: string;
  /** Whether a market has other decimals than before: its numbers mean something else from now on. */
  readonly redefined: boolean;
}

interface ErrorDetail {
  readonly reason?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

interface StreamError {
  readonly error: { readonly message: string; readonly details?: readonly ErrorDetail[] };
}

/** The reason in an `error` event; one without data is a lost connection. */
function lossOf(event: Event): StreamLoss {
  const hasData = "data" in event && typeof event.data === "string";
  if (!hasData) return { message: "connection lost", reason: "", redefined: false };
  const { error } = JSON.parse(String(event.data)) as StreamError;
  const { reason = "", metadata } = error.details?.find((detail) => detail.reason !== undefined) ?? {};
  return { message: error.message, reason, redefined: metadata?.["redefined"] === "true" };
}

/**
 * The depth stream of all markets over server-sent events, while the page is shown. A lost connection is opened again,
 * later and later.
 */
export class DepthStream {
  readonly #listener: DepthStreamListener;
  /** Undefined: not opened, or closed because the page is hidden. */
  #source: EventSource | undefined;
  #retryMs = retryMinMs;
  /** Until the open connection counts as lost, or a lost one is opened again. */
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(listener: DepthStreamListener) {
    this.#listener = listener;
  }

  /** Opens the stream, at once or when the page is shown. */
  start(): void {
    if (!document.hidden) this.#open();
    let hiddenTimer: ReturnType<typeof setTimeout> | undefined;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(hiddenTimer);
      if (document.hidden) hiddenTimer = setTimeout(() => this.#pause(), hiddenMaxMs);
      else if (this.#source === undefined) this.#open();
    });
  }

  #pause(): void {
    if (this.#source === undefined) return;
    clearTimeout(this.#timer);
    this.#source.close();
    this.#source = undefined;
    this.#retryMs = retryMinMs;
    this.#listener.paused();
  }

  #open(): void {
    const source = new EventSource(apiUrl(paths.depthUpdates, [["alt", "sse"]]));
    this.#source = source;
    this.#awaitMessage();
    source.addEventListener("open", () => this.#listener.opened());
    source.addEventListener("message", (event: MessageEvent<string>) => {
      this.#awaitMessage();
      this.#retryMs = retryMinMs;
      const { result } = JSON.parse(event.data) as { result: { update: MarketDepthUpdate[] } };
      const isWhole = this.#listener.received(result.update, BigInt(event.lastEventId));
      if (!isWhole) this.openAgain({ message: "an update was missing", reason: "", redefined: false });
    });
    source.addEventListener("error", (event) => this.openAgain(lossOf(event)));
  }

  #awaitMessage(): void {
    clearTimeout(this.#timer);
    const silent = { message: "the stream is silent", reason: "", redefined: false };
    this.#timer = setTimeout(() => this.openAgain(silent), silenceMaxMs);
  }

  /** Ends the connection, and opens another one later; if the page is hidden, when it is shown. */
  openAgain(loss: StreamLoss): void {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#listener.lost(loss);
    if (this.#source === undefined) return;
    this.#timer = setTimeout(() => this.#open(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, retryMaxMs);
  }
}
