import {
  create,
  createRegistry,
  type DescMessage,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  fromBinary,
  fromJson,
  fromJsonString,
  type JsonValue,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { type CallOptions, credentials, Client as GrpcClient, Metadata, type ServiceError } from "@grpc/grpc-js";
import { CallFailure, failureFromJson, failureFromStatus } from "./call-failure.js";
import { envelope, throwStatus, unwrap } from "./envelopes.js";
import { HttpClient } from "./http-client.js";
import { urlOf } from "./rest-paths.js";

/** The ways to call a method of the service. */
export type Protocol = "REST" | "Connect" | "gRPC-Web" | "gRPC";

export const protocols: readonly Protocol[] = ["REST", "Connect", "gRPC-Web", "gRPC"];

/** A response, and what it says of its block. */
export interface Reply<Message> {
  readonly message: Message;
  /** `X-Block-Height`; undefined where the build does not send it. */
  readonly height: number | undefined;
}

/** One client of one protocol, with one connection. */
export interface RpcClient {
  readonly protocol: Protocol;
  /** @throws CallFailure */
  unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    deadlineMs: number,
  ): Promise<Reply<MessageShape<O>>>;
  /**
   * Messages until the stream ends; aborting `signal` hangs up. `opened` hears of the block that the headers name.
   * @throws CallFailure for any end but a good one
   */
  stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    openMs: number,
    signal: AbortSignal,
    opened?: (height: number | undefined) => void,
  ): AsyncGenerator<MessageShape<O>>;
  close(): void;
}

/**
 * @param keepsConnection false: a connection for each call (HTTP/1.1 alone)
 * @param localAddress where it calls from (HTTP/1.1 alone)
 */
export function rpcClient(protocol: Protocol, port: number, keepsConnection = true, localAddress?: string): RpcClient {
  if (protocol === "gRPC") return new GrpcRpcClient(port);
  return new HttpRpcClient(protocol, new HttpClient(port, keepsConnection, localAddress));
}

/** What `X-Block-Height` says. */
export function heightOf(headers: NodeJS.Dict<string | string[] | number>): number | undefined {
  const text = headers["x-block-height"];
  return text === undefined ? undefined : Number(text);
}

function pathOf(method: { readonly parent: { readonly typeName: string }; readonly name: string }): string {
  return `/${method.parent.typeName}/${method.name}`;
}

class HttpRpcClient implements RpcClient {
  constructor(
    readonly protocol: Protocol,
    readonly http: HttpClient,
  ) {}

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    deadlineMs: number,
  ): Promise<Reply<MessageShape<O>>> {
    const message = create(method.input, request);
    if (this.protocol === "gRPC-Web") {
      const { headers, body } = await this.http.exchange({
        ...webRequest(pathOf(method), toBinary(method.input, message)),
        headers: { ...webHeaders, "grpc-timeout": `${deadlineMs}m` },
        deadlineMs,
      });
      if (headers["grpc-status"] !== undefined) throwStatus((name) => textOf(headers[name]));
      for await (const bytes of unwrap(once(body))) {
        return { message: fromBinary(method.output, bytes), height: heightOf(headers) };
      }
      throw new CallFailure("malformed", "a response without a message");
    }
    const asJson = this.protocol === "REST";
    const { status, headers, body } = await this.http.exchange(
      asJson
        ? { path: urlOf(method, message), deadlineMs }
        : {
            method: "POST",
            path: pathOf(method),
            headers: { "content-type": "application/proto", "connect-timeout-ms": String(deadlineMs) },
            body: toBinary(method.input, message),
            deadlineMs,
          },
    );
    if (status !== 200) throw failureFromJson(parsed(body), `status ${status}`);
    const height = heightOf(headers);
    if (!asJson) return { message: fromBinary(method.output, body), height };
    return { message: fromJsonString(method.output, body.toString()), height };
  }

  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    openMs: number,
    signal: AbortSignal,
    opened?: (height: number | undefined) => void,
  ): AsyncGenerator<MessageShape<O>> {
    const message = create(method.input, request);
    if (this.protocol === "REST") {
      const response = await this.http.open({ path: urlOf(method, message), deadlineMs: openMs }, signal);
      opened?.(heightOf(response.headers));
      for await (const line of linesOf(response, response.statusCode ?? 0)) {
        const { result, error } = JSON.parse(line) as { result?: JsonValue; error?: unknown };
        if (result === undefined) throw failureFromJson(error, "the last line of a stream");
        yield fromJson(method.output, result, { registry: inAny });
      }
      return;
    }
    if (this.protocol === "gRPC-Web") {
      const web = webRequest(pathOf(method), toBinary(method.input, message));
      const response = await this.http.open({ ...web, deadlineMs: openMs }, signal);
      opened?.(heightOf(response.headers));
      if (response.headers["grpc-status"] !== undefined) throwStatus((name) => textOf(response.headers[name]));
      for await (const bytes of unwrap(response)) yield fromBinary(method.output, bytes);
      return;
    }
    const response = await this.http.open(
      {
        method: "POST",
        path: pathOf(method),
        headers: { "content-type": "application/connect+proto" },
        body: envelope(toBinary(method.input, message)),
        deadlineMs: openMs,
      },
      signal,
    );
    opened?.(heightOf(response.headers));
    for await (const bytes of unwrap(response)) yield fromBinary(method.output, bytes);
  }

  close(): void {
    this.http.close();
  }
}

