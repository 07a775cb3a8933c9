import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { connect } from "node:http2";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hotResponse } from "../grpc/fake-api.js";
import { type RpcServer, startRpcServer } from "../grpc/rpc-server.js";

const getMarket = "/datanode.api.v2.TradingDataService/GetMarket";
const observe = "/datanode.api.v2.TradingDataService/ObserveMarketsDepthUpdates";

interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

interface Received {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

let server: RpcServer;
beforeAll(async () => {
  server = await startRpcServer();
});
afterAll(() => server.close());

function send({ method = "POST", path = getMarket, headers = {}, body = "" }: Sent): Promise<Received> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ port: server.port, host: "127.0.0.1", method, path, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) });
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

const json = { "content-type": "application/json" };
const hot = JSON.stringify({ marketId: "hot" });
const query = `${getMarket}?connect=v1&encoding=json&message=${encodeURIComponent(hot)}`;

/** The details of an error that has a reason alone. */
function detailsOf(reason: string): object[] {
  const debug = { reason, domain: "marketd", metadata: {} };
  return [{ type: "google.rpc.ErrorInfo", value: expect.any(String), debug }];
}

describe("Connect over plain HTTP", () => {
  test("POST with JSON emits unset fields, as every JSON of ours", async () => {
    const { status, headers, body } = await send({ headers: json, body: hot });
    expect(status).toBe(200);
    expect(headers["content-type"]).toBe("application/json");
    const reply = JSON.parse(body.toString());
    expect(reply.market).toMatchObject({
      id: "hot",
      decimalPlaces: "5",
      state: "STATE_UNSPECIFIED",
      linearSlippageFactor: "",
    });
  });

  test("GET and HEAD", async () => {
    const got = await send({ method: "GET", path: query });
    expect(got.status).toBe(200);
    expect(JSON.parse(got.body.toString()).market.id).toBe("hot");
    const head = await send({ method: "HEAD", path: query });
    expect(head.status).toBe(200);
    expect(head.headers["content-length"]).toBe(String(got.body.length));
    expect(head.body).toHaveLength(0);
  });

  test("a GET has its own ETag, and 304 for a client that has it", async () => {
    const first = await send({ method: "GET", path: query });
    expect(first.headers.etag).toBe('"v1.connect-json"');
    const again = await send({ method: "GET", path: query, headers: { "if-none-match": '"v1.connect-json"' } });
    expect(again.status).toBe(304);
    expect(again.body).toHaveLength(0);
    const proto = await send({ method: "GET", path: `${getMarket}?encoding=proto&base64=1&message=CgNob3Q` });
    expect(proto.headers.etag).toBe('"v1.connect-proto"');
    expect(proto.headers["content-type"]).toBe("application/proto");
    expect(proto.body.toString("hex")).toBe(Buffer.from(hotResponse.binary()).toString("hex"));
  });

  test.each([
    ["not base64", `${getMarket}?encoding=proto&base64=1&message=%C3%BC`, 400],
    ["no encoding", `${getMarket}?message=%7B%7D`, 415],
    ["no JSON", `${getMarket}?encoding=json&message=%7B`, 400],
    ["bytes that are no text", `${getMarket}?encoding=proto&message=%0A%03hot%10%80%01`, 400],
    ["half an escape", `${getMarket}?encoding=json&message=%7B%7D%2`, 400],
    ["an unknown compression", `${getMarket}?encoding=json&message=%7B%7D&compression=zip`, 501],
    ["a fault of the service", `${getMarket}?encoding=json&message=%7B%22marketId%22%3A%22none%22%7D`, 500],
    [
      "a method that streams",
      `${getMarket.replace("GetMarket", "ObserveMarketsDepthUpdates")}?encoding=json&message=%7B%7D`,
      405,
    ],
  ])("a GET with %s is refused, which no cache keeps", async (_what, path, status) => {
    const response = await send({ method: "GET", path });
    expect(response.status).toBe(status);
    expect(response.headers["cache-control"]).toBe("no-store");
  });

  test("a body that is too large is refused", async () => {
    const { status, body } = await send({ headers: json, body: JSON.stringify({ marketId: "x".repeat(262_144) }) });
    expect(status).toBe(429);
    expect(JSON.parse(body.toString()).message).toContain("is larger than configured readMaxBytes 262144");
  });

  test("an unknown field is refused by name", async () => {
    const { status, body } = await send({ headers: json, body: '{"marketID": "hot"}' });
    expect(status).toBe(400);
    const error = JSON.parse(body.toString());
    expect(error.code).toBe("invalid_argument");
    expect(error.message).toContain('"marketID"');
  });

  test("an error says when to come back", async () => {
    const { status, headers, body } = await send({ headers: json, body: '{"marketId": "away"}' });
    expect(status).toBe(503);
    expect(headers["retry-after"]).toBe("2");
    const error = JSON.parse(body.toString());
    expect(error.details.map((detail: { type: string }) => detail.type)).toEqual([
      "google.rpc.ErrorInfo",
      "google.rpc.RetryInfo",
    ]);
    expect(error.details[0].debug).toEqual({ reason: "DATABASE_AWAY", domain: "marketd", metadata: {} });
  });

  test.each([
    ["PUT", getMarket, "GET, HEAD, POST, OPTIONS"],
    ["GET", observe, "POST, OPTIONS"],
  ])("%s %s is answered 405", async (method, path, allow) => {
    const { status, headers, body } = await send({ method, path });
    expect(status).toBe(405);
    expect(headers.allow).toBe(allow);
    const message = `${method} is not allowed here; use one of ${allow}`;
    expect(JSON.parse(body.toString())).toEqual({
      code: "unimplemented",
      message,
      details: detailsOf("METHOD_NOT_ALLOWED"),
    });
    const preflight = await send({ method: "OPTIONS", path });
    expect(preflight.status).toBe(204);
    expect(preflight.headers["access-control-allow-methods"]).toBe(allow);
  });

  test.each([
    ["application/proto", {}],
    ["application/json", { "connect-protocol-version": "1" }],
    ["application/grpc-web+proto", {}],
  ])("a call of %s by another HTTP method has no body that its protocol takes for an error", async (type, more) => {
    const sent = { method: "DELETE", headers: { "content-type": type, ...more } };
    const { status, headers, body } = await send(sent);
    expect(status).toBe(405);
    expect(headers.allow).toBe("GET, HEAD, POST, OPTIONS");
    expect(headers["content-type"]).toBe("text/plain");
    expect(body.toString()).toBe("DELETE is not allowed here; use one of GET, HEAD, POST, OPTIONS");
  });

  test.each([
    [getMarket, "application/json, application/proto, "],
    [observe, "application/connect+json, application/connect+proto, "],
  ])("a content type that is none of ours is answered 415 at %s", async (path, types) => {
    const { status, headers, body } = await send({ path, headers: { "content-type": "text/plain" }, body: "x" });
    expect(status).toBe(415);
    expect(headers["accept-post"]).toContain(types);
    expect(headers["accept-post"]).toContain("application/grpc-web+proto");
    expect(headers["content-type"]).toBe("application/json; charset=utf-8");
    const message = `the content type is not supported here; use one of ${headers["accept-post"]}`;
    // As clients take it from the status.
    expect(JSON.parse(body.toString())).toEqual({ code: "unknown", message });
  });

  test("a GET without an encoding is told which there are", async () => {
    const { body } = await send({ method: "GET", path: `${getMarket}?message=%7B%7D` });
    expect(JSON.parse(body.toString())).toEqual({ code: "unknown", message: "encoding: takes json or proto" });
  });

  test.each([
    ["application/proto", {}],
    ["application/connect+json", {}],
    ["application/json", { "connect-protocol-version": "1" }],
  ])("a Connect call (%s) of a method that is not there is told so in Connect's form", async (type, more) => {
    const path = "/datanode.api.v2.TradingDataService/Nothing";
    const { status, headers, body } = await send({ path, headers: { "content-type": type, ...more } });
    expect(status).toBe(404);
    expect(headers["content-type"]).toBe("application/json");
    expect(JSON.parse(body.toString())).toEqual({
      code: "unimplemented",
      message: "no method is served at /datanode.api.v2.TradingDataService/Nothing",
    });
  });

  test.each([
    ["br", brotliDecompressSync],
    ["gzip", gunzipSync],
  ])("answers are compressed with %s when that is asked", async (encoding, decompress) => {
    const body = '{"marketId": "long 5000"}';
    const reply = await send({ headers: { ...json, "accept-encoding": encoding }, body });
    expect(reply.headers["content-encoding"]).toBe(encoding);
    expect(reply.headers["vary"]).toBe("accept-encoding");
    expect(JSON.parse(decompress(reply.body).toString()).market.id).toHaveLength(5000);
  });

  test("small responses are not compressed", async () => {
    const body = '{"marketId": "hot"}';
    expect(
      (await send({ headers: { ...json, "accept-encoding": "br" }, body })).headers["content-encoding"],
    ).toBeUndefined();
  });

  test("a request without a usable authority is answered", async () => {
    const { status } = await send({
      headers: { "content-type": "application/json; charset=utf-8", host: "a b" },
      body: hot,
    });
    expect(status).toBe(400);
  });

  test.each([
    ["a b", 400],
    ["[", 505],
    ["a:b:c", 505],
  ])("reflection at the authority %j is answered %i", async (host, status) => {
    const path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    const headers = { "content-type": "application/connect+proto", host };
    expect((await send({ path, headers })).status).toBe(status);
  });

  test.each([
    ["of Connect has no details", { "connect-protocol-version": "1" }, undefined],
    ["that may be any has them", {}, [expect.objectContaining({ reason: "UNKNOWN_PATH" })]],
  ])("a JSON call of a method that is not there, %s", async (_what, more, details) => {
    const path = "/datanode.api.v2.TradingDataService/Nothing";
    const { status, body } = await send({ path, headers: { ...json, ...more }, body: "{}" });
    expect(status).toBe(404);
    expect(JSON.parse(body.toString()).details).toEqual(details);
  });

  test("reflection is found at a path with a query: it tells that it needs HTTP/2", async () => {
    const path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo?any";
    expect((await send({ path, headers: { "content-type": "application/connect+proto" } })).status).toBe(505);
  });

  test.each(["OST", "HEA", "S"])(
    "%s over HTTP/2, a part of an allowed method's name, is answered 405",
    async (method) => {
      const session = connect(`http://127.0.0.1:${server.port}`);
      const stream = session.request({ ":method": method, ":path": `${observe}?encoding=json&message=%7B%7D` });
      stream.end();
      const status = await new Promise((resolve) => stream.once("response", (headers) => resolve(headers[":status"])));
      session.destroy();
      expect(status).toBe(405);
    },
  );

  test.each([
    ["a stream", observe, 405],
    ["a call without an encoding", getMarket, 415],
    ["a call with a malformed message", `${getMarket}?encoding=json&message=%7B`, 400],
    ["a call", query, 200],
  ])("HEAD of %s over HTTP/2 is answered without a body", async (_name, path, expected) => {
    const session = connect(`http://127.0.0.1:${server.port}`);
    const stream = session.request({ ":method": "HEAD", ":path": path });
    const status = new Promise((resolve) => stream.once("response", (headers) => resolve(headers[":status"])));
    const closed = new Promise<number>((resolve) => stream.once("close", () => resolve(stream.rstCode)));
    stream.resume().end();
    expect([await status, await closed]).toEqual([expected, 0]);
    session.close();
  });

  test("a gRPC-Web call of a method that is not there", async () => {
    const path = "/datanode.api.v2.TradingDataService/Nothing";
    const { status, headers } = await send({ path, headers: { "content-type": "application/grpc-web+proto" } });
    expect(status).toBe(200);
    expect(headers["grpc-status"]).toBe("12");
  });

  test("a deadline beyond all timers is none", async () => {
    const headers = { ...json, "connect-timeout-ms": "9999999999" };
    expect((await send({ headers, body: '{"marketId": "later"}' })).status).toBe(200);
  });
});
