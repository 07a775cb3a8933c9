import type { OutgoingHttpHeaders } from "node:http2";

/** The headers that gRPC answers begin with. The same object is given until the data's age in seconds changes. */
export class AnswerHeaders {
  readonly #staleness: () => number | undefined;
  #seconds: number | undefined;
  #headers: OutgoingHttpHeaders = headersWith(undefined);

  /** `staleness` as the server's option of that name; in seconds. */
  constructor(staleness: () => number | undefined) {
    this.#staleness = staleness;
  }

  current(): OutgoingHttpHeaders {
    const staleness = this.#staleness();
    const seconds = staleness === undefined ? undefined : Math.floor(staleness);
    if (seconds !== this.#seconds) {
      this.#seconds = seconds;
      this.#headers = headersWith(seconds);
    }
    return this.#headers;
  }
}

function headersWith(seconds: number | undefined): OutgoingHttpHeaders {
  const always = { ":status": 200, "content-type": "application/grpc+proto" };
  return Object.freeze(seconds === undefined ? always : { ...always, "marketd-staleness": String(seconds) });
}
