import { Code, ConnectError } from "@connectrpc/connect";

/**
 * The largest message that is read, in bytes, and the largest response that is not a stream. The whole book of a million
 * levels a side has 42 MB.
 */
export const messageMaxBytes = 64 * 1024 * 1024;

/** In the error of a message that is too large; Connect's transports for Node say the same. */
const tooLarge = "is larger than configured readMaxBytes";

/** Whether a response was given up because of its size: the next one would be as large. */
export function isTooLarge({ rawMessage }: ConnectError): boolean {
  return rawMessage.includes(tooLarge);
}

/** Of requests and responses of streams. */
const streamType = "application/connect+";

/** The bytes before each message of a stream: flags, then the length, big-endian. */
const prefixBytes = 5;

/**
 * `fetch` whose responses fail with RESOURCE_EXHAUSTED once they hold a message of more than `maxBytes`, and with
 * DEADLINE_EXCEEDED if one that is no stream, and has no time limit of its own, has not ended after `callMaxMs`: that of
 * Node 20 may never settle if the connection ends as soon as it is open, and a response may stop in its middle.
 */
export function boundedFetch(maxBytes: number, callMaxMs?: number): typeof fetch {
  return async (input, init) => {
    const headers = new Headers(init?.headers);
    const isLimited = headers.has("connect-timeout-ms");
    const isOfStream = headers.get("content-type")?.startsWith(streamType) === true;
    const limit =
      callMaxMs === undefined || isLimited || isOfStream ? undefined : new TimeLimit(callMaxMs, init?.signal);
    const response = await fetch(input, limit === undefined ? init : { ...init, signal: limit.signal }).catch(
      (error) => {
        limit?.end();
        throw error;
      },
    );
    if (response.body === null) {
      limit?.end();
      return response;
    }
    const isStream = response.headers.get("content-type")?.startsWith(streamType) === true;
    const { status, statusText } = response;
    const length = isStream ? new MessageLengths() : new BodyLength();
    const body = bounded(response.body.getReader(), length, maxBytes, () => limit?.end());
    return new Response(body, { status, statusText, headers: response.headers });
  };
}

/** Ends a call that takes too long. Its timer keeps the process, which may wait for nothing else where a request is lost. */
class TimeLimit {
  readonly signal: AbortSignal;
  readonly #timer: ReturnType<typeof setTimeout>;

  /** @param signal the caller's own */
  constructor(ms: number, signal: AbortSignal | null | undefined) {
    const late = new AbortController();
    const error = new ConnectError(`there is no whole response after ${ms / 1_000} s`, Code.DeadlineExceeded);
    this.#timer = setTimeout(() => late.abort(error), ms);
    this.signal = AbortSignal.any(signal ? [signal, late.signal] : [late.signal]);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

/** How long a message is, from the bytes of it that arrived. */
interface Length {
  /** Takes the next bytes; the length of the longest message that they belong to, as far as it is known. */
  add(bytes: Uint8Array): number;
}

class BodyLength implements Length {
  #bytes = 0;

  add(bytes: Uint8Array): number {
    this.#bytes += bytes.length;
    return this.#bytes;
  }
}

class MessageLengths implements Length {
  /** Bytes of the prefix that arrived, and of the message that did not. */
  #prefix = 0;
  #rest = 0;

  add(bytes: Uint8Array): number {
    let longest = 0;
    for (let at = 0; at < bytes.length; ) {
      if (this.#prefix === prefixBytes) {
        const taken = Math.min(this.#rest, bytes.length - at);
        at += taken;
        this.#rest -= taken;
      } else {
        this.#rest = this.#prefix === 0 ? 0 : this.#rest * 256 + (bytes[at] ?? 0);
        this.#prefix++;
        at++;
        if (this.#prefix === prefixBytes) longest = Math.max(longest, this.#rest);
      }
      if (this.#prefix === prefixBytes && this.#rest === 0) this.#prefix = 0;
    }
    return longest;
  }
}

function bounded(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  length: Length,
  maxBytes: number,
  ended: () => void,
): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read().catch((error) => {
        ended();
        throw error;
      });
      if (!done && length.add(value) <= maxBytes) return controller.enqueue(value);
      ended();
      if (done) return controller.close();
      controller.error(new ConnectError(`message size ${tooLarge} ${maxBytes}`, Code.ResourceExhausted));
      await reader.cancel();
    },
    cancel(reason) {
      ended();
      return reader.cancel(reason);
    },
  });
}
