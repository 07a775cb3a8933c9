import type { Message } from "@bufbuild/protobuf";
import { quotaKey } from "../../domain/client-address.js";
import { QuotaShare } from "../../domain/client-quota.js";
import type { Codec, EncodedResponse, Encoding } from "../../domain/encoded-response.js";
import { Failure, type Terms } from "../../domain/failure.js";
import type { RequestHeaders } from "../../domain/metadata.js";
import type { Call, Method, RequestStream, ResponseStream } from "../../domain/service.js";
import { clientFailure, grpcCode } from "../../encoding/status.js";
import {
  clientDeadlineExceeded,
  clientLeft,
  deadlineExceeded,
  protocolFailure,
  requestTooSlow,
  timerMsMax,
} from "../errors.js";
import type { HandlerOptions, TransportLimits } from "../options.js";
import type { RequestCounters } from "../request-metrics.js";
import {
  heldRequests,
  largeMessageBytesMin,
  largeMessages,
  largeMessagesPerClientMax,
  messageTurns,
  type OpenCall,
  streamedRequests,
  tooManyOfClient,
  whenLoopTurned,
} from "./event-loop.js";
import { type ArrivedMessage, messageOf, type RequestReader, type RequestReading, requestReader } from "./framing.js";

/** The response to one unary call in one protocol. */
export interface UnaryWire {
  /** The form of the message. */
  readonly codec: Codec;
  /**
   * Sends the whole response: at once, or by calling the function of the promise.
   * @throws Failure before anything was sent; so does that function
   */
  respond(response: EncodedResponse): undefined | Promise<() => void>;
  /** Sends an error as the whole response. */
  finish(error: Failure, trailers: ReadonlyMap<string, string>): void;
}

/** What is known of a stream before its first message. */
export type OpenedStream = Pick<ResponseStream, "headers" | "trailerNames">;

/** The stream of responses to one call in one protocol. */
export interface StreamWire {
  /** The form of its messages. */
  readonly codec: Codec;
  /** The encoding of its messages. Read once the stream is open. */
  readonly encoding: Encoding;
  /** Replaces an opened stream, before its first message is written. */
  adapt?(stream: ResponseStream): ResponseStream | Promise<ResponseStream>;
  /** Sends the protocol's headers and those of the stream at once. Called once, before anything else. */
  start(stream: OpenedStream): void;
  /** Sends frames. False: wait for the drain before writing more. */
  write(frames: Uint8Array): boolean;
  /**
   * Ends the response, with or without an error. Without an earlier `start`, the error is the whole response.
   * `trailers` are those of the stream or of the error.
   */
  finish(error: Failure | undefined, trailers: ReadonlyMap<string, string>): void;
  /** Aborts a response whose reader takes nothing. */
  breakOff(error: Failure): void;
}

/** A wire that suits the method's kind. */
export type CallWire = UnaryWire | StreamWire;

/** A method as served over one protocol. */
export interface ServedMethod {
  readonly method: Method;
  readonly counters: RequestCounters;
  readonly options: HandlerOptions;
  /** How errors name fields and methods; undefined: as the definitions do. */
  readonly terms?: Terms;
}

const cancelledCode = grpcCode(clientLeft);

/** Bytes of a stream that are encoded and written at once, about; of all books of a thousand markets there are many. */
const partBytes = 256 * 1024;

const none: readonly EncodedResponse[] = [];

/** Who calls. */
interface Caller {
  readonly clientAddress: string;
  readonly headers: RequestHeaders;
}

/**
 * One call of one method, in any protocol. Invokes the method and passes the result to the wire. The protocol reports
 * the drain and the client's departure.
 *
 * What one `take` of a response stream returns is written in parts of about {@link partBytes}, each in a turn of its own;
 * the next part, and the next `take`, follow the drain. If the stream fails while the reader takes nothing, the response
 * is aborted after a grace period, unless it is read on: then the status follows what the stream still has, or at once if
 * the call itself has failed.
 */
export class ServerCall implements Call {
  readonly clientAddress: string;
  readonly requestHeaders: RequestHeaders;
  readonly codec: Codec;
  protected readonly served: ServedMethod;
  readonly #wire: UnaryWire & StreamWire;
  readonly #startedMs = performance.now();
  /** In `performance.now()` time; undefined if the client set none. */
  readonly #deadline: number | undefined;
  #phase: "reading" | "working" | "streaming" | "done" = "reading";
  #timer: NodeJS.Timeout | undefined;
  #controller: AbortController | undefined;
  /** Why the signal is aborted. */
  #abortReason: Failure | undefined;
  #stream: ResponseStream | undefined;
  /** The headers of the stream were sent. */
  #headersSent = false;
  /** Taken from the stream, and neither encoded nor written. */
  #unwritten: readonly EncodedResponse[] = [];
  /** The reader has to take what was written first. */
  #blocked = false;
  #pumping = false;
  /** The call failed while it was blocked. */
  #failure: Failure | undefined;
  /** Until a response that failed while it was blocked is aborted. */
  #grace: NodeJS.Timeout | undefined;

