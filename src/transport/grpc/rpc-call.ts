import { fromBinary, type MessageShape } from "@bufbuild/protobuf";
import type { Answer } from "../../domain/answer.js";
import type { RequestHeaders } from "../../domain/metadata.js";
import type { AnswerStream, Method } from "../../domain/service.js";
import type { LaneOptions } from "../lane.js";
import { isLargeMessage, whenLargeMessageMayBeRead } from "../large-messages.js";
import { RequestCall } from "../request-call.js";
import type { RequestCells } from "../request-metrics.js";
import { grpcCode, toFailure } from "../status.js";
import { AnswerPump } from "./answer-pump.js";
import type { CallWire } from "./call-wire.js";
import { clientDeadlineExceeded, clientLeft, deadlineExceeded, requestTooSlow, timerMsMax } from "./deadline.js";
import { type Begun, whenLoopTurned } from "./loop-turn.js";
import { MessageReader, type RequestReader } from "./message-reader.js";
import { ProtocolError } from "./protocol-error.js";

/** Turns a request's bytes into its message. @throws anything when they are none */
export type RequestDecoder = (method: Method, bytes: Buffer) => MessageShape<Method["desc"]["input"]>;

/** Protobuf bytes. @throws ProtocolError */
export const decodeBinary: RequestDecoder = (method, bytes) => {
  try {
    return fromBinary(method.desc.input, bytes);
  } catch (thrown) {
    throw new ProtocolError(
      "invalid_argument",
      `parse binary: ${thrown instanceof Error ? thrown.message : String(thrown)}`,
    );
  }
};

/** A method as one protocol serves it; made once, shared by its calls. */
export interface ServedMethod {
  readonly method: Method;
  readonly decode: RequestDecoder;
  /** Makes what reads a request body; without it, bodies are envelopes. */
  readonly reader?: (bytesMax: number) => RequestReader;
  readonly cells: RequestCells;
  readonly options: LaneOptions;
}

const cancelledCode = grpcCode(clientLeft());

const kindNames = { unary: "unary", server_streaming: "server-streaming" } as const;

/**
 * One call of one method, whatever the protocol: reads its one request message, asks the API, and gives the outcome to
 * the wire. Whoever owns the connection reports the request's chunks, the drain, and that the client has gone.
 */
export class RpcCall extends RequestCall implements Begun {
  readonly #served: ServedMethod;
  readonly #wire: CallWire;
  readonly #reader: RequestReader;
  readonly #startedMs = performance.now();
  /** In `performance.now()` time; undefined: the client gave none. */
  readonly #deadline: number | undefined;
  #phase: "reading" | "working" | "streaming" | "done" = "reading";
  #timer: NodeJS.Timeout | undefined;
  /** The timer is set to the deadline. Timers fire a little early, so the clock does not tell afterwards. */
  #timerIsDeadline = false;
  #pump: AnswerPump | undefined;

  /** `timeoutMs` is the client's deadline, counted from now. */
  constructor(
    served: ServedMethod,
    wire: CallWire,
    clientAddress: string,
    requestHeaders: RequestHeaders,
    timeoutMs: number | undefined,
  ) {
    super(clientAddress, requestHeaders);
    this.#served = served;
    this.#wire = wire;
    const limits = served.options.limits;
    this.#reader =
      served.reader?.(limits.requestBodyBytesMax) ??
      new MessageReader(limits.requestBodyBytesMax, kindNames[served.method.kind]);
    this.#deadline = timeoutMs === undefined ? undefined : this.#startedMs + timeoutMs;
    if (timeoutMs !== undefined && timeoutMs <= 0) this.#fail(clientDeadlineExceeded());
    else whenLoopTurned(this);
  }

