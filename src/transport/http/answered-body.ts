import type { Answer } from "../../domain/answer.js";
import type { HeaderFields } from "../common-headers.js";
import { type ContentCoding, compress, compressedBytesMin } from "./content-coding.js";

/** An answer's JSON in one content coding, with its finished headers. */
export interface AnsweredBody {
  readonly bytes: Uint8Array;
  readonly etag: string | undefined;
  /** Those of a 200. The same object as long as `common` is. */
  headers(common: HeaderFields): HeaderFields;
}

class PreparedBody implements AnsweredBody {
  readonly bytes: Uint8Array;
  readonly etag: string | undefined;
  readonly #coding: ContentCoding | undefined;
  readonly #vary: string;
  #common: HeaderFields | undefined;
  #headers: HeaderFields = {};

  constructor(answer: Answer, bytes: Uint8Array, coding: ContentCoding | undefined, vary: string) {
    this.bytes = bytes;
    this.#coding = coding;
    this.#vary = vary;
    if (answer.version !== undefined) this.etag = `"${answer.version}.json${coding === undefined ? "" : `.${coding}`}"`;
  }

  headers(common: HeaderFields): HeaderFields {
    if (this.#common !== common) {
      this.#common = common;
      this.#headers = {
        "content-type": "application/json",
        "content-length": this.bytes.length,
        "cache-control": this.etag === undefined ? "no-store" : "no-cache",
        vary: this.#vary,
        ...(this.etag === undefined ? {} : { etag: this.etag }),
        ...(this.#coding === undefined ? {} : { "content-encoding": this.#coding }),
        ...common,
      };
    }
    return this.#headers;
  }
}

/** The bodies of one answer. */
interface Bodies {
  identity: AnsweredBody | undefined;
  br: AnsweredBody | Promise<AnsweredBody> | undefined;
  gzip: AnsweredBody | Promise<AnsweredBody> | undefined;
}

/** Remembers, as long as an answer lives, its body in each content coding that was asked for. */
export class AnsweredBodies {
  readonly #byAnswer = new WeakMap<Answer, Bodies>();
  readonly #vary: string;

  /** `vary` is the value of that header on every answer. */
  constructor(vary: string) {
    this.#vary = vary;
  }

  /** A promise only where a large body is compressed for the first time. */
  of(answer: Answer, coding: ContentCoding | undefined): AnsweredBody | Promise<AnsweredBody> {
    let bodies = this.#byAnswer.get(answer);
    if (bodies === undefined) {
      bodies = { identity: undefined, br: undefined, gzip: undefined };
      this.#byAnswer.set(answer, bodies);
    }
    if (coding === undefined) {
      bodies.identity ??= new PreparedBody(answer, answer.json(), undefined, this.#vary);
      return bodies.identity;
    }
    bodies[coding] ??= this.#compressed(answer, coding, bodies);
    return bodies[coding];
  }

  #compressed(answer: Answer, coding: ContentCoding, bodies: Bodies): AnsweredBody | Promise<AnsweredBody> {
    const json = answer.json();
    if (json.length < compressedBytesMin) return this.of(answer, undefined);
    const bytes = compress(coding, json);
    if (!(bytes instanceof Promise)) return new PreparedBody(answer, bytes, coding, this.#vary);
    return bytes.then((done) => {
      const body = new PreparedBody(answer, done, coding, this.#vary);
      bodies[coding] = body;
      return body;
    });
  }
}

/** Whether an `If-None-Match` value names this tag (weakly compared, RFC 9110, 13.1.2). */
export function noneMatch(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch === etag || ifNoneMatch === "*") return true;
  return ifNoneMatch.split(",").some((part) => {
    const tag = part.trim();
    return (tag.startsWith("W/") ? tag.slice(2) : tag) === etag;
  });
}
