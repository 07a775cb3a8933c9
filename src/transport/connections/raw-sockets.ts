import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type Failure, repeated } from "../../domain/failure.js";
import { eachField, type HeaderList, mergedHeaders } from "../common-headers.js";
import { errorResponse, HttpFailure } from "../errors.js";
import type { TransportLimits } from "../options.js";

/** The first bytes of an HTTP/2 connection without TLS (RFC 9113, 3.4), as many as identify it. */
const prefaceHead = Buffer.from("PRI");

/**
 * Reads enough of a new connection to tell HTTP/2 from HTTP/1, and puts it back. Reports the version and what was read.
 * A connection that sends nothing for `timeoutMs` is closed.
 */
export function peekPreface(socket: Socket, timeoutMs: number, decided: (http2: boolean, held: Buffer) => void): void {
  let held: Buffer = Buffer.alloc(0);
  const stop = (): void => {
    socket.off("readable", peek);
    socket.off("end", cut);
    socket.off("timeout", cut);
    socket.off("error", cut);
    socket.setTimeout(0);
  };
  const cut = (): void => {
    stop();
    socket.on("error", () => {});
    socket.destroy();
  };
  const peek = (): void => {
    const chunk: Buffer | null = socket.read();
    if (chunk === null) return;
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    const compared = Math.min(held.length, prefaceHead.length);
    const matches = held.compare(prefaceHead, 0, compared, 0, compared) === 0;
    if (matches && compared < prefaceHead.length) return;
    stop();
    socket.unshift(held);
    decided(matches, held);
  };
  socket.on("readable", peek);
  socket.on("end", cut);
  socket.on("timeout", cut);
  socket.on("error", cut);
  socket.setTimeout(timeoutMs);
}

/**
 * Reads a socket again. Node's HTTP parser may have stopped it to wait for a slow reader, and once Node's server has let go
 * of the socket, `resume()` does not start it: the stream takes itself to be read already. A test of each caller says so.
 */
export function readAgain(socket: Socket): void {
  if (!socket.destroyed) socket._read(0);
}

/** Bytes that are read of a connection that ends. A flood is not read any further. */
export const discardedBytesMax = 64 * 1024;

/**
 * Ends a connection so that its peer receives everything that was written (RFC 9112, 9.6). Sends `lastBytes` and a FIN,
 * and discards incoming data, up to a limit, until the peer closes too. Closing a socket with unread data would send a reset, which can
 * discard a response that the peer has not read. The connection is closed `lingerMs` after the last byte was written.
 */
export function closeLingering(socket: Socket, lingerMs: number, lastBytes?: Uint8Array): void {
  let discardedBytes = 0;
  socket.removeAllListeners("data");
  socket.on("data", (chunk: Buffer) => {
    discardedBytes += chunk.length;
    if (discardedBytes > discardedBytesMax) socket.pause();
  });
  // For a peer that does not take the last bytes (watchStalled). An upgraded socket has no listener of Node's.
  socket.once("timeout", () => socket.destroy());
  socket.resume();
  if (lastBytes === undefined) socket.end();
  else socket.end(lastBytes);
  const cutLater = (): void => {
    const cut = setTimeout(() => socket.destroy(), lingerMs);
    socket.once("close", () => clearTimeout(cut));
  };
  if (socket.writableFinished) cutLater();
  else socket.once("finish", cutLater);
}

/**
 * Why the header fields of a request are refused, whatever they say; undefined if they are not. `rawHeaders` are names
 * and values in turn. Nothing may be read from the fields before this check: Node may have ignored some.
 */
export function headerRefusal(rawHeaders: readonly string[], limits: TransportLimits): HttpFailure | undefined {
  const { headerFieldsMax, headerBytesMax } = limits;
  if (rawHeaders.length > 2 * headerFieldsMax) return headersTooLarge(`has more than ${headerFieldsMax} header fields`);
  let bytes = 0;
  let hosts = 0;
  rawHeaders.forEach((text, i) => {
    bytes += text.length;
    if (i % 2 === 0 && text.length === hostName.length && text.toLowerCase() === hostName) hosts++;
  });
  if (bytes > headerBytesMax) return headersTooLarge(`has more than ${headerBytesMax} bytes of header fields`);
  if (hosts <= 1) return undefined;
  return new HttpFailure(400, "invalid_argument", "HOST_REPEATED", "a request must have one Host header, not several");
}

const hostName = "host";

function headersTooLarge(what: string): HttpFailure {
  return new HttpFailure(431, "invalid_argument", "HEADERS_TOO_LARGE", `the request ${what}`);
}

/** Why a request that Node's parser accepts cannot be served (RFC 9110, 15.6.6; RFC 9112, 6.1); undefined: it can. */
export function unknownHttp({ httpVersion, httpVersionMajor, headers }: IncomingMessage): HttpFailure | undefined {
  if (httpVersionMajor !== 1) {
    const message = `HTTP/${httpVersion} in an HTTP/1.1 request line; send HTTP/1.1 or HTTP/1.0`;
    return new HttpFailure(505, "unimplemented", "HTTP_VERSION", message);
  }
  const coding = headers["transfer-encoding"];
  if (coding === undefined || coding.toLowerCase() === "chunked") return undefined;
  const message = `the transfer coding "${repeated(coding)}" is not supported; send chunked`;
  return new HttpFailure(501, "unimplemented", "TRANSFER_CODING", message);
}

/** 417 for an `Expect` header that asks for more than 100-continue; undefined: it does not. */
export function unmetExpectation(expectation: string | undefined): HttpFailure | undefined {
  if (expectation === undefined || /^100-continue(, ?100-continue)*$/i.test(expectation)) return undefined;
  const message = `the expectation "${repeated(expectation)}" cannot be met; only 100-continue can`;
  return new HttpFailure(417, "invalid_argument", "EXPECTATION_FAILED", message);
}

/** The failure for input that the HTTP/1.1 parser rejected. */
export function malformedRequest(error: NodeJS.ErrnoException, limits: TransportLimits): HttpFailure {
  if (error.code === "HPE_HEADER_OVERFLOW") {
    return headersTooLarge(`line and headers are longer than ${limits.headerBytesMax} bytes`);
  }
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") {
    const message = "the request took too long to arrive";
    return new HttpFailure(408, "deadline_exceeded", "REQUEST_TIMEOUT", message);
  }
  return new HttpFailure(400, "invalid_argument", "MALFORMED_REQUEST", "the request is not well-formed HTTP");
}

/** An error response as bytes, for an HTTP/1.1 connection that then ends. `common`: headers of every response. */
export function rawErrorResponse(failure: Failure, common: HeaderList): Buffer {
  const { status, headers, body } = errorResponse(failure);
  const fields: string[] = [];
  eachField(mergedHeaders(common, { connection: "close", ...headers }), (name, value) => {
    fields.push(`${name}: ${value}\r\n`);
  });
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${fields.join("")}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), body]);
}
