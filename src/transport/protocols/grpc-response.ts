import type { OutgoingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Codec, EncodedResponse, Encoding } from "../../domain/encoded-response.js";
import type { Failure } from "../../domain/failure.js";
import type { ContentCoding } from "../call/content-coding.js";
import { type Framing, framingOf } from "../call/framing.js";
import type { OpenedStream, StreamWire, UnaryWire } from "../call/server-call.js";
import { eachField, withOwn } from "../common-headers.js";
import type { Exchange, Http2Exchange } from "../connections/exchange.js";
import { endWithBody } from "../connections/unread-responses.js";
import { errorTrailers, okTrailers } from "../errors.js";
import { grpcFields, type RpcContentType } from "./rpc-methods.js";

export type Fields = ReadonlyMap<string, string>;

const withTrailers = Object.freeze({ waitForTrailers: true, sendDate: false });
const withoutBody = Object.freeze({ endStream: true, sendDate: false });

/** A response whose messages are in envelopes. */
export abstract class FramedResponse<E extends Exchange = Exchange> implements UnaryWire, StreamWire {
  readonly codec: Codec;
  readonly encoding: Encoding;
  protected readonly framing: Framing;

  constructor(
    protected readonly type: RpcContentType,
    coding: ContentCoding | undefined,
    protected readonly exchange: E,
  ) {
    this.framing = framingOf(type.codec, coding, type.text);
    this.codec = type.codec;
    this.encoding = this.framing.encoding;
  }

  respond(response: EncodedResponse): undefined | Promise<() => void> {
    const message = response.encode(this.framing.whole);
    if (message instanceof Promise) return message.then((bytes) => () => this.send(response, bytes));
    this.send(response, message);
    return undefined;
  }

  abstract start(opened: OpenedStream): void;

  write(frames: Uint8Array): boolean {
    return this.exchange.output.write(frames);
  }

  abstract finish(error: Failure | undefined, trailers: Fields): void;

  breakOff(error: Failure): void {
    this.exchange.breakOff(error);
  }

  /** Sends the whole response to a unary call. */
  protected abstract send(response: EncodedResponse, message: Uint8Array): void;
}

/** A gRPC response. Its headers are not those of HTTP responses, but only tell how new the data is. */
export class GrpcResponse extends FramedResponse<Http2Exchange> {
  start({ headers }: OpenedStream): void {
    const { isGone, output } = this.exchange;
    if (!isGone) output.respond(this.#headers(headers.size === 0 ? undefined : headers), withTrailers);
  }

  finish(error: Failure | undefined, trailers: Fields): void {
    const { isGone, output } = this.exchange;
    if (isGone) return;
    // An error alone is a single block of fields. Separate headers have to precede it.
    if (error?.metadata !== undefined && error.metadata.headers.size > 0 && !output.headersSent) {
      this.start(error.metadata);
    }
    const last = { ...Object.fromEntries(trailers), ...(error === undefined ? okTrailers : errorTrailers(error)) };
    if (error !== undefined && !output.headersSent) {
      output.respond({ ...this.#headers(undefined), ...last }, withoutBody);
      return;
    }
    output.on("wantTrailers", () => output.sendTrailers(last));
    output.end();
  }

  protected send({ metadata }: EncodedResponse, frame: Uint8Array): void {
    const { isGone, output } = this.exchange;
    if (isGone) return;
    this.exchange.count(frame.length);
    if (metadata === undefined) output.on("wantTrailers", sendOkTrailers);
    else {
      const trailers = { ...Object.fromEntries(metadata.trailers), ...okTrailers };
      output.on("wantTrailers", () => output.sendTrailers(trailers));
    }
    output.respond(this.#headers(metadata?.headers), withTrailers);
    endWithBody(output, frame);
  }

  #headers(own: Fields | undefined): OutgoingHttpHeaders {
    const { coding } = this.framing;
    const data = this.exchange.dataHeaders;
    const fields: OutgoingHttpHeaders = { ":status": 200, "content-type": this.type.response };
    if (coding !== undefined) fields[grpcFields.used] = coding;
    eachField(own === undefined ? data : withOwn(data, own), (name, value) => {
      fields[name] = value;
    });
    return fields;
  }
}

/** Shared by all calls, which costs less than a closure for each. */
function sendOkTrailers(this: ServerHttp2Stream): void {
  this.sendTrailers(okTrailers);
}
