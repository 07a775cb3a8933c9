import type { RequestHeaders } from "../../domain/metadata.js";
import type { Call } from "../../domain/service.js";

/** The {@link Call} of any protocol: its signal exists only once someone asks for it. */
export class RequestCall implements Call {
  readonly clientAddress: string;
  readonly requestHeaders: RequestHeaders;
  #controller: AbortController | undefined;
  #aborted: { readonly reason: unknown } | undefined;

  constructor(clientAddress: string, requestHeaders: RequestHeaders) {
    this.clientAddress = clientAddress;
    this.requestHeaders = requestHeaders;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted.reason);
    }
    return this.#controller.signal;
  }

  /** The client left, the deadline passed, or the server stops: `reason` says which, as a Failure. Repeats do nothing. */
  abort(reason: unknown): void {
    if (this.#aborted !== undefined) return;
    this.#aborted = { reason };
    this.#controller?.abort(reason);
  }
}
