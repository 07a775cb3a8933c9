import type { EncodedResponse } from "../../domain/encoded-response.js";
import { type ContentCoding, compress, compressedBytesMin } from "../call/content-coding.js";
import type { HeaderFields } from "../common-headers.js";
import { WholeResponse } from "./whole-response.js";

/** The JSON of a response in one content coding, with finished headers. */
export interface JsonBody {
  readonly bytes: Uint8Array;
  readonly etag: string | undefined;
  /** The headers of a 200. The same object while `common` is the same. */
  headers(common: HeaderFields): HeaderFields;
  /** The headers of a 304. The same object while `common` is the same. */
  notModifiedHeaders(common: HeaderFields): HeaderFields;
  /** Whether an `If-None-Match` value matches. */
  isNotModified(ifNoneMatch: string | undefined): boolean;
  /** All bytes of the response on an HTTP/1.1 connection that stays open. */
  whole(common: HeaderFields, ifNoneMatch: string | undefined): Uint8Array;
}

/** The headers that all responses of a server share. */
export interface JsonBodiesOptions {
  /** The value of that header. */
  readonly vary: string;
  /** How long a connection may be idle. */
  readonly keepAliveTimeoutMs: number;
}

const noBytes = new Uint8Array();

class PreparedBody implements JsonBody {
  readonly bytes: Uint8Array;
  readonly etag: string | undefined;
  readonly #coding: ContentCoding | undefined;
  readonly #options: JsonBodiesOptions;
  #common: HeaderFields | undefined;
  #headers: HeaderFields = {};
  #notModifiedHeaders: HeaderFields | undefined;
  #whole: WholeResponse | undefined;
  #wholeNotModified: WholeResponse | undefined;

  constructor(
    response: EncodedResponse,
    bytes: Uint8Array,
    coding: ContentCoding | undefined,
    options: JsonBodiesOptions,
  ) {
    this.bytes = bytes;
    this.#coding = coding;
    this.#options = options;
    if (response.version !== undefined)
      this.etag = `"${response.version}.json${coding === undefined ? "" : `.${coding}`}"`;
  }

  headers(common: HeaderFields): HeaderFields {
    if (this.#common !== common) {
      this.#common = common;
      this.#notModifiedHeaders = undefined;
      this.#headers = {
        "content-type": "application/json",
        "content-length": this.bytes.length,
        "cache-control": this.etag === undefined ? "no-store" : "no-cache",
        vary: this.#options.vary,
        ...(this.etag === undefined ? {} : { etag: this.etag }),
        ...(this.#coding === undefined ? {} : { "content-encoding": this.#coding }),
        ...common,
      };
    }
    return this.#headers;
  }

  notModifiedHeaders(common: HeaderFields): HeaderFields {
    const headers = this.headers(common);
    if (this.#notModifiedHeaders === undefined) {
      const { "content-type": _type, "content-length": _length, "content-encoding": _coding, ...kept } = headers;
      this.#notModifiedHeaders = kept;
    }
    return this.#notModifiedHeaders;
  }

  isNotModified(ifNoneMatch: string | undefined): boolean {
    return ifNoneMatch !== undefined && this.etag !== undefined && noneMatch(ifNoneMatch, this.etag);
  }

  whole(common: HeaderFields, ifNoneMatch: string | undefined): Uint8Array {
    const keepAliveSeconds = Math.floor(this.#options.keepAliveTimeoutMs / 1000);
    if (this.isNotModified(ifNoneMatch)) {
      this.#wholeNotModified ??= new WholeResponse(304, noBytes, keepAliveSeconds);
      return this.#wholeNotModified.bytes(this.notModifiedHeaders(common));
    }
    this.#whole ??= new WholeResponse(200, this.bytes, keepAliveSeconds);
    return this.#whole.bytes(this.headers(common));
  }
}

/** The bodies of one response by content coding. */
interface Bodies {
  identity: JsonBody | undefined;
  br: JsonBody | Promise<JsonBody> | undefined;
  gzip: JsonBody | Promise<JsonBody> | undefined;
}

/** Caches a response's body in each requested content coding, for as long as the response exists. */
export class JsonBodies {
  readonly #byResponse = new WeakMap<EncodedResponse, Bodies>();
  readonly #options: JsonBodiesOptions;

  constructor(options: JsonBodiesOptions) {
    this.#options = options;
  }

  /** A promise only if a large body is compressed for the first time. */
  of(response: EncodedResponse, coding: ContentCoding | undefined): JsonBody | Promise<JsonBody> {
    let bodies = this.#byResponse.get(response);
    if (bodies === undefined) {
      bodies = { identity: undefined, br: undefined, gzip: undefined };
      this.#byResponse.set(response, bodies);
    }
    if (coding === undefined) {
      bodies.identity ??= new PreparedBody(response, response.json(), undefined, this.#options);
      return bodies.identity;
    }
    bodies[coding] ??= this.#compressed(response, coding, bodies);
    return bodies[coding];
  }

  #compressed(response: EncodedResponse, coding: ContentCoding, bodies: Bodies): JsonBody | Promise<JsonBody> {
    const json = response.json();
    if (json.length < compressedBytesMin) return this.of(response, undefined);
    const bytes = compress(coding, json);
    if (!(bytes instanceof Promise)) return new PreparedBody(response, bytes, coding, this.#options);
    return bytes.then((done) => {
      const body = new PreparedBody(response, done, coding, this.#options);
      bodies[coding] = body;
      return body;
    });
  }
}

/** Whether an `If-None-Match` value contains this ETag (weak comparison, RFC 9110, 13.1.2). */
export function noneMatch(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch === etag || ifNoneMatch === "*") return true;
  return ifNoneMatch.split(",").some((part) => {
    const tag = part.trim();
    return (tag.startsWith("W/") ? tag.slice(2) : tag) === etag;
  });
}