/** What an export's `extensions` hold. */
const inAny = createRegistry(StructSchema);

const webHeaders = { "content-type": "application/grpc-web+proto", "x-grpc-web": "1" };

function webRequest(path: string, message: Uint8Array) {
  return { method: "POST", path, headers: webHeaders, body: envelope(message) } as const;
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

function textOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return body.toString().slice(0, 200);
  }
}

/** The lines of a response whose status is 200. @throws CallFailure otherwise, or where the last line has no end */
export async function* linesOf(chunks: AsyncIterable<Buffer>, status: number): AsyncGenerator<string> {
  let held = "";
  for await (const chunk of chunks) {
    const lines = (held + chunk.toString("latin1")).split("\n");
    held = lines.pop() ?? "";
    if (status === 200) yield* lines.filter((line) => line !== "");
    else held = `${lines.join("\n")}${held}`;
  }
  if (status !== 200) throw failureFromJson(parsed(Buffer.from(held)), `status ${status}`);
  if (held !== "") throw new CallFailure("broken", "the last line has no end");
}

/** gRPC waits longer and longer between attempts to connect; a service that is back is to be found at once. */
const channelOptions = {
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.min_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 300,
  "grpc.use_local_subchannel_pool": 1,
  "grpc.max_receive_message_length": -1,
};

class GrpcRpcClient implements RpcClient {
  readonly protocol = "gRPC";
  readonly #client: GrpcClient;

  constructor(port: number) {
    this.#client = new GrpcClient(`127.0.0.1:${port}`, credentials.createInsecure(), channelOptions);
  }

  unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    deadlineMs: number,
  ): Promise<Reply<MessageShape<O>>> {
    return new Promise((resolve, reject) => {
      let height: number | undefined;
      const call = this.#client.makeUnaryRequest(
        pathOf(method),
        Buffer.from,
        (bytes) => fromBinary(method.output, bytes),
        toBinary(method.input, create(method.input, request)),
        new Metadata(),
        deadline(deadlineMs),
        (error, reply) => {
          if (error !== null || reply === undefined) reject(failureOfGrpc(error));
          else resolve({ message: reply, height });
        },
      );
      call.on("metadata", (metadata) => {
        height = heightOf(metadata.toHttp2Headers());
      });
    });
  }

  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    _openMs: number,
    signal: AbortSignal,
    opened?: (height: number | undefined) => void,
  ): AsyncGenerator<MessageShape<O>> {
    const call = this.#client.makeServerStreamRequest(
      pathOf(method),
      Buffer.from,
      (bytes) => fromBinary(method.output, bytes),
      toBinary(method.input, create(method.input, request)),
      new Metadata(),
    );
    call.on("metadata", (metadata: Metadata) => opened?.(heightOf(metadata.toHttp2Headers())));
    const hangUp = () => call.cancel();
    signal.addEventListener("abort", hangUp, { once: true });
    try {
      for await (const message of call) yield message as MessageShape<O>;
    } catch (error) {
      throw failureOfGrpc(error as ServiceError);
    } finally {
      signal.removeEventListener("abort", hangUp);
      call.on("error", () => {});
      call.cancel();
    }
  }

  close(): void {
    this.#client.close();
  }
}

function deadline(ms: number): CallOptions {
  return { deadline: Date.now() + ms };
}

/** What grpc-js reports. The service sends its details with every error, so one without them is the client's own. */
function failureOfGrpc(error: ServiceError | null): CallFailure {
  if (error === null || error.metadata === undefined) return new CallFailure("malformed", String(error));
  const [details] = error.metadata.get("grpc-status-details-bin");
  if (details !== undefined) return failureFromStatus(error.code, error.details, Buffer.from(details));
  if (error.code === 4) return new CallFailure("late", error.details);
  if (error.code === 14) {
    const refused = /ECONNREFUSED|No connection established/.test(error.details);
    return new CallFailure(refused ? "refused" : "broken", error.details);
  }
  if (/RST_STREAM|ECONNRESET|EPIPE|socket/.test(error.details)) return new CallFailure("broken", error.details);
  return new CallFailure("said", error.details, error.code);
}
