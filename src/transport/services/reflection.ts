import {
  create,
  createRegistry,
  type DescEnum,
  type DescExtension,
  type DescFile,
  type DescMessage,
  type DescService,
  type MessageInitShape,
  type Registry,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import {
  ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionRequestSchema,
  type ServerReflectionResponseSchema,
} from "../../../gen/grpc/reflection/v1/reflection_pb.js";
import { ServerReflection as AlphaServerReflection } from "../../../gen/grpc/reflection/v1alpha/reflection_pb.js";
import { quotaKey } from "../../domain/client-address.js";
import { QuotaShare } from "../../domain/client-quota.js";
import { type Failure, type FailureCode, repeated } from "../../domain/failure.js";
import { type Api, bidiStreaming, type RequestStream, type ResponseStream } from "../../domain/service.js";
import { anyRegistry } from "../../encoding/json-encoder.js";
import { MessageResponse, ReadyResponse } from "../../encoding/message-response.js";
import { grpcCode } from "../../encoding/status.js";
import { countUnread } from "../connections/unread-responses.js";

/** Bytes of responses that the streams of one client may leave unread: some hundred of the longest. */
export const unreadBytesPerClientMax = 16_777_216;

/** The same of all clients of a process, in bytes. */
export const unreadBytesMax = 134_217_728;

/**
 * `grpc.reflection.v1` and `v1alpha`, with which clients can call the services without their definitions. A question is
 * answered when its response can be written, so that a client which reads nothing costs little.
 * https://github.com/grpc/grpc/blob/master/doc/server-reflection.md
 */
export function reflectionMethods(services: readonly DescService[]): Api {
  const files = [...anyRegistry].map((type) => type.file);
  const index = new DescriptorIndex([...services, ServerReflection, AlphaServerReflection], files);
  const unread = countUnread(unreadBytesPerClientMax, unreadBytesMax);
  // v1alpha has the same fields in another package.
  const versions = [ServerReflection, AlphaServerReflection as unknown as typeof ServerReflection];
  return versions.map(({ method: { serverReflectionInfo: desc } }) =>
    bidiStreaming(desc, (requests, { clientAddress, codec = "json" }) => {
      const respond = (originalRequest: ServerReflectionRequest): ReflectionResponse => {
        const messageResponse = replyTo(originalRequest.messageRequest, index);
        const message = create(desc.output, { validHost: originalRequest.host, originalRequest, messageResponse });
        return new ReadyResponse(new MessageResponse(desc.output, message), codec);
      };
      return new ReflectionStream(requests, respond, new QuotaShare(unread, quotaKey(clientAddress)));
    }),
  );
}

type ReflectionResponse = ReadyResponse<typeof ServerReflectionResponseSchema>;

/** One response for each request, made when the one before has been taken. */
class ReflectionStream implements ResponseStream<typeof ServerReflectionResponseSchema> {
  readonly headers: ReadonlyMap<string, string> = new Map();
  readonly trailers: ReadonlyMap<string, string> = new Map();

  constructor(
    private readonly requests: RequestStream<typeof ServerReflectionRequestSchema>,
    private readonly respond: (request: ServerReflectionRequest) => ReflectionResponse,
    private readonly unread: QuotaShare,
  ) {}

  get ended(): boolean {
    return this.requests.ended;
  }

  get failure(): Failure | undefined {
    return this.requests.failure;
  }

  take(): readonly ReflectionResponse[] {
    this.unread.remove();
    const request = this.requests.take();
    if (request === undefined) return [];
    const response = this.respond(request);
    this.unread.add(response.bytes.length);
    return [response];
  }

  onReady(listener: () => void): void {
    this.requests.onReady(listener);
  }

  close(): void {
    this.requests.close();
    this.unread.remove();
  }
}

type Reply = NonNullable<MessageInitShape<typeof ServerReflectionResponseSchema>["messageResponse"]>;

function replyTo(question: ServerReflectionRequest["messageRequest"], index: DescriptorIndex): Reply {
  const files = (file: DescFile | undefined, what: string): Reply => {
    if (file === undefined) return notKnown(what);
    return { case: "fileDescriptorResponse", value: { fileDescriptorProto: index.closure(file) } };
  };
  switch (question.case) {
    case "fileByFilename":
      return files(index.file(question.value), `file "${repeated(question.value)}"`);
    case "fileContainingSymbol":
      return files(index.declaring(question.value), `symbol "${repeated(question.value)}"`);
    case "fileContainingExtension": {
      const { containingType, extensionNumber } = question.value;
      const file = index.extending(containingType, extensionNumber);
      return files(file, `extension ${extensionNumber} of "${repeated(containingType)}"`);
    }
    case "allExtensionNumbersOfType": {
      const baseTypeName = question.value;
      const extensionNumber = index.extensionNumbers(baseTypeName);
      if (extensionNumber === undefined) return notKnown(`message "${repeated(baseTypeName)}"`);
      return { case: "allExtensionNumbersResponse", value: { baseTypeName, extensionNumber } };
    }
    case "listServices":
      return { case: "listServicesResponse", value: { service: index.services.map((name) => ({ name })) } };
    default:
      return error("invalid_argument", "the request is empty; set one of its message_request fields");
  }
}

function notKnown(what: string): Reply {
  return error("not_found", `${what} is not known here`);
}

function error(code: FailureCode, errorMessage: string): Reply {
  return { case: "errorResponse", value: { errorCode: grpcCode({ code }), errorMessage } };
}

/** The declarations that a set of services needs. */
class DescriptorIndex {
  /** Full names of the services, sorted. */
  readonly services: readonly string[];
  readonly #files: ReadonlyMap<string, DescFile>;
  readonly #types: Registry;
  /** The files of fields, enum values and methods, by full name. */
  readonly #members = new Map<string, DescFile>();
  readonly #closures = new Map<DescFile, Uint8Array[]>();

  /** `others` are files that no service imports but clients look up: those of error details. */
  constructor(services: readonly DescService[], others: readonly DescFile[] = []) {
    this.services = [...new Set(services.map((service) => service.typeName))].sort();
    const files = [...importsFirst([...services.map((service) => service.file), ...others])];
    this.#files = new Map(files.map((file) => [file.proto.name, file]));
    this.#types = createRegistry(...files);
    for (const type of this.#types) {
      for (const name of memberNames(type)) this.#members.set(name, type.file);
    }
  }

  /** The file of that name, as `import` writes it. */
  file(name: string): DescFile | undefined {
    return this.#files.get(name);
  }

  /** The file that declares a message, field, enum, enum value, extension, service or method. */
  declaring(symbol: string): DescFile | undefined {
    return this.#types.get(symbol)?.file ?? this.#members.get(symbol);
  }

  /** The file that declares an extension of a message. */
  extending(message: string, number: number): DescFile | undefined {
    const extendee = this.#types.getMessage(message);
    return extendee && this.#types.getExtensionFor(extendee, number)?.file;
  }

  /** The numbers of a message's extensions, ascending; undefined if there is no such message. */
  extensionNumbers(message: string): number[] | undefined {
    if (this.#types.getMessage(message) === undefined) return undefined;
    const extensions = [...this.#types].filter((type) => type.kind === "extension");
    const ofMessage = extensions.filter(({ extendee }) => extendee.typeName === message);
    return ofMessage.map(({ number }) => number).sort((a, b) => a - b);
  }

  /** A file and its dependencies as FileDescriptorProto bytes, each before the files that it imports. Made once. */
  closure(file: DescFile): Uint8Array[] {
    const known = this.#closures.get(file);
    if (known !== undefined) return known;
    const closure = [...importsFirst([file])].reverse().map((each) => toBinary(FileDescriptorProtoSchema, each.proto));
    this.#closures.set(file, closure);
    return closure;
  }
}

/** Files and their dependencies, each behind the files that it imports. */
function importsFirst(files: readonly DescFile[], found = new Set<DescFile>()): ReadonlySet<DescFile> {
  for (const file of files) {
    if (found.has(file)) continue;
    importsFirst(file.dependencies, found);
    found.add(file);
  }
  return found;
}

/** The full names of what a type declares inside. In protobuf's scoping, enum values are siblings of their enum. */
function memberNames(type: DescMessage | DescEnum | DescExtension | DescService): string[] {
  if (type.kind === "message") return type.fields.map(({ name }) => `${type.typeName}.${name}`);
  if (type.kind === "service") return type.methods.map(({ name }) => `${type.typeName}.${name}`);
  if (type.kind === "extension") return [];
  const scope = type.typeName.slice(0, type.typeName.lastIndexOf(".") + 1);
  return type.values.map(({ name }) => `${scope}${name}`);
}
