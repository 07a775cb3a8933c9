import { Code, ConnectError, createContextKey, type HandlerContext } from "@connectrpc/connect";
import type { Failure } from "../../domain/failure.js";
import type { Metadata, RequestHeaders } from "../../domain/metadata.js";
import { clientDeadlineExceeded, clientLeft, deadlineExceeded } from "../grpc/deadline.js";
import type { AnyResponse } from "../lane.js";
import { RequestCall } from "../request-call.js";

/** What a handler needs to know of its connection. */
export interface Peer {
  readonly clientAddress: string;
  readonly requestHeaders: RequestHeaders;
  /** For cutting a response that nobody takes. */
  readonly response: AnyResponse | undefined;
}

/** Where the adapter leaves the peer for the methods. */
export const peerKey = createContextKey<Peer>({ clientAddress: "", requestHeaders: {}, response: undefined });

/** Gives Connect what it has to send beside a message or an error. */
export function carry(metadata: Metadata | undefined, context: HandlerContext): void {
  for (const [name, value] of metadata?.headers ?? []) context.responseHeader.set(name, value);
  for (const [name, value] of metadata?.trailers ?? []) context.responseTrailer.set(name, value);
}

/** A call whose signal follows Connect's, with our reasons. */
export class ConnectCall extends RequestCall {
  readonly #signal: AbortSignal;

  constructor(context: HandlerContext) {
    const { clientAddress, requestHeaders } = context.values.get(peerKey);
    super(clientAddress, requestHeaders);
    this.#signal = context.signal;
    const abort = (): void => this.abort(this.#reason());
    if (context.signal.aborted) abort();
    else context.signal.addEventListener("abort", abort, { once: true });
  }

  /**
   * Does the work, unless the call is aborted already, and gives its outcome, unless the call is aborted or `limitMs` have
   * passed first.
   * @throws Failure then, or what the work throws
   */
  async inTime<T>(work: () => T | Promise<T>, limitMs: number): Promise<T> {
    if (this.signal.aborted) throw this.signal.reason;
    const outcome = work();
    if (!(outcome instanceof Promise)) return outcome;
    let timer: NodeJS.Timeout | undefined;
    let onAbort: (() => void) | undefined;
    const over = new Promise<never>((_resolve, reject) => {
      onAbort = () => reject(this.signal.reason);
      this.signal.addEventListener("abort", onAbort, { once: true });
      timer = setTimeout(() => reject(deadlineExceeded()), limitMs);
    });
    try {
      return await Promise.race([outcome, over]);
    } finally {
      clearTimeout(timer);
      if (onAbort !== undefined) this.signal.removeEventListener("abort", onAbort);
    }
  }

  #reason(): Failure {
    const reason: unknown = this.#signal.reason;
    const deadlinePassed = reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
    return deadlinePassed ? clientDeadlineExceeded() : clientLeft();
  }
}
