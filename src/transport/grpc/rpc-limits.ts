/** What a gRPC, gRPC-Web or Connect call may take. */
export interface RpcLimits {
  /** The largest request message, in bytes, after decompression. Above: RESOURCE_EXHAUSTED. */
  readonly requestBytesMax: number;
  /** How long a request may take to arrive, in milliseconds. Above: DEADLINE_EXCEEDED. */
  readonly requestArrivalMs: number;
  /** How long a unary call may take, in milliseconds, whatever deadline the client gives. Above: DEADLINE_EXCEEDED. */
  readonly unaryTimeoutMs: number;
  /** Answers below this many bytes are sent uncompressed, also to those who ask for compression. */
  readonly compressBytesMin: number;
}

/** Requests are a few identifiers and a filter; the largest sensible filter is far below. */
export const requestBytesMax = 256 * 1024;

/** Matches what the HTTP lane grants a request's head and body. */
export const requestArrivalMs = 30_000;

/** Longer than any answer needs; frees what a stuck database holds. */
export const unaryTimeoutMs = 60_000;

/** Below about this size compression costs more than it saves. */
export const compressBytesMin = 1024;

/** The limits that hold where an operator sets no others. */
export const rpcLimits: RpcLimits = { requestBytesMax, requestArrivalMs, unaryTimeoutMs, compressBytesMin };
