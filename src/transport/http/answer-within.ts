import { deadlineExceeded } from "../grpc/deadline.js";
import type { RequestCall } from "../request-call.js";

/**
 * The same outcome, or DEADLINE_EXCEEDED after `ms`, which aborts the call. What comes too late is given to `late`, so
 * that nothing stays open that nobody knows of.
 */
export function answerWithin<T>(
  promise: Promise<T>,
  ms: number,
  call: RequestCall,
  late: (outcome: T) => void = () => {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    let passed = false;
    const timer = setTimeout(() => {
      passed = true;
      const failure = deadlineExceeded();
      call.abort(failure);
      reject(failure);
    }, ms);
    promise.then(
      (outcome) => {
        clearTimeout(timer);
        if (passed) late(outcome);
        else resolve(outcome);
      },
      (thrown: unknown) => {
        clearTimeout(timer);
        reject(thrown);
      },
    );
  });
}
