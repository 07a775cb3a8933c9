import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Failure } from "../../domain/failure.js";
import type { AnswerStream } from "../../domain/service.js";
import { clientLeft } from "../grpc/deadline.js";
import type { ConnectCall } from "./connect-context.js";

/**
 * An answer stream as the iterable that Connect wants: it pulls only when asked, and is closed whichever way the
 * iteration ends, or when the call is aborted: Connect forgets an iteration whose connection broke in a write. `cut`
 * breaks off a response whose reader has not taken the last message `breakOffMs` after the stream failed or the call was
 * aborted.
 * @throws Failure that the stream ended with, or why the call was aborted
 */
export async function* answerIterable<O extends DescMessage>(
  stream: AnswerStream<O>,
  call: ConnectCall,
  breakOffMs: number,
  cut: (failure: Failure) => void,
): AsyncGenerator<MessageShape<O>, void, void> {
  let wake: (() => void) | undefined;
  let grace: NodeJS.Timeout | undefined;
  const notice = (): void => {
    wake?.();
    if (call.signal.aborted) stream.close();
    const failure: Failure | undefined = stream.failure ?? call.signal.reason;
    if (failure !== undefined) grace ??= setTimeout(cut, breakOffMs, failure);
  };
  stream.onReady(notice);
  call.signal.addEventListener("abort", notice);
  try {
    for (;;) {
      if (call.signal.aborted) throw call.signal.reason;
      const ready = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const answers = stream.take();
      for (const answer of answers) {
        const message = answer.message();
        try {
          yield message;
        } catch {
          // Connect throws a failed write in here, whatever its name: the reader left, or was cut from here.
          throw stream.failure ?? call.signal.reason ?? clientLeft();
        }
        if (call.signal.aborted) throw call.signal.reason;
      }
      if (answers.length > 0) continue;
      if (stream.failure !== undefined) throw stream.failure;
      if (stream.ended) return;
      await ready;
    }
  } finally {
    clearTimeout(grace);
    call.signal.removeEventListener("abort", notice);
    stream.close();
  }
}
