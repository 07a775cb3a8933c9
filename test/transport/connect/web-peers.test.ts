import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import {
  compressionGzip,
  createGrpcTransport,
  createConnectTransport as nodeConnect,
  createGrpcWebTransport as nodeGrpcWeb,
} from "@connectrpc/connect-node";
import { createConnectTransport as webConnect, createGrpcWebTransport as webGrpcWeb } from "@connectrpc/connect-web";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TradingDataService } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.js";
import { envelope } from "../../../src/transport/call/framing.js";
import { depthMessage } from "../grpc/fake-api.js";
import { type RpcServer, startRpcServer } from "../grpc/rpc-server.js";

type Urls = { readonly http1: string; readonly http2: string };

const transports: { name: string; make: (urls: Urls) => Transport }[] = [
  { name: "connect-web, Connect JSON, HTTP/1.1", make: ({ http1 }) => webConnect({ baseUrl: http1 }) },
  {
    name: "connect-web, Connect binary, HTTP/1.1",
    make: ({ http1 }) => webConnect({ baseUrl: http1, useBinaryFormat: true }),
  },
  { name: "connect-web, Connect GET, HTTP/1.1", make: ({ http1 }) => webConnect({ baseUrl: http1, useHttpGet: true }) },
  { name: "connect-web, gRPC-Web, HTTP/1.1", make: ({ http1 }) => webGrpcWeb({ baseUrl: http1 }) },
  {
    name: "connect-web, gRPC-Web JSON, HTTP/1.1",
    make: ({ http1 }) => webGrpcWeb({ baseUrl: http1, useBinaryFormat: false }),
  },
  {
    name: "connect-node, Connect JSON, HTTP/2",
    make: ({ http2 }) => nodeConnect({ baseUrl: http2, httpVersion: "2", useBinaryFormat: false }),
  },
  {
    name: "connect-node, Connect binary GET, HTTP/2",
    make: ({ http2 }) => nodeConnect({ baseUrl: http2, httpVersion: "2", useHttpGet: true }),
  },
  {
    name: "connect-node, Connect uncompressed, HTTP/1.1",
    make: ({ http1 }) => nodeConnect({ baseUrl: http1, httpVersion: "1.1", acceptCompression: [] }),
  },
  { name: "connect-node, gRPC-Web, HTTP/2", make: ({ http2 }) => nodeGrpcWeb({ baseUrl: http2, httpVersion: "2" }) },
  {
    name: "connect-node, gRPC-Web uncompressed, HTTP/2",
    make: ({ http2 }) => nodeGrpcWeb({ baseUrl: http2, httpVersion: "2", acceptCompression: [] }),
  },
  { name: "connect-node, gRPC, HTTP/2", make: ({ http2 }) => createGrpcTransport({ baseUrl: http2 }) },
  {
    name: "connect-node, gRPC compressed requests, HTTP/2",
    make: ({ http2 }) => createGrpcTransport({ baseUrl: http2, sendCompression: compressionGzip, compressMinBytes: 0 }),
  },
];

test.each([
  ["HTTP/1.1", "application/grpc-web+proto"],
  ["HTTP/1.1", "application/connect+json"],
])("%s, %s: a stream's headers leave before it has a message", async (_version, type) => {
  const server = await startRpcServer();
  const request = type.endsWith("json")
    ? envelope(0, Buffer.from('{"marketIds": ["silent"]}'))
    : envelope(0, Buffer.from("0a0673696c656e74", "hex"));
  const url = `http://127.0.0.1:${server.port}/${TradingDataService.typeName}/ObserveMarketsDepthUpdates`;
  const leave = new AbortController();
  const headers = { "content-type": type };
  const response = await fetch(url, { method: "POST", headers, body: request, signal: leave.signal });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe(type);
  expect(response.headers.get("x-first")).toBe("one");
  leave.abort();
  await expect.poll(() => server.streams[0]?.closed).toBeGreaterThan(0);
  await server.close();
});

