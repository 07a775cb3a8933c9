import { Code, ConnectError } from "@connectrpc/connect";
import { retryWaitMs } from "./retry.js";

/** A stream without a message for this long is given up; a server sends one every 15 seconds. */
export const silenceMaxMs = 45_000;

/** How a stream is read over any number of connections. */
export interface StreamOptions {
  /** Ends the reader, without an error. Leaving the loop ends it too. */
  readonly signal?: AbortSignal;
  /** Default: {@link silenceMaxMs}. */
  readonly silenceMaxMs?: number;
  /** Called when the connection broke, before each wait. What was read is out of date until the stream is open again. */
  readonly onDisconnect?: (error: ConnectError, waitMs: number) => void;
}

/** The error of an endless stream that ended. */
export function streamEnded(): ConnectError {
  return new ConnectError("the stream ended", Code.Unavailable);
}

/**
 * What `attempt` yields, and after a wait the same of the next attempt, for as long as `goesOnAfter` its error. Each
 * batch, even an empty one, ends a row of failures.
 */
export async function* withRetries<T>(
  attempt: () => AsyncIterable<readonly T[]>,
  goesOnAfter: (error: ConnectError) => boolean,
  { signal = new AbortController().signal, onDisconnect }: StreamOptions,
): AsyncGenerator<T, void> {
  let failures = 0;
  /** Whether the caller has an item. An error is then the caller's, thrown into this generator (`yield*` does so). */
  let isGiving = false;
  while (!signal.aborted) {
    try {
      for await (const batch of attempt()) {
        failures = 0;
        isGiving = true;
        for (const each of batch) yield each;
        isGiving = false;
      }
      return;
    } catch (thrown) {
      if (isGiving) throw thrown;
      if (signal.aborted) return;
      const error = ConnectError.from(thrown);
      if (!goesOnAfter(error)) throw error;
      failures++;
      const waitMs = retryWaitMs(error, failures);
      onDisconnect?.(error, waitMs);
      await sleep(waitMs, signal);
    }
  }
}

/** The messages of one stream. @throws ConnectError UNAVAILABLE when it is silent for too long */
export async function* watched<M>(
  open: (signal: AbortSignal) => AsyncIterable<M>,
  options: StreamOptions,
): AsyncGenerator<M, void> {
  const maxMs = options.silenceMaxMs ?? silenceMaxMs;
  const stream = new AbortController();
  const endIfSilent = () => stream.abort(new ConnectError(`no message for ${maxMs} ms`, Code.Unavailable));
  const signals = options.signal === undefined ? [stream.signal] : [options.signal, stream.signal];
  try {
    const messages = open(AbortSignal.any(signals))[Symbol.asyncIterator]();
    for (;;) {
      // Only the time that we wait counts, not the time that the caller takes over a message.
      const timer = setTimeout(endIfSilent, maxMs);
      const { done, value } = await messages.next().finally(() => clearTimeout(timer));
      if (done === true) return;
      yield value;
    }
  } catch (thrown) {
    throw stream.signal.aborted ? stream.signal.reason : thrown;
  } finally {
    stream.abort();
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
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
