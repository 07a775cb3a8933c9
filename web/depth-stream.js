import { DepthBook } from "./depth-book.js";
import { apiUrl } from "./service.js";

/** The service sends something at least every 15 seconds; after this long the connection counts as lost. */
const silenceMaxMs = 35_000;
const retryMinMs = 1_000;
const retryMaxMs = 30_000;

/**
 * The live book of one market over server-sent events. It connects again by itself, later and later while nothing
 * answers, and every connection begins with the whole book, so a book that is shown is right.
 */
export class DepthStream {
  #marketId;
  #onBook;
  #onState;
  #source;
  #book;
  #retryMs = retryMinMs;
  #retryTimer;
  #silenceTimer;
  #closed = false;

  /**
   * @param {string} marketId
   * @param {(book: DepthBook) => void} onBook after each change
   * @param {(state: "waiting" | "live" | "down", text: string) => void} onState
   */
  constructor(marketId, onBook, onState) {
    this.#marketId = marketId;
    this.#onBook = onBook;
    this.#onState = onState;
    this.#open();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#retryTimer);
    this.#drop();
  }

  #open() {
    this.#onState("waiting", "connecting");
    this.#book = new DepthBook();
    const source = new EventSource(
      apiUrl("api/v2/stream/markets/depth/updates", { marketIds: this.#marketId, alt: "sse" }),
    );
    this.#source = source;
    this.#listen();
    source.addEventListener("message", (event) => this.#receive(JSON.parse(event.data)));
    // Both a lost connection and an error that the service sent: the latter has data.
    source.addEventListener("error", (event) => {
      const message = event.data === undefined ? "connection lost" : JSON.parse(event.data).error.message;
      this.#again(message);
    });
  }

  #receive(message) {
    this.#listen();
    this.#retryMs = retryMinMs;
    this.#onState("live", "live");
    for (const update of message.result.update) {
      if (update.marketId !== this.#marketId) continue;
      if (!this.#book.apply(update)) {
        this.#again("an update was missing");
        return;
      }
      this.#onBook(this.#book);
    }
  }

  /** Starts to wait for the next sign of life. */
  #listen() {
    clearTimeout(this.#silenceTimer);
    this.#silenceTimer = setTimeout(() => this.#again("the stream fell silent"), silenceMaxMs);
  }

  #again(why) {
    if (this.#closed) return;
    this.#drop();
    this.#onState("down", `${why}; trying again`);
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => this.#open(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, retryMaxMs);
  }

  #drop() {
    clearTimeout(this.#silenceTimer);
    this.#source?.close();
  }
}
