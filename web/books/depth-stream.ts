import type { ReplayMessage, ReplayResponse } from "../service/messages.js";
import { apiUrl, paths } from "../service/service.js";
import { hiddenMaxMs, retryMaxMs, retryMinMs, silenceMaxMs } from "../service/stream-limits.js";

/** What a stream tells its owner. */
export interface DepthStreamListener {
  /** A connection was opened: whole books of all markets follow, or what changed since the last one if it goes on. */
  opened(goesOn: boolean): void;
  /** @returns false when something is missing before an update, so that the stream has to be opened again */
  received(message: ReplayMessage): boolean;
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

interface ErrorBody {
  readonly error: {
    readonly code: number;
    readonly message: string;
    readonly details?: readonly { readonly reason?: string }[];
  };
}

/** What an `error` event of a stream says; undefined: nothing, the connection is lost. */
export function errorIn(event: Event): ErrorBody["error"] | undefined {
  const hasData = "data" in event && typeof event.data === "string";
  return hasData ? (JSON.parse(String(event.data)) as ErrorBody).error : undefined;
}

/** UNAVAILABLE, such as that of a process that ends. */
const transientCode = 14;

/** The reason of an error where the service's database holds another chain than the stream began with. */
export const chainChanged = "CHAIN_CHANGED";

/** The token that opens a stream at the newest block. */
const newest = "live";

/** Messages put together from their parts: what has no block goes on in the next. */
export class MessageParts {
  #parts: ReplayResponse[] = [];

  /** Takes the data of an event. Undefined: it is a part of a message that goes on. */
  add(data: string): ReplayMessage | undefined {
    const { result } = JSON.parse(data) as { result: ReplayResponse };
    this.#parts.push(result);
    const { block } = result;
    if (block === undefined) return undefined;
    const parts = this.#parts.splice(0);
    const [update, status] = [parts.flatMap((part) => part.update), parts.flatMap((part) => part.status)];
    return { ...result, block, update, status };
  }
}

/**
 * The depth stream of all markets over server-sent events, while the page is shown. A lost connection is opened again,
 * later and later, and goes on where the last one ended.
 */
export class DepthStream {
  readonly #listener: DepthStreamListener;
  /** Undefined: not opened, or closed because the page is hidden. */
  #source: EventSource | undefined;
  #retryMs = retryMinMs;
  /** Of the last message. */
  #token = newest;
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
    const token = this.#token;
    const query = [["alt", "sse"] as const, ["resumeToken", token] as const];
    const source = new EventSource(apiUrl(paths.depthReplay, query));
    const parts = new MessageParts();
    this.#source = source;
    this.#awaitMessage();
    source.addEventListener("open", () => this.#listener.opened(token !== newest));
    source.addEventListener("message", (event: MessageEvent<string>) => {
      this.#awaitMessage();
      this.#retryMs = retryMinMs;
      const message = parts.add(event.data);
      if (message === undefined) return;
      if (this.#listener.received(message)) this.#token = message.resumeToken;
      else this.beginAnew({ message: "an update was missing", reason: "", redefined: false });
    });
    source.addEventListener("error", (event) => {
      const error = errorIn(event);
      const reason = error?.details?.find((detail) => detail.reason !== undefined)?.reason ?? "";
      const isOtherChain = reason === chainChanged;
      const message = isOtherChain ? "the service has another chain" : (error?.message ?? "connection lost");
      const loss = { message, reason, redefined: false };
      // Refused, and not cut off: perhaps because of the token.
      const isRefused = error === undefined ? source.readyState === EventSource.CLOSED : error.code !== transientCode;
      if (isOtherChain || isRefused) this.beginAnew(loss);
      else this.#openAgain(loss);
    });
  }

  #awaitMessage(): void {
    clearTimeout(this.#timer);
    const silent = { message: "the stream is silent", reason: "", redefined: false };
    this.#timer = setTimeout(() => this.#openAgain(silent), silenceMaxMs);
  }

  /** Opens a lost connection at once. */
  retry(): void {
    if (this.#source?.readyState !== EventSource.CLOSED) return;
    clearTimeout(this.#timer);
    this.#open();
  }

  /** Ends the connection, and opens another one later, which begins with whole books; at once after another chain's. */
  beginAnew(loss: StreamLoss): void {
    if (loss.reason === chainChanged && this.#token !== newest) this.#retryMs = 0;
    this.#token = newest;
    this.#openAgain(loss);
  }

  /** Ends the connection, and opens another one later; if the page is hidden, when it is shown. */
  #openAgain(loss: StreamLoss): void {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#listener.lost(loss);
    if (this.#source === undefined) return;
    this.#timer = setTimeout(() => this.#open(), this.#retryMs);
    this.#retryMs = Math.min(Math.max(this.#retryMs * 2, retryMinMs), retryMaxMs);
  }
}
