import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import {
  type GetMarketRequest,
  GetMarketResponseSchema,
  TradingDataService,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import type { EncodedResponse } from "../../../src/domain/encoded-response.js";
import { Failure } from "../../../src/domain/failure.js";
import { unary } from "../../../src/domain/service.js";
import { MessageResponse } from "../../../src/encoding/message-response.js";
import type { RunningServer, ServerOptions } from "../../../src/transport/server.js";
import { RawConnection, type RawResponse } from "../../support/raw-http.js";
import { tries } from "../../support/tries.js";
import { tuning } from "../../support/tuning.js";
import { serveFake } from "../serve-fake.js";

let server: RunningServer;
const connections: RawConnection[] = [];

async function serve(options: Partial<ServerOptions> = {}): Promise<void> {
  ({ server } = await serveFake(options));
}

async function connect(): Promise<RawConnection> {
  const connection = await RawConnection.open(server.address.port);
  connections.push(connection);
  return connection;
}

afterEach(async () => {
  for (const connection of connections.splice(0)) connection.close();
  await server.close();
});

function get(path: string, ...headers: string[]): string {
  return [`GET ${path} HTTP/1.1`, "Host: x", ...headers, "", ""].join("\r\n");
}

function marketResponse(id: string, version?: string): MarketResponse {
  return new MessageResponse(GetMarketResponseSchema, create(GetMarketResponseSchema, { market: { id } }), { version });
}

type MarketResponse = EncodedResponse<typeof GetMarketResponseSchema>;

/** Serves one method, as it is given. */
function serveMarket(respond: (request: GetMarketRequest) => MarketResponse | Promise<MarketResponse>): Promise<void> {
  return serve({ api: [unary(TradingDataService.method.getMarket, respond)] });
}

/** A response that comes when the test says so. */
function awaited(): { readonly response: Promise<MarketResponse>; come(): void } {
  let come = (): void => {};
  const response = new Promise<MarketResponse>((resolve) => {
    come = () => resolve(marketResponse("slow"));
  });
  return { response, come: () => come() };
}

const depth = get("/api/v2/market/depth/m/latest");

/** Requests that were answered without being read again. */
async function repeated(): Promise<number> {
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  return Number(/^marketd_requests_repeated_total (\d+)$/m.exec(metrics)?.[1]);
}

/** Whether there were some, as there must be in a run with adjustments, and must not in one without. */
async function expectRepeated(before: number): Promise<void> {
  expect((await repeated()) > before).toBe(tuning);
}

/** More requests than a connection needs to be read before the parser, and two more: one to be sure, one that counts. */
const warmingRequests = 12;

/** A connection that is known to ask the same again. */
async function repeating(request = depth): Promise<RawConnection> {
  const connection = await connect();
  const before = await repeated();
  for (let i = 0; i < warmingRequests; i++) await connection.ask(request);
  await expectRepeated(before);
  return connection;
}

async function alone(request: string): Promise<RawResponse> {
  const connection = await connect();
  const response = await connection.ask(request);
  connection.close();
  return response;
}

describe("a GET in the same bytes as one before", () => {
  test.each([
    ["plain", depth],
    ["compressed", get("/api/v2/market/depth/m/latest", "Accept-Encoding: gzip, br")],
    ["not modified", get("/api/v2/market/depth/m/latest", 'If-None-Match: "7-depth.json"')],
    ["modified", get("/api/v2/market/depth/m/latest", 'If-None-Match: "6-depth.json"')],
    ["from a page", get("/api/v2/market/depth/m/latest", "Origin: https://a.example", "Connection: Keep-Alive")],
    ["of no version", get("/api/v2/markets/data")],
    ["with a query", get("/api/v2/market/m?_=1")],
  ])("is answered in the bytes that Node writes: %s", async (_name, request) => {
    await serve();
    const first = await alone(request);
    const connection = await repeating(request);
    expect(await connection.ask(request)).toEqual(first);
  });

  test.each([
    ["no Host", depth.replace("Host: x\r\n", "")],
    ["two", depth.replace("Host: x\r\n", "Host: x\r\nHost: y\r\n")],
  ])("is refused as often as it is sent: %s", async (_name, invalid) => {
    await serve();
    const connection = await repeating();
    for (let n = 0; n < warmingRequests; n++) {
      const each = await alone(invalid);
      expect(each.status).toBe(400);
      if (connection.end === "open") expect((await connection.ask(invalid)).status).toBe(400);
    }
  });

  test("is answered to each page for its own origin", async () => {
    await serve({ corsOrigins: ["https://a.example", "https://b.example"] });
    for (const origin of ["https://a.example", "https://b.example", "https://c.example"]) {
      const request = get("/api/v2/market/depth/m/latest", `Origin: ${origin}`);
      const first = await alone(request);
      expect(await (await repeating(request)).ask(request)).toEqual(first);
    }
  });

  test("is counted with the others", async () => {
    await serve();
    await repeating();
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    const counted = 'marketd_requests_total{method="GetLatestMarketDepth",protocol="http",code="ok"}';
    expect(metrics).toContain(`${counted} ${warmingRequests}\n`);
  });

  test("gets the date of its time", async () => {
    await serve();
    const connection = await repeating();
    let received = "";
    connection.socket.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
    });
    await connection.ask(depth);
    await sleep(1_100);
    await connection.ask(depth);
    const dates = [...received.matchAll(/^Date: (.*)\r$/gm)].map(([, date]) => Date.parse(date ?? ""));
    expect(dates).toHaveLength(2);
    expect((dates[1] ?? 0) - (dates[0] ?? 0)).toBeGreaterThanOrEqual(1_000);
    expect(Math.abs(Date.now() - (dates[1] ?? 0))).toBeLessThan(2_000);
  });

  test("is read by Node's parser where connections do not repeat themselves", async () => {
    await serve();
    const connection = await connect();
    for (let i = 0; i < 3 * warmingRequests; i++) await connection.ask(get(`/api/v2/market/m?_=${i}`));
    expect(await repeated()).toBe(0);
  });
});