  /** `timeoutMs` is the client's deadline, counted from now. */
  constructor(served: ServedMethod, wire: CallWire, { clientAddress, headers }: Caller, timeoutMs?: number) {
    this.clientAddress = clientAddress;
    this.requestHeaders = headers;
    this.codec = wire.codec;
    this.served = served;
    // Each kind of method uses only its own kind of wire.
    this.#wire = wire as UnaryWire & StreamWire;
    this.#deadline = timeoutMs === undefined ? undefined : this.#startedMs + timeoutMs;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#abortReason !== undefined) this.#controller.abort(this.#abortReason);
    }
    return this.#controller.signal;
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
    this.#blocked = false;
    if (this.#failure !== undefined) this.fail(this.#failure);
    else if (this.#unwritten.length > 0) setImmediate(() => this.#pump());
    else this.#pump();
  }

  /** The client has gone, or everything is sent. */
  left(): void {
    if (this.#phase === "done") return;
    this.#settle(cancelledCode);
    this.#abort(clientLeft);
  }

  /** Ends the call with a thrown error. */
  fail(thrown: unknown): void {
    if (this.#phase === "done") return;
    const error = this.toFailure(thrown);
    if (this.#blocked) {
      this.#failure = error;
      this.#stream?.close();
      this.#breakOffSoon(error);
      return;
    }
    this.#settle(grpcCode(error));
    this.#wire.finish(error, error.metadata?.trailers ?? new Map());
    this.#abort(error);
  }

  /** Gives back what is held of the request, when the call is done. */
  protected release(): void {}

  /** The request was received. Decoding it may have to wait for its turn. */
  protected received(): void {
    this.#phase = "working";
    clearTimeout(this.#timer);
  }

  /** Sets the timer to the earlier of the deadline and a limit from now, at which `passed` is called. */
  protected limit(ms: number, passed = () => this.fail(deadlineExceeded())): void {
    clearTimeout(this.#timer);
    const leftMs = this.#deadline === undefined ? Number.POSITIVE_INFINITY : this.#deadline - performance.now();
    if (leftMs > ms) this.#timer = setTimeout(passed, ms);
    else this.#timer = setTimeout(() => this.fail(clientDeadlineExceeded()), leftMs);
  }

  /** Sets the timer to the deadline of a stream, which may be beyond what a timer takes. */
  #limitStream(): void {
    if (this.#deadline === undefined) clearTimeout(this.#timer);
    else this.limit(timerMsMax, () => this.#limitStream());
  }

  protected toFailure(thrown: unknown): Failure {
    const { options, terms } = this.served;
    const failure = clientFailure(thrown, options.log);
    return terms === undefined ? failure : (failure.inTerms?.(terms) ?? failure);
  }

  #abort(reason: Failure): void {
    this.#abortReason = reason;
    this.#controller?.abort(reason);
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

  /** Sends the headers at once, unless the stream has failed already. */
  #pumpFrom(stream: ResponseStream): void {
    if (this.#phase !== "working") return;
    this.#phase = "streaming";
    this.#stream = stream;
    this.served.counters.streamOpened();
    this.#limitStream();
    stream.onReady(() => this.#pump());
    this.#pump();
    this.#sendHeaders(stream);
  }

  #pump(): void {
    const stream = this.#stream;
    if (this.#phase !== "streaming" || stream === undefined || this.#pumping || this.#failure !== undefined) return;
    if (this.#blocked) {
      if (stream.failure !== undefined) this.#breakOffSoon(stream.failure);
      return;
    }
    this.#pumping = true;
    try {
      this.#pumpWhileWritable(stream);
    } catch (thrown) {
      this.fail(thrown);
    }
    this.#pumping = false;
  }

  #pumpWhileWritable(stream: ResponseStream): void {
    while (!this.#blocked && this.#phase === "streaming") {
      const responses = this.#unwritten.length > 0 ? this.#unwritten : stream.take();
      if (responses.length === 0) {
        if (stream.failure !== undefined) this.fail(stream.failure);
        else if (stream.ended) this.#end(stream);
        return;
      }
      const { frames, rest } = firstPart(responses, this.#wire.encoding);
      this.#unwritten = rest;
      this.#sendHeaders(stream);
      this.#blocked = !this.#wire.write(frames);
      if (rest.length === 0) continue;
      if (!this.#blocked) setImmediate(() => this.#pump());
      return;
    }
  }

  #sendHeaders(stream: ResponseStream): void {
    if (this.#headersSent || this.#phase !== "streaming") return;
    this.#headersSent = true;
    this.#wire.start(stream);
  }

  #end(stream: ResponseStream): void {
    this.#sendHeaders(stream);
    const { trailers } = stream;
    this.#settle(0);
    this.#wire.finish(undefined, trailers);
  }

  #breakOffSoon(error: Failure): void {
    this.#grace ??= setTimeout(() => {
      this.#wire.breakOff(error);
      this.#settle(grpcCode(error));
    }, this.served.options.limits.breakOffMs);
  }

  #settle(code: number): void {
    const { counters, method } = this.served;
    if (this.#phase === "streaming") counters.streamClosed(code);
    else if (method.kind === "unary") counters.answered(code, this.#startedMs);
    else counters.ended(code);
    this.#phase = "done";
    this.#unwritten = none;
    this.#stream?.close();
    clearTimeout(this.#timer);
    clearTimeout(this.#grace);
    this.release();
  }
}

/** The first of some responses as bytes, and those that are left; at least one. */
function firstPart(
  responses: readonly EncodedResponse[],
  encoding: Encoding,
): { readonly frames: Uint8Array; readonly rest: readonly EncodedResponse[] } {
  const [first] = responses;
  if (responses.length === 1 && first !== undefined) return { frames: first.encode(encoding), rest: none };
  const parts: Uint8Array[] = [];
  for (let bytes = 0; bytes < partBytes && parts.length < responses.length; bytes += parts.at(-1)?.length ?? 0) {
    const response = responses[parts.length];
    if (response !== undefined) parts.push(response.encode(encoding));
  }
  return { frames: Buffer.concat(parts), rest: responses.slice(parts.length) };
}

/** A call whose request message is the request body. The protocol reports its chunks and its end. */
export class BodyCall extends ServerCall implements OpenCall {
  readonly #reading: RequestReading;
  readonly #reader: RequestReader;
  #message: ArrivedMessage | undefined;
  /** Most requests arrive within a turn of the event loop, and are not counted. */
  #held: QuotaShare | undefined;
  #arrivedBytes = 0;
  /** Drops the turn that the message waits for. */
  #leave: (() => void) | undefined;

  constructor(served: ServedMethod, reading: RequestReading, wire: CallWire, caller: Caller, timeoutMs?: number) {
    super(served, wire, caller, timeoutMs);
    this.#reading = reading;
    this.#reader = requestReader(reading, (message) => {
      this.#refuseSecond();
      this.#message = message;
    });
    whenLoopTurned(this);
  }

  loopTurned(): void {
    if (!this.isReading) return;
    const { requestReceiveTimeoutMs } = this.served.options.limits;
    this.limit(requestReceiveTimeoutMs, () => this.fail(requestTooSlow(requestReceiveTimeoutMs)));
    try {
      this.#hold(this.#arrivedBytes);
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  /** A chunk of the request body. */
  data(chunk: Buffer): void {
    if (!this.isReading) return;
    this.#arrivedBytes += chunk.length;
    try {
      this.#held?.add(chunk.length);
      this.#refuseSecond();
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
      this.#reader.finish();
      const message = this.#message;
      if (message === undefined) throw unimplemented(`missing input message for ${this.#kind} method`);
      if (messageTurns.isFree) this.#inflate(message);
      else this.#waits(message, (client) => messageTurns.wait(() => this.#inflate(message), client));
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  /** A large message is decoded in its own turn. It waits as it arrived: compressed, it may be a thousandth of that. */
  #inflate(message: ArrivedMessage): void {
    if (this.isDone) return;
    try {
      const bytes = messageOf(message, this.#reading);
      if (bytes.length <= largeMessageBytesMin) {
        this.#read({ bytes, compressed: false });
        return;
      }
      this.#waits(message, (client) => {
        if (largeMessages.waitingOf(client) >= largeMessagesPerClientMax) throw tooManyOfClient();
        return largeMessages.push(() => this.#read(message), 0, client);
      });
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  /** Its message counts for the client until it is read. `queue` returns what drops it. */
  #waits(message: ArrivedMessage, queue: (client: string) => () => void): void {
    const { client } = this.#held ?? this.#hold(message.bytes.length);
    this.limit(this.served.options.limits.requestTimeoutMs);
    this.#leave = queue(client);
  }

  /** @throws Failure if the client, or all, hold too many bytes */
  #hold(bytes: number): QuotaShare {
    this.#held = new QuotaShare(heldRequests, quotaKey(this.clientAddress));
    this.#held.add(bytes);
    return this.#held;
  }

  protected override release(): void {
    this.#leave?.();
    this.#held?.remove();
  }

  get #kind(): string {
    return this.served.method.kind.replace("_", "-");
  }

  /** @throws Failure if a message has arrived already */
  #refuseSecond(): void {
    if (this.#message !== undefined) throw unimplemented(`received extra input message for ${this.#kind} method`);
  }

  #read(message: ArrivedMessage): void {
    if (this.isDone) return;
    this.#held?.remove();
    try {
      this.invoke(this.#reading.decode(this.served.method, messageOf(message, this.#reading)));
    } catch (thrown) {
      this.fail(thrown);
    }
  }
}

function unimplemented(message: string): Failure {
  return protocolFailure("unimplemented", `protocol error: ${message}`);
}

/** A call with a stream of requests, which is open from its start. The protocol reports the chunks and the end. */
export class BidiCall extends ServerCall {
  readonly #requests: ArrivingRequests;
  readonly #reader: RequestReader;
  readonly #held: QuotaShare;

  constructor(served: ServedMethod, reading: RequestReading, wire: CallWire, caller: Caller, timeoutMs?: number) {
    super(served, wire, caller, timeoutMs);
    const decode = (message: ArrivedMessage): Message => reading.decode(served.method, messageOf(message, reading));
    this.#held = new QuotaShare(heldRequests, quotaKey(caller.clientAddress));
    this.#requests = new ArrivingRequests(served.options.limits, decode, this.#held);
    this.#reader = requestReader(reading, (message) => this.#requests.add(message));
  }

  /** Opens the streams, unless the call has ended already. */
  open(): void {
    this.invoke(this.#requests);
  }

  /** A chunk of the requests. */
  data(chunk: Buffer): void {
    this.#read(() => {
      this.#held.add(chunk.length);
      this.#reader.push(chunk);
    });
  }

  /** The requests have ended. */
  end(): void {
    this.#read(() => {
      this.#reader.finish();
      this.#requests.end();
    });
  }

  protected override release(): void {
    this.#requests.close();
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

/** Requests that wait to be taken. Their bytes count as held for the client. */
class ArrivingRequests implements RequestStream {
  #waiting: ArrivedMessage[] = [];
  #count = 0;
  /** The next request has its turn. */
  #hasTurn = false;
  #hasEnded = false;
  failure: Failure | undefined;
  #listener: () => void = () => {};
  /** Drops the turn of the next request, from when it was asked for until that is taken. */
  #leave: (() => void) | undefined;
  /** Restarted with each request that is taken. Set when a method follows the requests, which closes them. */
  #idle: NodeJS.Timeout | undefined;

  constructor(
    private readonly limits: TransportLimits,
    private readonly decode: (message: ArrivedMessage) => Message,
    private readonly held: QuotaShare,
  ) {}

  get ended(): boolean {
    return this.#hasEnded && this.#waiting.length === 0;
  }

  onReady(listener: () => void): void {
    this.#listener = listener;
    this.#idle ??= setTimeout(() => this.#timeIsOver(), this.limits.requestStreamIdleMs).unref();
  }

  take(): Message | undefined {
    const go = (): void => {
      this.#hasTurn = true;
      // A turn that is given at once is used below.
      if (this.#leave !== undefined) this.#listener();
    };
    if (this.#waiting.length > 0) this.#leave ??= streamedRequests.push(go, 0, this.held.client);
    const next = this.#hasTurn ? this.#waiting.shift() : undefined;
    if (next === undefined) return undefined;
    this.#hasTurn = false;
    this.#leave = undefined;
    this.held.remove(next.bytes.length);
    this.#idle?.refresh();
    return this.decode(next);
  }

  /** @throws Failure if it is one too many */
  add(message: ArrivedMessage): void {
    const { streamedRequestsMax } = this.limits;
    this.#count++;
    if (this.#count > streamedRequestsMax) {
      throw exhausted("TOO_MANY_REQUESTS", `a stream takes ${streamedRequestsMax} requests; open another`);
    }
    // A copy: the chunk may be larger by far.
    this.#waiting.push({ ...message, bytes: Buffer.from(message.bytes) });
    this.#listener();
  }

  end(): void {
    this.#hasEnded = true;
    this.#listener();
  }

  /** Ends the stream; what waits is dropped. */
  fail(failure: Failure): void {
    this.close();
    this.failure = failure;
    this.#listener();
  }

  close(): void {
    clearTimeout(this.#idle);
    this.#leave?.();
    this.#waiting = [];
    this.held.remove();
  }

  /** Requests that wait for a slow reader are no silence; the stream guard ends readers that take nothing. */
  #timeIsOver(): void {
    const { requestStreamIdleMs } = this.limits;
    if (this.#waiting.length > 0) this.#idle?.refresh();
    else this.fail(exhausted("STREAM_IDLE", `no request came for ${requestStreamIdleMs} ms; open another stream`));
  }
}

function exhausted(reason: string, message: string): Failure {
  return new Failure("resource_exhausted", message, { reason, retryAfterMs: 0 });
}
