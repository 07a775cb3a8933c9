import {
  create,
  type DescExtension,
  type DescFile,
  type DescService,
  fromBinary,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
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
import type { AnyRequest, AnyResponse, TransportLimits } from "../options.js";

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

/** An index of the declarations that a set of services needs. */
class DescriptorIndex {
  /** Full names of the services, sorted. */
  readonly services: readonly string[];
  readonly #files = new Map<string, DescFile>();
  readonly #symbols = new Map<string, DescFile>();
  readonly #extensions = new Map<string, Map<number, DescFile>>();
  readonly #encoded = new Map<DescFile, Uint8Array>();

  /** `others` are files that no service imports but clients look up: those of error details. */
  constructor(services: readonly DescService[], others: readonly DescFile[] = []) {
    this.services = [...new Set(services.map((service) => service.typeName))].sort();
    for (const service of services) this.#add(service.file);
    for (const file of others) this.#add(file);
  }

  /** The file of that name, as `import` writes it. */
  file(name: string): DescFile | undefined {
    return this.#files.get(name);
  }

  /** The file that declares a message, field, enum, enum value, extension, service or method. */
  declaring(symbol: string): DescFile | undefined {
    return this.#symbols.get(symbol);
  }

  /** The file that declares an extension of a message. */
  extending(message: string, number: number): DescFile | undefined {
    return this.#extensions.get(message)?.get(number);
  }

  /** The numbers of a message's extensions, ascending; undefined if there is no such message. */
  extensionNumbers(message: string): number[] | undefined {
    const numbers = this.#extensions.get(message);
    if (numbers !== undefined) return [...numbers.keys()].sort((a, b) => a - b);
    return this.#symbols.has(message) ? [] : undefined;
  }

  /** A file and its dependencies as FileDescriptorProto bytes, each before the files that it imports. */
  closure(file: DescFile): Uint8Array[] {
    const importsFirst = new Set<DescFile>();
    const visit = (each: DescFile): void => {
      if (importsFirst.has(each)) return;
      for (const dependency of each.dependencies) visit(dependency);
      importsFirst.add(each);
    };
    visit(file);
    return [...importsFirst].reverse().map((each) => this.#bytes(each));
  }

  #bytes(file: DescFile): Uint8Array {
    let bytes = this.#encoded.get(file);
    if (bytes === undefined) {
      bytes = toBinary(FileDescriptorProtoSchema, file.proto);
      this.#encoded.set(file, bytes);
    }
    return bytes;
  }

  #add(file: DescFile): void {
    if (this.#files.has(file.proto.name)) return;
    this.#files.set(file.proto.name, file);
    for (const dependency of file.dependencies) this.#add(dependency);
    for (const type of nestedTypes(file)) {
      this.#symbols.set(type.typeName, file);
      if (type.kind === "service")
        for (const { name } of type.methods) this.#symbols.set(`${type.typeName}.${name}`, file);
      if (type.kind === "message")
        for (const { name } of type.fields) this.#symbols.set(`${type.typeName}.${name}`, file);
      if (type.kind === "enum") this.#addValues(type.typeName, type.values, file);
      if (type.kind === "extension") this.#addExtension(type, file);
    }
  }

  /** In protobuf's scoping, enum values are siblings of their enum. */
  #addValues(enumName: string, values: readonly { readonly name: string }[], file: DescFile): void {
    const scope = enumName.slice(0, enumName.lastIndexOf(".") + 1);
    for (const { name } of values) this.#symbols.set(`${scope}${name}`, file);
  }

  #addExtension(extension: DescExtension, file: DescFile): void {
    const message = extension.extendee.typeName;
    const numbers = this.#extensions.get(message) ?? new Map<number, DescFile>();
    numbers.set(extension.number, file);
    this.#extensions.set(message, numbers);
  }
}
