import type { Http2Stream } from "node:http2";
import type { Writable } from "node:stream";
import { quotaKey } from "../../domain/client-address.js";
import { ClientQuota, heldRetryMs } from "../../domain/client-quota.js";
import { Failure, unavailable } from "../../domain/failure.js";

/**
 * Larger bodies are written in pieces of this size, each when the peer has taken the previous one. Otherwise a slow
 * reader could not be told from one that takes nothing.
 */
export const pieceBytes = 262_144;

/** Smaller responses are not counted: the most streams of an HTTP/2 connection then have 16 MiB. */
const countedBytesMin = 16_384;

/** Unread responses of one client address, in bytes: about fifty of the largest pages. */
export const unreadBytesPerClientMax = 134_217_728;

/** Unread responses of a process, in bytes. */
export const unreadBytesMax = 536_870_912;

/** Counts bytes of responses that readers have not taken. A single response may exceed both limits, in bytes. */
export function countUnread(ofClientMax: number, inAllMax: number): ClientQuota {
  const message = "this server holds as many unread responses as it can";
  const inAll = () => unavailable(message, "TOO_MANY_UNREAD_RESPONSES", heldRetryMs);
  return new ClientQuota({ ofClientMax, inAllMax, ofClient: tooManyOfClient, inAll });
}

function tooManyOfClient(unread: number): Failure {
  const message = `this client has ${unread} bytes of responses to read; read them, or ask for less at once`;
  return new Failure("resource_exhausted", message, { reason: "UNREAD_RESPONSES", retryAfterMs: heldRetryMs });
}

const unreadResponses = countUnread(unreadBytesPerClientMax, unreadBytesMax);

/** Bytes of responses that are written in pieces. */
const bytesToWrite = new WeakMap<Http2Stream, number>();

/** Whether the stream carries a complete response, not messages over time. */
export function isWholeResponse(stream: Http2Stream): boolean {
  return stream.writableEnded || bytesToWrite.has(stream);
}

/** Whether the end of the response has left, with its trailers. They wait for the peer's window, as messages do. */
export function hasEnded(stream: Http2Stream): boolean {
  return stream.writableFinished && stream.state.localClose === 1;
}

/** Bytes for the peer that it has not taken. The end of the response counts as one. */
export function unreadBytes(stream: Http2Stream): number {
  const end = stream.writableEnded && !hasEnded(stream) ? 1 : 0;
  return stream.writableLength + (bytesToWrite.get(stream) ?? 0) + end;
}

/**
 * Counts a response of `bytes` until the peer has taken it. Call it before writing any of it.
 * @throws Failure if the client, or the process, holds too many unread bytes
 */
export function countResponse(output: Writable, clientAddress: string, bytes: number): void {
  if (bytes < countedBytesMin || output.destroyed) return;
  const client = quotaKey(clientAddress);
  unreadResponses.add(client, bytes);
  output.once("close", () => unreadResponses.remove(client, bytes));
}

/** Ends a stream with this body. A large one is written piece by piece. */
export function endWithBody(stream: Http2Stream, body: Uint8Array): void {
  if (body.length <= pieceBytes) {
    stream.end(body);
    return;
  }
  let left = body;
  const writeNext = (error?: Error | null): void => {
    if ((error !== undefined && error !== null) || stream.destroyed || stream.closed) return;
    const piece = left.subarray(0, pieceBytes);
    left = left.subarray(pieceBytes);
    bytesToWrite.set(stream, left.length);
    if (left.length === 0) stream.end(piece);
    else stream.write(piece, writeNext);
  };
  writeNext();
}
