import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { getDefaultHighWaterMark } from "node:stream";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { queryObjects } from "node:v8";
import { create, createFileRegistry, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.js";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../../gen/grpc/health/v1/health_pb.js";
import {
  ServerReflectionRequestSchema as RequestSchema,
  ServerReflection,
  type ServerReflectionRequest,
  ServerReflectionResponseSchema,
} from "../../../gen/grpc/reflection/v1/reflection_pb.js";
import { ServerReflection as AlphaReflection } from "../../../gen/grpc/reflection/v1alpha/reflection_pb.js";
import { heldRequests, requestBytesPerClientMax } from "../../../src/transport/call/event-loop.js";
import { envelope } from "../../../src/transport/call/framing.js";
import { BidiCall } from "../../../src/transport/call/server-call.js";
import type { TransportLimits } from "../../../src/transport/options.js";
import { unreadBytesPerClientMax } from "../../../src/transport/services/reflection.js";
import {
  data,
  FrameConnection,
  flag,
  frameType,
  headers,
  ping,
  postFields,
  setting,
} from "../../support/http2-frames.js";
import { partnerProgram } from "../../support/partners.js";
import { type RpcServer, startRpcServer } from "../grpc/rpc-server.js";

let server: RpcServer;
let baseUrl: string;
beforeAll(async () => {
  server = await startRpcServer();
  baseUrl = `http://127.0.0.1:${server.port}`;
});
afterAll(() => server.close());

const serviceName = "datanode.api.v2.TradingDataService";

describe("grpc.health.v1", () => {
  test("Check follows the readiness, for the server and its services", async () => {
    const client = createClient(Health, createGrpcTransport({ baseUrl }));
    expect((await client.check({})).status).toBe(Status.SERVING);
    expect((await client.check({ service: serviceName })).status).toBe(Status.SERVING);
    server.readiness = "loading";
    expect((await client.check({ service: serviceName })).status).toBe(Status.NOT_SERVING);
    server.readiness = "ready";
  });

  test("Check of an unknown service is NOT_FOUND", async () => {
    const client = createClient(Health, createGrpcTransport({ baseUrl }));
    const error = ConnectError.from(await client.check({ service: "other" }).catch((thrown: unknown) => thrown));
    expect(error.code).toBe(Code.NotFound);
    expect(error.rawMessage).toBe('service: no service has the name "other" here');
  });

  test("Watch tells each change, and ends when the server drains", async () => {
    const client = createClient(Health, createGrpcTransport({ baseUrl }));
    const seen: Status[] = [];
    const watching = (async () => {
      for await (const { status } of client.watch({ service: serviceName })) seen.push(status);
    })().catch((thrown: unknown) => ConnectError.from(thrown).code);
    await expect.poll(() => seen).toEqual([Status.SERVING]);
    server.readiness = "loading";
    await expect.poll(() => seen).toEqual([Status.SERVING, Status.NOT_SERVING]);
    server.readiness = "ready";
    await expect.poll(() => seen).toHaveLength(3);
    server.readiness = "draining";
    expect(await watching).toBe(Code.Unavailable);
    expect(seen).toEqual([Status.SERVING, Status.NOT_SERVING, Status.SERVING, Status.NOT_SERVING]);
    server.readiness = "ready";
  });

  test("Watch of an unknown service says so", async () => {
    const client = createClient(Health, createGrpcTransport({ baseUrl }));
    for await (const { status } of client.watch({ service: "other" })) {
      expect(status).toBe(Status.SERVICE_UNKNOWN);
      break;
    }
  });
});

type Question = ServerReflectionRequest["messageRequest"];

async function ask(...questions: Question[]) {
  const client = createClient(ServerReflection, createGrpcTransport({ baseUrl }));
  async function* requests() {
    for (const messageRequest of questions) yield { host: "here", messageRequest };
  }
  const responses = [];
  for await (const reply of client.serverReflectionInfo(requests())) responses.push(reply);
  return responses;
}

describe("grpc.reflection", () => {
  test("lists the services", async () => {
    const [reply] = await ask({ case: "listServices", value: "" });
    expect(reply).toMatchObject({ validHost: "here", originalRequest: { host: "here" } });
    expect(
      reply?.messageResponse.case === "listServicesResponse" && reply.messageResponse.value.service.map((s) => s.name),
    ).toEqual([
      serviceName,
      "grpc.health.v1.Health",
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
    ]);
  });

  test.each<Question>([
    { case: "fileContainingSymbol", value: serviceName },
    { case: "fileContainingSymbol", value: `${serviceName}.GetMarket` },
    { case: "fileContainingSymbol", value: "datanode.api.v2.GetMarketRequest" },
    { case: "fileContainingSymbol", value: "datanode.api.v2.GetMarketRequest.market_id" },
    { case: "fileContainingSymbol", value: "vega.Market.State" },
    { case: "fileContainingSymbol", value: "vega.Market.STATE_ACTIVE" },
    { case: "fileByFilename", value: "datanode/api/v2/trading_data.proto" },
    {
      case: "fileContainingExtension",
      value: {
        $typeName: "grpc.reflection.v1.ExtensionRequest",
        containingType: "google.protobuf.MethodOptions",
        extensionNumber: 72295728,
      },
    },
  ])("$case $value gives files that stand for themselves", async (question) => {
    const [reply] = await ask(question);
    const response = reply?.messageResponse;
    if (response?.case !== "fileDescriptorResponse") throw new Error(`got ${response?.case}`);
    const file: FileDescriptorProto[] = response.value.fileDescriptorProto.map((bytes) =>
      fromBinary(FileDescriptorProtoSchema, bytes),
    );
    const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: file.reverse() }));
    const symbol = question.case === "fileContainingSymbol" ? question.value : "google.protobuf.MethodOptions";
    expect(registry.get(symbol) ?? registry.get(symbol.slice(0, symbol.lastIndexOf(".")))).toBeDefined();
  });

  test("several questions on one stream, unknown things among them", async () => {
    const responses = await ask(
      { case: "fileByFilename", value: "none.proto" },
      { case: "fileContainingSymbol", value: "no.Such" },
      { case: "allExtensionNumbersOfType", value: "google.protobuf.MethodOptions" },
      { case: "allExtensionNumbersOfType", value: "no.Such" },
      { case: undefined },
    );
    expect(responses.map((reply) => reply.messageResponse)).toMatchObject([
      { case: "errorResponse", value: { errorCode: 5, errorMessage: 'file "none.proto" is not known here' } },
      { case: "errorResponse", value: { errorCode: 5, errorMessage: 'symbol "no.Such" is not known here' } },
      { case: "allExtensionNumbersResponse", value: { extensionNumber: [72295728] } },
      { case: "errorResponse", value: { errorCode: 5, errorMessage: 'message "no.Such" is not known here' } },
      { case: "errorResponse", value: { errorCode: 3 } },
    ]);
  });

  test("v1alpha answers the same", async () => {
    const client = createClient(AlphaReflection, createGrpcTransport({ baseUrl }));
    async function* requests() {
      yield { messageRequest: { case: "listServices" as const, value: "" } };
    }
    for await (const reply of client.serverReflectionInfo(requests())) {
      expect(reply.messageResponse).toMatchObject({ case: "listServicesResponse" });
      expect(reply.messageResponse.case === "listServicesResponse" && reply.messageResponse.value.service).toHaveLength(
        4,
      );
    }
  });
});

