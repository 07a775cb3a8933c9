import { once } from "node:events";
import { request as httpRequest } from "node:http";
import http2 from "node:http2";
import { gzipSync } from "node:zlib";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { afterEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { postFields } from "../support/http2-frames.js";
import type { ListeningServer } from "../support/listening.js";
import { RawConnection, rawGet, rawUpgrade } from "../support/raw-http.js";
import type { FakeService } from "./fake-api.js";
import { serveFake } from "./serve-fake.js";

let server: ListeningServer;
let service: FakeService;

async function serve(proxy: string): Promise<void> {
  ({ server, service } = await serveFake({ trustedProxies: [{ address: proxy, prefixBits: 32 }] }));
}

afterEach(() => server.close());

const header = { "x-forwarded-for": "1.1.1.1, 203.0.113.9" };

/** Each way to call, through to the API. */
const ways: Record<string, () => Promise<unknown>> = {
  "HTTP unary": () => fetch(`${server.url}/api/v2/market/m`, { headers: header }),
  "HTTP stream": () => fetchStream("application/json"),
  "server-sent events": () => fetchStream("text/event-stream"),
  WebSocket: async () => {
    const socket = new WebSocket(`${server.url.replace("http", "ws")}${streamPath}`, { headers: header });
    socket.on("error", () => {});
    await opened();
    socket.terminate();
  },
  "Connect unary": () => connect({}).getMarket({ marketId: "m" }, { headers: header }),
  "Connect unary, compressed": () =>
    fetch(`${server.url}/datanode.api.v2.TradingDataService/GetMarket`, {
      method: "POST",
      headers: { ...header, "content-type": "application/json", "content-encoding": "gzip" },
      body: gzipSync('{"marketId":"m"}'),
    }),
  "Connect stream": () => firstOf(connect({})),
  "gRPC-Web unary": () => grpcWeb().getMarket({ marketId: "m" }, { headers: header }),
  "gRPC-Web stream": () => firstOf(grpcWeb()),
  "gRPC unary": () => grpc().getMarket({ marketId: "m" }, { headers: header }),
  "gRPC stream": () => firstOf(grpc()),
};

const streamPath = "/api/v2/stream/markets/depth/updates";

function connect(options: object) {
  return createClient(
    TradingDataService,
    createConnectTransport({ baseUrl: server.url, httpVersion: "1.1", ...options }),
  );
}

function grpcWeb() {
  return createClient(TradingDataService, createGrpcWebTransport({ baseUrl: server.url, httpVersion: "1.1" }));
}

function grpc() {
  return createClient(TradingDataService, createGrpcTransport({ baseUrl: server.url }));
}

async function opened(): Promise<void> {
  await expect.poll(() => service.calls.length).toBeGreaterThan(0);
}

async function fetchStream(accept: string): Promise<void> {
  const controller = new AbortController();
  const response = fetch(server.url + streamPath, { headers: { ...header, accept }, signal: controller.signal });
  response.catch(() => {});
  await opened();
  controller.abort();
}

async function firstOf(client: ReturnType<typeof grpc>): Promise<void> {
  const controller = new AbortController();
  const stream = client.observeMarketsDepthUpdates({}, { headers: header, signal: controller.signal });
  stream[Symbol.asyncIterator]()
    .next()
    .catch(() => {});
  await opened();
  controller.abort();
}

describe("every protocol takes the client's address", () => {
  test.each(Object.keys(ways))("%s, from a trusted proxy", async (way) => {
    await serve("127.0.0.1");
    await ways[way]?.();
    expect(service.calls[0]?.clientAddress).toBe("203.0.113.9");
  });

  test.each(Object.keys(ways))("%s, from elsewhere", async (way) => {
    await serve("127.0.0.2");
    await ways[way]?.();
    expect(service.calls[0]?.clientAddress).toBe("127.0.0.1");
  });

  test("a GET that repeats on a connection", async () => {
    await serve("127.0.0.1");
    const connection = await RawConnection.open(server.address.port);
    const get = `GET /api/v2/market/m HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n`;
    for (let n = 0; n < 40; n++) {
      await connection.send(get);
      await connection.response();
    }
    expect(service.calls).toHaveLength(40);
    expect(new Set(service.calls.map((call) => call.clientAddress))).toEqual(new Set(["203.0.113.9"]));
    connection.socket.destroy();
  });
});

describe("header fields beyond the limit, which may hide the proxy's", () => {
  const fieldsMax = 1_000;
  const forwarded = "X-Forwarded-For: 203.0.113.9";
  /** The client's fields, which name another client, up to the limit; the proxy's own field is the last. */
  const forged = ["X-Forwarded-For: 198.51.100.1", ...Array.from({ length: fieldsMax - 1 }, () => "X: y"), forwarded];
  const upgrade = (protocol: string): string[] => ["Connection: Upgrade", `Upgrade: ${protocol}`, ...forged];
  const requests: Readonly<Record<string, string>> = {
    "a GET": rawGet("/api/v2/market/m", ...forged),
    "a GET with an expectation": rawGet("/api/v2/market/m", "Expect: 100-continue", ...forged),
    "a stream": rawGet(streamPath, ...forged),
    "a WebSocket": rawUpgrade(streamPath, ...forged),
    "an upgrade that is ignored": rawGet("/api/v2/market/m", ...upgrade("h2c")),
    "an upgrade whose length comes last": `${rawGet("/healthz", ...upgrade("h2c"), "Content-Length: 50").slice(0, -2)}\r\n${rawGet("/api/v2/market/m")}`,
  };

  test.each(Object.entries(requests))("%s is 431, and nothing is read from it", async (_name, request) => {
    await serve("127.0.0.1");
    const connection = await RawConnection.open(server.address.port);
    await connection.send(request);
    const { status, body } = await connection.response();
    expect([status, body]).toEqual([431, expect.stringContaining("HEADERS_TOO_LARGE")]);
    expect(await connection.ending()).toBe("ended");
    expect([connection.received, service.calls]).toEqual(["", []]);
  });

  test.each([
    ["too many for gRPC", "application/grpc", fieldsMax, 1],
    ["too many for Connect", "application/json", fieldsMax, 1],
    ["too long ones", "application/grpc", 10, 7_000],
  ])("%s over HTTP/2 are 431", async (_name, type, count, length) => {
    await serve("127.0.0.1");
    const session = http2.connect(server.url, { maxSendHeaderBlockLength: 2 ** 20 });
    const request = session.request({
      ...postFields("/datanode.api.v2.TradingDataService/GetMarket", type),
      ...Object.fromEntries(Array.from({ length: count }, (_, n) => [`x-${n}`, "y".repeat(length)])),
    });
    const [fields] = await once(request, "response");
    expect(fields[":status"]).toBe(431);
    expect(service.calls).toEqual([]);
    session.destroy();
  });

  test("as many as may be are read", async () => {
    await serve("127.0.0.1");
    const connection = await RawConnection.open(server.address.port);
    const fields = Array.from({ length: fieldsMax - 2 }, () => "X: y");
    expect(await connection.ask(rawGet("/api/v2/market/m", ...fields, forwarded))).toMatchObject({ status: 200 });
    expect(service.calls[0]?.clientAddress).toBe("203.0.113.9");
    connection.close();
  });
});

test("streams behind one proxy count by client", async () => {
  const proxy = [{ address: "127.0.0.1", prefixBits: 32 }];
  ({ server, service } = await serveFake({ limits: { streamsPerAddressMax: 1 }, trustedProxies: proxy }));
  const open = (client: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const headers = { "x-forwarded-for": client };
      const request = httpRequest(server.url + streamPath, { headers, agent: false }, (response) => {
        response.on("error", () => {});
        resolve(response.statusCode ?? 0);
      });
      request.on("error", reject);
      request.end();
    });
  expect([await open("203.0.113.1"), await open("203.0.113.2"), await open("203.0.113.1")]).toEqual([200, 200, 429]);
});
