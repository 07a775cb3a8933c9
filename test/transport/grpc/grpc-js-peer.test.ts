import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client, credentials, Metadata, type ServiceError, type StatusObject, status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  GetMarketRequestSchema,
  GetMarketResponseSchema,
  ObserveMarketsDepthUpdatesRequestSchema,
  ObserveMarketsDepthUpdatesResponseSchema,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { Failure } from "../../../src/domain/failure.js";
import { depthMessage } from "./fake-api.js";
import { type RpcServer, startRpcServer } from "./rpc-server.js";

const service = "/datanode.api.v2.TradingDataService";

interface UnaryOutcome {
  readonly marketId: string | undefined;
  readonly error: ServiceError | null;
}

function getMarket(client: Client, marketId: string, timeoutMs?: number): Promise<UnaryOutcome> {
  const options = timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs };
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      `${service}/GetMarket`,
      (id: string) => Buffer.from(toBinary(GetMarketRequestSchema, create(GetMarketRequestSchema, { marketId: id }))),
      (bytes: Buffer) => fromBinary(GetMarketResponseSchema, bytes),
      marketId,
      new Metadata(),
      options,
      (error, response) => resolve({ marketId: response?.market?.id, error }),
    );
  });
}

function observe(client: Client, script: string) {
  return client.makeServerStreamRequest(
    `${service}/ObserveMarketsDepthUpdates`,
    (id: string) => {
      const request = create(ObserveMarketsDepthUpdatesRequestSchema, { marketIds: [id] });
      return Buffer.from(toBinary(ObserveMarketsDepthUpdatesRequestSchema, request));
    },
    (bytes: Buffer) => fromBinary(ObserveMarketsDepthUpdatesResponseSchema, bytes),
    script,
  );
}

describe("grpc-js", () => {
  let server: RpcServer;
  let client: Client;
  beforeAll(async () => {
    server = await startRpcServer({ breakOffMs: 100 });
    client = new Client(`127.0.0.1:${server.port}`, credentials.createInsecure());
  });
  afterEach(() => {
    server.streams.length = 0;
    server.hanging.length = 0;
  });
  afterAll(async () => {
    client.close();
    await server.close();
  });

  test("calls answer, one by one and a hundred at once", async () => {
    expect(await getMarket(client, "hot", 5000)).toEqual({ marketId: "hot", error: null });
    const outcomes = await Promise.all(Array.from({ length: 100 }, () => getMarket(client, "hot", 5000)));
    expect(outcomes.filter((outcome) => outcome.marketId === "hot")).toHaveLength(100);
  });

  test("a response larger than the flow-control windows arrives whole", async () => {
    expect((await getMarket(client, "long 1000000")).marketId).toBe("y".repeat(1_000_000));
  });

  test("the client's address reaches the method", async () => {
    expect((await getMarket(client, "address")).marketId).toBe("127.0.0.1");
  });

  test("an error carries code, message and details", async () => {
    const { error } = await getMarket(client, "missing");
    expect(error?.code).toBe(status.NOT_FOUND);
    expect(error?.details).toBe('no market has the id "missing"');
    expect(error?.metadata.get("grpc-status-details-bin")).toHaveLength(1);
  });

  test("a deadline aborts the method's signal", async () => {
    const { error } = await getMarket(client, "hanging", 50);
    expect(error?.code).toBe(status.DEADLINE_EXCEEDED);
    await expect.poll(() => server.hanging[0]?.signal.aborted).toBe(true);
  });

  test("a client that cancels aborts the method's signal", async () => {
    const call = client.makeUnaryRequest(
      `${service}/GetMarket`,
      () => Buffer.from(toBinary(GetMarketRequestSchema, create(GetMarketRequestSchema, { marketId: "hanging" }))),
      (bytes: Buffer) => bytes,
      undefined,
      () => {},
    );
    await expect.poll(() => server.hanging).toHaveLength(1);
    call.cancel();
    await expect.poll(() => server.hanging[0]?.signal.aborted).toBe(true);
    expect(server.hanging[0]?.signal.reason).toMatchObject({ code: "cancelled", message: "the client left" });
  });

  test("a stream delivers what is given, and its end", async () => {
    const call = observe(client, "open");
    const received: (string | undefined)[] = [];
    call.on("data", (message) => received.push(message.update[0]?.marketId));
    const ended = new Promise<StatusObject>((resolve) => call.on("status", resolve));
    await expect.poll(() => server.streams).toHaveLength(1);
    server.streams[0]?.give(depthMessage("a"));
    await expect.poll(() => received).toEqual(["a"]);
    server.streams[0]?.give(depthMessage("b"), depthMessage("c"));
    await expect.poll(() => received).toEqual(["a", "b", "c"]);
    server.streams[0]?.end();
    const end = await ended;
    expect(end.code).toBe(status.OK);
    expect(end.metadata.get("x-last")).toEqual(["two"]);
    expect(server.streams[0]?.closed).toBeGreaterThan(0);
  });

  test("a stream that fails tells why", async () => {
    const call = observe(client, "open");
    call.on("data", () => {});
    const failed = new Promise<ServiceError>((resolve) => call.on("error", resolve));
    await expect.poll(() => server.streams).toHaveLength(1);
    server.streams[0]?.give(depthMessage("a"));
    server.streams[0]?.fail(new Failure("resource_exhausted", "too many streams", { reason: "STREAMS" }));
    expect(await failed).toMatchObject({ code: status.RESOURCE_EXHAUSTED, details: "too many streams" });
  });

  test("a client that leaves closes the stream", async () => {
    const call = observe(client, "open");
    call.on("error", () => {});
    await expect.poll(() => server.streams).toHaveLength(1);
    server.streams[0]?.give(depthMessage("a"));
    await new Promise((resolve) => call.once("data", resolve));
    call.cancel();
    await expect.poll(() => server.streams[0]?.closed).toBeGreaterThan(0);
  });
});