const question = { host: "here", messageRequest: { case: "fileContainingSymbol" as const, value: serviceName } };

/** The failure of a stream of reflection after its responses. */
async function reflectionOutcome(port: number, requests: AsyncIterable<MessageInitShape<typeof RequestSchema>>) {
  const client = createClient(ServerReflection, createGrpcTransport({ baseUrl: `http://127.0.0.1:${port}` }));
  let responses = 0;
  try {
    for await (const _ of client.serverReflectionInfo(requests)) responses++;
  } catch (thrown) {
    const error = ConnectError.from(thrown);
    const [info] = error.findDetails(ErrorInfoSchema);
    return { responses, code: error.code, reason: info?.reason };
  }
  return { responses };
}

describe("reflection keeps to limits", () => {
  const limited = async (limits: Partial<TransportLimits>): Promise<RpcServer> => {
    const own = await startRpcServer(limits);
    onTestFinished(() => own.close());
    return own;
  };
  const exhausted = { code: Code.ResourceExhausted };

  test("over every protocol and codec, the same responses", async () => {
    const transports = [true, false].flatMap((useBinaryFormat) => {
      const options = { baseUrl, useBinaryFormat, httpVersion: "2" as const };
      return [createGrpcTransport(options), createGrpcWebTransport(options), createConnectTransport(options)];
    });
    const [first, ...others] = await Promise.all(
      transports.map(async (transport) => {
        const stream = createClient(ServerReflection, transport).serverReflectionInfo(twice(question));
        const responses = [];
        for await (const response of stream) responses.push(response);
        return responses;
      }),
    );
    expect(first).toHaveLength(2);
    expect(first?.[0]).toMatchObject({ validHost: "here", originalRequest: question });
    for (const other of others) expect(other).toEqual(first);
  });

  async function* twice<T>(value: T): AsyncGenerator<T> {
    yield value;
    yield value;
  }

  test("on the number of requests of a stream", async () => {
    const own = await limited({ streamedRequestsMax: 20 });
    async function* requests() {
      for (let n = 0; n < 30; n++) yield question;
    }
    expect(await reflectionOutcome(own.port, requests())).toMatchObject({ ...exhausted, reason: "TOO_MANY_REQUESTS" });
  });

  test("on the length of a request", async () => {
    async function* requests() {
      yield question;
      yield { host: "x".repeat(70_000) };
    }
    expect(await reflectionOutcome(server.port, requests())).toMatchObject(exhausted);
  });

  test("on silence, which begins when everything is answered", async () => {
    const own = await limited({ requestStreamIdleMs: 300 });
    async function* requests() {
      for (let n = 0; n < 4; n++) {
        yield question;
        await sleep(200);
      }
      await sleep(2_000);
    }
    const outcome = await reflectionOutcome(own.port, requests());
    expect(outcome).toEqual({ responses: 4, ...exhausted, reason: "STREAM_IDLE" });
  });

  test("on streams of one address", async () => {
    const own = await limited({ streamsPerAddressMax: 2 });
    const gone = new AbortController();
    async function* requests() {
      yield question;
      await sleep(10_000, undefined, { signal: gone.signal }).catch(() => {});
    }
    const open = [reflectionOutcome(own.port, requests()), reflectionOutcome(own.port, requests())];
    const text = async (): Promise<string> => (await fetch(`http://127.0.0.1:${own.port}/metrics`)).text();
    await expect.poll(text).toMatch(/streams_open\{method="ServerReflectionInfo",protocol="grpc"\} 2/);
    const third = await reflectionOutcome(own.port, requests());
    expect(third).toEqual({ responses: 0, ...exhausted, reason: "TOO_MANY_STREAMS_OF_CLIENT" });
    gone.abort();
    expect(await Promise.all(open)).toEqual([{ responses: 1 }, { responses: 1 }]);
  });

  /** Opens streams that ask `message`, and never reads a response. */
  const unread = async (port: number, streams: number, message: Buffer): Promise<FrameConnection> => {
    // With a window of 0, not even an error without data could leave.
    const connection = await FrameConnection.open(port, { settings: [[setting.initialWindowSize, 1]] });
    onTestFinished(() => connection.close());
    const path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    for (let n = 0; n < streams; n++) {
      connection.send(headers(2 * n + 1, postFields(path, "application/grpc")));
      connection.send(data(2 * n + 1, message));
      // The server's window of a connection is 64 KiB.
      if (n % 100 === 99) await sleep(50);
    }
    return connection;
  };

  test("a stream that was refused leaves nothing behind", async () => {
    const own = await limited({ streamsPerAddressMax: 2 });
    const before = queryObjects(BidiCall, { format: "count" });
    const connection = await unread(
      own.port,
      40,
      envelope(0, toBinary(RequestSchema, create(RequestSchema, question))),
    );
    await connection.frame(({ streamId, flags }) => streamId === 2 * 39 + 1 && (flags & flag.endStream) !== 0);
    connection.close();
    // 38 were refused. V8 may keep the last few that it saw on its stack.
    await expect
      .poll(() => queryObjects(BidiCall, { format: "count" }), { timeout: 5_000 })
      .toBeLessThanOrEqual(before + 8);
  });

  test("on requests that wait for a reader", async () => {
    const own = await limited({ breakOffMs: 50 });
    const others = requestBytesPerClientMax - 10_000;
    heldRequests.add("127.0.0.1", others);
    onTestFinished(() => heldRequests.remove("127.0.0.1", others));
    const asked = envelope(0, toBinary(RequestSchema, create(RequestSchema, { host: "x".repeat(2_000) })));
    // The first responses are written, and wait: Node's streams hold 16 or, since Node 22, 64 KiB.
    const files = envelope(0, toBinary(RequestSchema, create(RequestSchema, question)));
    const connection = await unread(own.port, 1, Buffer.concat(Array<Uint8Array>(32).fill(files)));
    // One request is served in each turn of the loop, and after a slow one some turns later. What is refused before a
    // response waits is not reset, but told behind that response.
    connection.send(ping());
    await connection.frame(({ type, flags }) => type === frameType.ping && flags === flag.ack);
    for (let turn = 0; turn < 32; turn++) await setImmediate();
    for (let n = 0; n < 7; n++) connection.send(data(1, asked));
    const reset = await connection.frame(({ type, streamId }) => type === frameType.rstStream && streamId === 1);
    expect(reset?.payload.readUInt32BE()).toBe(11);
  });

  // Where Node's streams hold 64 KiB, one response never waits for its reader.
  const holdsOneResponse = getDefaultHighWaterMark(false) < 20_000;
  test.runIf(holdsOneResponse)("on bytes that one client leaves unread", async () => {
    const own = await limited({});
    const message = toBinary(RequestSchema, create(RequestSchema, question));
    const connection = await unread(own.port, 900, envelope(0, message));
    const [reply] = await ask(question.messageRequest);
    const bytes = toBinary(ServerReflectionResponseSchema, reply ?? create(ServerReflectionResponseSchema)).length;
    const fit = Math.floor(unreadBytesPerClientMax / bytes);
    expect(fit).toBeLessThan(800);
    await connection.frame(({ streamId, flags }) => streamId === 2 * 899 + 1 && (flags & flag.endStream) !== 0);
    // The last stream's refusal may come before another's.
    const refused = () => connection.frames.filter(({ type, flags }) => type === 1 && (flags & flag.endStream) !== 0);
    await expect.poll(() => refused().length, { timeout: 5_000 }).toBe(900 - fit);
    // What is given up is given back.
    connection.close();
    await expect.poll(async () => (await reflectionOutcome(own.port, twice(question))).responses).toBe(2);
  });
});

