import type { MessageShape } from "@bufbuild/protobuf";
import type { ConnectError, ConnectRouter, HandlerContext } from "@connectrpc/connect";
import type { Failure } from "../../domain/failure.js";
import type { AnswerStream, StreamMethod, UnaryMethod } from "../../domain/service.js";
import type { LaneOptions } from "../lane.js";
import type { Protocol, RequestCells } from "../request-metrics.js";
import { grpcCode, toFailure } from "../status.js";
import { answerIterable } from "./answer-iterable.js";
import { breakOff } from "./break-off.js";
import { ConnectCall, carry, peerKey } from "./connect-context.js";
import { toConnectError } from "./connect-error.js";

/** Registers every method of the api. */
export function registerMethods(router: ConnectRouter, options: LaneOptions): void {
  for (const method of options.api) {
    if (method.kind === "unary") router.rpc(method.desc, unaryImplementation(method, options));
    else router.rpc(method.desc, streamImplementation(method, options));
  }
}

/** The one place where what a method throws becomes Connect's error. */
function failed(
  thrown: unknown,
  context: HandlerContext,
  options: LaneOptions,
  count: (code: number) => void,
): ConnectError {
  const failure = toFailure(thrown, options.log);
  count(grpcCode(failure));
  carry(failure.metadata, context);
  return toConnectError(failure, context.protocolName);
}

function unaryImplementation(method: UnaryMethod, options: LaneOptions) {
  const cellsOf = cellsByProtocol(method, options);
  return async (request: MessageShape<typeof method.desc.input>, context: HandlerContext) => {
    const startedMs = performance.now();
    const cells = cellsOf(context);
    const call = new ConnectCall(context);
    try {
      const answer = await call.inTime(() => method.answer(request, call), options.limits.requestTimeoutMs);
      carry(answer.metadata, context);
      cells.answered(0, startedMs);
      return answer.message();
    } catch (thrown) {
      throw failed(thrown, context, options, (code) => cells.answered(code, startedMs));
    }
  };
}

function streamImplementation(method: StreamMethod, options: LaneOptions) {
  const cellsOf = cellsByProtocol(method, options);
  return async function* (request: MessageShape<typeof method.desc.input>, context: HandlerContext) {
    const cells = cellsOf(context);
    const call = new ConnectCall(context);
    let stream: AnswerStream;
    try {
      stream = await call.inTime(() => opening(method, request, call), options.limits.requestTimeoutMs);
    } catch (thrown) {
      throw failed(thrown, context, options, (code) => cells.streamRefused(code));
    }
    const over = countStream(cells, call);
    try {
      for (const [name, value] of stream.headers) context.responseHeader.set(name, value);
      const { response } = context.values.get(peerKey);
      const cut = (failure: Failure): void => response && breakOff(response, failure);
      yield* answerIterable(stream, call, options.limits.breakOffMs, cut);
      for (const [name, value] of stream.trailers) context.responseTrailer.set(name, value);
      over(0);
    } catch (thrown) {
      throw failed(thrown, context, options, over);
    } finally {
      over(1);
    }
  };
}

/** Counts an open stream until it is over, or its call is aborted; only what comes first counts. */
function countStream(cells: RequestCells, call: ConnectCall): (code: number) => void {
  let open = true;
  const over = (code: number): void => {
    if (open) cells.streamClosed(code);
    open = false;
  };
  cells.streamOpened();
  call.signal.addEventListener("abort", () => over(grpcCode(call.signal.reason)), { once: true });
  return over;
}

/** Opens a stream; one that opens after its call was given up is closed. */
function opening(
  method: StreamMethod,
  request: MessageShape<typeof method.desc.input>,
  call: ConnectCall,
): AnswerStream | Promise<AnswerStream> {
  const outcome = method.open(request, call);
  if (outcome instanceof Promise) {
    outcome.then(
      (stream) => call.signal.aborted && stream.close(),
      () => {},
    );
  }
  return outcome;
}

function cellsByProtocol(method: UnaryMethod | StreamMethod, options: LaneOptions) {
  const cells: Readonly<Record<string, RequestCells>> = {
    connect: options.requests.cells(method, "connect"),
    grpc: options.requests.cells(method, "grpc"),
    "grpc-web": options.requests.cells(method, "grpc-web"),
  };
  const fallback: Protocol = "connect";
  return (context: HandlerContext): RequestCells =>
    cells[context.protocolName] ?? options.requests.cells(method, fallback);
}
