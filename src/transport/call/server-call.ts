import type { Message } from "@bufbuild/protobuf";
import type { Codec, EncodedResponse } from "../../domain/encoded-response.js";
import { Failure, type Terms } from "../../domain/failure.js";
import type { RequestHeaders } from "../../domain/metadata.js";
import type { Call, Method, RequestStream, ResponseStream } from "../../domain/service.js";
import { grpcCode } from "../../encoding/status.js";
import {
  clientDeadlineExceeded,
  clientLeft,
  deadlineExceeded,
  ProtocolError,
  requestTooSlow,
  timerMsMax,
  toFailure,
} from "../errors.js";
import type { HandlerOptions, TransportLimits } from "../options.js";
import type { RequestCounters } from "../request-metrics.js";
import { type CallWire, StreamPump } from "./call-wire.js";
import {
  isLargeMessage,
  mayServeInTurn,
  type OpenCall,
  whenLargeMessageMayBeRead,
  whenLoopTurned,
} from "./event-loop.js";
import {
  type ArrivedMessage,
  EnvelopesReader,
  messageOf,
  type RequestBounds,
  type RequestDecoder,
  type RequestReader,
  TextEnvelopeReader,
} from "./framing.js";

/** The {@link Call} of any protocol. Its signal is created on first use. */
export class RequestCall implements Call {
  readonly clientAddress: string;
  readonly requestHeaders: RequestHeaders;
  readonly codec: Codec;
  #controller: AbortController | undefined;
  #aborted: { readonly reason: unknown } | undefined;

