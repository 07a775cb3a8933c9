import type {
  DescMessage,
  DescMethodBiDiStreaming,
  DescMethodServerStreaming,
  DescMethodUnary,
  MessageShape,
} from "@bufbuild/protobuf";
import type { Codec, EncodedResponse } from "./encoded-response.js";
import type { Failure } from "./failure.js";
import type { Metadata, RequestHeaders } from "./metadata.js";

/** The client of a call, and its time limit. */
export interface Call {
  /** Aborted when the client leaves, the deadline passes, or the server stops. Created on first use. */
  readonly signal: AbortSignal;
  /** The client's address, for limits and logs. */
  readonly clientAddress: string;
  /** As the client sent them. Must not be changed. */
  readonly requestHeaders: RequestHeaders;
  /** The form in which the response is sent; JSON if it is left out. */
  readonly codec?: Codec;
}

/** A call on behalf of a client, for what several readers wait for: it goes on when one of them leaves. */
export function sharedCall(clientAddress: string): Call {
  return { clientAddress, requestHeaders: {}, signal: new AbortController().signal };
}

/** A method with one request and one response. It returns cached responses directly, not in a promise. */
export interface UnaryMethod<I extends DescMessage = DescMessage, O extends DescMessage = DescMessage> {
  readonly kind: "unary";
  readonly desc: DescMethodUnary<I, O>;
  /** @throws Failure */
  invoke(request: MessageShape<I>, call: Call): EncodedResponse<O> | Promise<EncodedResponse<O>>;
}

/** A method with one request and a stream of messages. */
export interface StreamMethod<I extends DescMessage = DescMessage, O extends DescMessage = DescMessage> {
  readonly kind: "server_streaming";
  readonly desc: DescMethodServerStreaming<I, O>;
  /**
   * Opens the stream. An error thrown here is a normal error response; later failures end the stream.
   * @throws Failure
   */
  open(request: MessageShape<I>, call: Call): ResponseStream<O> | Promise<ResponseStream<O>>;
}

/** A method with a stream of messages in each direction. */
export interface BidiMethod<I extends DescMessage = DescMessage, O extends DescMessage = DescMessage> {
  readonly kind: "bidi_streaming";
  readonly desc: DescMethodBiDiStreaming<I, O>;
  /** Opens both streams, before the first request. @throws Failure */
  open(requests: RequestStream<I>, call: Call): ResponseStream<O> | Promise<ResponseStream<O>>;
}

/** The requests of a call, which are decoded as they are taken. */
export interface RequestStream<I extends DescMessage = DescMessage> {
  /** The next request. Undefined: none now, or the stream ended. @throws anything if it is malformed */
  take(): MessageShape<I> | undefined;
  /** Sets the listener for requests and the end; there is only one. */
  onReady(listener: () => void): void;
  /** No more requests will come. Valid only after an empty `take`. */
  readonly ended: boolean;
  /** Why the stream failed. */
  readonly failure: Failure | undefined;
  /** Nobody takes any more. */
  close(): void;
}

/**
 * A stream that its reader pulls, so pending messages can be merged or omitted for a slow reader.
 *
 * The reader calls `take` when it can write, writes everything that it got at once, and calls again once that has
 * drained. An empty `take` means "nothing now": the `onReady` listener is called when there is more, or when the stream
 * ended. The listener may be called while the reader cannot write; it then takes later.
 */
export interface ResponseStream<O extends DescMessage = DescMessage> extends Metadata {
  /**
   * Known before the first message. If the stream failed on opening, the response has the failure's headers instead.
   */
  readonly headers: ReadonlyMap<string, string>;
  /** Known once the stream ended without failure. A failed stream has the failure's trailers instead. */
  readonly trailers: ReadonlyMap<string, string>;
  /** The names of `trailers`, if known before the end: HTTP/1.1 announces them. */
  readonly trailerNames?: readonly string[];
  /** The messages to send now, in order. Empty: nothing now, or the stream ended. */
  take(): readonly EncodedResponse<O>[];
  /** Sets the reader's listener; there is only one. */
  onReady(listener: () => void): void;
  /** No more messages will come. Valid only after an empty `take`. */
  readonly ended: boolean;
  /**
   * Why the stream failed. It is told after the messages that the stream still has. May be set while the reader takes
   * nothing; the reader then has a few seconds to read on.
   */
  readonly failure: Failure | undefined;
  /** The reader is gone. May be called repeatedly, and after the end. */
  close(): void;
}

/** A stream that passes everything on to another. Decorators override what they change. */
export abstract class ForwardingStream implements ResponseStream {
  constructor(protected readonly inner: ResponseStream) {}

  get headers(): ReadonlyMap<string, string> {
    return this.inner.headers;
  }

  get trailers(): ReadonlyMap<string, string> {
    return this.inner.trailers;
  }

  get trailerNames(): readonly string[] {
    return this.inner.trailerNames ?? [];
  }

  get ended(): boolean {
    return this.inner.ended;
  }

  get failure(): Failure | undefined {
    return this.inner.failure;
  }

  take(): readonly EncodedResponse[] {
    return this.inner.take();
  }

  onReady(listener: () => void): void {
    this.inner.onReady(listener);
  }

  close(): void {
    this.inner.close();
  }
}

/** Any method. */
export type Method = UnaryMethod | StreamMethod | BidiMethod;

/** All methods that are served, in the order of the definitions. Transport sees only this. */
export type Api = readonly Method[];

/** Binds the definition of a unary method to its implementation; the only place where both types meet. */
export function unary<I extends DescMessage, O extends DescMessage>(
  desc: DescMethodUnary<I, O>,
  invoke: UnaryMethod<I, O>["invoke"],
): UnaryMethod {
  return { kind: "unary", desc, invoke } as unknown as UnaryMethod;
}

/** Binds the definition of a server-streaming method to its implementation. */
export function serverStreaming<I extends DescMessage, O extends DescMessage>(
  desc: DescMethodServerStreaming<I, O>,
  open: StreamMethod<I, O>["open"],
): StreamMethod {
  return { kind: "server_streaming", desc, open } as unknown as StreamMethod;
}

/** Binds the definition of a method with streams in both directions to its implementation. */
export function bidiStreaming<I extends DescMessage, O extends DescMessage>(
  desc: DescMethodBiDiStreaming<I, O>,
  open: BidiMethod<I, O>["open"],
): BidiMethod {
  return { kind: "bidi_streaming", desc, open } as unknown as BidiMethod;
}
