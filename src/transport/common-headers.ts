import { type BlockHead, blockHeaderNames, dataHeaders } from "../domain/block-headers.js";

/** Header fields of a response, lower-case. */
export type HeaderFields = Readonly<Record<string, string | number>>;

/** Response headers that pages of other origins may read, in all protocols. */
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

const blockNames: ReadonlySet<string> = new Set(blockHeaderNames);

/** How long a browser may cache a preflight, in seconds; browsers cap it at two hours or less. */
const preflightMaxAgeSeconds = 7200;

/** The headers with those of a metadata, which pages of other origins may read too. */
export function withMetadata(common: HeaderFields, own: ReadonlyMap<string, string>): HeaderFields {
  const fields: Record<string, string | number> = { ...common };
  for (const [name, value] of own) fields[name] = value;
  const added = [...own.keys()].filter((name) => !exposedHeaders.includes(name));
  if (added.length > 0 && "access-control-expose-headers" in common) {
    fields["access-control-expose-headers"] = [...exposedHeaders, ...added].join(", ");
  }
  return fields;
}

/**
 * The same for a response with metadata of its own. It comes from the database, so it names the block of its own
 * statement, or none; never the process's newest block.
 */
export function withOwn(common: HeaderFields, own: ReadonlyMap<string, string>): HeaderFields {
  // Deleting from a copy takes seven times as long.
  const fields: Record<string, string | number> = {};
  for (const [name, value] of Object.entries(common)) {
    if (!blockNames.has(name)) fields[name] = value;
  }
  return withMetadata(fields, own);
}

/** The additional headers of a CORS preflight response. */
export function preflightHeaders(requestedHeaders: string | undefined, allow: string): HeaderFields {
  return {
    allow,
    "access-control-allow-methods": allow,
    "access-control-max-age": preflightMaxAgeSeconds,
    ...(requestedHeaders === undefined ? {} : { "access-control-allow-headers": requestedHeaders }),
  };
}

/** Whether an `If-None-Match` value contains this ETag (weak comparison, RFC 9110, 13.1.2). */
export function noneMatch(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch === etag || ifNoneMatch === "*") return true;
  return ifNoneMatch.split(",").some((part) => {
    const tag = part.trim();
    return (tag.startsWith("W/") ? tag.slice(2) : tag) === etag;
  });
}

/** The source of {@link DataHeaders}. */
export interface DataSource {
  /** The age of the newest data, in seconds. */
  readonly staleness?: (() => number | undefined) | undefined;
  /** The newest block that was applied; the same object until the next. */
  readonly newestBlock?: (() => BlockHead | undefined) | undefined;
}

/** The headers that describe how new a response's data is, in every protocol. */
export class DataHeaders {
  readonly #source: DataSource;
  #seconds: number | undefined;
  #block: BlockHead | undefined;
  #fields: HeaderFields = {};

  constructor(source: DataSource) {
    this.#source = source;
  }

  /** The same object until a value changes. */
  current(): HeaderFields {
    const staleness = this.#source.staleness?.();
    const seconds = staleness === undefined ? undefined : Math.floor(staleness);
    const block = this.#source.newestBlock?.();
    if (seconds !== this.#seconds || block !== this.#block) {
      this.#seconds = seconds;
      this.#block = block;
      this.#fields = dataHeaders(block, seconds);
    }
    return this.#fields;
  }
}

/**
 * The headers of every HTTP response: CORS, and how new its data is. The same object is returned until one of them
 * changes, so that responses can keep finished headers.
 */
export class CommonHeaders {
  readonly #origins: ReadonlySet<string> | undefined;
  readonly #data: DataHeaders;
  readonly #byOrigin = new Map<string, HeaderFields>();
  #fields: HeaderFields = {};

  /** No `origins`, or `*` among them: any origin. */
  constructor(origins: readonly string[] | undefined, data: DataHeaders) {
    this.#origins = origins === undefined || origins.includes("*") ? undefined : new Set(origins);
    this.#data = data;
  }

  /** Whether pages of `origin` may call. Undefined (not a page) may. */
  allows(origin: string | undefined): boolean {
    return this.#origins === undefined || origin === undefined || this.#origins.has(origin);
  }

  /** The headers for a request from `origin`. */
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

  /** The `Vary` of a response that depends on these request headers. */
  vary(...names: readonly string[]): string {
    return [...names, ...(this.#origins === undefined ? [] : ["origin"])].join(", ");
  }

  #make(origin: string): HeaderFields {
    return {
      // Responses that depend on more headers replace it.
      ...(this.#origins === undefined ? {} : { vary: this.vary() }),
      ...(origin === "" ? {} : { "access-control-allow-origin": origin }),
      ...(origin === "" ? {} : { "access-control-expose-headers": exposedHeaders.join(", ") }),
      ...this.#fields,
    };
  }
}