describe.each(transports)("$name", ({ make }) => {
  let server: RpcServer;
  let client: ReturnType<typeof createClient<typeof TradingDataService>>;
  beforeAll(async () => {
    server = await startRpcServer();
    const urls = { http1: `http://127.0.0.1:${server.port}`, http2: `http://127.0.0.1:${server.port}` };
    client = createClient(TradingDataService, make(urls));
  });
  afterAll(() => server.close());

  async function errorOf(marketId: string, timeoutMs?: number): Promise<ConnectError> {
    return client.getMarket({ marketId }, timeoutMs === undefined ? {} : { timeoutMs }).then(
      () => Promise.reject(new Error("no error")),
      (thrown) => ConnectError.from(thrown),
    );
  }

  test("a unary response", async () => {
    const { market } = await client.getMarket({ marketId: "hot" });
    expect(market).toMatchObject({ id: "hot", decimalPlaces: 5n, lpPriceRange: "0.5" });
  });

  test("a large response, which may be compressed", async () => {
    const { market } = await client.getMarket({ marketId: "long 300000" });
    expect(market?.id).toBe("y".repeat(300_000));
  });

  test("errors with their details", async () => {
    const invalid = await errorOf("invalid");
    expect(invalid.code).toBe(Code.InvalidArgument);
    expect(invalid.rawMessage).toBe('marketId: got "ü 100%\n€"');
    expect(invalid.findDetails(BadRequestSchema)[0]?.fieldViolations[0]).toMatchObject({ field: "marketId" });
    expect(invalid.findDetails(ErrorInfoSchema)[0]).toMatchObject({ reason: "INVALID_PARAMETER", domain: "marketd" });
    const away = await errorOf("away");
    expect(away.code).toBe(Code.Unavailable);
    expect(away.findDetails(RetryInfoSchema)[0]?.retryDelay).toMatchObject({ seconds: 1n, nanos: 500_000_000 });
  });

  test("an exception tells nothing internal", async () => {
    const error = await errorOf("broken");
    expect(error.code).toBe(Code.Internal);
    expect(error.rawMessage).toMatch(/^internal error; report it with id [0-9a-f-]{36}$/);
  });

  test("a deadline", async () => {
    expect((await errorOf("hanging", 100)).code).toBe(Code.DeadlineExceeded);
    await expect.poll(() => server.hanging.at(-1)?.signal.aborted).toBe(true);
  });

  test("a stream, its headers and its trailers", async () => {
    const ids: (string | undefined)[] = [];
    const seen: Record<string, string | null> = {};
    const options = {
      onHeader: (headers: Headers) => {
        seen["x-first"] = headers.get("x-first");
      },
      onTrailer: (trailers: Headers) => {
        seen["x-last"] = trailers.get("x-last");
      },
    };
    for await (const message of client.observeMarketsDepthUpdates({ marketIds: ["three"] }, options)) {
      expect(message.update[0]?.sequenceNumber).toBe(18446744073709551615n);
      ids.push(message.update[0]?.marketId);
    }
    expect(ids).toEqual(["a", "b", "c"]);
    expect(seen).toEqual({ "x-first": "one", "x-last": "two" });
  });

  test("an empty stream", async () => {
    for await (const message of client.observeMarketsDepthUpdates({ marketIds: ["empty"] }))
      expect(message).toBe("none");
  });

  test.each([
    ["missing", Code.NotFound, 0],
    ["fails at once", Code.Unavailable, 0],
    ["fails later", Code.Unavailable, 1],
    ["breaks", Code.Internal, 0],
  ])("a stream that %s", async (script, code, messages) => {
    let received = 0;
    const reading = (async () => {
      for await (const _ of client.observeMarketsDepthUpdates({ marketIds: [script] })) received++;
    })();
    const error = ConnectError.from(await reading.catch((thrown: unknown) => thrown));
    expect(error.code).toBe(code);
    expect(error.findDetails(ErrorInfoSchema)).toHaveLength(1);
    expect(received).toBe(messages);
  });

  test("a stream's deadline", async () => {
    const reading = (async () => {
      for await (const _ of client.observeMarketsDepthUpdates({ marketIds: ["silent"] }, { timeoutMs: 100 }));
    })();
    expect(ConnectError.from(await reading.catch((thrown: unknown) => thrown)).code).toBe(Code.DeadlineExceeded);
    await expect.poll(() => server.streams.at(-1)?.closed).toBeGreaterThan(0);
  });

  test("a stream whose reader leaves is closed", async () => {
    const leave = new AbortController();
    const reading = (async () => {
      for await (const _ of client.observeMarketsDepthUpdates({ marketIds: ["open"] }, { signal: leave.signal }))
        leave.abort();
    })().catch((thrown: unknown) => ConnectError.from(thrown).code);
    await expect.poll(() => server.streams.at(-1)?.closed).toBe(0);
    server.streams.at(-1)?.give(depthMessage("a"));
    expect(await reading).toBe(Code.Canceled);
    await expect.poll(() => server.streams.at(-1)?.closed).toBeGreaterThan(0);
  });
});
