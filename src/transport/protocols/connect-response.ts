import { endStreamFlag, endStreamToJson, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { trailerFlag } from "@connectrpc/connect/protocol-grpc-web";
import type { EncodedResponse } from "../../domain/encoded-response.js";
import type { Failure } from "../../domain/failure.js";
import type { Metadata } from "../../domain/metadata.js";
import { jsonWriteOptions } from "../../encoding/json-encoder.js";
import { toConnectError } from "../../encoding/status.js";
import type { ContentCoding } from "../call/content-coding.js";
import type { Framing } from "../call/framing.js";
import type { OpenedStream } from "../call/server-call.js";
import type { HeaderFields } from "../common-headers.js";
import type { Exchange } from "../connections/exchange.js";
import { errorResponse, errorTrailers, okTrailers } from "../errors.js";
import { WholeResponse } from "../whole-response.js";
import { type Fields, FramedResponse } from "./grpc-response.js";
import type { RpcContentType } from "./rpc-methods.js";

/** The differences between gRPC-Web and Connect streams. */
interface EnvelopedProtocol {
  /** The header that names the compression. */
  readonly encodingHeader: string;
  readonly endFlag: number;
  /** The message of the last envelope. */
  end(error: Failure | undefined, trailers: Fields): Uint8Array;
}

const grpcWeb: EnvelopedProtocol = {
  encodingHeader: "grpc-encoding",
  endFlag: trailerFlag,
  end: (error, trailers) => {
    const fields = [...trailers, ...Object.entries(error === undefined ? okTrailers : errorTrailers(error))];
    return Buffer.from(fields.map(([name, value]) => `${name}: ${value}\r\n`).join(""), "latin1");
  },
};

const connectStream: EnvelopedProtocol = {
  encodingHeader: "connect-content-encoding",
  endFlag: endStreamFlag,
  end: (error, trailers) => {
    const connectError = error === undefined ? undefined : toConnectError(error);
    return Buffer.from(JSON.stringify(endStreamToJson(new Headers([...trailers]), connectError, jsonWriteOptions)));
  },
};

/** The ends of unary responses without metadata, which only gRPC-Web has in envelopes. */
const plainEnds = new WeakMap<Framing, Buffer>();

/** A response of gRPC-Web, or of a Connect stream. Its end is an envelope too. */
export class EnvelopedResponse extends FramedResponse {
  get #protocol(): EnvelopedProtocol {
    return this.type.protocol === "connect" ? connectStream : grpcWeb;
  }

  start({ headers }: OpenedStream): void {
    if (headers.size > 0) this.exchange.addOwn(headers);
    this.exchange.start(200, this.#headers(undefined));
  }

  finish(error: Failure | undefined, trailers: Fields): void {
    const end = this.#end(error, trailers);
    if (this.exchange.hasStarted) this.exchange.end(end);
    else {
      if (error?.metadata !== undefined) this.exchange.addOwn(error.metadata.headers);
      this.exchange.send(200, this.#headers(end), end);
    }
  }

  protected send({ metadata }: EncodedResponse, message: Uint8Array): void {
    const body = Buffer.concat([
      message,
      metadata === undefined ? this.#plainEnd() : this.#end(undefined, metadata.trailers),
    ]);
    if (metadata !== undefined) this.exchange.addOwn(metadata.headers);
    this.exchange.sendCounted(200, this.#headers(body), body);
  }

  /** The end of a unary response without metadata. */
  #plainEnd(): Buffer {
    const end = plainEnds.get(this.framing) ?? this.#end(undefined, new Map());
    plainEnds.set(this.framing, end);
    return end;
  }

  #end(error: Failure | undefined, trailers: Fields): Buffer {
    return this.framing.frame(this.#protocol.endFlag, this.#protocol.end(error, trailers));
  }

  #headers(whole: Uint8Array | undefined): HeaderFields {
    return {
      "content-type": this.type.response,
      "content-length": whole?.length,
      [this.#protocol.encodingHeader]: this.framing.coding,
    };
  }
}

/** Sends an error as a whole response, in JSON with its own HTTP status. */
export function sendConnectError(exchange: Exchange, error: Failure, vary?: string): void {
  const { status, headers, body } = errorResponse(error, errorToJsonBytes(toConnectError(error), jsonWriteOptions));
  exchange.send(status, { ...headers, vary }, body);
}

/** A Connect unary response: the message itself, or an error as JSON with its own HTTP status. */
export class ConnectUnaryResponse extends WholeResponse {
  constructor(
    { codec, response }: RpcContentType,
    coding: ContentCoding | undefined,
    exchange: Exchange,
    vary: string,
  ) {
    super(exchange, { codec, contentType: response, name: `connect-${codec}`, vary }, coding);
  }

  override finish(error: Failure): void {
    if (error.metadata !== undefined) this.exchange.addOwn(this.headersOf(error.metadata));
    sendConnectError(this.exchange, error, this.format.vary);
  }

  /** Nothing follows the message, so trailers are headers with a prefix. */
  protected override headersOf({ headers, trailers }: Metadata): ReadonlyMap<string, string> {
    return new Map([...headers, ...[...trailers].map(([name, value]) => [`trailer-${name}`, value] as const)]);
  }
}