  loopTurned(): void {
    if (this.#phase === "reading") this.#arm(this.#served.options.limits.requestReceiveTimeoutMs);
  }

  /** A chunk of the request body. */
  data(chunk: Buffer): void {
    if (this.#phase !== "reading") return;
    try {
      this.#reader.push(chunk);
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  /** The request body has ended. */
  end(): void {
    if (this.#phase !== "reading") return;
    this.#phase = "working";
    clearTimeout(this.#timer);
    try {
      const bytes = this.#reader.finish();
      if (isLargeMessage(bytes.length)) this.#readInTurn(bytes);
      else this.#read(bytes);
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  /** The connection can take more. */
  drained(): void {
    this.#pump?.drained();
  }

  /** The client has gone, or all is sent. */
  left(): void {
    if (this.#phase === "done") return;
    const pump = this.#pump;
    if (pump === undefined) this.#settle(cancelledCode);
    else pump.left();
    this.abort(clientLeft());
  }

  /** Ends the call with what was thrown before its request was looked at. */
  refuse(thrown: unknown): void {
    this.#fail(thrown);
  }

  #readInTurn(bytes: Buffer): void {
    this.#arm(this.#served.options.limits.requestTimeoutMs);
    whenLargeMessageMayBeRead(() => this.#read(bytes));
  }

  #read(bytes: Buffer): void {
    if (this.#phase !== "working") return;
    try {
      this.#invoke(this.#served.decode(this.#served.method, bytes));
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  #invoke(request: MessageShape<Method["desc"]["input"]>): void {
    const method = this.#served.method;
    if (method.kind === "unary") {
      const outcome = method.answer(request, this);
      if (outcome instanceof Promise) this.#await(outcome, (answer) => this.#answer(answer));
      else this.#answer(outcome);
    } else {
      const outcome = method.open(request, this);
      if (outcome instanceof Promise) this.#await(outcome, (stream) => this.#opened(stream));
      else this.#opened(outcome);
    }
  }

  #await<T>(outcome: Promise<T>, then: (value: T) => void): void {
    this.#arm(this.#served.options.limits.requestTimeoutMs);
    outcome.then(then).catch((thrown: unknown) => this.#fail(thrown));
  }

  #answer(answer: Answer): void {
    if (this.#phase !== "working") return;
    this.#wire.answer(answer);
    this.#settle(0);
  }

  #opened(stream: AnswerStream): void {
    if (this.#phase !== "working") {
      stream.close();
      return;
    }
    this.#phase = "streaming";
    this.#served.cells.streamOpened();
    clearTimeout(this.#timer);
    if (this.#deadline !== undefined) this.#arm(timerMsMax);
    const events = {
      toFailure: (thrown: unknown) => toFailure(thrown, this.#served.options.log),
      finished: (code: number) => this.#settle(code),
    };
    this.#pump = new AnswerPump(stream, this.#wire.form, this.#wire, events, this.#served.options.limits.breakOffMs);
    this.#pump.run();
  }

  /** Sets the timer to what comes first, a limit from now or the deadline. */
  #arm(limitMs: number): void {
    clearTimeout(this.#timer);
    const leftMs = this.#deadline === undefined ? limitMs : this.#deadline - performance.now();
    this.#timerIsDeadline = this.#deadline !== undefined && leftMs <= limitMs;
    this.#timer = setTimeout(() => this.#timeIsOver(), Math.min(limitMs, leftMs));
  }

  #timeIsOver(): void {
    if (this.#phase === "streaming") {
      if (this.#timerIsDeadline) this.#pump?.fail(clientDeadlineExceeded());
      else this.#arm(timerMsMax);
      return;
    }
    if (this.#timerIsDeadline) this.#fail(clientDeadlineExceeded());
    else if (this.#phase !== "reading") this.#fail(deadlineExceeded());
    else this.#fail(requestTooSlow(this.#served.options.limits.requestReceiveTimeoutMs));
  }

  #fail(thrown: unknown): void {
    if (this.#phase === "done") return;
    const error = thrown instanceof ProtocolError ? thrown : toFailure(thrown, this.#served.options.log);
    this.#settle(grpcCode(error));
    this.#wire.finish(error, new Map());
    this.abort(error);
  }

  #settle(code: number): void {
    const { cells, method } = this.#served;
    if (this.#phase === "streaming") cells.streamClosed(code);
    else if (method.kind === "unary") cells.answered(code, this.#startedMs);
    else cells.streamRefused(code);
    this.#phase = "done";
    clearTimeout(this.#timer);
  }
}