describe("what the service answers", () => {
  let respond: () => MarketResponse | Promise<MarketResponse>;
  const request = get("/api/v2/market/m");

  async function serveResponse(first: MarketResponse): Promise<void> {
    respond = () => first;
    await serveMarket(() => respond());
  }

  test("is asked for each time", async () => {
    await serveResponse(marketResponse("one", "1"));
    const connection = await repeating(request);
    respond = () => marketResponse("two", "2");
    const reply = await connection.ask(request);
    expect(reply.body).toContain('"two"');
    expect(reply.head).toContain('etag: "2.json"');
    respond = () => marketResponse("three");
    expect((await connection.ask(request)).head).not.toContain("etag: ");
  });

  test("may take time, or fail, as before", async () => {
    await serveResponse(marketResponse("one", "1"));
    const connection = await repeating(request);
    respond = () => sleep(20).then(() => marketResponse("later", "2"));
    for (let i = 0; i < 3; i++) expect((await connection.ask(request)).body).toContain('"later"');
    respond = () => {
      throw new Failure("unavailable", "away", { reason: "DATABASE_UNAVAILABLE" });
    };
    for (let i = 0; i < 3; i++) expect((await connection.ask(request)).status).toBe(503);
    respond = () => Promise.reject(new Failure("not_found", "gone", { reason: "MARKET_NOT_FOUND" }));
    for (let i = 0; i < 3; i++) expect((await connection.ask(request)).status).toBe(404);
    respond = () => marketResponse("again", "3");
    const before = await repeated();
    for (let i = 0; i < 3; i++) expect((await connection.ask(request)).body).toContain('"again"');
    await expectRepeated(before);
  });

  test("is not repeated where it is large", async () => {
    const large = marketResponse("x".repeat(70_000), "1");
    let asked = 0;
    await serveMarket(() => {
      asked++;
      return large;
    });
    const connection = await connect();
    for (let i = 0; i < 2 * warmingRequests; i++) await connection.ask(request);
    expect(await repeated()).toBe(0);
    // Once per request: a GET that cannot be repeated does not invoke the method twice.
    expect(asked).toBe(2 * warmingRequests);
  });
});

