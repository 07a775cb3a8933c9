import type { Http2Session, Http2Stream } from "node:http2";
import { Failure, unavailable } from "../../domain/failure.js";

/**
 * Larger bodies are written in pieces of so many bytes, of which the next is written when the peer has taken the last:
 * only then can be seen that a slow reader takes something.
 */
export const pieceBytes = 262_144;

/** Smaller responses are not counted: as many as a connection may have streams are 16 MiB. */
const countedBytesMin = 16_384;

/** Answers that one HTTP/2 connection may leave unread, in bytes: some fifty of the largest pages. */
export const unreadBytesPerConnectionMax = 134_217_728;

/** Answers that all HTTP/2 connections of a process may leave unread, in bytes. */
export const unreadBytesMax = 536_870_912;

/** When a client that was refused a response should ask again. */
const retryMs = 1_000;

const unreadByConnection = new WeakMap<Http2Session, number>();
let unreadInAll = 0;
/** Of responses that are written in pieces. */
const bytesToWrite = new WeakMap<Http2Stream, number>();

/** How a body is written; of Node's responses and streams. */
interface BodyWriter {
  write(chunk: Uint8Array, written: (error?: Error | null) => void): unknown;
  end(chunk: Uint8Array): unknown;
}

/** Whether the stream carries a response that is known whole, and not messages as they come. */
export function isWholeResponse(stream: Http2Stream): boolean {
  return stream.writableEnded || bytesToWrite.has(stream);
}

/** What the peer has yet to take of what there is for it, in bytes. */
export function unreadBytes(stream: Http2Stream): number {
  return stream.writableLength + (bytesToWrite.get(stream) ?? 0);
}

/**
 * Counts a response of `bytes` until its stream has closed. Call it before anything of the response is written.
 * @throws Failure when the connection, or the process, holds too many bytes that nobody has read
 */
export function countResponse(stream: Http2Stream, bytes: number): void {
  const { session } = stream;
  if (bytes < countedBytesMin || session === undefined || stream.destroyed) return;
  const unread = unreadByConnection.get(session) ?? 0;
  if (unread + bytes > unreadBytesPerConnectionMax && unread > 0) {
    const message = `this connection has ${unread} bytes of responses to read; read them, or ask for less at once`;
    throw new Failure("resource_exhausted", message, { reason: "UNREAD_RESPONSES", retryAfterMs: retryMs });
  }
  if (unreadInAll + bytes > unreadBytesMax && unreadInAll > 0) {
    throw unavailable("this server holds as many unread responses as it can", "TOO_MANY_UNREAD_RESPONSES", retryMs);
  }
  unreadByConnection.set(session, unread + bytes);
  unreadInAll += bytes;
  stream.once("close", () => {
    unreadInAll -= bytes;
    unreadByConnection.set(session, (unreadByConnection.get(session) ?? bytes) - bytes);
  });
}

/** The pieces of a body that is written to `stream`; ask for the next one when the last was taken. */
function* piecesOf(stream: Http2Stream, body: Uint8Array): Generator<Uint8Array, void, void> {
  for (let at = 0; at < body.length; at += pieceBytes) {
    bytesToWrite.set(stream, Math.max(0, body.length - at - pieceBytes));
    yield body.subarray(at, at + pieceBytes);
  }
}

/** Ends `writer`, which writes to `stream`, with this body. */
export function endWithBody(writer: BodyWriter, stream: Http2Stream, body: Uint8Array): void {
  if (body.length <= pieceBytes) {
    writer.end(body);
    return;
  }
  const pieces = piecesOf(stream, body);
  const writeNext = (error?: Error | null): void => {
    if ((error !== undefined && error !== null) || stream.destroyed || stream.closed) return;
    const { value = new Uint8Array() } = pieces.next();
    if (bytesToWrite.get(stream) === 0) writer.end(value);
    else writer.write(value, writeNext);
  };
  writeNext();
}
