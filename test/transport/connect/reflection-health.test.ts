import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { create, createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../../gen/grpc/health/v1/health_pb.js";
import { ServerReflection, type ServerReflectionRequest } from "../../../gen/grpc/reflection/v1/reflection_pb.js";
import { ServerReflection as AlphaReflection } from "../../../gen/grpc/reflection/v1alpha/reflection_pb.js";
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

const grpcurl = [...(process.env["PATH"] ?? "").split(delimiter), join(homedir(), "go", "bin")]
  .map((folder) => join(folder, "grpcurl"))
  .find((path) => existsSync(path));
if (grpcurl === undefined) console.log("grpcurl is not installed: its cases are skipped");

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
