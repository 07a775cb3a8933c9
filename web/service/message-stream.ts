import { hiddenMaxMs, pausedText, retryMaxMs, retryMinMs, silenceMaxMs } from "./stream-limits.js";

/** What a stream tells its owner. */
export interface MessageListener<T> {
  /** The first message of a connection was sent: what the service lists from now on is not older than the stream. */
  opened(): void;
  received(message: T): void;
  /** The connection is lost, and will be opened again. */
  lost(why: string): void;
}

interface Envelope<T> {
  readonly result?: T;
  readonly error?: { readonly message: string };
}

/**
 * A stream of the service over a WebSocket, while the page is shown: unlike an event source, it takes none of the six
 * connections that a browser has for a host. A lost one is opened again, later and later.
 */
export class MessageStream<T> {
  readonly #url: string;
  readonly #listener: MessageListener<T>;
  #socket: WebSocket | undefined;
  #retryMs = retryMinMs;
  /** Until the open connection counts as lost, or a lost one is opened again. */
  #timer: ReturnType<typeof setTimeout> | undefined;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #shownOrHidden = () => this.#follow();

  /** @param url of the stream over HTTP */
  constructor(url: URL, listener: MessageListener<T>) {
    this.#url = url.href.replace(/^http/, "ws");
    this.#listener = listener;
  }

  /** Opens the stream, at once or when the page is shown. @returns what ends it */
  start(): () => void {
    document.addEventListener("visibilitychange", this.#shownOrHidden);
    this.#follow();
    return () => {
      document.removeEventListener("visibilitychange", this.#shownOrHidden);
      clearTimeout(this.#hiddenTimer);
      this.#close();
    };
  }

  #follow(): void {
    clearTimeout(this.#hiddenTimer);
    if (document.hidden) this.#hiddenTimer = setTimeout(() => this.#pause(), hiddenMaxMs);
    else if (this.#socket === undefined) this.#open();
  }

  #pause(): void {
    if (this.#socket === undefined) return;
    this.#close();
    this.#retryMs = retryMinMs;
    this.#listener.lost(pausedText);
  }

  #close(): void {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close();
  }

  #open(): void {
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    let isFirst = true;
    let why = "connection lost";
    this.#awaitMessage();
    socket.addEventListener("message", ({ data }: MessageEvent<string>) => {
      if (socket !== this.#socket) return;
      const { result, error } = JSON.parse(data) as Envelope<T>;
      why = error?.message ?? why;
      if (result === undefined) return;
      this.#awaitMessage();
      this.#retryMs = retryMinMs;
      if (isFirst) this.#listener.opened();
      isFirst = false;
      this.#listener.received(result);
    });
    socket.addEventListener("close", () => {
      if (socket === this.#socket) this.#openAgain(why);
    });
  }

  #awaitMessage(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#openAgain("the stream is silent"), silenceMaxMs);
  }

  #openAgain(why: string): void {
    this.#close();
    this.#listener.lost(why);
    this.#timer = setTimeout(() => this.#follow(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, retryMaxMs);
  }
}
