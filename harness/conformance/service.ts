import { setTimeout as sleep } from "node:timers/promises";
import { create, createRegistry, type DescMessage, type MessageShape, toJsonString } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { parseTimeout } from "@connectrpc/connect/protocol-grpc";
import type { EncodedResponse } from "../../src/domain/encoded-response.js";
import type { Failure } from "../../src/domain/failure.js";
import type { Metadata, RequestHeaders } from "../../src/domain/metadata.js";
import { type Api, type Call, type ResponseStream, serverStreaming, unary } from "../../src/domain/service.js";
import { jsonWriteOptions } from "../../src/encoding/json-encoder.js";
import { MessageResponse } from "../../src/encoding/message-response.js";
import { definedFailure } from "./defined-failure.js";
import {
  type ConformancePayload_RequestInfo,
  ConformancePayload_RequestInfoSchema,
  ConformancePayloadSchema,
  ConformanceService,
  file_connectrpc_conformance_v1_service,
  type Header,
  type IdempotentUnaryRequest,
  IdempotentUnaryRequestSchema,
  IdempotentUnaryResponseSchema,
  type ServerStreamRequest,
  ServerStreamRequestSchema,
  ServerStreamResponseSchema,
  type UnaryRequest,
  UnaryRequestSchema,
  UnaryResponseSchema,
} from "./gen/connectrpc/conformance/v1/service_pb.js";

type RequestInfo = ConformancePayload_RequestInfo;

const registry = createRegistry(file_connectrpc_conformance_v1_service);

/** The methods of the suite that have one request: what a request defines as its response is what it gets. */
export const conformanceApi: Api = [
  unary(ConformanceService.method.unary, async (request, call) => {
    const info = requestInfo(UnaryRequestSchema, request, call);
    const { payload, metadata } = await unaryResponse(request, info, call);
    return new DefinedResponse(UnaryResponseSchema, create(UnaryResponseSchema, { payload }), { metadata });
  }),
  unary(ConformanceService.method.idempotentUnary, async (request, call) => {
    const info = requestInfo(IdempotentUnaryRequestSchema, request, call);
    const { payload, metadata } = await unaryResponse(request, info, call);
    return new DefinedResponse(IdempotentUnaryResponseSchema, create(IdempotentUnaryResponseSchema, { payload }), {
      metadata,
    });
  }),
  serverStreaming(ConformanceService.method.serverStream, (request, call) => {
    return new DefinedStream(request, requestInfo(ServerStreamRequestSchema, request, call));
  }),
];

/** A response whose JSON may hold the suite's own messages in an Any. */
class DefinedResponse<S extends DescMessage> extends MessageResponse<S> {
  override jsonText(): string {
    return toJsonString(this.schema, this.message(), { ...jsonWriteOptions, registry });
  }
}

/** @throws Failure where the request defines one */
async function unaryResponse(request: UnaryRequest | IdempotentUnaryRequest, info: RequestInfo, call: Call) {
  const { responseDefinition: definition } = request;
  const metadata = metadataOf(definition?.responseHeaders, definition?.responseTrailers);
  if (definition !== undefined && definition.responseDelayMs > 0) {
    await sleep(definition.responseDelayMs, undefined, { signal: call.signal });
  }
  const response = definition?.response;
  if (response?.case === "error") throw definedFailure(response.value, info, metadata);
  const data = response?.case === "responseData" ? response.value : new Uint8Array();
  return { payload: create(ConformancePayloadSchema, { data, requestInfo: info }), metadata };
}

/** Gives the messages that a request defines, one after another with the defined delay before each, and the defined end. */
class DefinedStream implements ResponseStream<typeof ServerStreamResponseSchema> {
  readonly headers: ReadonlyMap<string, string>;
  readonly trailers: ReadonlyMap<string, string>;
  ended = false;
  failure: Failure | undefined;
  readonly #ready: EncodedResponse<typeof ServerStreamResponseSchema>[] = [];
  readonly #closed = new AbortController();
  #listener: () => void = () => {};

  /** @throws Failure where the request defines one and no message before it */
  constructor(request: ServerStreamRequest, info: RequestInfo) {
    const { responseDefinition: definition } = request;
    const metadata = metadataOf(definition?.responseHeaders, definition?.responseTrailers);
    this.headers = metadata.headers;
    this.trailers = metadata.trailers;
    const data = definition?.responseData ?? [];
    const error = definition?.error;
    if (error !== undefined && data.length === 0) throw definedFailure(error, info, metadata);
    const failure = error === undefined ? undefined : definedFailure(error, undefined, metadata);
    this.#run(data, info, definition?.responseDelayMs ?? 0, failure).catch(() => {});
  }

  take(): readonly EncodedResponse<typeof ServerStreamResponseSchema>[] {
    return this.#ready.splice(0);
  }

  onReady(listener: () => void): void {
    this.#listener = listener;
  }

  close(): void {
    this.#closed.abort();
  }

  async #run(
    data: readonly Uint8Array[],
    info: RequestInfo,
    delayMs: number,
    failure: Failure | undefined,
  ): Promise<void> {
    let requestInfo: RequestInfo | undefined = info;
    for (const each of data) {
      if (delayMs > 0) await sleep(delayMs, undefined, { signal: this.#closed.signal });
      const payload = { data: each, ...(requestInfo === undefined ? {} : { requestInfo }) };
      const message = create(ServerStreamResponseSchema, { payload });
      this.#ready.push(new DefinedResponse(ServerStreamResponseSchema, message));
      requestInfo = undefined;
      this.#listener();
    }
    this.failure = failure;
    this.ended = true;
    this.#listener();
  }
}

function requestInfo<S extends DescMessage>(schema: S, request: MessageShape<S>, call: Call): RequestInfo {
  const timeoutMs = timeoutOf(call.requestHeaders);
  return create(ConformancePayload_RequestInfoSchema, {
    requestHeaders: Object.entries(call.requestHeaders).flatMap(([name, value]) => {
      if (value === undefined || name.startsWith(":")) return [];
      return [{ name, value: typeof value === "string" ? [value] : [...value] }];
    }),
    requests: [anyPack(schema, request)],
    ...(timeoutMs === undefined ? {} : { timeoutMs: BigInt(Math.floor(timeoutMs)) }),
  });
}

function timeoutOf(headers: RequestHeaders): number | undefined {
  const { "grpc-timeout": grpc, "connect-timeout-ms": connect } = headers;
  if (typeof grpc === "string") return parseTimeout(grpc, Number.POSITIVE_INFINITY).timeoutMs;
  return typeof connect === "string" ? Number(connect) : undefined;
}

function metadataOf(headers: readonly Header[] = [], trailers: readonly Header[] = []): Metadata {
  return { headers: fields(headers), trailers: fields(trailers) };
}

function fields(headers: readonly Header[]): ReadonlyMap<string, string> {
  const joined = new Map<string, string>();
  for (const { name, value } of headers) {
    const key = name.toLowerCase();
    const before = joined.get(key);
    joined.set(key, [...(before === undefined ? [] : [before]), ...value].join(", "));
  }
  return joined;
}
