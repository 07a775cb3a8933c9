import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { envelope } from "../../../src/transport/grpc/envelope.js";
import { splitEnvelopes } from "../grpc/raw-call.js";
import { type RpcServer, startRpcServer } from "../grpc/rpc-server.js";

const service = "/datanode.api.v2.TradingDataService";

/** What sends the same call past our own way, into Connect itself: nothing is compressed, the answers are too small. */
const detours = {
  unary: { "content-type": "application/json; charset=utf-8" },
  stream: { "content-type": "application/connect+json", "connect-accept-encoding": "gzip" },
};

let server: RpcServer;
beforeAll(async () => {
  server = await startRpcServer({ requestTimeoutMs: 200, requestBodyBytesMax: 2000 });
});
afterAll(() => server.close());

async function post(method: string, headers: Record<string, string>, body: Uint8Array | string) {
  const url = `http://127.0.0.1:${server.port}${service}/${method}`;
  const response = await fetch(url, { method: "POST", headers, body });
  return {
    status: response.status,
    contentType: response.headers.get("content-type"),
    retryAfter: response.headers.get("retry-after"),
    metadata: response.headers.get("x-first"),
    body: Buffer.from(await response.arrayBuffer()),
  };
}

describe("our own way and Connect answer the same: unary", () => {
  test.each([
    ["hot", { marketId: "hot" }],
    ["later", { marketId: "later" }],
    ["missing", { marketId: "missing" }],
    ["rejects missing", { marketId: "rejects missing" }],
    ["invalid", { marketId: "invalid" }],
    ["away", { marketId: "away" }],
    ["hanging", { marketId: "hanging" }],
    ["huge", { marketId: "huge" }],
    ["an unknown field", { other: 1 }],
    ["a wrong type", { marketId: 5 }],
  ])("%s", async (_name, request) => {
    const body = JSON.stringify(request);
    const own = await post("GetMarket", { "content-type": "application/json" }, body);
    expect(own.body.length).toBeGreaterThan(0);
    expect(await post("GetMarket", detours.unary, body)).toEqual(own);
  });

  test.each([
    ["no JSON", "{"],
    ["nothing", ""],
    ["too much", JSON.stringify({ marketId: "x".repeat(2000) })],
  ])("%s", async (_name, body) => {
    const own = await post("GetMarket", { "content-type": "application/json" }, body);
    expect(own.status).toBeGreaterThan(399);
    expect(await post("GetMarket", detours.unary, body)).toEqual(own);
  });

  test.each([["0"], ["50"], ["x"], ["99999999999"]])("connect-timeout-ms %s", async (timeout) => {
    const headers = { "connect-timeout-ms": timeout };
    const body = JSON.stringify({ marketId: "hanging" });
    const own = await post("GetMarket", { "content-type": "application/json", ...headers }, body);
    expect(await post("GetMarket", { ...detours.unary, ...headers }, body)).toEqual(own);
  });
});

describe("our own way and Connect answer the same: streams", () => {
  test.each([["three"], ["later three"], ["empty"], ["missing"], ["fails at once"], ["fails later"], ["invalid"]])(
    "%s",
    async (script) => {
      const body = envelope(0, Buffer.from(JSON.stringify({ marketIds: [script] })));
      const own = await post("ObserveMarketsDepthUpdates", { "content-type": "application/connect+json" }, body);
      const connect = await post("ObserveMarketsDepthUpdates", detours.stream, body);
      expect(own.status).toBe(200);
      expect(connect.status).toBe(200);
      const messages = (bytes: Buffer) => splitEnvelopes(bytes).map((message) => JSON.parse(message.toString()));
      expect(messages(connect.body)).toEqual(messages(own.body));
    },
  );
});
