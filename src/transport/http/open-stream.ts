import type { Message } from "@bufbuild/protobuf";
import type { AnswerStream, StreamMethod } from "../../domain/service.js";
import type { RequestCall } from "../request-call.js";
import { answerWithin } from "./answer-within.js";

/** Opens a stream within `ms` and hands it to `begin`; what either of them throws goes to `refused`. */
export function openStream(
  method: StreamMethod,
  message: Message,
  call: RequestCall,
  ms: number,
  begin: (stream: AnswerStream) => void,
  refused: (thrown: unknown) => void,
): void {
  try {
    const stream = method.open(message, call);
    if (stream instanceof Promise) {
      answerWithin(stream, ms, call, (late) => late.close())
        .then(begin)
        .catch(refused);
    } else {
      begin(stream);
    }
  } catch (thrown) {
    refused(thrown);
  }
}
