import type { Socket } from "node:net";
import { isMessage } from "@bufbuild/protobuf";
import { HttpBodySchema } from "../../../gen/google/api/httpbody_pb.js";
import { blockHeaderNames } from "../../domain/block-headers.js";
import type { EncodedResponse, Encoding } from "../../domain/encoded-response.js";
import { Failure } from "../../domain/failure.js";
import { ForwardingStream, type Method, type ResponseStream } from "../../domain/service.js";
import type { CallError, CallWire } from "../call/call-wire.js";
import { type ContentCoding, chooseCoding, compressor } from "../call/content-coding.js";
import { exposing, type HeaderFields, withOwn } from "../common-headers.js";
import type { Protocol } from "../request-metrics.js";
import {
  bodyData,
  chunkedEncoding,
  envelopeEncoding,
  preferredMediaType,
  type StreamEncoding,
  streamEncoding,
} from "./encodings.js";
import { breakOff, canHaveTrailers, chunkSocket, type Exchange, sendError, writeTogether } from "./exchange.js";
import type { BoundRequest } from "./query-parameters.js";
import { isHttpBody } from "./routes.js";

/** The formats of a stream. */
export interface StreamResponseOptions {
  readonly method: Method;
  readonly bound: BoundRequest;
  readonly exchange: Exchange;
  /** The value of that header. */
  readonly vary: string;
}

const blockNames: ReadonlySet<string> = new Set(blockHeaderNames);

/**
 * The response to a GET of a server-streaming method: JSON lines, server-sent events, or the file itself. A failure
 * before the first message is a normal error response.
 */
export class StreamResponse implements CallWire {
  readonly codec = "json";
  /** Called when the response can take more. */
  onDrain: () => void = () => {};
  readonly #options: StreamResponseOptions;
  readonly #isFile: boolean;
  #encoding: StreamEncoding;
  /** The pieces of a file are sent without their envelopes. */
  #raw = false;
  #trailerNames: readonly string[] = [];
  /** The socket to which finished HTTP/1.1 chunks are written directly, if possible: one write each instead of four. */
  #chunks: Socket | undefined;
  #output: { write(chunk: Uint8Array): boolean; end(): unknown };
  #started = false;

  constructor(options: StreamResponseOptions) {
    const { method, bound, exchange } = options;
    const { accept } = exchange.request.headers;
    this.#options = options;
    this.#isFile = isHttpBody(method);
    this.#encoding = this.#isFile ? envelopeEncoding(accept) : streamEncoding(accept, bound.alt);
    this.#output = exchange.response;
  }

  /** The protocol's name in metrics. */
  get protocol(): Protocol {
    return this.#encoding.protocol;
  }

