import { Code, ConnectError } from "@connectrpc/connect";
import type { MarketDepthUpdate } from "../../../gen/vega/vega_pb.js";
import { DepthBook } from "../../../src/domain/depth-book.js";
import type { MarketdClient } from "./client.js";
import { isTransient, retryWaitMs } from "./retry.js";

/** A stream without a message for this long is given up; a server sends one every 15 seconds. */
export const silenceMaxMs = 45_000;

/** What to read, and until when. */
export interface DepthReaderOptions {
  /** None: every market, those announced later included. */
  readonly marketIds?: readonly string[];
  /** Ends the reader, without an error. Leaving the loop ends it too. */
  readonly signal?: AbortSignal;
  /** Default: {@link silenceMaxMs}. */
  readonly silenceMaxMs?: number;
  /**
   * Called and awaited when a stream has sent its first message, before its first change: on the first connection and on
   * each further one. Read here what you keep of markets, such as their decimals, which may have changed meanwhile. An
   * error is treated as the stream's.
   */
  readonly onConnect?: () => void | Promise<void>;
  /** Called when the stream broke, before each wait. The books are out of date until the next change. */
  readonly onDisconnect?: (error: ConnectError, waitMs: number) => void;
}

/** A book that has changed, and the update that changed it. */
export interface DepthChange {
  /** After the update. The same object is changed again by the next update; a new connection has new books. */
  readonly book: DepthBook;
  readonly update: MarketDepthUpdate;
}

/**
 * Order books as they change, for as long as the caller reads: first every market's whole book, then each change. When
 * the stream breaks it is opened again, after a wait, and starts with whole books. Read as slowly as you like: the
 * server merges what you have not read yet.
 * @throws ConnectError when trying again is of no use, such as NOT_FOUND for an unknown market
 */
export async function* readDepth(
  client: MarketdClient,
  options: DepthReaderOptions = {},
): AsyncGenerator<DepthChange, void> {
  const signal = options.signal ?? new AbortController().signal;
  let failures = 0;
  while (!signal.aborted) {
    try {
      for await (const changes of readOnce(client, options, signal)) {
        failures = 0;
        yield* changes;
      }
    } catch (thrown) {
      if (signal.aborted) return;
      const error = ConnectError.from(thrown);
      if (!isTransient(error)) throw error;
      failures++;
      const waitMs = retryWaitMs(error, failures);
      options.onDisconnect?.(error, waitMs);
      await sleep(waitMs, signal);
    }
  }
}

/** The changes of each message of one stream. @throws ConnectError when it ends, also without an error of its own */
async function* readOnce(
  client: MarketdClient,
  { marketIds = [], silenceMaxMs: maxMs = silenceMaxMs, onConnect }: DepthReaderOptions,
  signal: AbortSignal,
): AsyncGenerator<DepthChange[], never> {
  const books = new Map<string, DepthBook>();
  const stream = new AbortController();
  const request = { marketIds: [...marketIds] };
  const options = { signal: AbortSignal.any([signal, stream.signal]) };
  const messages = client.observeMarketsDepthUpdates(request, options)[Symbol.asyncIterator]();
  const endIfSilent = () => stream.abort(new ConnectError(`no message for ${maxMs} ms`, Code.Unavailable));
  try {
    for (let first = true; ; first = false) {
      // Only the time that we wait counts, not the time that the caller takes over a change.
      const timer = setTimeout(endIfSilent, maxMs);
      const message = await messages.next().finally(() => clearTimeout(timer));
      if (message.done === true) throw new ConnectError("the stream ended", Code.Unavailable);
      if (first) await onConnect?.();
      yield message.value.update.map((update) => applyTo(books, update));
    }
  } catch (thrown) {
    throw stream.signal.aborted ? stream.signal.reason : thrown;
  } finally {
    stream.abort();
  }
}

function applyTo(books: Map<string, DepthBook>, update: MarketDepthUpdate): DepthChange {
  const book = books.get(update.marketId) ?? new DepthBook(update.marketId);
  books.set(update.marketId, book);
  if (book.apply(update) === "gap") {
    throw new ConnectError(`updates of market ${update.marketId} are missing`, Code.DataLoss);
  }
  return { book, update };
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
