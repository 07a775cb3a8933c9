import { create, type DescFile, type DescService, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { createConnectRouter } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import {
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import {
  ServerReflection,
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "../../../gen/grpc/reflection/v1/reflection_pb.js";
import {
  ServerReflectionRequestSchema as AlphaRequestSchema,
  ServerReflectionResponseSchema as AlphaResponseSchema,
  ServerReflection as AlphaServerReflection,
} from "../../../gen/grpc/reflection/v1alpha/reflection_pb.js";
import { anyRegistry, jsonWriteOptions } from "../../encoding/json-encoder.js";
import type { AnyRequest, AnyResponse } from "../handler.js";
import type { TransportLimits } from "../limits.js";
import { DescriptorIndex } from "./descriptor-index.js";

type Reply = MessageShape<typeof ServerReflectionResponseSchema>["messageResponse"];

const invalidArgumentCode = 3;
const notFoundCode = 5;

/**
 * `grpc.reflection.v1` and `v1alpha`, with which clients can call the services without their definitions. Its method
 * streams in both directions, which the API's methods do not, so Connect's router serves it.
 * https://github.com/grpc/grpc/blob/master/doc/server-reflection.md
 */
export class ReflectionHandler {
  readonly #handlers: ReadonlyMap<string, UniversalHandler>;
  readonly #limits: TransportLimits;

  constructor(services: readonly DescService[], limits: TransportLimits) {
    this.#limits = limits;
    this.#handlers = new Map(reflectionHandlers(services, limits).map((handler) => [handler.requestPath, handler]));
  }

  serves(path: string): boolean {
    return this.#handlers.has(path);
  }

  /**
   * Serves a POST to a served path. A request that does not end in time is aborted.
   * @throws TypeError for a request without a valid authority
   */
  handle(path: string, request: AnyRequest, response: AnyResponse): void {
    const handler = this.#handlers.get(path);
    if (handler === undefined) throw new RangeError(`no reflection at ${path}`);
    const universal = universalRequestFromNodeRequest(request, response, undefined, undefined);
    const late = setTimeout(() => response.destroy(), this.#limits.requestReceiveTimeoutMs);
    request.on("end", () => clearTimeout(late));
    response.on("close", () => clearTimeout(late));
    handler(universal)
      .then((reply) => universalResponseToNodeResponse(reply, response))
      .catch(() => response.destroy());
  }
}

function reflectionHandlers(services: readonly DescService[], limits: TransportLimits): UniversalHandler[] {
  const router = createConnectRouter({
    acceptCompression: [compressionBrotli, compressionGzip],
    readMaxBytes: limits.requestBodyBytesMax,
    jsonOptions: jsonWriteOptions,
  });
  const index = new DescriptorIndex(
    [...services, ServerReflection, AlphaServerReflection],
    [...anyRegistry].map((type) => type.file),
  );
  router.rpc(ServerReflection.method.serverReflectionInfo, async function* (requests) {
    for await (const request of requests) yield respond(index, request);
  });
  // v1alpha has the same fields in another package, so its bytes are the same.
  router.rpc(AlphaServerReflection.method.serverReflectionInfo, async function* (requests) {
    for await (const request of requests) {
      const asV1 = fromBinary(ServerReflectionRequestSchema, toBinary(AlphaRequestSchema, request));
      yield fromBinary(AlphaResponseSchema, toBinary(ServerReflectionResponseSchema, respond(index, asV1)));
    }
  });
  return router.handlers;
}

function respond(
  index: DescriptorIndex,
  request: ServerReflectionRequest,
): MessageShape<typeof ServerReflectionResponseSchema> {
  return create(ServerReflectionResponseSchema, {
    validHost: request.host,
    originalRequest: request,
    messageResponse: replyTo(index, request.messageRequest),
  });
}

function replyTo(index: DescriptorIndex, question: ServerReflectionRequest["messageRequest"]): Reply {
  switch (question.case) {
    case "fileByFilename":
      return files(index, index.file(question.value), `file "${question.value}"`);
    case "fileContainingSymbol":
      return files(index, index.declaring(question.value), `symbol "${question.value}"`);
    case "fileContainingExtension": {
      const { containingType, extensionNumber } = question.value;
      const file = index.extending(containingType, extensionNumber);
      return files(index, file, `extension ${extensionNumber} of "${containingType}"`);
    }
    case "allExtensionNumbersOfType": {
      const numbers = index.extensionNumbers(question.value);
      if (numbers === undefined) return error(notFoundCode, `message "${question.value}" is not known here`);
      return extensionNumbers(question.value, numbers);
    }
    case "listServices":
      return services(index);
    default:
      return error(invalidArgumentCode, "the request is empty; set one of its message_request fields");
  }
}

function files(index: DescriptorIndex, file: DescFile | undefined, what: string): Reply {
  if (file === undefined) return error(notFoundCode, `${what} is not known here`);
  const value = create(ServerReflectionResponseSchema, {
    messageResponse: { case: "fileDescriptorResponse", value: { fileDescriptorProto: index.closure(file) } },
  });
  return value.messageResponse;
}

function extensionNumbers(baseTypeName: string, extensionNumber: number[]): Reply {
  const value = create(ServerReflectionResponseSchema, {
    messageResponse: { case: "allExtensionNumbersResponse", value: { baseTypeName, extensionNumber } },
  });
  return value.messageResponse;
}

function services(index: DescriptorIndex): Reply {
  const service = index.services.map((name) => ({ name }));
  return create(ServerReflectionResponseSchema, {
    messageResponse: { case: "listServicesResponse", value: { service } },
  }).messageResponse;
}

function error(errorCode: number, errorMessage: string): Reply {
  return create(ServerReflectionResponseSchema, {
    messageResponse: { case: "errorResponse", value: { errorCode, errorMessage } },
  }).messageResponse;
}
