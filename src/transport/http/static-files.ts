import { createHash } from "node:crypto";
import type { Log } from "../../telemetry/log.js";
import { type ContentCoding, chooseCoding, compress, compressedBytesMin } from "../call/content-coding.js";
import { type HeaderFields, noneMatch } from "../common-headers.js";
import type { Exchange } from "../connections/exchange.js";
import { toFailure } from "../errors.js";

/** A file to serve. */
export interface StaticFile {
  readonly contentType: string;
  readonly bytes: Uint8Array;
}

/** Allows only files and responses of this origin: no inline script or style, and no framing of the page. */
export const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** A file in one encoding. */
interface EncodedFile {
  readonly fields: HeaderFields;
  readonly bytes: Uint8Array;
}

/** Files by path behind the base path; `/` is the page itself. Clients revalidate each time, and get 304. */
export class StaticFiles {
  readonly #files: ReadonlyMap<string, StaticFile>;
  readonly #encoded = new Map<string, EncodedFile | Promise<EncodedFile>>();
  readonly #vary: string;
  readonly #log: Log;

  /** `vary`: the value of that header. */
  constructor(files: ReadonlyMap<string, StaticFile> = new Map(), vary: string, log: Log) {
    this.#files = files;
    this.#vary = vary;
    this.#log = log;
  }

  /** Serves a GET or HEAD of a file. False: there is none at this path. */
  serve(exchange: Exchange, path: string): boolean {
    const file = this.#files.get(path);
    if (file === undefined) return false;
    const coding = chooseCoding(exchange.headers["accept-encoding"]?.toString());
    const encoded = this.#encode(path, file, coding);
    if (encoded instanceof Promise) {
      const failed = (thrown: unknown): void => exchange.sendError(toFailure(thrown, this.#log));
      encoded.then((ready) => send(exchange, file, ready)).catch(failed);
    } else send(exchange, file, encoded);
    return true;
  }

  /** Files are compressed when first requested in a coding. Large ones resolve later. */
  #encode(path: string, file: StaticFile, wanted: ContentCoding | undefined): EncodedFile | Promise<EncodedFile> {
    const coding = file.bytes.length < compressedBytesMin ? undefined : wanted;
    const key = `${coding ?? "identity"} ${path}`;
    const known = this.#encoded.get(key);
    if (known !== undefined) return known;
    const keep = (bytes: Uint8Array): EncodedFile => {
      const fields = { ...fieldsOf(bytes), vary: this.#vary, ...(coding && { "content-encoding": coding }) };
      const encoded = { fields, bytes };
      this.#encoded.set(key, encoded);
      return encoded;
    };
    const bytes = coding === undefined ? file.bytes : compress(coding, file.bytes);
    if (!(bytes instanceof Promise)) return keep(bytes);
    const encoded = bytes.then(keep);
    this.#encoded.set(key, encoded);
    return encoded;
  }
}

function send(exchange: Exchange, { contentType }: StaticFile, { fields, bytes }: EncodedFile): void {
  const known = exchange.headers["if-none-match"];
  if (known !== undefined && noneMatch(known, String(fields["etag"]))) {
    exchange.send(304, fields);
    return;
  }
  exchange.sendCounted(200, { "content-type": contentType, "content-length": bytes.length, ...fields }, bytes);
}

function fieldsOf(bytes: Uint8Array): HeaderFields {
  const hash = createHash("sha256").update(bytes).digest("base64url").slice(0, 22);
  return {
    "cache-control": "no-cache",
    "content-security-policy": contentSecurityPolicy,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    etag: `"${hash}"`,
  };
}
