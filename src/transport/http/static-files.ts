import { createHash } from "node:crypto";
import type { Exchange } from "./exchange.js";
import { noneMatch } from "./json-body.js";

/** A file that is served as it is. */
export interface StaticFile {
  readonly contentType: string;
  readonly bytes: Uint8Array;
}

/** Nothing but this origin's own files and answers: no inline script or style, no frame around the page. */
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

/** Files by their path behind the base path, `/` for the page itself. Clients ask each time, and get a 304. */
export class StaticFiles {
  readonly #files: ReadonlyMap<string, StaticFile & { readonly etag: string }>;

  constructor(files: ReadonlyMap<string, StaticFile> = new Map()) {
    this.#files = new Map(
      [...files].map(([path, file]) => {
        const hash = createHash("sha256").update(file.bytes).digest("base64url").slice(0, 22);
        return [path, { ...file, etag: `"${hash}"` }];
      }),
    );
  }

  /** Answers a GET or HEAD of a file; false: there is none at this path. */
  answer(exchange: Exchange, path: string): boolean {
    const file = this.#files.get(path);
    if (file === undefined) return false;
    const { request, response, common, head } = exchange;
    const fields = {
      "cache-control": "no-cache",
      "content-security-policy": contentSecurityPolicy,
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      etag: file.etag,
      ...common,
    };
    const known = request.headers["if-none-match"];
    if (known !== undefined && noneMatch(known, file.etag)) {
      response.writeHead(304, fields);
      response.end();
      return true;
    }
    response.writeHead(200, { "content-type": file.contentType, "content-length": file.bytes.length, ...fields });
    if (head) response.end();
    else response.end(file.bytes);
    return true;
  }
}
