import type { UniversalServerRequest } from "@connectrpc/connect/protocol";
import { requestTooSlow } from "../grpc/deadline.js";
import { isLargeMessage, largeMessageTurn } from "../large-messages.js";
import { toConnectError } from "./connect-error.js";

/**
 * A request body that has to be there after `ms`; `onLate` is called when it is not.
 * @throws ConnectError when it is late
 */
export function receiveInTime(
  body: UniversalServerRequest["body"],
  ms: number,
  onLate: () => void,
): AsyncIterable<Uint8Array> {
  if (!isChunks(body)) throw new TypeError("a request body that is not read in chunks");
  return inTime(body, ms, onLate);
}

function isChunks(body: UniversalServerRequest["body"]): body is AsyncIterable<Uint8Array> {
  return typeof body === "object" && body !== null && Symbol.asyncIterator in body;
}

async function* inTime(
  body: AsyncIterable<Uint8Array>,
  ms: number,
  onLate: () => void,
): AsyncGenerator<Uint8Array, void, void> {
  const chunks = body[Symbol.asyncIterator]();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      onLate();
      reject(toConnectError(requestTooSlow(ms), "grpc"));
    }, ms);
  });
  let bytes = 0;
  try {
    for (;;) {
      const { done, value } = await Promise.race([chunks.next(), late]);
      if (done === true) break;
      bytes += value.length;
      yield value;
    }
  } finally {
    clearTimeout(timer);
    chunks.return?.().catch(() => {});
  }
  if (isLargeMessage(bytes)) await largeMessageTurn();
}
