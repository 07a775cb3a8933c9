import { useEffect, useRef, useState } from "preact/hooks";
import { ServiceError } from "../service/service.js";

/** When a request is repeated that is made once, but failed. */
const retryMs = 5_000;

/** What a repeated request has brought so far. */
export interface Polled<T> {
  /** The newest response; undefined before the first. */
  readonly value: T | undefined;
  /** Why the newest request failed; undefined: it did not. */
  readonly error: Error | undefined;
  /** When the newest response came, in milliseconds; 0 before the first. */
  readonly at: number;
}

const nothingYet = { value: undefined, error: undefined, at: 0 } as const;

/**
 * Repeats a request, `intervalMs` after each response, for as long as the component is shown. Another `key` starts anew.
 * Requests are told by their signal when their response is not wanted any more. `intervalMs` 0: until it succeeds, or fails in a way that a repetition
 * does not change. Another interval applies from the next response on.
 */
export function usePoll<T>(request: (signal: AbortSignal) => Promise<T>, intervalMs: number, key: string): Polled<T> {
  const [polled, setPolled] = useState<Polled<T> & { key: string }>({ ...nothingYet, key });
  const newest = useRef(request);
  newest.current = request;
  const interval = useRef(intervalMs);
  interval.current = intervalMs;
  useEffect(() => {
    const abort = new AbortController();
    const { signal } = abort;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const failed = (thrown: unknown): Error => {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      if (!signal.aborted) setPolled((last) => ({ ...(last.key === key ? last : nothingYet), error, key }));
      return error;
    };
    const succeeded = (value: T) => {
      if (!signal.aborted) setPolled({ value, error: undefined, at: Date.now(), key });
      return undefined;
    };
    // What it throws before it waits for anything is an error of the request, too.
    const ask = async (): Promise<T> => newest.current(signal);
    const poll = async (): Promise<void> => {
      const error = await ask().then(succeeded, failed);
      const isPassing = error instanceof ServiceError && error.isPassing;
      const nextMs = interval.current > 0 || !isPassing ? interval.current : retryMs;
      if (!signal.aborted && nextMs > 0) timer = setTimeout(poll, nextMs);
    };
    void poll();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key]);
  return polled.key === key ? polled : nothingYet;
}
