import type { OutgoingHttpHeaders } from "node:http2";
import type { DataHeaders, HeaderFields } from "../common-headers.js";

/** The headers that gRPC answers begin with. The same object is given until those of the data change. */
export class AnswerHeaders {
  readonly #data: DataHeaders;
  #fields: HeaderFields | undefined;
  #headers: OutgoingHttpHeaders = {};

  constructor(data: DataHeaders) {
    this.#data = data;
  }

  current(): OutgoingHttpHeaders {
    const fields = this.#data.current();
    if (fields !== this.#fields) {
      this.#fields = fields;
      this.#headers = Object.freeze({ ":status": 200, "content-type": "application/grpc+proto", ...fields });
    }
    return this.#headers;
  }
}