  get encoding(): Encoding {
    if (this.#raw) return bodyData;
    return this.#chunks === undefined ? this.#encoding.encoding : chunkedEncoding(this.#encoding.encoding);
  }

  respond(): never {
    throw new TypeError("a stream has no whole response");
  }

  /** A file is sent in envelopes, unless the client may want the file itself: then its first piece decides. */
  adapt(stream: ResponseStream): ResponseStream | Promise<ResponseStream> {
    const { exchange, bound } = this.#options;
    const { accept } = exchange.request.headers;
    if (!this.#isFile && !exchange.head) this.#chunks = chunkSocket(exchange.response);
    const finished = (): ResponseStream => {
      const hasTrailers = !exchange.head && canHaveTrailers(exchange.response) && this.#hasOwnHeaders;
      this.#trailerNames = hasTrailers ? (stream.trailerNames ?? []) : [];
      return exchange.head ? new HeadersAlone(stream) : stream;
    };
    if (!this.#isFile || (accept === undefined && bound.alt === undefined)) return finished();
    const peeked = new PeekedStream(stream);
    return new Promise((resolve) => {
      peeked.peek((first) => {
        this.#chooseFileFormat(first);
        stream = peeked;
        resolve(finished());
      });
    });
  }

  start(own: ReadonlyMap<string, string>): void {
    const { response } = this.#options.exchange;
    const acceptEncoding = this.#options.exchange.request.headers["accept-encoding"];
    // Compression is worthwhile for a file, not for small messages.
    const coding = this.#isFile ? chooseCoding(acceptEncoding?.toString()) : undefined;
    this.#started = true;
    // A small file leaves with the headers.
    writeTogether(response);
    response.writeHead(200, {
      ...this.#headers(own),
      ...(coding === undefined ? {} : { "content-encoding": coding }),
    });
    response.flushHeaders?.();
    const chunks = this.#chunks;
    if (chunks !== undefined) {
      const drained = (): void => this.onDrain();
      chunks.on("drain", drained);
      response.once("close", () => chunks.off("drain", drained));
    } else if (coding === undefined) response.on("drain", () => this.onDrain());
    else this.#compress(coding);
  }

  write(frames: Uint8Array): boolean {
    const chunks = this.#chunks;
    if (chunks !== undefined) return !chunks.writable || chunks.write(frames);
    return frames.length === 0 || this.#output.write(frames);
  }

  finish(error: CallError | undefined, trailers: ReadonlyMap<string, string>): void {
    const { response, common, head } = this.#options.exchange;
    if (!(error instanceof Failure)) {
      if (this.#hasOwnHeaders && trailers.size > 0) response.addTrailers(Object.fromEntries(trailers));
      this.#output.end();
      return;
    }
    // A browser never reconnects after an error response; after an event it does, without the id that is void.
    if (!this.#started && error.voidsPlaces && this.protocol === "sse" && !head) this.start(new Map());
    if (!this.#started) {
      sendError(response, error, common, head);
      return;
    }
    if (this.#raw) {
      this.breakOff();
      return;
    }
    this.#output.write(this.#encoding.errorBytes(error));
    this.#output.end();
  }

  breakOff(): void {
    breakOff(this.#options.exchange.response);
  }

  /** Whether the stream's own headers and trailers apply: to a file, not to its envelopes. */
  get #hasOwnHeaders(): boolean {
    return this.#raw || !this.#isFile;
  }

  #chooseFileFormat(first: EncodedResponse | undefined): void {
    const { exchange, bound } = this.#options;
    const contentType = contentTypeOf(first);
    const available = contentType === undefined ? [] : [this.#encoding.contentType, contentType];
    const wanted = contentType && preferredMediaType(exchange.request.headers.accept, available);
    this.#raw = bound.alt === "media" || (contentType !== undefined && wanted === contentType);
    if (this.#raw) this.#encoding = { ...this.#encoding, contentType: contentType ?? "application/octet-stream" };
  }

  #compress(coding: ContentCoding): void {
    const { response } = this.#options.exchange;
    const packer = compressor(coding);
    packer.on("drain", () => this.onDrain());
    packer.on("error", () => this.breakOff());
    response.once("close", () => packer.destroy());
    packer.pipe(response);
    this.#output = packer;
  }

  #headers(stream: ReadonlyMap<string, string>): HeaderFields {
    const { vary, exchange } = this.#options;
    // A file in envelopes only names its block.
    const own = new Map(this.#hasOwnHeaders ? stream : [...stream].filter(([name]) => blockNames.has(name)));
    const fields = {
      ...exposing(exchange.common, [...own.keys()]),
      "content-type": this.#encoding.contentType,
      "cache-control": "no-store",
      vary,
      // Proxies such as nginx would otherwise buffer the stream.
      "x-accel-buffering": "no",
      ...(this.#trailerNames.length === 0 ? {} : { trailer: this.#trailerNames.join(", ") }),
    };
    return stream.size === 0 ? fields : withOwn(fields, own);
  }
}

function contentTypeOf(first: EncodedResponse | undefined): string | undefined {
  const message = first?.message();
  if (message === undefined || !isMessage(message, HttpBodySchema) || message.contentType === "") return undefined;
  return message.contentType;
}

/** A stream for a HEAD request: its headers, and no messages. */
class HeadersAlone extends ForwardingStream {
  override get trailers(): ReadonlyMap<string, string> {
    return new Map();
  }

  override get ended(): boolean {
    return true;
  }

  override take(): readonly EncodedResponse[] {
    return [];
  }
}

/** A stream whose first message can be inspected before its reader takes it. */
class PeekedStream extends ForwardingStream {
  #held: readonly EncodedResponse[] = [];

  /** Calls back once, with the first message, or without one if the stream ended. */
  peek(then: (first: EncodedResponse | undefined) => void): void {
    let notified = false;
    const peek = (): void => {
      if (notified) return;
      this.#held = this.inner.take();
      const [first] = this.#held;
      if (first === undefined && !this.inner.ended && this.inner.failure === undefined) return;
      notified = true;
      then(first);
    };
    this.inner.onReady(peek);
    peek();
  }

  override get ended(): boolean {
    return this.#held.length === 0 && this.inner.ended;
  }

  override take(): readonly EncodedResponse[] {
    if (this.#held.length === 0) return this.inner.take();
    const held = this.#held;
    this.#held = [];
    return held;
  }
}