const grpcurl = partnerProgram("grpcurl");

describe.skipIf(grpcurl === undefined)("grpcurl, without any definitions", () => {
  const run = async (...args: string[]): Promise<string> => {
    const { stdout } = await promisify(execFile)(grpcurl ?? "", ["-plaintext", ...args]);
    return stdout;
  };

  test("lists, describes and calls", async () => {
    const address = `127.0.0.1:${server.port}`;
    expect(await run(address, "list")).toContain(serviceName);
    expect(await run(address, "describe", `${serviceName}.GetMarket`)).toContain("/api/v2/market/{market_id}");
    const reply = await run("-d", '{"marketId":"hot"}', address, `${serviceName}/GetMarket`);
    expect(JSON.parse(reply)).toEqual({ market: { id: "hot", decimalPlaces: "5", lpPriceRange: "0.5" } });
    const stream = await run("-d", '{"marketIds":["three"]}', address, `${serviceName}/ObserveMarketsDepthUpdates`);
    expect(stream.match(/"sequenceNumber": "18446744073709551615"/g)).toHaveLength(3);
    expect(await run(address, "grpc.health.v1.Health/Check")).toContain('"SERVING"');
  });

  test("shows an error with its details", async () => {
    const call = run("-d", '{"marketId":"invalid"}', `127.0.0.1:${server.port}`, `${serviceName}/GetMarket`);
    const error: unknown = await call.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ stderr: expect.stringContaining("Code: InvalidArgument") });
    expect(error).toMatchObject({ stderr: expect.stringContaining('"field": "marketId"') });
  });
});

