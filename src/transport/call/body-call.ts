import type { RequestHeaders } from "../../domain/metadata.js";
import type { CallWire } from "./call-wire.js";
import { requestTooSlow } from "./deadline.js";
import { isLargeMessage, whenLargeMessageMayBeRead } from "./large-messages.js";
import { type OpenCall, whenLoopTurned } from "./loop-turn.js";
import type { RequestDecoder, RequestReader } from "./request-reader.js";
import { type ServedMethod, ServerCall } from "./server-call.js";

/** A call whose request message is the request body. The protocol reports its chunks and its end. */
export class BodyCall extends ServerCall implements OpenCall {
  readonly #reader: RequestReader;
  readonly #decode: RequestDecoder;

  /** `timeoutMs` is the client's deadline, counted from now. */
  constructor(
    served: ServedMethod,
    reader: RequestReader,
    decode: RequestDecoder,
    wire: CallWire,
    clientAddress: string,
    requestHeaders: RequestHeaders,
    timeoutMs: number | undefined,
  ) {
    super(served, wire, clientAddress, requestHeaders, timeoutMs);
    this.#reader = reader;
    this.#decode = decode;
    if (!this.isDone) whenLoopTurned(this);
  }

  loopTurned(): void {
    if (this.isReading) this.limit(this.served.options.limits.requestReceiveTimeoutMs);
  }

  /** A chunk of the request body. */
  data(chunk: Buffer): void {
    if (!this.isReading) return;
    try {
      this.#reader.push(chunk);
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  /** The request body has ended. */
  end(): void {
    if (!this.isReading) return;
    this.received();
    try {
      const bytes = this.#reader.finish();
      if (isLargeMessage(bytes.length)) this.#readInTurn(bytes);
      else this.#read(bytes);
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  protected override limitFailure(): unknown {
    const { requestReceiveTimeoutMs } = this.served.options.limits;
    return this.isReading ? requestTooSlow(requestReceiveTimeoutMs) : super.limitFailure();
  }

  #readInTurn(bytes: Buffer): void {
    this.limit(this.served.options.limits.requestTimeoutMs);
    whenLargeMessageMayBeRead(() => this.#read(bytes));
  }

  #read(bytes: Buffer): void {
    if (this.isDone) return;
    try {
      this.invoke(this.#decode(this.served.method, bytes));
    } catch (thrown) {
      this.fail(thrown);
    }
  }
}
