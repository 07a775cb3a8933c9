import { STATUS_CODES } from "node:http";
import type { HeaderFields } from "../common-headers.js";

let dateSecond = 0;
let dateText = "";

/** The value of the `date` header, renewed each second. */
function httpDate(): string {
  const second = Math.floor(Date.now() / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateText = new Date(second * 1000).toUTCString();
  }
  return dateText;
}

/**
 * All bytes of a response on an HTTP/1.1 connection that stays open, as Node's server writes them. They are kept until
 * the headers or the second change.
 */
export class WholeResponse {
  readonly #statusLine: string;
  readonly #keepAlive: string;
  readonly #body: Uint8Array;
  #headers: HeaderFields | undefined;
  #date = "";
  #bytes: Uint8Array = new Uint8Array();

  /** `keepAliveSeconds`: how long the connection may be idle, as announced to the client. */
  constructor(status: number, body: Uint8Array, keepAliveSeconds: number) {
    this.#statusLine = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n`;
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveSeconds}\r\n\r\n`;
    this.#body = body;
  }

  /** Compares `headers` by identity. */
  bytes(headers: HeaderFields): Uint8Array {
    const date = httpDate();
    if (headers !== this.#headers || date !== this.#date) {
      this.#headers = headers;
      this.#date = date;
      let head = this.#statusLine;
      for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
      head += `Date: ${date}\r\n${this.#keepAlive}`;
      this.#bytes = Buffer.concat([Buffer.from(head, "latin1"), this.#body]);
    }
    return this.#bytes;
  }
}
