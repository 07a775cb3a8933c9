import { createHash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { HttpBodySchema } from "../../../gen/google/api/httpbody_pb.js";
import type { EncodedResponse } from "../../domain/encoded-response.js";
import { MessageResponse } from "../../encoding/message-response.js";
import { clientFailure } from "../../encoding/status.js";
import type { Log } from "../../telemetry/log.js";
import { chooseCoding } from "../call/content-coding.js";
import { bodyEncoding } from "../call/framing.js";
import type { Exchange } from "../connections/exchange.js";
import { wrongMethod } from "../errors.js";
import type { HandlerOptions } from "../options.js";
import { WholeResponse } from "../whole-response.js";
import { bodyData } from "./encodings.js";

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

const headers = {
  "content-security-policy": contentSecurityPolicy,
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

const body = bodyEncoding(bodyData.encode);

/** Files by path behind the base path; `/` is the page itself. Clients revalidate each time, and get 304. */
export class StaticFiles {
  readonly #files: ReadonlyMap<string, StaticFile>;
  readonly #responses = new Map<string, EncodedResponse>();
  readonly #vary: string;
  readonly #log: Log;

  constructor(files: ReadonlyMap<string, StaticFile> = new Map(), { common, log }: HandlerOptions) {
    this.#files = files;
    this.#vary = common.vary("accept-encoding");
    this.#log = log;
  }

  /** Serves a file. False: there is none at this path. @throws HttpFailure unless the method is GET or HEAD */
  serve(exchange: Exchange, path: string): boolean {
    const file = this.#files.get(path);
    if (file === undefined) return false;
    if (!exchange.isRead) throw wrongMethod(exchange.method);
    const response = this.#responses.get(path) ?? responseOf(file);
    this.#responses.set(path, response);
    const { contentType } = file;
    const format = { codec: "proto", body, contentType, name: "file", vary: this.#vary, headers } as const;
    const whole = new WholeResponse(exchange, format, chooseCoding(exchange.headers["accept-encoding"]?.toString()));
    // Large files are compressed on another thread, when first requested in a coding.
    whole
      .respond(response)
      ?.then((send) => send())
      .catch((thrown: unknown) => exchange.sendError(clientFailure(thrown, this.#log)));
    return true;
  }
}

function responseOf({ bytes, contentType }: StaticFile): EncodedResponse {
  const version = createHash("sha256").update(bytes).digest("base64url").slice(0, 22);
  return new MessageResponse(HttpBodySchema, create(HttpBodySchema, { contentType, data: bytes }), { version });
}
