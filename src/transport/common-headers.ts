import { type BlockHead, blockHeaderNames, blockHeaders } from "../domain/block-headers.js";

/** Header fields of a response, lower-case. */
export type HeaderFields = Readonly<Record<string, string | number>>;

/** What a page of another origin may read of our responses, all protocols together. */
const exposedHeaders = [
  "content-disposition",
  "content-encoding",
  "etag",
  "grpc-message",
  "grpc-status",
  "grpc-status-details-bin",
  "marketd-staleness",
  "retry-after",
  "trailer",
  ...blockHeaderNames,
];

/** How long a browser may remember a preflight, in seconds; browsers cap it at two hours or less. */
const preflightMaxAgeSeconds = 7200;

/**
 * The fields of a response that brings its own. It comes from the database, so it names the block of its statement, or
 * none: never the one that this process happens to know.
 */
export function withOwn<T extends object>(common: T, own: ReadonlyMap<string, string>): T {
  const fields = { ...common };
  for (const name of blockHeaderNames) Reflect.deleteProperty(fields, name);
  return Object.assign(fields, Object.fromEntries(own));
}

/** Where {@link DataHeaders} come from. */
export interface DataSource {
  /** How many seconds old the newest data is. */
  readonly staleness?: (() => number | undefined) | undefined;
  /** The newest block that has been applied: the same object until there is a newer one. */
  readonly newestBlock?: (() => BlockHead | undefined) | undefined;
}

/** The fields that tell how new the data of a response is, over every protocol. */
export class DataHeaders {
  readonly #source: DataSource;
  #seconds: number | undefined;
  #block: BlockHead | undefined;
  #fields: HeaderFields = {};

  constructor(source: DataSource) {
    this.#source = source;
  }

  /** The same object until one of its values changes. */
  current(): HeaderFields {
    const staleness = this.#source.staleness?.();
    const seconds = staleness === undefined ? undefined : Math.floor(staleness);
    const block = this.#source.newestBlock?.();
    if (seconds !== this.#seconds || block !== this.#block) {
      this.#seconds = seconds;
      this.#block = block;
      this.#fields = { ...(seconds === undefined ? {} : { "marketd-staleness": seconds }), ...blockHeaders(block) };
    }
    return this.#fields;
  }
}

/**
 * The fields that every response to an HTTP request carries: who may read it, and how new its data is. The same object is
 * returned until one of them changes, so that responses can keep their finished headers.
 */
export class CommonHeaders {
  readonly #origins: ReadonlySet<string> | undefined;
  readonly #data: DataHeaders;
  readonly #byOrigin = new Map<string, HeaderFields>();
  #fields: HeaderFields = {};

  /** No `origins`, or `*` among them: any. */
  constructor(origins: readonly string[] | undefined, data: DataHeaders) {
    this.#origins = origins === undefined || origins.includes("*") ? undefined : new Set(origins);
    this.#data = data;
  }

  /** Whether pages of `origin` may call; undefined, no page, may. */
  allows(origin: string | undefined): boolean {
    return this.#origins === undefined || origin === undefined || this.#origins.has(origin);
  }

  /** The fields for a request from `origin`. */
  of(origin: string | undefined): HeaderFields {
    const data = this.#data.current();
    if (data !== this.#fields) {
      this.#fields = data;
      this.#byOrigin.clear();
    }
    const key = this.#origins === undefined ? "*" : origin !== undefined && this.#origins.has(origin) ? origin : "";
    let fields = this.#byOrigin.get(key);
    if (fields === undefined) {
      fields = this.#make(key);
      this.#byOrigin.set(key, fields);
    }
    return fields;
  }

  /** The fields that response a CORS preflight, beside those of every response. */
  preflight(requestedHeaders: string | undefined, allow: string): HeaderFields {
    return {
      allow,
      "access-control-allow-methods": allow,
      "access-control-max-age": preflightMaxAgeSeconds,
      ...(requestedHeaders === undefined ? {} : { "access-control-allow-headers": requestedHeaders }),
    };
  }

  /** The same fields, where a page may also read those `names`. */
  exposing(common: HeaderFields, names: readonly string[]): HeaderFields {
    if (names.length === 0 || common["access-control-expose-headers"] === undefined) return common;
    return { ...common, "access-control-expose-headers": [...new Set([...exposedHeaders, ...names])].join(", ") };
  }

  /** The names that `vary` has to hold because of these fields. */
  get vary(): string {
    return this.#origins === undefined ? "" : "origin";
  }

  #make(origin: string): HeaderFields {
    return {
      ...(origin === "" ? {} : { "access-control-allow-origin": origin }),
      ...(origin === "" ? {} : { "access-control-expose-headers": exposedHeaders.join(", ") }),
      ...this.#fields,
    };
  }
}
