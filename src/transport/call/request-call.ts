import type { RequestHeaders } from "../../domain/metadata.js";
import type { Call } from "../../domain/service.js";

/** The {@link Call} of any protocol. Its signal is created on first use. */
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

  /**
   * Aborts the call: the client left, the deadline passed, or the server stops. `reason` is a Failure. Repeats have no
   * effect.
   */
  abort(reason: unknown): void {
    if (this.#aborted !== undefined) return;
    this.#aborted = { reason };
    this.#controller?.abort(reason);
  }
}