/** A POST whose body is a GET: to be taken for a body, wherever packets end. */
function smuggled(body: string): string {
  return `POST /api/v2/market/m HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

function smuggledInChunks(body: string): string {
  const chunk = `${body.length.toString(16)}\r\n${body}\r\n`;
  return `POST /api/v2/market/m HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`;
}

describe("a connection that is read before the parser", () => {
  const requests = [
    depth,
    depth,
    depth,
    get("/api/v2/market/depth/m/latest", 'If-None-Match: "7-depth.json"'),
    get("/api/v2/market/m"),
    get("/api/v2/nowhere"),
    get("/api/v2/market/depth/m/latest", "X-Other: GET /api/v2/market/m HTTP/1.1"),
    smuggled(depth),
    smuggled(`${depth}${depth}`),
    smuggled(`  ${depth}`),
    smuggledInChunks(depth),
    depth.replace("Host: x", "Host:x"),
    `\r\n${depth}`,
    get("/api/v2/ledgerentry/history"),
  ];

  /** Where packets end: between requests, where a GET begins inside of one, or anywhere. */
  const cuts = fc.array(
    fc.oneof(fc.constant("request"), fc.constant("inner"), fc.double({ min: 0, max: 1, noNaN: true })),
    {
      maxLength: 6,
    },
  );

  function packets(stream: readonly string[], wanted: readonly (string | number)[]): string[] {
    const text = stream.join("");
    const starts = stream.map((_request, i) => stream.slice(0, i).join("").length);
    const inner = [...text.matchAll(/GET /g)].map(({ index }) => index);
    const places = wanted.flatMap((cut) => {
      if (cut === "request") return starts;
      if (cut === "inner") return inner;
      return [Math.floor(Number(cut) * text.length)];
    });
    const sorted = [...new Set([0, ...places, text.length])].sort((a, b) => a - b);
    return sorted.slice(1).map((end, i) => text.slice(sorted[i], end));
  }

  test("answers the same as connections with a request each, wherever packets end", async () => {
    await serve();
    const expected = new Map<string, RawResponse>();
    for (const request of requests) expected.set(request, await alone(request));
    const connection = await repeating();
    const stream = fc.array(fc.constantFrom(...requests), { minLength: 1, maxLength: 8 });
    const before = await repeated();
    await fc.assert(
      fc.asyncProperty(stream, cuts, async (asked, wanted) => {
        await connection.send(...packets(asked, wanted));
        for (const request of asked) expect(await connection.response()).toEqual(expected.get(request));
      }),
      { numRuns: tries(2_000), endOnFailure: true },
    );
    await expectRepeated(before + (tuning ? tries(300) : 0));
  });

  test("keeps the order of its responses", async () => {
    const fastResponse = marketResponse("fast");
    const slow = awaited();
    let late = false;
    await serveMarket(({ marketId }) => (marketId === "slow" && late ? slow.response : fastResponse));
    const fast = get("/api/v2/market/fast");
    const connection = await repeating(fast);
    await connection.ask(get("/api/v2/market/slow"));
    late = true;
    await connection.send(get("/api/v2/market/slow", "X-Other: header"));
    await sleep(20);
    await connection.send(fast);
    await sleep(20);
    slow.come();
    expect((await connection.response()).body).toContain('"slow"');
    expect((await connection.response()).body).toContain('"fast"');
  });

  test("can become a WebSocket, and is then no longer read here", async () => {
    await serve();
    const connection = await repeating();
    let received = "";
    connection.socket.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
    });
    const key = Buffer.alloc(16).toString("base64");
    const wish = [
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      `Sec-WebSocket-Key: ${key}`,
    ];
    await connection.send(get("/api/v2/stream/markets/depth/updates?marketIds=m", ...wish));
    await expect.poll(() => received).toMatch(/^HTTP\/1\.1 101 /);
    // Node gives the parser that it no longer needs to the next connection.
    const next = await connect();
    await next.send(depth.slice(0, 20));
    await sleep(20);
    const maskedPing = Buffer.from([0x89, 0x80, 0, 0, 0, 0]);
    connection.socket.write(maskedPing);
    await expect.poll(() => received.endsWith("\x8a\x00")).toBe(true);
    expect((await next.ask(depth.slice(20))).status).toBe(200);
  });

  test("ends with its idle time, and not before", async () => {
    await serve({ limits: { keepAliveTimeoutMs: 500, headersTimeoutMs: 300 } });
    const connection = await repeating();
    const before = await repeated();
    for (let i = 0; i < 10; i++) {
      await sleep(150);
      await connection.ask(depth);
    }
    expect(await repeated()).toBe(before + (tuning ? 10 : 0));
    await expect.poll(() => connection.socket.closed).toBe(true);
  });

  test("is told to go while the server drains", async () => {
    const market = marketResponse("m");
    const slow = awaited();
    await serveMarket(({ marketId }) => (marketId === "slow" ? slow.response : market));
    const connection = await repeating(get("/api/v2/market/m"));
    await connection.send(get("/api/v2/market/slow"));
    await sleep(50);
    const drained = server.drain(2_000);
    await connection.send(get("/api/v2/market/m"));
    await sleep(50);
    slow.come();
    expect((await connection.response()).head).toMatch(/^connection: keep-alive\r$/im);
    expect((await connection.response()).head).toMatch(/^connection: close\r$/im);
    await drained;
  });

  // Without, a packet of more requests than may wait ends the connection.
  test.runIf(tuning)("is not answered faster than its reader takes", async () => {
    const market = marketResponse("x".repeat(60_000));
    let asked = 0;
    await serveMarket(() => {
      asked++;
      return market;
    });
    const request = get("/api/v2/market/m");
    const connection = await repeating(request);
    connection.socket.pause();
    await connection.send(...Array.from({ length: 2_000 }, () => request));
    expect(asked).toBeLessThan(500);
    connection.socket.resume();
    for (let i = 0; i < 2_000; i++) expect((await connection.response()).status).toBe(200);
  });
});
