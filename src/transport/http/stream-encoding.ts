import Negotiator from "negotiator";
import type { Encoding } from "../../domain/encoded-response.js";
import type { Failure } from "../../domain/failure.js";
import type { Protocol } from "../request-metrics.js";
import { errorEvent, errorLine, jsonLine, serverSentEvent } from "./encodings.js";

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
  errorBytes: errorLine,
};

/** The same, with the content type that tells clients to expect lines. */
const namedJsonLines: StreamEncoding = { ...jsonLines, contentType: "application/x-ndjson" };

/** Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). */
const serverSentEvents: StreamEncoding = {
  encoding: serverSentEvent,
  contentType: "text/event-stream",
  protocol: "sse",
  errorBytes: errorEvent,
};

const byMediaType = new Map<string, StreamEncoding>([
  ["application/json", jsonLines],
  ["application/x-ndjson", namedJsonLines],
  ["text/event-stream", serverSentEvents],
]);

/** The client's preferred type among these; undefined: none. The first one wins if there is no preference. */
export function preferredMediaType(accept: string | undefined, available: readonly string[]): string | undefined {
  if (accept === undefined) return available[0];
  return new Negotiator({ headers: { accept } }).mediaType([...available]);
}

/** The encoding of a stream of messages; JSON lines if the client accepts none of them. */
export function streamEncoding(accept: string | undefined, alt: string | undefined): StreamEncoding {
  if (alt === "sse") return serverSentEvents;
  return byMediaType.get(preferredMediaType(accept, [...byMediaType.keys()]) ?? "") ?? jsonLines;
}

/** The encoding of a file's envelopes: lines, never events. */
export function envelopeEncoding(accept: string | undefined): StreamEncoding {
  const names = ["application/json", "application/x-ndjson"];
  return byMediaType.get(preferredMediaType(accept, names) ?? "") ?? jsonLines;
}
