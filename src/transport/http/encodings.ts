import { isMessage } from "@bufbuild/protobuf";
import Negotiator from "negotiator";
import { HttpBodySchema } from "../../../gen/google/api/httpbody_pb.js";
import type { Encoding } from "../../domain/encoded-response.js";
import type { Failure } from "../../domain/failure.js";
import { preferenceLengthMax } from "../call/content-coding.js";
import { errorJson } from "../errors.js";
import type { Protocol } from "../request-metrics.js";

const resultHead = Buffer.from('{"result":');
const brace = Buffer.from("}");
const lineTail = Buffer.from("}\n");
const eventTail = Buffer.from("}\n\n");
const dataHead = Buffer.from('data: {"result":');

/** A stream message on one line: `{"result": …}`. */
export const jsonLine: Encoding = {
  encode: (response) => Buffer.concat([resultHead, response.json(), lineTail]),
};

/** A server-sent event. Its data is one line, because JSON has no line breaks outside of escapes. */
export const serverSentEvent: Encoding = {
  encode(response) {
    const id = response.eventId === undefined ? [] : [Buffer.from(`id: ${response.eventId}\n`)];
    return Buffer.concat([...id, dataHead, response.json(), eventTail]);
  },
};

/** A WebSocket text message as a frame (RFC 6455, 5.2): final, unmasked, as servers send it. */
export const webSocketText: Encoding = {
  encode: (response) => textFrame(Buffer.concat([resultHead, response.json(), brace])),
};

/** The content of a `google.api.HttpBody`, without its envelope. */
export const bodyData: Encoding = {
  encode(response) {
    const message = response.message();
    if (!isMessage(message, HttpBodySchema)) throw new TypeError(`${message.$typeName} has no data of its own`);
    return message.data;
  },
};

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

/** How a stream is written to a response. */
export interface StreamEncoding {
  readonly encoding: Encoding;
  readonly contentType: string;
  readonly protocol: Protocol;
  /** The last bytes of a stream that failed after its headers were sent. */
  errorBytes(failure: Failure): Uint8Array;
}

/** A JSON object per line. */
const jsonLines: StreamEncoding = {
  encoding: jsonLine,
  contentType: "application/json",
  protocol: "http",
  errorBytes: (failure) => Buffer.from(`{"error":${errorJson(failure)}}\n`),
};

/** The same, with the content type that tells clients to expect lines. */
const namedJsonLines: StreamEncoding = { ...jsonLines, contentType: "application/x-ndjson" };

/** Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). */
const serverSentEvents: StreamEncoding = {
  encoding: serverSentEvent,
  contentType: "text/event-stream",
  protocol: "sse",
  /** Sets the reconnection time, if the failure has one, and makes the client forget its last id where that is void. */
  errorBytes(failure) {
    const id = failure.voidsPlaces ? "id:\n" : "";
    const retry = failure.retryAfterMs === undefined ? "" : `retry: ${failure.retryAfterMs}\n`;
    return Buffer.from(`event: error\n${id}${retry}data: {"error":${errorJson(failure)}}\n\n`);
  },
};

const byMediaType = new Map(
  [jsonLines, namedJsonLines, serverSentEvents].map((encoding) => [encoding.contentType, encoding]),
);

/** The client's preferred type among these; undefined: none. The first one wins if there is no preference that is read. */
export function preferredMediaType(accept: string | undefined, available: readonly string[]): string | undefined {
  if (accept === undefined || accept.length > preferenceLengthMax) return available[0];
  return new Negotiator({ headers: { accept } }).mediaType([...available]);
}

const lineTypes = [jsonLines.contentType, namedJsonLines.contentType];
const streamTypes = [...byMediaType.keys()];

/** The encoding of a stream of messages; JSON lines if the client accepts none. A file's envelopes are never events. */
export function streamEncoding(accept: string | undefined, alt: string | undefined, isFile: boolean): StreamEncoding {
  if (alt === "sse") return serverSentEvents;
  return byMediaType.get(preferredMediaType(accept, isFile ? lineTypes : streamTypes) ?? "") ?? jsonLines;
}
