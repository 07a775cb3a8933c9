import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { GetMarketResponseSchema, TradingDataService } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import type { EncodedResponse } from "../../../src/domain/encoded-response.js";
import { serverStreaming, unary } from "../../../src/domain/service.js";
import { MessageResponse } from "../../../src/encoding/message-response.js";
import type { ServerOptions } from "../../../src/transport/server.js";
import type { ListeningServer } from "../../support/listening.js";
import { RawConnection, rawGet, rawUpgrade } from "../../support/raw-http.js";
import { depthUpdate, TestStream } from "../fake-api.js";
import { serveFake } from "../serve-fake.js";

/* What a client gets that sends requests before it has the responses to those before. */

const streamPath = "/api/v2/stream/markets/depth/updates";
const unansweredRequestsMax = 8;

type MarketResponse = EncodedResponse<typeof GetMarketResponseSchema>;

let server: ListeningServer;
let asked: string[];
let streams: TestStream[];
const slow = new Map<string, () => void>();
const connections: RawConnection[] = [];
const warnings: Error[] = [];

function noteWarning(warning: Error): void {
  warnings.push(warning);
}

/** `large` has more than a socket of Node takes at once. */
function marketResponse(id: string): MarketResponse {
  const market = { id: id === "large" ? id.repeat(40_000) : id };
  return new MessageResponse(GetMarketResponseSchema, create(GetMarketResponseSchema, { market }), { version: id });
}

/** Markets whose names begin with `slow` answer when {@link come} says so. */
const getMarket = unary(TradingDataService.method.getMarket, ({ marketId }) => {
  asked.push(marketId);
  if (!marketId.startsWith("slow")) return marketResponse(marketId);
  return new Promise<MarketResponse>((resolve) => {
    slow.set(marketId, () => resolve(marketResponse(marketId)));
  });
});

const observe = serverStreaming(TradingDataService.method.observeMarketsDepthUpdates, () => {
  const stream = new TestStream();
  streams.push(stream);
  return stream;
});

async function come(id: string): Promise<void> {
  await expect.poll(() => slow.has(id)).toBe(true);
  slow.get(id)?.();
}

async function serve(options: Partial<ServerOptions> = {}): Promise<void> {
  ({ server } = await serveFake({ api: [getMarket, observe], ...options }));
}

async function connect(): Promise<RawConnection> {
  const connection = await RawConnection.open(server.address.port);
  connections.push(connection);
  return connection;
}

function market(id: string, ...headers: readonly string[]): string {
  return rawGet(`/api/v2/market/${id}`, ...headers);
}

