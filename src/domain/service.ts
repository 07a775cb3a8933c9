import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import type { EncodedResponse } from "./encoded-response.js";
import type { Failure } from "./failure.js";
import type { Metadata, RequestHeaders } from "./metadata.js";

/** Who asks, and for how long. */
export interface Call {
  /** Aborted when the client leaves, when the deadline passes, and when the server stops. Made on first use. */
  readonly signal: AbortSignal;
  /** The client's address, for limits and logs. */
  readonly clientAddress: string;
  /** As the client sent them. Not to be changed. */
  readonly requestHeaders: RequestHeaders;
}

/** A method that takes one message and gives one. A cached response is returned as it is, without a promise. */
export interface UnaryMethod<I extends DescMessage = DescMessage, O extends DescMessage = DescMessage> {
  readonly kind: "unary";
  readonly desc: DescMethodUnary<I, O>;
  /** @throws Failure */
  invoke(request: MessageShape<I>, call: Call): EncodedResponse<O> | Promise<EncodedResponse<O>>;
}

/** A method that takes one message and gives many. */
export interface StreamMethod<I extends DescMessage = DescMessage, O extends DescMessage = DescMessage> {
  readonly kind: "server_streaming";
  readonly desc: DescMethodServerStreaming<I, O>;
  /**
   * Opens the stream. What is thrown here is an ordinary error response; what fails later ends the stream.
   * @throws Failure
   */
  open(request: MessageShape<I>, call: Call): ResponseStream<O> | Promise<ResponseStream<O>>;
}

/**
 * A stream that its reader pulls, so that what a slow reader has not taken yet can be merged, or not made at all.
 *
 * The reader calls `take` whenever it can write, writes everything it got in one go, and calls again once that has
 * drained. An empty `take` means "nothing now": the listener given to `onReady` is called when to ask again, or when
 * the stream ended. `onReady` may fire while the reader is not able to write; it then just asks later.
 */
export interface ResponseStream<O extends DescMessage = DescMessage> extends Metadata {
  /** Known before the first message. A stream that has failed when it opens answers with its failure's headers. */
  readonly headers: ReadonlyMap<string, string>;
  /** Known once the stream ended without failure; one that failed responses with its failure's trailers. */
  readonly trailers: ReadonlyMap<string, string>;
  /** The names that `trailers` will have, where they are known before: HTTP/1.1 announces them. */
  readonly trailerNames?: readonly string[];
  /** What is to be sent now, in order; empty: nothing now, or ended. */
  take(): readonly EncodedResponse<O>[];
  /** The one reader's listener. */
  onReady(listener: () => void): void;
  /** No more will come. Meaningful only after an empty `take`. */
  readonly ended: boolean;
  /** Why it ended, when it did not end well. Can be set while the reader cannot write: it then breaks off at once. */
  readonly failure: Failure | undefined;
  /** The reader is gone. May be called more than once, and after the end. */
  close(): void;
}

/** Any method. */
export type Method = UnaryMethod | StreamMethod;

/** Everything that is served, in the order of the definitions. Transport sees only this. */
export type Api = readonly Method[];

/** Binds a unary method's description to its implementation; the one place where the types of both meet. */
export function unary<I extends DescMessage, O extends DescMessage>(
  desc: DescMethodUnary<I, O>,
  invoke: UnaryMethod<I, O>["invoke"],
): UnaryMethod {
  return { kind: "unary", desc, invoke } as unknown as UnaryMethod;
}

/** Binds a server-streaming method's description to its implementation. */
export function serverStreaming<I extends DescMessage, O extends DescMessage>(
  desc: DescMethodServerStreaming<I, O>,
  open: StreamMethod<I, O>["open"],
): StreamMethod {
  return { kind: "server_streaming", desc, open } as unknown as StreamMethod;
}
