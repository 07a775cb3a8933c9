import {
  constants,
  type Http2Session,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import { parseTimeout } from "@connectrpc/connect/protocol-grpc";
import type { Codec, EncodedResponse, Encoding } from "../../domain/encoded-response.js";
import type { Failure } from "../../domain/failure.js";
import type { CallError, CallWire } from "../call/call-wire.js";
import { type Framing, framingOf } from "../call/framing.js";
import type { BidiCall, BodyCall } from "../call/server-call.js";
import { type DataHeaders, type HeaderFields, withOwn } from "../common-headers.js";
import { countResponse, endWithBody } from "../connections/unread-responses.js";
import { errorTrailers, okTrailers } from "./rpc-errors.js";
import {
  codingsOf,
  grpcCodings,
  grpcFields,
  type OpenedRequest,
  openCall,
  type RpcContentType,
  type RpcMethods,
  rpcContentType,
} from "./rpc-methods.js";

/** Serves gRPC calls directly on the HTTP/2 stream, before Node makes a request of it. */
export class GrpcHandler {
  readonly #methods: RpcMethods;
  readonly #data: DataHeaders;
  readonly #headers = new Map<Framing, ResponseHeaders>();
  /** Reading the address of a session's socket costs more than the rest of a call. */
  readonly #addresses = new WeakMap<Http2Session, string>();

  /** `data`: sent as metadata of every response. */
  constructor(methods: RpcMethods, data: DataHeaders) {
    this.#methods = methods;
    this.#data = data;
  }

  /** False: the stream is not a gRPC call of a served method. */
  handle(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): boolean {
    const type = rpcContentType(headers["content-type"]);
    if (type?.protocol !== "grpc" || headers[":method"] !== "POST") return false;
    const served = this.#methods.get(headers[":path"] ?? "");
    if (served === undefined) return false;
    // A reset stream also emits its error, which "close" has handled.
    stream.on("error", ignore);
    const codings = codingsOf(served.method, grpcCodings(headers));
    const framing = framingOf(type.codec, codings.response);
    const wire = new GrpcWire(stream, framing, this.#headersFor(type, framing));
    const timeout = timeoutOf(headers["grpc-timeout"]);
    const clientAddress = this.#methods.clients.of(this.#addressOf(stream.session), headers["x-forwarded-for"]);
    const call = openCall(this.#methods, { served, type, codings, timeout, wire, clientAddress, headers });
    follow(stream, call, served.method.kind !== "unary");
    return true;
  }

  #headersFor({ response }: RpcContentType, framing: Framing): ResponseHeaders {
    let headers = this.#headers.get(framing);
    if (headers === undefined) {
      const coding = framing.coding === undefined ? {} : { [grpcFields.used]: framing.coding };
      headers = new ResponseHeaders({ ":status": 200, "content-type": response, ...coding }, this.#data);
      this.#headers.set(framing, headers);
    }
    return headers;
  }

  #addressOf(session: Http2Session | undefined): string {
    if (session === undefined || session.destroyed) return "";
    let address = this.#addresses.get(session);
    if (address === undefined) {
      address = session.socket.remoteAddress ?? "";
      this.#addresses.set(session, address);
    }
    return address;
  }
}

const noTimeout: OpenedRequest["timeout"] = {};

function timeoutOf(header: string | readonly string[] | undefined): OpenedRequest["timeout"] {
  return header === undefined ? noTimeout : parseTimeout(String(header), Number.POSITIVE_INFINITY);
}

/** The initial headers of responses of one kind. The same object until the data headers change. */
class ResponseHeaders {
  readonly #own: OutgoingHttpHeaders;
  readonly #data: DataHeaders;
  #fields: HeaderFields | undefined;
  #headers: OutgoingHttpHeaders = {};

  constructor(own: OutgoingHttpHeaders, data: DataHeaders) {
    this.#own = own;
    this.#data = data;
  }

  current(): OutgoingHttpHeaders {
    const fields = this.#data.current();
    if (fields !== this.#fields) {
      this.#fields = fields;
      this.#headers = Object.freeze({ ...this.#own, ...fields });
    }
    return this.#headers;
  }
}

/** The property in which a stream stores its call. Listeners that all streams share cost less than closures. */
const servedCall = Symbol("the call that a stream carries");

interface CallStream extends ServerHttp2Stream {
  [servedCall]?: BodyCall | BidiCall;
}

function follow(stream: CallStream, call: BodyCall | BidiCall, streaming: boolean): void {
  stream[servedCall] = call;
  stream.on("data", onData);
  stream.on("end", onEnd);
  stream.on("close", onClose);
  if (streaming) stream.on("drain", onDrain);
}

function onData(this: CallStream, chunk: Buffer): void {
  this[servedCall]?.data(chunk);
}

function onEnd(this: CallStream): void {
  this[servedCall]?.end();
}

function onClose(this: CallStream): void {
  this[servedCall]?.left();
}

function onDrain(this: CallStream): void {
  this[servedCall]?.drained();
}

function ignore(): void {}

const withTrailers = Object.freeze({ waitForTrailers: true, sendDate: false });
const withoutBody = Object.freeze({ endStream: true, sendDate: false });

/** A gRPC response, written directly to the HTTP/2 stream. */
class GrpcWire implements CallWire {
  readonly codec: Codec;
  readonly encoding: Encoding;
  readonly #stream: ServerHttp2Stream;
  readonly #framing: Framing;
  readonly #headers: ResponseHeaders;

  constructor(stream: ServerHttp2Stream, framing: Framing, headers: ResponseHeaders) {
    this.codec = framing.codec;
    this.encoding = framing.encoding;
    this.#stream = stream;
    this.#framing = framing;
    this.#headers = headers;
  }

  respond(encoded: EncodedResponse): undefined | Promise<() => void> {
    const frame = encoded.encode(this.#framing.whole);
    if (frame instanceof Promise) return frame.then((bytes) => () => this.#send(encoded, bytes));
    this.#send(encoded, frame);
    return undefined;
  }

  start(headers: ReadonlyMap<string, string>): void {
    if (this.#stream.destroyed || this.#stream.closed) return;
    const common = this.#headers.current();
    this.#stream.respond(headers.size === 0 ? common : withOwn(common, headers), withTrailers);
  }

  write(frames: Uint8Array): boolean {
    return this.#stream.write(frames);
  }

  finish(error: CallError | undefined, trailers: ReadonlyMap<string, string>): void {
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) return;
    const own = Object.fromEntries(error?.metadata?.trailers ?? trailers);
    // An error alone is a single block of fields. Separate headers have to precede it.
    if (error?.metadata !== undefined && error.metadata.headers.size > 0 && !stream.headersSent) {
      this.start(error.metadata.headers);
    }
    if (error !== undefined && !stream.headersSent) {
      stream.respond({ ...this.#headers.current(), ...own, ...errorTrailers(error) }, withoutBody);
      return;
    }
    const last = { ...own, ...(error === undefined ? okTrailers : errorTrailers(error)) };
    stream.on("wantTrailers", () => stream.sendTrailers(last));
    stream.end();
  }

  breakOff(failure: Failure): void {
    this.#stream.close(breakOffCode(failure));
  }

  #send({ metadata }: EncodedResponse, frame: Uint8Array): void {
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) return;
    countResponse(stream, frame.length);
    if (metadata === undefined) {
      stream.on("wantTrailers", sendOkTrailers);
      stream.respond(this.#headers.current(), withTrailers);
    } else {
      const trailers = Object.fromEntries([...metadata.trailers, ...Object.entries(okTrailers)]);
      stream.on("wantTrailers", () => stream.sendTrailers(trailers));
      stream.respond(withOwn(this.#headers.current(), metadata.headers), withTrailers);
    }
    endWithBody(stream, stream, frame);
  }
}

function sendOkTrailers(this: ServerHttp2Stream): void {
  this.sendTrailers(okTrailers);
}

/** The code with which an aborted HTTP/2 response is reset. Without an error, the client would not notice. */
export function breakOffCode(failure: Failure): number {
  return failure.code === "resource_exhausted" ? constants.NGHTTP2_ENHANCE_YOUR_CALM : constants.NGHTTP2_CANCEL;
}
