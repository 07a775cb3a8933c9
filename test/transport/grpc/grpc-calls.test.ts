import { connect, constants } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  GetMarketRequestSchema,
  ObserveMarketsDepthUpdatesRequestSchema,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { percentEncode } from "../../../src/transport/errors.js";
import { depthMessage } from "./fake-api.js";
import { envelope, grpcOutcome, rawCall, rawCallOn } from "./raw-call.js";
import { type RpcServer, startRpcServer } from "./rpc-server.js";

const getMarketPath = "/datanode.api.v2.TradingDataService/GetMarket";
const observePath = "/datanode.api.v2.TradingDataService/ObserveMarketsDepthUpdates";

function market(marketId: string): Buffer {
  return envelope(0, toBinary(GetMarketRequestSchema, create(GetMarketRequestSchema, { marketId })));
}

function depth(script: string): Buffer {
  const request = create(ObserveMarketsDepthUpdatesRequestSchema, { marketIds: [script] });
  return envelope(0, toBinary(ObserveMarketsDepthUpdatesRequestSchema, request));
}

test.each([
  ["plain text, as it is: ~!", "plain text, as it is: ~!"],
  ["100%", "100%25"],
  ["ü\n€", "%C3%BC%0A%E2%82%AC"],
  ["  spaces at  the ends   ", "%20%20spaces at  the ends%20%20%20"],
  ["half \ud800 pair", "half %EF%BF%BD pair"],
])("grpc-message %j is sent as %j", (message, sent) => {
  expect(percentEncode(message)).toBe(sent);
});

describe("gRPC calls", () => {
  let server: RpcServer;
  beforeAll(async () => {
    server = await startRpcServer({
      headersTimeoutMs: 100,
      requestReceiveTimeoutMs: 100,
      requestBodyBytesMax: 100_000,
    });
  });
  afterEach(() => {
    server.streams.length = 0;
    server.hanging.length = 0;
  });
  afterAll(() => server.close());

  test("answers an error with headers alone", async () => {
    const outcome = await rawCall(server.port, { path: getMarketPath, body: [market("missing")] });
    expect(outcome.headers[":status"]).toBe(200);
    expect(outcome.headers).toMatchObject({ "grpc-status": "5" });
    expect(outcome.trailers).not.toHaveProperty("grpc-status");
  });

  // A client of grpc-go takes headers that do not end the stream for the start of a response.
  test("ends the stream of a method that is not there with its headers", async () => {
    const session = connect(`http://127.0.0.1:${server.port}`);
    const path = "/datanode.api.v2.TradingDataService/Nothing";
    const call = { ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers" };
    const stream = session.request(call);
    const flags = new Promise((resolve) => stream.on("response", (_headers, seen) => resolve(seen)));
    stream.end(market("missing"));
    expect(Number(await flags) & constants.NGHTTP2_FLAG_END_STREAM).toBe(constants.NGHTTP2_FLAG_END_STREAM);
    session.close();
  });

  test("sends a stream's headers before it has a message", async () => {
    const session = connect(`http://127.0.0.1:${server.port}`);
    const stream = session.request({
      ":method": "POST",
      ":path": observePath,
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.end(depth("silent"));
    const headers = await new Promise((resolve) => stream.on("response", resolve));
    expect(headers).toMatchObject({ ":status": 200, "x-first": "one" });
    session.destroy();
    await expect.poll(() => server.streams[0]?.closed).toBeGreaterThan(0);
  });

  test("ends a request that never arrives whole", async () => {
    const whole = market("hot");
    const outcome = grpcOutcome(
      await rawCall(server.port, { path: getMarketPath, body: [whole.subarray(0, 6)], open: true }),
    );
    expect(outcome).toMatchObject({ status: "4", message: "the request did not arrive whole within 100 ms" });
  });

  test("refuses a message by its announced length, before it arrives", async () => {
    const head = Buffer.from([0, 0x7f, 0xff, 0xff, 0xff]);
    const outcome = grpcOutcome(
      await rawCall(server.port, { path: getMarketPath, body: [head, Buffer.alloc(10_000)], open: true }),
    );
    expect(outcome).toMatchObject({
      status: "8",
      message: "message size 2147483647 is larger than configured readMaxBytes 100000",
    });
  });

  test("outlives clients that reset their streams at every moment", async () => {
    const session = connect(`http://127.0.0.1:${server.port}`);
    session.on("error", () => {});
    for (let i = 0; i < 300; i++) {
      const path = i % 2 === 0 ? getMarketPath : observePath;
      const stream = session.request({
        ":method": "POST",
        ":path": path,
        "content-type": "application/grpc",
        te: "trailers",
      });
      stream.on("error", () => {});
      if (i % 3 > 0) stream.write(i % 2 === 0 ? market("later") : depth("later three"));
      if (i % 3 > 1) stream.end();
      const code = i % 5 === 0 ? constants.NGHTTP2_CANCEL : constants.NGHTTP2_INTERNAL_ERROR;
      setTimeout(() => stream.close(code), i % 7);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
    // On a connection of its own: that one may have been cut for its many resets. And more than once, if need be: who
    // is as busy as this process may not send its headers within 100 ms.
    const status = async () =>
      grpcOutcome(await rawCall(server.port, { path: getMarketPath, body: [market("hot")] })).status;
    await expect.poll(status).toBe("0");
    session.destroy();
    await expect.poll(() => server.streams.every((stream) => stream.closed > 0)).toBe(true);
  });

  test("a connection that breaks aborts its calls", async () => {
    const session = connect(`http://127.0.0.1:${server.port}`);
    session.on("error", () => {});
    void rawCallOn(session, { path: getMarketPath, body: [market("hanging")] });
    void rawCallOn(session, { path: observePath, body: [depth("silent")] });
    await expect.poll(() => [server.hanging.length, server.streams.length]).toEqual([1, 1]);
    session.destroy();
    await expect.poll(() => server.hanging[0]?.signal.aborted).toBe(true);
    await expect.poll(() => server.streams[0]?.closed).toBeGreaterThan(0);
  });

  test("all that is there goes out in one DATA frame", async () => {
    const outcome = rawCall(server.port, { path: observePath, body: [depth("open")] });
    await expect.poll(() => server.streams).toHaveLength(1);
    const [stream] = server.streams;
    stream?.give(...Array.from({ length: 20 }, (_, i) => depthMessage(String(i))));
    stream?.end();
    expect((await outcome).messages).toHaveLength(20);
  });

  test("counts calls and streams by status", async () => {
    const metrics = await server.metrics.metrics();
    expect(metrics).toMatch(/marketd_requests_total\{method="GetMarket",protocol="grpc",code="not_found"\} 1\n/);
    expect(metrics).toMatch(
      /marketd_requests_total\{method="ObserveMarketsDepthUpdates",protocol="grpc",code="ok"\} \d+\n/,
    );
    expect(metrics).toMatch(/marketd_streams_open\{method="ObserveMarketsDepthUpdates",protocol="grpc"\} 0\n/);
  });
});
