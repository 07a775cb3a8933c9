import { endStreamFlag, endStreamToJson } from "@connectrpc/connect/protocol-connect";
import { trailerFlag } from "@connectrpc/connect/protocol-grpc-web";
import type { Codec, EncodedResponse, Encoding } from "../../domain/encoded-response.js";
import { jsonWriteOptions } from "../../encoding/json-encoder.js";
import type { ContentCoding } from "../call/content-coding.js";
import { type Framing, framingOf } from "../call/framing.js";
import type { CallWire } from "../call/server-call.js";
import type { HeaderFields } from "../common-headers.js";
import type { Exchange } from "../connections/exchange.js";
import { asConnectError, type CallError, errorTrailers, okTrailers } from "../errors.js";
import type { RpcContentType } from "./rpc-methods.js";

type Fields = ReadonlyMap<string, string>;

/** The differences between gRPC-Web and Connect streams. */
interface EnvelopedProtocol {
  /** The header that names the compression. */
  readonly encodingHeader: string;
  readonly endFlag: number;
  /** The message of the last envelope. */
  end(error: CallError | undefined, trailers: Fields): Uint8Array;
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
    const connectError = error === undefined ? undefined : asConnectError(error);
    return Buffer.from(JSON.stringify(endStreamToJson(new Headers([...trailers]), connectError, jsonWriteOptions)));
  },
};

/** The ends of unary responses without metadata, which only gRPC-Web has in envelopes. */
const plainEnds = new WeakMap<Framing, Buffer>();

/** A response of gRPC-Web, or of a Connect stream. Its end is an envelope too. */
export class EnvelopedResponse implements CallWire {
  readonly codec: Codec;
  readonly encoding: Encoding;
  readonly #framing: Framing;
  readonly #protocol: EnvelopedProtocol;
  readonly #type: RpcContentType;
  readonly #exchange: Exchange;

  constructor(type: RpcContentType, coding: ContentCoding | undefined, exchange: Exchange) {
    this.#framing = framingOf(type.codec, coding, type.text);
    this.codec = type.codec;
    this.encoding = this.#framing.encoding;
    this.#protocol = type.protocol === "connect" ? connectStream : grpcWeb;
    this.#type = type;
    this.#exchange = exchange;
  }

  respond(encoded: EncodedResponse): undefined | Promise<() => void> {
    const message = encoded.encode(this.#framing.whole);
    if (message instanceof Promise) return message.then((bytes) => () => this.#send(encoded, bytes));
    this.#send(encoded, message);
    return undefined;
  }

  start(headers: Fields): void {
    if (headers.size > 0) this.#exchange.addOwn(headers);
    this.#exchange.start(200, this.#headers(undefined));
  }

  write(frames: Uint8Array): boolean {
    return this.#exchange.output.write(frames);
  }

  finish(error: CallError | undefined, trailers: Fields): void {
    const end = this.#end(error, error === undefined ? trailers : (error.metadata?.trailers ?? new Map()));
    if (this.#exchange.hasStarted) this.#exchange.end(end);
    else {
      if (error?.metadata !== undefined) this.#exchange.addOwn(error.metadata.headers);
      this.#exchange.send(200, this.#headers(end), end);
    }
  }

  breakOff(error: CallError): void {
    this.#exchange.breakOff(error);
  }

  #send({ metadata }: EncodedResponse, message: Uint8Array): void {
    const body = Buffer.concat([
      message,
      metadata === undefined ? this.#plainEnd() : this.#end(undefined, metadata.trailers),
    ]);
    if (metadata !== undefined) this.#exchange.addOwn(metadata.headers);
    this.#exchange.sendCounted(200, this.#headers(body), body);
  }

  /** The end of a unary response without metadata. */
  #plainEnd(): Buffer {
    const end = plainEnds.get(this.#framing) ?? this.#end(undefined, new Map());
    plainEnds.set(this.#framing, end);
    return end;
  }

  #end(error: CallError | undefined, trailers: Fields): Buffer {
    return this.#framing.frame(this.#protocol.endFlag, this.#protocol.end(error, trailers));
  }

  #headers(whole: Uint8Array | undefined): HeaderFields {
    return {
      "content-type": this.#type.response,
      "content-length": whole?.length,
      [this.#protocol.encodingHeader]: this.#framing.coding,
    };
  }
}