const grpcui = partnerProgram("grpcui");

describe.skipIf(grpcui === undefined)("grpcui, without any definitions", () => {
  test("shows the services in its page, describes methods and calls them", async () => {
    const args = ["-plaintext", "-open-browser=false", "-bind", "127.0.0.1", "-port", "0", `127.0.0.1:${server.port}`];
    const child = spawn(grpcui ?? "", args, { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    const [url = ""] = /http:\S+/.exec(line.toString()) ?? [];
    const page = await fetch(url);
    expect(await page.text()).toContain(`${serviceName}.ObserveMarketsDepthUpdates`);
    const [cookie = ""] = page.headers.getSetCookie();
    const [, token = ""] = /=([^;]+)/.exec(cookie) ?? [];
    const fields = { cookie, "x-grpcui-csrf-token": token, "content-type": "application/json" };
    const described = await fetch(`${url}metadata?method=${serviceName}.GetMarket`, { headers: fields });
    expect(await described.text()).toContain('"protoName": "market_id"');
    const body = JSON.stringify({ metadata: [], data: [{ marketId: "hot" }] });
    const called = await fetch(`${url}invoke/${serviceName}.GetMarket`, { method: "POST", headers: fields, body });
    expect(await called.json()).toMatchObject({ error: null, responses: [{ message: { market: { id: "hot" } } }] });
  });
});
