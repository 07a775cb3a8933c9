import http from "node:http";
import http2 from "node:http2";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RawConnection, rawUpgrade } from "../../support/raw-http.js";
import { type FakeService, rpcErrorDetails } from "../fake-api.js";
import { serveFake } from "../serve-fake.js";

interface Reply {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  readonly body: Buffer;
}

type Ask = (path: string, headers?: Record<string, string | string[]>, method?: string) => Promise<Reply>;

let base: string;
let service: FakeService;
let session: http2.ClientHttp2Session;
let stop: () => Promise<void>;

beforeAll(async () => {
  const served = await serveFake({ limits: { requestTimeoutMs: 100 } });
  base = served.url;
  service = served.service;
  session = http2.connect(base);
  stop = () => served.server.close();
});

afterAll(async () => {
  session.destroy();
  await stop();
});

const http1: Ask = (path, headers = {}, method = "GET") =>
  new Promise((resolve, reject) => {
    const request = http.request(base + path, { method, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) });
      });
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end();
  });

const overHttp2: Ask = (path, headers = {}, method = "GET") =>
  new Promise((resolve, reject) => {
    const stream = session.request({ ":path": path, ":method": method, ...headers });
    const chunks: Buffer[] = [];
    let head: Record<string, unknown> = {};
    stream.on("response", (received) => {
      head = received;
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => resolve({ status: Number(head[":status"]), headers: head, body: Buffer.concat(chunks) }));
    stream.on("error", reject);
    stream.end();
  });

const depthPath = "/api/v2/market/depth/m/latest";

describe.each<[name: string, ask: Ask]>([
  ["HTTP/1.1", http1],
  ["HTTP/2", overHttp2],
])("over %s", (_name, ask) => {
  test("an expectation is met, or refused with a reason", async () => {
    expect((await ask(depthPath, { expect: "100-continue" })).status).toBe(200);
    for (const met of ["100-Continue", ["100-continue", "100-continue"]]) {
      expect((await ask(depthPath, { expect: met })).status).toBe(200);
    }
    for (const unmet of ["magic", ["100-continue", "magic"], "magic, 100-continue", "not-100-continue"]) {
      const refused = await ask(depthPath, { expect: unmet });
      expect([unmet, refused.status]).toEqual([unmet, 417]);
      expect(refused.body.toString()).toContain("EXPECTATION_FAILED");
    }
  });

  test("a JSON response with its headers, the first time and from memory", async () => {
    for (let i = 0; i < 2; i++) {
      const reply = await ask(depthPath);
      expect(reply.status).toBe(200);
      expect(reply.headers["content-type"]).toBe("application/json");
      expect(reply.headers["content-length"]).toBe(String(reply.body.length));
      expect(reply.headers["etag"]).toBe('"7-depth.json"');
      expect(reply.headers["cache-control"]).toBe("no-cache");
      expect(reply.headers["vary"]).toBe("accept-encoding");
      expect(reply.headers["access-control-allow-origin"]).toBe("*");
      expect(reply.headers["access-control-expose-headers"]).toContain("grpc-status-details-bin");
      const json = JSON.parse(reply.body.toString());
      expect(json.sequenceNumber).toBe("18446744073709551615");
      expect(json.buy).toHaveLength(40);
      expect(json.sell).toEqual([]);
      expect(json.lastTrade).toBeUndefined();
    }
  });

  test("a later response", async () => {
    expect((await ask("/api/v2/market/later")).status).toBe(200);
    const reply = await ask("/api/v2/ledgerentry/history");
    expect(reply.status).toBe(200);
    expect(reply.headers["etag"]).toBeUndefined();
    expect(reply.headers["cache-control"]).toBe("no-store");
  });

  test.each(["plain", "l\u00e4\u00dft \u{1f600}", '"\u2028\u0000\\'])(
    "a later response with the text %j",
    async (text) => {
      const path = `/api/v2/ledgerentry/history?filter.toAccountFilter.partyIds=${encodeURIComponent(text)}`;
      const [get, head] = [await ask(path), await ask(path, {}, "HEAD")];
      expect(get.headers["content-length"]).toBe(String(get.body.length));
      const { ledgerEntries } = JSON.parse(get.body.toString());
      expect(
        ledgerEntries.edges.map(({ node }: { node: { toAccountPartyId: string } }) => node.toAccountPartyId),
      ).toEqual([text]);
      expect({ ...head.headers, date: "" }).toEqual({ ...get.headers, date: "" });
      expect(head.body).toHaveLength(0);
    },
  );

  test.each<[ifNoneMatch: string, status: number]>([
    ['"7-depth.json"', 304],
    ['W/"7-depth.json"', 304],
    ['"x", "7-depth.json"', 304],
    ["*", 304],
    ['"7-depth.json.br"', 200],
    ['"8-depth.json"', 200],
  ])("If-None-Match %s gives %i", async (ifNoneMatch, status) => {
    const reply = await ask(depthPath, { "if-none-match": ifNoneMatch });
    expect(reply.status).toBe(status);
    expect(reply.headers["etag"]).toBe('"7-depth.json"');
    if (status !== 304) return;
    expect(reply.body).toHaveLength(0);
    expect(reply.headers["content-type"]).toBeUndefined();
    expect(reply.headers["cache-control"]).toBe("no-cache");
  });

  test("HEAD: the same headers, no body", async () => {
    const get = await ask(depthPath);
    const head = await ask(depthPath, {}, "HEAD");
    expect(head.status).toBe(200);
    expect(head.body).toHaveLength(0);
    expect({ ...head.headers, date: "" }).toEqual({ ...get.headers, date: "" });
    expect((await ask("/api/v2/market/unknown", {}, "HEAD")).status).toBe(404);
  });

  test.each<[acceptEncoding: string, coding: string | undefined]>([
    ["gzip, deflate, br, zstd", "br"],
    ["gzip", "gzip"],
    ["br;q=0.5, gzip;q=0.9", "gzip"],
    ["br;q=0, gzip;q=0", undefined],
    ["br;q=0, *", "gzip"],
    ["*", "br"],
    ["identity", undefined],
    ["identity;q=0, zstd", undefined],
    ["", undefined],
    ["nonsense;;;q=x", undefined],
    [`gzip${",".repeat(1_100)}`, undefined],
  ])("Accept-Encoding %s gives %s", async (acceptEncoding, coding) => {
    const plain = await ask(depthPath);
    const reply = await ask(depthPath, { "accept-encoding": acceptEncoding });
    expect(reply.headers["content-encoding"]).toBe(coding);
    expect(reply.headers["content-length"]).toBe(String(reply.body.length));
    expect(reply.headers["etag"]).toBe(`"7-depth.json${coding === undefined ? "" : `.${coding}`}"`);
    const unpack = coding === "br" ? brotliDecompressSync : coding === "gzip" ? gunzipSync : (b: Buffer) => b;
    expect(unpack(reply.body)).toEqual(plain.body);
    const again = await ask(depthPath, {
      "accept-encoding": acceptEncoding,
      "if-none-match": String(reply.headers["etag"]),
    });
    expect(again.status).toBe(304);
  });

  test("a small body is not compressed", async () => {
    const reply = await ask("/api/v2/market/m", { "accept-encoding": "br" });
    expect(reply.headers["content-encoding"]).toBeUndefined();
    expect(reply.headers["etag"]).toBe('"7.json"');
  });

  test("Accept that matches nothing gets JSON", async () => {
    expect((await ask(depthPath, { accept: "image/png" })).headers["content-type"]).toBe("application/json");
  });

  test.each<[path: string, status: number, code: number, message: string, reason: string, retryAfter?: string]>([
    ["/api/v2/market/unknown", 404, 5, "market unknown", "UNKNOWN_MARKET"],
    ["/api/v2/market/limited", 429, 8, "too fast", "RATE", "2"],
    ["/api/v2/market/away", 503, 14, "database away", "DATABASE_UNAVAILABLE", "2"],
    [
      "/api/v2/market/never",
      504,
      4,
      "the deadline of the call passed before its response was complete",
      "DEADLINE_EXCEEDED",
    ],
    ["/api/v2/market/m?x=1", 400, 3, "x: unknown parameter; there are none here", "UNKNOWN_PARAMETER"],
    [
      "/api/v2/market/depth/m/latest?maxDepth=x",
      400,
      3,
      'maxDepth: got "x"; takes an integer from 0 to 18446744073709551615',
      "INVALID_PARAMETER",
    ],
    [
      "/api/v2/market/m%zz",
      400,
      3,
      'marketId: got "m%zz"; takes percent escapes (%2F) of UTF-8 text',
      "INVALID_PARAMETER",
    ],
    ["/api/v2/nope?x=1", 404, 5, "nothing is served at /api/v2/nope", "UNKNOWN_PATH"],
    ["/", 404, 5, "nothing is served at /", "UNKNOWN_PATH"],
  ])("%s gives %i", async (path, status, code, message, reason, retryAfter) => {
    const reply = await ask(path);
    expect(reply.status).toBe(status);
    expect(reply.headers["content-type"]).toBe("application/json");
    expect(reply.headers["content-length"]).toBe(String(reply.body.length));
    expect(reply.headers["cache-control"]).toBe("no-store");
    expect(reply.headers["retry-after"]).toBe(retryAfter);
    expect(reply.headers["access-control-allow-origin"]).toBe("*");
    const body = JSON.parse(reply.body.toString());
    expect(Object.keys(body)).toEqual(["code", "message", "details"]);
    expect([body.code, body.message]).toEqual([code, message]);
    expect(rpcErrorDetails(body, "ErrorInfo")).toMatchObject([{ reason, domain: "marketd" }]);
    expect(rpcErrorDetails(body, "RetryInfo")).toHaveLength(retryAfter === undefined ? 0 : 1);
    expect(rpcErrorDetails(body, "BadRequest")).toHaveLength(status === 400 ? 1 : 0);
  });

  test.each(["/api/v2/market/broken", "/api/v2/market/broken%20later"])(
    "%s tells an id and nothing else",
    async (path) => {
      const reply = await ask(path);
      expect(reply.status).toBe(500);
      const body = JSON.parse(reply.body.toString());
      expect(body.code).toBe(13);
      expect(body.message).toMatch(/^internal error; report it with id [0-9a-f-]{36}$/);
      expect(reply.body.toString()).not.toContain("SELECT");
    },
  );

  test.each(["POST", "PUT", "DELETE", "PATCH", "PROPFIND"])("%s is not allowed", async (method) => {
    for (const path of [depthPath, "/api/v2/stream/markets/depth/updates", "/readyz"]) {
      const reply = await ask(path, {}, method);
      expect(reply.status).toBe(405);
      expect(reply.headers["allow"]).toBe("GET, HEAD, OPTIONS");
      const body = JSON.parse(reply.body.toString());
      expect(body.code).toBe(12);
      expect(body.message).toBe(`${method} is not allowed here; use one of GET, HEAD, OPTIONS`);
    }
    expect((await ask("/nope", {}, method)).status).toBe(404);
  });

  test("OPTIONS answers a preflight", async () => {
    const reply = await ask(
      depthPath,
      {
        origin: "https://example.org",
        "access-control-request-method": "GET",
        "access-control-request-headers": "if-none-match, x-own",
      },
      "OPTIONS",
    );
    expect(reply.status).toBe(204);
    expect(reply.headers["access-control-allow-origin"]).toBe("*");
    expect(reply.headers["access-control-allow-methods"]).toContain("GET");
    expect(reply.headers["access-control-allow-headers"]).toBe("if-none-match, x-own");
    expect(reply.headers["access-control-max-age"]).toBe("7200");
  });

  test("operations' addresses", async () => {
    const alive = await ask("/healthz");
    expect([alive.status, alive.body.toString()]).toEqual([200, '{"status":"alive"}']);
    expect((await ask("/readyz")).body.toString()).toBe('{"status":"ready"}');
    expect((await ask("/readyz", {}, "HEAD")).body).toHaveLength(0);
    const metrics = await ask("/metrics");
    expect(metrics.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
    const text = metrics.body.toString();
    expect(text).toMatch(/marketd_requests_total\{method="GetMarket",protocol="http",code="not_found"\} \d+/);
    expect(text).toMatch(
      /marketd_request_duration_seconds_bucket\{le="\+Inf",method="GetMarket",protocol="http"\} \d+/,
    );
    expect(text).toMatch(/marketd_connections_open \d+/);
  });

  test("a URL that is too long", async () => {
    const reply = await ask(`/api/v2/market/${"m".repeat(40_000)}`);
    expect(reply.status).toBe(414);
    const body = JSON.parse(reply.body.toString());
    expect([body.code, body.message]).toEqual([3, "the URL is longer than 32768 characters"]);
  });
});

test("a call is aborted when its deadline passes, with that reason", async () => {
  service.calls.length = 0;
  await http1("/api/v2/market/never");
  expect(service.calls[0]?.signal.aborted).toBe(true);
  expect(service.calls[0]?.signal.reason).toMatchObject({ code: "deadline_exceeded" });
  expect(service.calls[0]?.clientAddress).toBe("127.0.0.1");
});

test("a call is aborted when its client leaves", async () => {
  const patient = await serveFake();
  const request = http.get(`${patient.url}/api/v2/market/never`);
  request.on("error", () => {});
  await expect.poll(() => patient.service.calls.length).toBe(1);
  const [call] = patient.service.calls;
  expect(call?.signal.aborted).toBe(false);
  request.destroy();
  await expect.poll(() => call?.signal.aborted).toBe(true);
  expect(call?.signal.reason).toMatchObject({ code: "cancelled" });
  await patient.server.close();
});

describe("as configured", () => {
  test("origins", async () => {
    const { server, url } = await serveFake({
      corsOrigins: ["https://a.example"],
      files: new Map([["/file.txt", { contentType: "text/plain", bytes: Buffer.from("file") }]]),
    });
    const known = await fetch(url + depthPath, { headers: { origin: "https://a.example" } });
    expect(known.headers.get("access-control-allow-origin")).toBe("https://a.example");
    expect(known.headers.get("vary")).toBe("accept-encoding, origin");
    const call = "/datanode.api.v2.TradingDataService/GetMarket?encoding=json&message=%7B%7D";
    const connect = await fetch(url + call, { headers: { origin: "https://a.example" } });
    expect(connect.headers.get("vary")).toBe("accept-encoding, origin");
    const other = await fetch(url + depthPath, { headers: { origin: "https://b.example" } });
    expect(other.status).toBe(200);
    expect(other.headers.get("access-control-allow-origin")).toBeNull();
    // What differs by origin says so: a shared cache would give one page the response to another.
    const vary = async (path: string, init: RequestInit = {}) => (await fetch(url + path, init)).headers.get("vary");
    const asPost = { method: "POST", headers: { "content-type": "application/grpc-web+proto" } };
    expect(await vary("/nowhere")).toBe("origin");
    expect(await vary("/metrics")).toBe("origin");
    expect(await vary("/api/v2/market/unknown")).toBe("origin");
    expect(await vary(depthPath, { method: "OPTIONS" })).toBe("origin");
    expect(await vary("/file.txt")).toBe("accept-encoding, origin");
    expect(await vary("/datanode.api.v2.TradingDataService/GetMarket", asPost)).toBe("origin");
    // Of these no response object is made.
    const raw = async (text: string): Promise<string> => {
      const connection = await RawConnection.open(server.address.port);
      await connection.send(text);
      await connection.ending();
      return connection.received;
    };
    const malformed = await raw("no request\r\n\r\n");
    expect(malformed).toMatch(/^HTTP\/1\.1 400 [\s\S]*\r\nvary: origin\r\n/);
    expect(malformed).not.toContain("access-control-allow-origin");
    const upgrade = rawUpgrade(depthPath, "Host: again", "Origin: https://a.example");
    expect(await raw(upgrade)).toMatch(
      /^HTTP\/1\.1 400 [\s\S]*\r\naccess-control-allow-origin: https:\/\/a\.example\r\n/,
    );
    await server.close();
    const any = await serveFake({ corsOrigins: ["*"] });
    const star = await fetch(any.url + depthPath, { headers: { origin: "https://b.example" } });
    expect(star.headers.get("access-control-allow-origin")).toBe("*");
    expect(star.headers.get("vary")).toBe("accept-encoding");
    await any.server.close();
  });

  test("base path: the API, Connect and the status under it, operations at the root", async () => {
    const { server, url } = await serveFake({ basePath: "/base", status: () => ({ markets: 2, unknown: undefined }) });
    const status = await fetch(`${url}/base/status`);
    expect([status.status, await status.text()]).toEqual([200, '{"status":"ready","markets":2}']);
    expect(status.headers.get("cache-control")).toBe("no-store");
    const head = await fetch(`${url}/base/status`, { method: "HEAD" });
    expect([head.status, head.headers.get("content-length"), await head.text()]).toEqual([200, "30", ""]);
    expect((await fetch(`${url}/base/status`, { method: "POST" })).status).toBe(405);
    expect((await fetch(`${url}/status`)).status).toBe(404);
    expect((await fetch(`${url}/base/api/v2/market/m`)).status).toBe(200);
    expect((await fetch(`${url}/api/v2/market/m`)).status).toBe(404);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    expect((await fetch(`${url}/base/readyz`)).status).toBe(404);
    for (const prefix of ["", "/base"]) {
      const rpc = await fetch(`${url}${prefix}/datanode.api.v2.TradingDataService/GetMarket`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: '{"marketId":"m"}',
      });
      expect(rpc.status).toBe(200);
      expect(await rpc.json()).toMatchObject({ market: { id: "m" } });
      expect(rpc.headers.get("access-control-allow-origin")).toBe("*");
    }
    await server.close();
  });

  test("staleness and readiness", async () => {
    let staleness: number | undefined;
    let state: "loading" | "ready" | "draining" = "loading";
    const { server, url } = await serveFake({ staleness: () => staleness, readiness: () => state });
    expect((await fetch(url + depthPath)).headers.get("marketd-staleness")).toBeNull();
    staleness = 3.9;
    expect((await fetch(url + depthPath)).headers.get("marketd-staleness")).toBe("3");
    staleness = 4;
    expect((await fetch(url + depthPath)).headers.get("marketd-staleness")).toBe("4");
    const loading = await fetch(`${url}/readyz`);
    expect([loading.status, await loading.text()]).toEqual([503, '{"status":"loading"}']);
    state = "draining";
    const draining = await fetch(`${url}/readyz`);
    expect([draining.status, await draining.text()]).toEqual([503, '{"status":"draining"}']);
    expect(draining.headers.get("retry-after")).toBe("1");
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    await server.close();
  });
});
