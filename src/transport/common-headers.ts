import { type BlockHead, blockHeaderNames, dataHeaders } from "../domain/block-headers.js";

/** Header fields of a response by their lower-case names. Those without a value are left out. */
export type HeaderFields = Readonly<Record<string, string | number | undefined>>;

/** The same as names and values in turn, which Node writes several times as fast as an object of ten fields. */
export type HeaderList = readonly (string | number)[];

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

/** Those of {@link blockHeaderNames}. */
export const blockNames: ReadonlySet<string> = new Set(blockHeaderNames);

/**
 * The headers with those of a metadata, which pages of other origins may read too. A response with metadata comes from
 * the database, so it names the block of its own statement, or none; never the process's newest block.
 */
export function withOwn(common: HeaderList, own: ReadonlyMap<string, string>): HeaderList {
  const list: (string | number)[] = [];
  const added = [...own.keys()].filter((name) => !exposedHeaders.includes(name));
  eachField(common, (name, value) => {
    const exposes = name === "access-control-expose-headers" && added.length > 0;
    if (!own.has(name) && !blockNames.has(name)) list.push(name, exposes ? [value, ...added].join(", ") : value);
  });
  for (const [name, value] of own) list.push(name, value);
  return list;
}

/** The common headers of a response with its own, which replace them. */
export function mergedHeaders(common: HeaderList, own: HeaderFields): (string | number)[] {
  const list: (string | number)[] = [];
  for (const name in own) {
    const value = own[name];
    if (value !== undefined) list.push(name, value);
  }
  eachField(common, (name, value) => {
    if (own[name] === undefined) list.push(name, value);
  });
  return list;
}

/** Calls `take` with each name and value. */
export function eachField(list: HeaderList, take: (name: string, value: string | number) => void): void {
  for (let i = 0; i < list.length; i += 2) take(String(list[i]), list[i + 1] ?? "");
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
  #seconds: number | undefined;
  #block: BlockHead | undefined;
  #fields: HeaderList = [];

  constructor(private readonly source: DataSource) {}

  /** The same object until a value changes. */
  current(): HeaderList {
    const staleness = this.source.staleness?.();
    const seconds = staleness === undefined ? undefined : Math.floor(staleness);
    const block = this.source.newestBlock?.();
    if (seconds !== this.#seconds || block !== this.#block) {
      this.#seconds = seconds;
      this.#block = block;
      this.#fields = Object.entries(dataHeaders(block, seconds)).flat();
    }
    return this.#fields;
  }
}

/** The headers of every HTTP response: CORS, and how new its data is. */
export class CommonHeaders {
  readonly data: DataHeaders;
  readonly #origins: ReadonlySet<string> | undefined;

  /** No `origins`, or `*` among them: any origin. */
  constructor(origins: readonly string[] | undefined, data: DataHeaders) {
    this.data = data;
    this.#origins = origins === undefined || origins.includes("*") ? undefined : new Set(origins);
  }

  /** Whether pages of `origin` may call. Undefined (not a page) may. */
  allows(origin: string | undefined): boolean {
    return this.#origins === undefined || origin === undefined || this.#origins.has(origin);
  }

  /** The headers for a request from `origin`. */
  of(origin: string | undefined): HeaderList {
    const data = this.data.current();
    if (this.#origins === undefined) return [...corsOf("*"), ...data];
    // Responses that depend on more headers replace it.
    const vary = ["vary", this.vary()];
    if (origin === undefined || !this.#origins.has(origin)) return [...vary, ...data];
    return [...vary, ...corsOf(origin), ...data];
  }

  /** The `Vary` of a response that depends on these request headers. */
  vary(...names: readonly string[]): string {
    return [...names, ...(this.#origins === undefined ? [] : ["origin"])].join(", ");
  }
}

const exposedNames = exposedHeaders.join(", ");

function corsOf(origin: string): HeaderList {
  return ["access-control-allow-origin", origin, "access-control-expose-headers", exposedNames];
}
