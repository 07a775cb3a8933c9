import type { Message } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import type { OpenApi } from "../api/open-api.js";
import { blockHeaderNames, dataHeaders } from "../domain/block-headers.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import type { Metadata } from "../domain/metadata.js";
import type { Call, ResponseStream, StreamMethod, UnaryMethod } from "../domain/service.js";
import { readableInJson } from "../encoding/json-encoder.js";
import { clientFailure, toConnectError } from "../encoding/status.js";
import type { Log } from "../telemetry/log.js";

/** What handlers are made from. */
export interface RoutesOptions extends Pick<OpenApi, "methods" | "live" | "closed"> {
  readonly log: Log;
  /** The address of a call's client. The database serves clients in turn by it. */
  readonly clientAddress: (context: HandlerContext) => string;
}

/** Registers every method as an ordinary Connect handler. */
export function registerRoutes(router: ConnectRouter, options: RoutesOptions): void {
  for (const method of options.methods) {
    if (method.kind === "unary") {
      router.rpc(method.desc, (request, context) => respond(method, request, context, options));
    } else {
      router.rpc(method.desc, (request, context) => messagesOf(method, request, context, options));
    }
  }
}

async function respond(
  method: UnaryMethod,
  request: Message,
  context: HandlerContext,
  options: RoutesOptions,
): Promise<Message> {
  try {
    const closed = options.closed();
    if (closed !== undefined) throw closed;
    setDataHeaders(context, options);
    const response = await method.invoke(request, callOf(context, options));
    setMetadata(context, response.metadata);
    return response.message();
  } catch (thrown) {
    throw errorOf(thrown, context, options);
  }
}

/** Takes from the stream only when the last message was taken from here, so a slow reader gets merged updates. */
async function* messagesOf(
  method: StreamMethod,
  request: Message,
  context: HandlerContext,
  options: RoutesOptions,
): AsyncGenerator<Message> {
  const { signal } = context;
  let stream: ResponseStream | undefined;
  let wake = (): void => {};
  // A reader that is gone asks for nothing more, so the generator may never go on.
  const close = (): void => {
    stream?.close();
    wake();
  };
  signal.addEventListener("abort", close);
  try {
    setDataHeaders(context, options);
    stream = await method.open(request, callOf(context, options));
    stream.onReady(() => wake());
    if (stream.headers.size > 0) setMetadata(context, { headers: stream.headers, trailers: new Map() });
    for (;;) {
      signal.throwIfAborted();
      const responses = stream.take();
      for (const response of responses) yield messageOf(response, context);
      if (responses.length > 0) continue;
      if (stream.failure !== undefined) throw stream.failure;
      if (stream.ended) break;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    for (const [name, value] of stream.trailers) context.responseTrailer.set(name, value);
  } catch (thrown) {
    throw errorOf(thrown, context, options);
  } finally {
    signal.removeEventListener("abort", close);
    stream?.close();
  }
}

function messageOf(response: EncodedResponse, { requestHeader }: HandlerContext): Message {
  const message = response.message();
  return requestHeader.get("content-type")?.includes("json") ? readableInJson(message) : message;
}

function callOf(context: HandlerContext, { clientAddress }: RoutesOptions): Call {
  const { signal, requestHeader } = context;
  return {
    signal,
    clientAddress: clientAddress(context),
    get requestHeaders() {
      return Object.fromEntries(requestHeader);
    },
    // Messages are made from protobuf bytes.
    codec: "proto",
  };
}

function setDataHeaders({ responseHeader }: HandlerContext, { live }: RoutesOptions): void {
  const fields = dataHeaders(live.newestBlock(), live.blockAgeSeconds());
  for (const [name, value] of Object.entries(fields)) responseHeader.set(name, value);
}

/** Metadata of a response's own names the block of its statement, or none; never the process's newest. */
function setMetadata({ responseHeader, responseTrailer }: HandlerContext, metadata: Metadata | undefined): void {
  if (metadata === undefined) return;
  for (const name of blockHeaderNames) responseHeader.delete(name);
  for (const [name, value] of metadata.headers) responseHeader.set(name, value);
  for (const [name, value] of metadata.trailers) responseTrailer.set(name, value);
}

/** The error of a call for Connect, which tells clients of nothing but its own errors. */
function errorOf(thrown: unknown, context: HandlerContext, { log, closed }: RoutesOptions): ConnectError {
  const { signal, responseHeader, responseTrailer } = context;
  // The deadline passed, the client left, or the caller's server stops; methods then fail in words of their own.
  if (signal.aborted) return ConnectError.from(signal.reason, Code.Canceled);
  const failure = closed() ?? clientFailure(thrown, log);
  for (const [name, value] of failure.metadata?.headers ?? []) responseHeader.set(name, value);
  for (const [name, value] of failure.metadata?.trailers ?? []) responseTrailer.set(name, value);
  return toConnectError(failure);
}