  constructor(clientAddress: string, requestHeaders: RequestHeaders, codec: Codec = "json") {
    this.codec = codec;
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

/** A method as served over one protocol. */
export interface ServedMethod {
  readonly method: Method;
  readonly counters: RequestCounters;
  readonly options: HandlerOptions;
  /** How errors name fields and methods; undefined: as the definitions do. */
  readonly terms?: Terms;
}

const cancelledCode = grpcCode(clientLeft);

/**
 * One call of one method, in any protocol. Invokes the method and passes the result to the wire. The protocol reports
 * the drain and the client's departure.
 */
export class ServerCall extends RequestCall {
  protected readonly served: ServedMethod;
  readonly #wire: CallWire;
  readonly #startedMs = performance.now();
  /** In `performance.now()` time; undefined if the client set none. */
  readonly #deadline: number | undefined;
  #phase: "reading" | "working" | "streaming" | "done" = "reading";
  #timer: NodeJS.Timeout | undefined;
  /** Whether the timer is set to the deadline. Timers fire slightly early, so the clock cannot tell afterwards. */
  #timerIsDeadline = false;
  #stream: ResponseStream | undefined;
  #pump: StreamPump | undefined;

  /** `timeoutMs` is the client's deadline, counted from now. */
  constructor(
    served: ServedMethod,
    wire: CallWire,
    clientAddress: string,
    requestHeaders: RequestHeaders,
    timeoutMs?: number,
  ) {
    super(clientAddress, requestHeaders, wire.codec);
    this.served = served;
    this.#wire = wire;
    this.#deadline = timeoutMs === undefined ? undefined : this.#startedMs + timeoutMs;
    if (timeoutMs !== undefined && timeoutMs <= 0) this.fail(clientDeadlineExceeded());
  }

  /** The response is complete, or the client is gone. */
  get isDone(): boolean {
    return this.#phase === "done";
  }

  /** The request has not been read yet. */
  get isReading(): boolean {
    return this.#phase === "reading";
  }

  /** Invokes the method, with the stream of its requests if it has one. */
  invoke(request: Message | RequestStream): void {
    if (this.#phase === "done") return;
    this.#phase = "working";
    const { method } = this.served;
    try {
      if (method.kind === "unary") {
        const response = method.invoke(request as Message, this);
        if (response instanceof Promise) this.#await(response, (later) => this.#respond(later));
        else this.#respond(response);
      } else {
        const isBidi = method.kind === "bidi_streaming";
        const stream = isBidi ? method.open(request as RequestStream, this) : method.open(request as Message, this);
        if (stream instanceof Promise) this.#await(stream, (later) => this.#opened(later));
        else this.#opened(stream);
      }
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  /** The connection can take more. */
  drained(): void {
    this.#pump?.drained();
  }

  /** The client has gone, or everything is sent. */
  left(): void {
    if (this.#phase === "done") return;
    if (this.#pump === undefined) this.#settle(cancelledCode);
    else this.#pump.left();
    this.abort(clientLeft);
  }

  /** Ends the call with a thrown error. */
  fail(thrown: unknown): void {
    if (this.#phase === "done") return;
    const error = thrown instanceof ProtocolError ? thrown : this.toFailure(thrown);
    this.#settle(grpcCode(error));
    this.#wire.finish(error, new Map());
    this.abort(error);
  }

  /** The request was received. Decoding it may have to wait for its turn. */
  protected received(): void {
    this.#phase = "working";
    clearTimeout(this.#timer);
  }

  /** Sets the timer to the earlier of a limit from now and the deadline. */
  protected limit(ms: number): void {
    clearTimeout(this.#timer);
    const leftMs = this.#deadline === undefined ? ms : this.#deadline - performance.now();
    this.#timerIsDeadline = this.#deadline !== undefined && leftMs <= ms;
    this.#timer = setTimeout(() => this.#timeIsOver(), Math.min(ms, leftMs));
  }

  /** The failure when the limit has passed. */
  protected limitFailure(): unknown {
    return deadlineExceeded();
  }

  protected toFailure(thrown: unknown): Failure {
    const { options, terms } = this.served;
    const failure = toFailure(thrown, options.log);
    return terms === undefined ? failure : (failure.inTerms?.(terms) ?? failure);
  }

  #await<T>(outcome: Promise<T>, then: (value: T) => void): void {
    this.limit(this.served.options.limits.requestTimeoutMs);
    outcome.then(then).catch((thrown: unknown) => this.fail(thrown));
  }

  #respond(response: EncodedResponse): void {
    if (this.#phase !== "working") return;
    const sending = this.#wire.respond(response);
    if (sending === undefined) {
      this.#settle(0);
      return;
    }
    this.#await(sending, (send) => {
      if (this.#phase !== "working") return;
      send();
      this.#settle(0);
    });
  }

  #opened(stream: ResponseStream): void {
    if (this.#phase !== "working") {
      stream.close();
      return;
    }
    this.#stream = stream;
    const adapted = this.#wire.adapt?.(stream) ?? stream;
    if (adapted instanceof Promise) this.#await(adapted, (later) => this.#pumpFrom(later));
    else this.#pumpFrom(adapted);
  }

  #pumpFrom(stream: ResponseStream): void {
    if (this.#phase !== "working") return;
    const { counters, options } = this.served;
    this.#phase = "streaming";
    this.#stream = undefined;
    counters.streamOpened();
    clearTimeout(this.#timer);
    if (this.#deadline !== undefined) this.limit(timerMsMax);
    const events = {
      toFailure: (thrown: unknown) => this.toFailure(thrown),
      finished: (code: number) => this.#settle(code),
    };
    this.#pump = new StreamPump(stream, this.#wire, events, options.limits.breakOffMs);
    this.#pump.run();
  }

  #timeIsOver(): void {
    if (this.#phase !== "streaming") this.fail(this.#timerIsDeadline ? clientDeadlineExceeded() : this.limitFailure());
    else if (this.#timerIsDeadline) this.#pump?.fail(clientDeadlineExceeded());
    else this.limit(timerMsMax);
  }

  #settle(code: number): void {
    const { counters, method } = this.served;
    if (this.#phase === "streaming") counters.streamClosed(code);
    else if (method.kind === "unary") counters.answered(code, this.#startedMs);
    else counters.streamRefused(code);
    this.#phase = "done";
    this.#stream?.close();
    clearTimeout(this.#timer);
  }
}

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

/** A call with a stream of requests, which is open from its start. The protocol reports the chunks and the end. */
export class BidiCall extends ServerCall {
  readonly #requests: ArrivingRequests;
  readonly #reader: RequestReader;

  /** `text`: the body is base64. `timeoutMs` is the client's deadline, counted from now. */
  constructor(
    served: ServedMethod,
    { bounds, decode, text }: { bounds: RequestBounds; decode: RequestDecoder; text: boolean },
    wire: CallWire,
    clientAddress: string,
    requestHeaders: RequestHeaders,
    timeoutMs: number | undefined,
  ) {
    super(served, wire, clientAddress, requestHeaders, timeoutMs);
    const { limits } = served.options;
    this.#requests = new ArrivingRequests(limits, (message) => decode(served.method, messageOf(message, bounds)));
    const reader = new EnvelopesReader(bounds, (message) => this.#requests.add(message));
    this.#reader = text ? new TextEnvelopeReader(reader) : reader;
  }

  /** Opens the streams, unless the call has ended already. */
  open(): void {
    this.invoke(this.#requests);
  }

  /** A chunk of the requests. */
  data(chunk: Buffer): void {
    this.#read(() => this.#reader.push(chunk));
  }

  /** The requests have ended. */
  end(): void {
    this.#read(() => {
      this.#reader.finish();
      this.#requests.end();
    });
  }

  #read(step: () => void): void {
    if (this.isDone || this.#requests.failure !== undefined) return;
    try {
      step();
    } catch (thrown) {
      this.#requests.fail(this.toFailure(thrown));
    }
  }
}

/** Requests that wait to be taken, within the limits of {@link TransportLimits}. */
class ArrivingRequests implements RequestStream {
  readonly #limits: TransportLimits;
  readonly #decode: (message: ArrivedMessage) => Message;
  #waiting: ArrivedMessage[] = [];
  #waitingBytes = 0;
  #count = 0;
  #isPostponed = false;
  #hasEnded = false;
  #failure: Failure | undefined;
  #listener: () => void = () => {};
  /** Restarted with each request that is taken. Set when a method follows the requests, which closes them. */
  #idle: NodeJS.Timeout | undefined;

  constructor(limits: TransportLimits, decode: (message: ArrivedMessage) => Message) {
    this.#limits = limits;
    this.#decode = decode;
  }

  get ended(): boolean {
    return this.#hasEnded && this.#waiting.length === 0;
  }

  get failure(): Failure | undefined {
    return this.#failure;
  }

  onReady(listener: () => void): void {
    this.#listener = listener;
    this.#idle ??= setTimeout(() => this.#timeIsOver(), this.#limits.requestStreamIdleMs).unref();
  }

  take(): Message | undefined {
    if (this.#waiting.length === 0 || this.#isPostponed) return undefined;
    this.#isPostponed = !mayServeInTurn(() => {
      this.#isPostponed = false;
      this.#listener();
    });
    const next = this.#isPostponed ? undefined : this.#waiting.shift();
    if (next === undefined) return undefined;
    this.#waitingBytes -= next.bytes.length;
    this.#idle?.refresh();
    return this.#decode(next);
  }

  /** @throws Failure if it is one too many */
  add(message: ArrivedMessage): void {
    const { streamedRequestsMax, pendingRequestBytesMax } = this.#limits;
    this.#count++;
    this.#waitingBytes += message.bytes.length;
    if (this.#count > streamedRequestsMax) {
      throw exhausted("TOO_MANY_REQUESTS", `a stream takes ${streamedRequestsMax} requests; open another`);
    }
    if (this.#waitingBytes > pendingRequestBytesMax) {
      throw exhausted("TOO_MANY_REQUESTS", `more than ${pendingRequestBytesMax} bytes of requests wait; read first`);
    }
    this.#waiting.push(message);
    this.#listener();
  }

  end(): void {
    this.#hasEnded = true;
    this.#listener();
  }

  /** Ends the stream; what waits is dropped. */
  fail(failure: Failure): void {
    this.close();
    this.#failure = failure;
    this.#listener();
  }

  close(): void {
    clearTimeout(this.#idle);
    this.#waiting = [];
  }

  /** Requests that wait for a slow reader are no silence; the stream guard ends readers that take nothing. */
  #timeIsOver(): void {
    const { requestStreamIdleMs } = this.#limits;
    if (this.#waiting.length > 0) this.#idle?.refresh();
    else this.fail(exhausted("STREAM_IDLE", `no request came for ${requestStreamIdleMs} ms; open another stream`));
  }
}

function exhausted(reason: string, message: string): Failure {
  return new Failure("resource_exhausted", message, { reason, retryAfterMs: 0 });
}
