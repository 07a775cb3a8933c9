import { isMessage, toJsonString } from "@bufbuild/protobuf";
import { HttpBodySchema } from "../../../gen/google/api/httpbody_pb.js";
import { StatusSchema } from "../../../gen/google/rpc/status_pb.js";
import type { Encoding } from "../../domain/encoded-response.js";
import type { Failure } from "../../domain/failure.js";
import { jsonWriteOptions } from "../../encoding/json-encoder.js";
import { toStatus } from "../status.js";

const resultHead = Buffer.from('{"result":');
const brace = Buffer.from("}");
const lineTail = Buffer.from("}\n");
const eventTail = Buffer.from("}\n\n");
const dataHead = Buffer.from('data: {"result":');

/** A stream message on one line: `{"result": …}`. */
export const jsonLine: Encoding = {
  name: "json line",
  encode: (response) => Buffer.concat([resultHead, response.json(), lineTail]),
};

/** A server-sent event. Its data is one line, because JSON has no line breaks outside of escapes. */
export const serverSentEvent: Encoding = {
  name: "server-sent event",
  encode(response) {
    const id = response.eventId === undefined ? [] : [Buffer.from(`id: ${response.eventId}\n`)];
    return Buffer.concat([...id, dataHead, response.json(), eventTail]);
  },
};

/** An encoding that is never empty, as a chunk of an HTTP/1.1 body (RFC 9112, 7.1). */
function asChunk(encoding: Encoding): Encoding {
  return {
    name: `${encoding.name} in a chunk`,
    encode(response) {
      const bytes = encoding.encode(response);
      return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
    },
  };
}

const chunkedEncodings = new Map([jsonLine, serverSentEvent].map((encoding) => [encoding, asChunk(encoding)]));

/** The same encoding in finished chunks. @throws TypeError for an encoding without a chunked variant */
export function chunkedEncoding(encoding: Encoding): Encoding {
  const chunked = chunkedEncodings.get(encoding);
  if (chunked === undefined) throw new TypeError(`${encoding.name} is not written in finished chunks`);
  return chunked;
}

/** A WebSocket text message as a frame (RFC 6455, 5.2): final, unmasked, as servers send it. */
export const webSocketText: Encoding = {
  name: "WebSocket text",
  encode: (response) => textFrame(Buffer.concat([resultHead, response.json(), brace])),
};

/** The content of a `google.api.HttpBody`, without its envelope. */
export const bodyData: Encoding = {
  name: "body data",
  encode(response) {
    const message = response.message();
    if (!isMessage(message, HttpBodySchema)) throw new TypeError(`${message.$typeName} has no data of its own`);
    return message.data;
  },
};

/** Failures of refused requests are often the same object, so their JSON is kept. */
const errorTexts = new WeakMap<Failure, string>();

/** A failure as the JSON object `{code, message, details}`. */
export function errorJson(failure: Failure): string {
  let text = errorTexts.get(failure);
  if (text === undefined) {
    text = toJsonString(StatusSchema, toStatus(failure), jsonWriteOptions);
    errorTexts.set(failure, text);
  }
  return text;
}

/** A failure as a stream's last line. */
export function errorLine(failure: Failure): Uint8Array {
  return Buffer.from(`{"error":${errorJson(failure)}}\n`);
}

/** A failure as the last server-sent event. It sets the reconnection time, if the failure has one. */
export function errorEvent(failure: Failure): Uint8Array {
  const retry = failure.retryAfterMs === undefined ? "" : `retry: ${failure.retryAfterMs}\n`;
  return Buffer.from(`event: error\n${retry}data: {"error":${errorJson(failure)}}\n\n`);
}

/** A failure as the last WebSocket text message. */
export function errorText(failure: Failure): Uint8Array {
  return textFrame(Buffer.from(`{"error":${errorJson(failure)}}`));
}

/** Final fragment, opcode text. */
const finalText = 0x81;

function textFrame(payload: Uint8Array): Uint8Array {
  const headBytes = payload.length < 126 ? 2 : payload.length < 65_536 ? 4 : 10;
  const frame = Buffer.allocUnsafeSlow(headBytes + payload.length);
  frame[0] = finalText;
  if (headBytes === 2) {
    frame[1] = payload.length;
  } else if (headBytes === 4) {
    frame[1] = 126;
    frame.writeUInt16BE(payload.length, 2);
  } else {
    frame[1] = 127;
    frame.writeBigUInt64BE(BigInt(payload.length), 2);
  }
  frame.set(payload, headBytes);
  return frame;
}
