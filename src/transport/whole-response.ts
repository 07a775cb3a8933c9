import type { Codec, EncodedResponse } from "../domain/encoded-response.js";
import type { Failure } from "../domain/failure.js";
import type { Metadata } from "../domain/metadata.js";
import { type ContentCoding, compressedBytesMin } from "./call/content-coding.js";
import { type BodyEncoding, messageBodies } from "./call/framing.js";
import type { UnaryWire } from "./call/server-call.js";
import { type HeaderFields, noneMatch } from "./common-headers.js";
import type { Exchange } from "./connections/exchange.js";

/** What the whole responses of one kind have in common. */
export interface WholeResponseFormat {
  readonly codec: Codec;
  /** Default: the message in the codec. */
  readonly body?: BodyEncoding;
  readonly contentType: string;
  /** The representation's name in ETags. */
  readonly name: string;
  /** The value of that header. */
  readonly vary: string;
  /** Other headers of each 200. */
  readonly headers?: HeaderFields;
}

/** The response to a unary call of which the body is the message itself, in a content coding and with an ETag. */
export class WholeResponse implements UnaryWire {
  constructor(
    protected readonly exchange: Exchange,
    protected readonly format: WholeResponseFormat,
    /** The content coding that the client wants. */
    private readonly wanted: ContentCoding | undefined,
  ) {}

  get codec(): Codec {
    return this.format.codec;
  }

  finish(error: Failure): void {
    this.exchange.sendError(error);
  }

  /** The headers that a response's metadata becomes. */
  protected headersOf({ headers }: Metadata): ReadonlyMap<string, string> {
    return headers;
  }

  respond(response: EncodedResponse): undefined | Promise<() => void> {
    const { codec, body = messageBodies[codec] } = this.format;
    if (codec === "json" && response.version === undefined && this.wanted === undefined) {
      const text = response.jsonText();
      this.exchange.sendText(200, this.#headers(response, Buffer.byteLength(text), undefined), text);
      return undefined;
    }
    const plain = body.plain(response);
    const coding = plain.length < compressedBytesMin ? undefined : this.wanted;
    if (this.#notModified(response, coding)) return undefined;
    const bytes = coding === undefined ? plain : response.encode(body[coding]);
    if (bytes instanceof Promise) return bytes.then((ready) => () => this.#send(response, ready, coding));
    this.#send(response, bytes, coding);
    return undefined;
  }

  /** Sends a 304 if the client's copy is current. */
  #notModified(response: EncodedResponse, coding: ContentCoding | undefined): boolean {
    const known = this.exchange.headers["if-none-match"];
    const etag = this.#etagOf(response, coding);
    if (known === undefined || etag === undefined || !noneMatch(known, etag)) return false;
    this.#addMetadata(response);
    this.exchange.send(304, { "cache-control": cacheControl(response, etag), vary: this.format.vary, etag });
    return true;
  }

  #send(response: EncodedResponse, body: Uint8Array, coding: ContentCoding | undefined): void {
    this.exchange.sendCounted(200, this.#headers(response, body.length, coding), body);
  }

  /** The headers of a 200. */
  #headers(response: EncodedResponse, bytes: number, coding: ContentCoding | undefined): HeaderFields {
    const etag = this.#etagOf(response, coding);
    this.#addMetadata(response);
    return {
      "content-type": this.format.contentType,
      "content-length": bytes,
      "cache-control": cacheControl(response, etag),
      vary: this.format.vary,
      etag,
      "content-encoding": coding,
      ...this.format.headers,
    };
  }

  #addMetadata({ metadata }: EncodedResponse): void {
    if (metadata !== undefined) this.exchange.addOwn(this.headersOf(metadata));
  }

  /** Responses to POST have none. */
  #etagOf({ version }: EncodedResponse, coding: ContentCoding | undefined): string | undefined {
    if (version === undefined || this.exchange.method === "POST") return undefined;
    return `"${version}.${this.format.name}${coding === undefined ? "" : `.${coding}`}"`;
  }
}

/** Without an ETag, a response may not be stored; with one it is checked again, unless it says better. */
function cacheControl({ metadata }: EncodedResponse, etag: string | undefined): string {
  return etag === undefined ? "no-store" : (metadata?.headers.get("cache-control") ?? "no-cache");
}