function markets(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}${i}`);
}

async function expectMarkets(connection: RawConnection, ids: readonly string[]): Promise<void> {
  for (const id of ids) expect((await connection.anyResponse()).body).toContain(`"${id}"`);
}

beforeEach(() => {
  asked = [];
  streams = [];
  process.on("warning", noteWarning);
});

afterEach(async () => {
  process.off("warning", noteWarning);
  for (const connection of connections.splice(0)) connection.close();
  slow.clear();
  await server.close();
  expect(warnings.splice(0)).toEqual([]);
});

describe("requests in one packet", () => {
  test("are answered in order, each once the response before it has left", async () => {
    await serve();
    const connection = await connect();
    await connection.send(["slow", "a", "slow2", "b"].map((id) => market(id)).join(""));
    await expect.poll(() => asked).toEqual(["slow"]);
    await come("slow");
    await expect.poll(() => asked).toEqual(["slow", "a", "slow2"]);
    await come("slow2");
    await expectMarkets(connection, ["slow", "a", "slow2", "b"]);
  });

  test("as many as may wait are answered, more end the connection and compute nothing", async () => {
    await serve({ limits: { unansweredRequestsMax } });
    const moderate = await connect();
    await moderate.ask(market("first"));
    const ids = ["slow", ...markets("m", unansweredRequestsMax)];
    await moderate.send(ids.map((id) => market(id)).join(""));
    await come("slow");
    await expectMarkets(moderate, ids);
    const greedy = await connect();
    asked = [];
    await greedy.send(market("first"));
    await greedy.response();
    await greedy.send(["slow3", ...markets("x", 500)].map((id) => market(id)).join(""));
    expect(await greedy.ending()).not.toBe("open");
    expect(asked).toEqual(["first", "slow3"]);
  });

  test.each([
    ["malformed", "nonsense\r\n\r\n", 400],
    ["too large", `GET / HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(70_000)}\r\n\r\n`, 431],
  ])("one that is %s is refused after the responses before it", async (_name, bytes, status) => {
    await serve();
    const connection = await connect();
    await connection.send(market("slow") + market("a") + bytes);
    await come("slow");
    await expectMarkets(connection, ["slow", "a"]);
    expect(await connection.response()).toMatchObject({ status });
    expect(await connection.ending()).toBe("ended");
  });

  test("without Host, or with an expectation, are answered in their turn", async () => {
    await serve({ limits: { unansweredRequestsMax } });
    const connection = await connect();
    await connection.ask(market("first"));
    const hostless = "GET /api/v2/market/a HTTP/1.1\r\n\r\n";
    await connection.send(
      market("slow") + hostless + market("a", "Expect: magic") + market("b", "Expect: 100-continue"),
    );
    await expect.poll(() => asked).toEqual(["first", "slow"]);
    await come("slow");
    await expectMarkets(connection, ["slow"]);
    expect(await connection.response()).toMatchObject({ status: 400, body: expect.stringContaining("HOST_MISSING") });
    expect(await connection.response()).toMatchObject({ status: 417, body: expect.stringContaining("EXPECTATION") });
    await connection.arrival(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK/);
    const many = await connect();
    await many.ask(market("first"));
    await many.send(market("slow2") + hostless.repeat(500));
    expect(await many.ending()).not.toBe("open");
  });
});

test("after one packet of too many requests, no connection's packets are parsed at once", async () => {
  await serve({ limits: { unansweredRequestsMax } });
  const [streaming, paused, idle] = [await connect(), await connect(), await connect()];
  await streaming.send(rawGet(streamPath));
  await expect.poll(() => streams.length).toBe(1);
  await paused.ask(market("first"));
  await paused.send(market("slow") + market("a"));
  await expect.poll(() => slow.has("slow")).toBe(true);
  await idle.ask(market("first"));
  const greedy = await connect();
  await greedy.ask(market("first"));
  await greedy.send(market("x").repeat(500));
  expect(await greedy.ending()).not.toBe("open");
  const later = await connect();
  await later.ask(market("first"));
  const ids = ["slow2", ...markets("m", 500)];
  const packet = ids.map((id) => market(id)).join("");
  for (const connection of [idle, later, streaming, paused]) {
    slow.delete("slow2");
    await connection.send(packet);
    if (connection === streaming) {
      streams[0]?.end();
      await connection.anyResponse();
    }
    if (connection === paused) {
      await come("slow");
      await expectMarkets(connection, ["slow", "a"]);
    }
    await come("slow2");
    await expectMarkets(connection, ids);
  }
});

describe("a connection that pipelines", () => {
  test("from its first packet is answered, however much", async () => {
    await serve({ limits: { unansweredRequestsMax } });
    const connection = await connect();
    const ids = ["slow", ...markets("m", 500)];
    await connection.send(ids.map((id) => market(id)).join(""));
    await come("slow");
    await expectMarkets(connection, ids);
  });

  test("is not read while requests wait, however many, and all are answered in order", {
    timeout: 60_000,
  }, async () => {
    await serve({ limits: { unansweredRequestsMax } });
    const connection = await connect();
    await connection.send(market("slow") + market("a"));
    await come("slow");
    await expectMarkets(connection, ["slow", "a"]);
    const ids = ["slow2", ...markets("m", 3_000)];
    await connection.send(...ids.map((id) => market(id)));
    await come("slow2");
    await expectMarkets(connection, ids);
  });

  test("does not keep others from their responses", async () => {
    await serve();
    const greedy = await connect();
    await greedy.send(market("a") + market("b"));
    await expectMarkets(greedy, ["a", "b"]);
    asked = [];
    await greedy.send(rawGet("/metrics").repeat(1_000));
    const other = await connect();
    await other.ask(market("other"));
    expect(greedy.received.split("HTTP/1.1 200 OK").length).toBeLessThan(100);
  });

  test("behind an open stream is answered when that ends", async () => {
    await serve();
    const connection = await connect();
    await connection.send(rawGet(streamPath));
    await expect.poll(() => streams.length).toBe(1);
    const ids = markets("m", 20);
    await connection.send(...ids.map((id) => market(id)));
    streams[0]?.give(depthUpdate(1n));
    await connection.arrival(/"sequenceNumber":"1"/);
    await sleep(50);
    expect(asked).toEqual([]);
    streams[0]?.end();
    expect((await connection.anyResponse()).head).toContain("chunked");
    await expectMarkets(connection, ids);
  });

  test("and leaves has its stream closed, and nothing of what waits is computed", async () => {
    await serve();
    const connection = await connect();
    await connection.send(rawGet(streamPath) + market("a"));
    await expect.poll(() => streams.length).toBe(1);
    connection.close();
    await expect
      .poll(() => {
        streams[0]?.give(depthUpdate(1n));
        return streams[0]?.closed;
      })
      .toBe(true);
    expect(asked).toEqual([]);
  });
});

describe("a request to upgrade behind others", () => {
  test.each(["from the first packet", "later"])("is granted in its turn, with what follows it: %s", async (when) => {
    await serve();
    const connection = await connect();
    if (when === "later") await connection.ask(market("first"));
    const maskedPing = "\x89\x80\0\0\0\0";
    await connection.send(market("slow") + market("a") + rawUpgrade(streamPath) + maskedPing);
    await come("slow");
    await expectMarkets(connection, ["slow", "a"]);
    await connection.arrival(/^HTTP\/1\.1 101 [\s\S]*\r\n\r\n[\s\S]\0$/);
    await connection.send(maskedPing);
    await connection.arrival(/\r\n\r\n[\s\S]\0[\s\S]\0$/);
  });

  test("is read once it is granted, also behind a large response", async () => {
    await serve();
    const connection = await connect();
    await connection.ask(market("first"));
    await connection.send(market("large") + market("a") + rawUpgrade(streamPath));
    for (let n = 0; n < 2; n++) expect((await connection.anyResponse()).status).toBe(200);
    await connection.arrival(/^HTTP\/1\.1 101 [\s\S]*\r\n\r\n/);
    await connection.send("\x89\x80\0\0\0\0");
    const pong = "\x8a\0";
    await expect.poll(() => connection.received, { timeout: 5_000 }).toContain(pong);
  });

  test("that is left aside is not ended as one without requests", async () => {
    await serve({ limits: { keepAliveTimeoutMs: 100 } });
    const connection = await connect();
    await connection.ask(market("first"));
    await connection.send(market("a") + rawGet(streamPath, "Connection: Upgrade", "Upgrade: h2c"));
    await expectMarkets(connection, ["a"]);
    await expect.poll(() => streams.length).toBe(1);
    await sleep(2_000);
    streams[0]?.give(depthUpdate(7n));
    streams[0]?.end();
    expect((await connection.anyResponse()).body).toContain('"sequenceNumber":"7"');
  });

  test("is granted after an open stream has ended, which goes on until then", async () => {
    await serve();
    const connection = await connect();
    await connection.ask(market("first"));
    await connection.send(rawGet(`${streamPath}?alt=sse`) + rawUpgrade(streamPath));
    await expect.poll(() => streams.length).toBe(1);
    for (let i = 1n; i < 200n; i++) streams[0]?.give(depthUpdate(i));
    streams[0]?.end();
    expect((await connection.anyResponse()).body).toContain('"sequenceNumber":"199"');
    await connection.arrival(/^HTTP\/1\.1 101 /);
  });

  test.each([
    ["that is refused", rawUpgrade("/nowhere").replace("Version: 13", "Version: 8"), 426],
    ["of another protocol", rawGet("/api/v2/nowhere", "Connection: Upgrade", "Upgrade: h2c"), 404],
    ["by CONNECT", "CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", 405],
  ])("%s is answered in its turn", async (_name, request, status) => {
    await serve();
    for (const first of [market("slow"), rawGet(streamPath), market("a")]) {
      const connection = await connect();
      await connection.ask(market("first"));
      await connection.send(first + request);
      if (first.includes("slow")) await come("slow");
      if (first.includes("stream")) await expect.poll(() => streams.length).toBe(1);
      streams[0]?.end();
      expect(await connection.anyResponse()).toMatchObject({ status: 200 });
      expect(await connection.response()).toMatchObject({ status });
    }
  });

  test("does not end the process when its client leaves at any time", async () => {
    await serve();
    for (let i = 0; i < 50; i++) {
      const connection = await connect();
      if (i % 3 > 0) await connection.ask(market("first"));
      await connection.send(rawGet(streamPath) + market("a") + rawUpgrade(streamPath));
      await sleep(i % 5);
      if (i % 2 === 0) connection.socket.resetAndDestroy();
      else connection.close();
    }
    for (const stream of streams) stream.end();
    expect((await (await connect()).ask(market("m"))).status).toBe(200);
  });
});
