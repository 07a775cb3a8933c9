import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import { type AddressInfo, createConnection, createServer, type Socket } from "node:net";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import {
  type GetMarketRequest,
  GetMarketResponseSchema,
  TradingDataService,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import type { EncodedResponse } from "../../../src/domain/encoded-response.js";
import { unary } from "../../../src/domain/service.js";
import { MessageResponse } from "../../../src/encoding/message-response.js";
import { RequestFeeder } from "../../../src/transport/connections/request-feeder.js";
import type { ServerOptions } from "../../../src/transport/server.js";
import type { ListeningServer } from "../../support/listening.js";
import { RawConnection, type RawResponse } from "../../support/raw-http.js";
import { tries } from "../../support/tries.js";
import { type FakeService, piece } from "../fake-api.js";
import { serveFake } from "../serve-fake.js";

let server: ListeningServer;
const connections: RawConnection[] = [];
const endings: (() => unknown)[] = [];

async function serve(options: Partial<ServerOptions> = {}): Promise<FakeService> {
  const served = await serveFake(options);
  server = served.server;
  endings.push(() => served.server.close());
  return served.service;
}

/** A plain server, each of whose connections `accept` gets. What it gives connects to it. */
async function listen(accept: (socket: Socket) => void): Promise<() => Socket> {
  const listener = createServer(accept);
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  endings.push(() => listener.close());
  return () => {
    const client = createConnection((listener.address() as AddressInfo).port, "127.0.0.1");
    client.on("error", () => {});
    endings.push(() => client.destroy());
    return client;
  };
}

async function connect(): Promise<RawConnection> {
  const connection = await RawConnection.open(server.address.port);
  connections.push(connection);
  return connection;
}

afterEach(async () => {
  for (const connection of connections.splice(0)) connection.close();
  for (const end of endings.splice(0).reverse()) await end();
});

function get(path: string, ...headers: string[]): string {
  return [`GET ${path} HTTP/1.1`, "Host: x", ...headers, "", ""].join("\r\n");
}

function marketResponse(id: string, version?: string): MarketResponse {
  return new MessageResponse(GetMarketResponseSchema, create(GetMarketResponseSchema, { market: { id } }), { version });
}

type MarketResponse = EncodedResponse<typeof GetMarketResponseSchema>;

/** Serves one method, as it is given. */
function serveMarket(
  respond: (request: GetMarketRequest) => MarketResponse | Promise<MarketResponse>,
): Promise<unknown> {
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

/** A connection whose first packet pipelines: the parser is given one of its requests at a time. */
async function pipelining(request = depth): Promise<RawConnection> {
  const connection = await connect();
  await connection.send(request + request);
  for (let n = 0; n < 2; n++) await connection.response();
  return connection;
}

async function alone(request: string): Promise<RawResponse> {
  const connection = await connect();
  const response = await connection.ask(request);
  connection.close();
  return response;
}

/** A POST whose body is a GET: to be taken for a body, wherever packets end. */
function smuggled(body: string): string {
  return `POST /api/v2/market/m HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

function smuggledInChunks(body: string): string {
  const chunk = `${body.length.toString(16)}\r\n${body}\r\n`;
  return `POST /api/v2/market/m HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`;
}

describe("a connection that pipelines", () => {
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
    const connection = await pipelining();
    const stream = fc.array(fc.constantFrom(...requests), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(stream, cuts, async (asked, wanted) => {
        await connection.send(...packets(asked, wanted));
        for (const request of asked) expect(await connection.response()).toEqual(expected.get(request));
      }),
      { numRuns: tries(2_000), endOnFailure: true },
    );
  });

  test("keeps the order of its responses", async () => {
    const fastResponse = marketResponse("fast");
    const slow = awaited();
    let late = false;
    await serveMarket(({ marketId }) => (marketId === "slow" && late ? slow.response : fastResponse));
    const fast = get("/api/v2/market/fast");
    const connection = await pipelining(fast);
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

  test("gives a request its body while the server drains", async () => {
    const slow = awaited();
    await serveMarket(({ marketId }) => (marketId === "slow" ? slow.response : marketResponse(marketId)));
    const connection = await pipelining(get("/api/v2/market/fast"));
    await connection.send(get("/api/v2/market/slow"));
    await sleep(50);
    const drained = server.drain(2_000);
    const post =
      "POST /datanode.api.v2.TradingDataService/GetMarket HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    const body = '{"marketId":"posted"}';
    await connection.send(`${post}Content-Length: ${body.length}\r\n\r\n${body}`);
    await sleep(50);
    slow.come();
    expect((await connection.response()).body).toContain('"slow"');
    expect((await connection.response()).body).toContain('"posted"');
    await drained;
  });

  test("can become a WebSocket, and is then no longer read here", async () => {
    await serve();
    const connection = await pipelining();
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

  test.each([
    ["no Host", depth.replace("Host: x\r\n", "")],
    ["two", depth.replace("Host: x\r\n", "Host: x\r\nHost: y\r\n")],
  ])("has a GET refused as often as it is sent: %s", async (_name, invalid) => {
    await serve();
    const connection = await pipelining();
    for (let n = 0; n < 12; n++) {
      expect((await alone(invalid)).status).toBe(400);
      if (connection.end === "open") expect((await connection.ask(invalid)).status).toBe(400);
    }
  });

  test("has the parser make one request of a packet at a time", async () => {
    await serve({ limits: { unansweredRequestsMax: 8 } });
    const connection = await pipelining();
    await connection.send(depth.repeat(500));
    for (let n = 0; n < 500; n++) expect((await connection.response()).status).toBe(200);
  });

  test.for([2, 3, 8])("after a first request, %i of them behind much, is still read after", async (behind) => {
    // More than Node gives a socket at once: the parser pauses the connection for a moment, while feeding starts.
    const large = marketResponse("l".repeat(200_000));
    const small = marketResponse("s");
    await serveMarket(({ marketId }) => (marketId === "large" ? large : small));
    const connection = await connect();
    await connection.ask(get("/api/v2/market/s"));
    for (let times = 0; times < 3; times++) {
      await connection.send(get("/api/v2/market/large") + get("/api/v2/market/s").repeat(behind));
      for (let n = 0; n <= behind; n++) expect((await connection.response()).status).toBe(200);
    }
    expect((await connection.ask(get("/api/v2/market/s"))).status).toBe(200);
  });

  test("is told to go while the server drains", async () => {
    const market = marketResponse("m");
    const slow = awaited();
    await serveMarket(({ marketId }) => (marketId === "slow" ? slow.response : market));
    const connection = await pipelining(get("/api/v2/market/m"));
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

  test("is read a few packets ahead of its responses, and no further", async () => {
    const sockets: Socket[] = [];
    const keep = (message: unknown): void => {
      sockets.push((message as { readonly socket: Socket }).socket);
    };
    subscribe("net.server.socket", keep);
    const request = get("/api/v2/market/m");
    let asked = -2;
    let aheadMax = 0;
    await serveMarket(async () => {
      asked++;
      aheadMax = Math.max(aheadMax, (sockets[0]?.bytesRead ?? 0) - asked * request.length);
      await setImmediate();
      return marketResponse("m");
    });
    const connection = await pipelining(request);
    unsubscribe("net.server.socket", keep);
    const requests = 12_000;
    await connection.send(request.repeat(requests));
    for (let n = 0; n < requests; n++) await connection.response();
    expect(asked).toBe(requests);
    expect(aheadMax).toBeLessThan(4 * 65_536);
  });

  test("is not answered faster than its reader takes", async () => {
    const market = marketResponse("x".repeat(60_000));
    let asked = 0;
    await serveMarket(() => {
      asked++;
      return market;
    });
    const request = get("/api/v2/market/m");
    const connection = await pipelining(request);
    connection.socket.pause();
    await connection.send(...Array.from({ length: 2_000 }, () => request));
    expect(asked).toBeLessThan(500);
    connection.socket.resume();
    for (let i = 0; i < 2_000; i++) expect((await connection.response()).status).toBe(200);
  });
});

describe("a request that has not arrived completely, behind one that is answered slowly", () => {
  const post =
    "POST /datanode.api.v2.TradingDataService/GetMarket HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";

  /** The first request is answered after a second. */
  async function behindSlow(packet: string): Promise<RawConnection> {
    const slow = awaited();
    await serve({
      api: [
        unary(TradingDataService.method.getMarket, ({ marketId }) =>
          marketId === "slow" ? slow.response : marketResponse(marketId),
        ),
      ],
      limits: { headersTimeoutMs: 200, requestReceiveTimeoutMs: 400 },
    });
    const connection = await connect();
    await connection.send(get("/api/v2/market/slow"));
    await sleep(50);
    await connection.send(packet);
    await sleep(1_000);
    slow.come();
    expect((await connection.response()).body).toContain('"slow"');
    return connection;
  }

  test.each([
    ["in chunks", "Transfer-Encoding: chunked", ["8\r\n", '{"market', '\r\n8\r\nId":"m"}\r\n0\r\n\r\n']],
    ["with a length", "Content-Length: 16", ["", '{"market', 'Id":"m"}']],
  ])("has its time from its turn on: %s", async (_, field, [start = "", middle = "", rest = ""]) => {
    const connection = await behindSlow(`${post}${field}\r\n\r\n${start}${middle}`);
    await connection.send(rest);
    expect((await connection.response()).body).toContain('"m"');
  });

  test("ends the connection if it never arrives, though it has its response", async () => {
    const connection = await behindSlow("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{");
    expect((await connection.response()).status).toBe(404);
    await connection.send('"');
    const started = performance.now();
    expect(await connection.ending()).toBe("ended");
    expect(performance.now() - started).toBeLessThan(1_000);
  });

  test("is refused in its turn where it is malformed", async () => {
    const connection = await behindSlow(`${post}Transfer-Encoding: chunked\r\n\r\n8\r\n{"market\r\nX`);
    const started = performance.now();
    expect((await connection.response()).status).toBe(400);
    expect(performance.now() - started).toBeLessThan(300);
  });
});

/** The requests that servers of this process get meanwhile. */
async function requestsDuring(run: () => Promise<void>): Promise<IncomingMessage[]> {
  const requests: IncomingMessage[] = [];
  const keep = (message: unknown): void => {
    requests.push((message as { readonly request: IncomingMessage }).request);
  };
  subscribe("http.server.request.start", keep);
  await run();
  unsubscribe("http.server.request.start", keep);
  return requests;
}

describe("a body that nobody reads", () => {
  const sent = "400\r\n".padEnd(1_029, " ").concat("\r\n").repeat(600);

  test("is not kept while its GET is being answered", async () => {
    await serve({ api: [unary(TradingDataService.method.getMarket, () => new Promise<MarketResponse>(() => {}))] });
    const requests = await requestsDuring(async () => {
      const connection = await connect();
      await connection.send(get("/api/v2/market/m", "Transfer-Encoding: chunked"), sent);
      await sleep(500);
      expect(connection.end).toBe("open");
    });
    expect(requests).toHaveLength(1);
    expect(requests[0]?.readableLength).toBe(0);
  });

  test("has its time, however fast it is sent", async () => {
    await serve({ limits: { headersTimeoutMs: 200, requestReceiveTimeoutMs: 400 } });
    const connection = await connect();
    await connection.send(get("/nowhere", "Transfer-Encoding: chunked"));
    expect((await connection.response()).status).toBe(404);
    const sending = setInterval(() => !connection.socket.writableNeedDrain && connection.socket.write(sent), 1);
    const started = performance.now();
    await connection.ending();
    clearInterval(sending);
    expect(performance.now() - started).toBeLessThan(3_000);
  });
});

describe("a body in chunks behind a request that is being answered", () => {
  test.each([
    ["in one small packet, waits", 100, true],
    ["in a packet of thousands of chunks, ends the connection", 5_000, false],
  ])("%s", async (_, chunks, isOpen) => {
    await serve({ api: [unary(TradingDataService.method.getMarket, () => new Promise<MarketResponse>(() => {}))] });
    const connection = await connect();
    await connection.ask(get("/healthz"));
    const post = "POST /datanode.api.v2.TradingDataService/GetMarket HTTP/1.1\r\nHost: x\r\n";
    const body = `Transfer-Encoding: chunked\r\n\r\n${"1\r\n \r\n".repeat(chunks)}`;
    await connection.send(`${get("/api/v2/market/m")}${post}${body}`);
    await sleep(200);
    expect(connection.end === "open").toBe(isOpen);
  });
});

test("a stream whose first message is more than its reader takes gets its request's body later", async () => {
  const service = await serve({ limits: { headersTimeoutMs: 200, requestReceiveTimeoutMs: 400 } });
  service.onOpen = (stream) => stream.give(piece({ contentType: "x".repeat(20_000_000) }));
  const connection = await connect();
  connection.socket.pause();
  const head = get("/api/v2/stream/markets/depth/updates", "Content-Type: application/json", "Content-Length: 2");
  await connection.send(`${head}{}`);
  await sleep(300);
  connection.socket.resume();
  await expect.poll(() => connection.received.length, { timeout: 10_000 }).toBeGreaterThan(20_000_000);
  await sleep(800);
  expect(connection.end).toBe("open");
});

test("a connection that asks for another protocol again and again has no more listeners", async () => {
  const sockets: Socket[] = [];
  const keep = (message: unknown): void => {
    sockets.push((message as { readonly socket: Socket }).socket);
  };
  subscribe("net.server.socket", keep);
  await serve();
  const upgrade = get("/healthz", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMA");
  const connection = await connect();
  await connection.send(upgrade.repeat(30));
  for (let n = 0; n < 30; n++) expect((await connection.response()).status).toBe(200);
  unsubscribe("net.server.socket", keep);
  expect(sockets[0]?.listenerCount("close")).toBeLessThan(10);
});

test("what a client waits for is dropped when it ends its side of the connection", async () => {
  let isAborted = false;
  await serve({
    api: [
      unary(TradingDataService.method.getMarket, (_request, { signal }) => {
        signal.addEventListener("abort", () => (isAborted = true));
        return new Promise<MarketResponse>(() => {});
      }),
    ],
  });
  const connection = await connect();
  await connection.send(get("/api/v2/market/m"));
  connection.socket.end();
  await expect.poll(() => isAborted).toBe(true);
  expect(connection.received).toBe("");
});

describe("a body in chunks of a byte", () => {
  const padding = 40_000;
  const body = `${" ".repeat(padding)}{"marketId":"m"}`;
  const chunksOf = (text: string): string => [...text].map((byte) => `1\r\n${byte}\r\n`).join("");
  const chunks = chunksOf(body);
  const head =
    "POST /datanode.api.v2.TradingDataService/GetMarket HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
  const post = `${head}Transfer-Encoding: chunked\r\n\r\n`;
  const host = {
    isBusy: () => false,
    inChunks: () => true,
    sender: () => "sender",
    proceed: () => {},
    heldBack: () => {},
    tooManyWait: () => {},
  };

  test.each([
    ["its head is alone", [post, `${chunks}0\r\n\r\n`]],
    ["it comes at once", [`${post}${chunks}0\r\n\r\n`]],
  ])("is read in turns of the event loop: %s", async (_name, packets) => {
    let inTurn = 0;
    let mostInTurn = 0;
    const watch = (message: unknown): void => {
      (message as { readonly request: IncomingMessage }).request.on("data", () => {
        if (inTurn++ === 0) void setImmediate().then(() => (inTurn = 0));
        mostInTurn = Math.max(mostInTurn, inTurn);
      });
    };
    subscribe("http.server.request.start", watch);
    await serveMarket(() => marketResponse("m"));
    const connection = await connect();
    await connection.send(...packets);
    expect((await connection.response()).body).toContain('"m"');
    unsubscribe("http.server.request.start", watch);
    expect(mostInTurn).toBeGreaterThan(100);
    expect(mostInTurn).toBeLessThan(3_000);
    // The connection can be used again.
    await connection.send(get("/api/v2/market/m"));
    expect((await connection.response()).status).toBe(200);
  });

  test("is read by Node itself where it is small and comes with its head", async () => {
    const sockets: Socket[] = [];
    const keep = (message: unknown): void => {
      sockets.push((message as { readonly socket: Socket }).socket);
    };
    subscribe("net.server.socket", keep);
    await serveMarket(() => marketResponse("m"));
    const connection = await connect();
    const readers: unknown[] = [];
    const small = `${post}10\r\n{"marketId":"m"}\r\n0\r\n\r\n`;
    for (const packet of [small, small, small, `${post}${chunks}0\r\n\r\n`]) {
      await connection.ask(packet);
      readers.push(...(sockets[0]?.listeners("data") ?? []));
    }
    unsubscribe("net.server.socket", keep);
    const [nodes, second, third, feeders] = readers;
    expect(readers).toHaveLength(4);
    expect([second === nodes, third === nodes, feeders === nodes]).toEqual([true, true, false]);
  });

  /** Sixty clients at once, each with a request on its own connection; their responses. */
  async function sixty(request: (n: number) => string): Promise<RawResponse[]> {
    const all = await Promise.all(Array.from({ length: 60 }, () => connect()));
    return Promise.all(all.map((connection, n) => connection.ask(request(n))));
  }

  /** A packet of more requests than may wait. */
  async function flood(): Promise<void> {
    const connection = await connect();
    await connection.ask(depth);
    await connection.send(depth.repeat(200));
    await connection.ending();
  }

  // Enough for some turns each. Sixty of the longer ones take a slow machine as long as a request may.
  const fewChunks = chunksOf(body.slice(-10_000));
  const inChunks = (client: string): string =>
    `${post.slice(0, -2)}X-Forwarded-For: ${client}\r\n\r\n${fewChunks}0\r\n\r\n`;
  const trustedProxies = [{ address: "127.0.0.1", prefixBits: 32 }];
  const api = [unary(TradingDataService.method.getMarket, () => marketResponse("m"))];

  test("is refused where too many of a client wait, but for none of the clients of a proxy", async () => {
    await serve({ api, trustedProxies });
    const ofMany = await sixty((n) => inChunks(`10.0.0.${n}`));
    expect(new Set(ofMany.map(({ status }) => status))).toEqual(new Set([200]));
    const ofOne = await sixty(() => inChunks("10.0.0.1"));
    expect(new Set(ofOne.map(({ status }) => status))).toEqual(new Set([200, 429]));
    expect(ofOne.find(({ status }) => status === 429)?.body).toContain("TOO_MANY_REQUESTS");
    expect(ofOne.filter(({ status }) => status === 200).length).toBeGreaterThan(30);
  });

  test.each([
    ["needs no turn where it is small, however many requests there were", true, 0],
    ["needs turns where it is large", false, 4],
  ])("%s", async (_name, areRequests, turns) => {
    let asked = 0;
    const open = await listen((socket) => {
      const sender = () => `${asked++}`;
      const feeder = new RequestFeeder(socket, { ...host, sender });
      socket.on("data", () => areRequests && feeder.refill());
      feeder.start();
    });
    const client = open();
    for (let n = 0; n < 10; n++) {
      client.write("x".repeat(4_096));
      await sleep(10);
    }
    expect(asked).toBe(turns);
  });

  test("of many clients waits on fewer connections of each", async () => {
    let refused = 0;
    let accepted = 0;
    const open = await listen((socket) => {
      // A hundred clients, with ten connections each.
      const client = `${accepted++ % 100}`;
      const tooManyWait = () => {
        refused++;
        socket.destroy();
      };
      const feeder = new RequestFeeder(socket, {
        ...host,
        isBusy: () => socket.destroyed,
        sender: () => client,
        tooManyWait,
      });
      socket.on("error", () => {});
      socket.on("data", () => {
        for (const until = performance.now() + 1; performance.now() < until; );
      });
      feeder.start();
    });
    for (let n = 0; n < 1_000; n++) open().write("x".repeat(60_000));
    await expect.poll(() => refused, { timeout: 10_000 }).toBeGreaterThan(300);
    expect(accepted - refused).toBeGreaterThan(400);
  });

  test("has nothing to do with bodies that have a length, after a flood either", async () => {
    await serve({ api });
    await flood();
    const all = await sixty(() => `${head}Content-Length: ${body.length}\r\n\r\n${body}`);
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([200]));
  });

  test.each([
    ["in chunks", true, "4\r\n\r\n\r\n\r\n", 4_000],
    ["not in chunks", false, "\r\n\r\n", 80],
  ])("that holds ends of heads is read in turns, too: %s", async (_name, inChunks, text, piecesMax) => {
    let pieces = 0;
    let bytes = 0;
    let mostInTurn = 0;
    let inTurn = 0;
    const open = await listen((socket) => {
      const feeder = new RequestFeeder(socket, { ...host, inChunks: () => inChunks });
      socket.on("data", (chunk: Buffer) => {
        if (inTurn++ === 0) void setImmediate().then(() => (inTurn = 0));
        mostInTurn = Math.max(mostInTurn, inTurn);
        pieces++;
        bytes += chunk.length;
      });
      feeder.start();
    });
    const client = open();
    client.write(text.repeat(3_000));
    await expect.poll(() => bytes).toBe(3_000 * text.length);
    expect(pieces).toBeGreaterThan(2_000);
    expect(mostInTurn).toBeLessThan(piecesMax);
  });

  test.each([
    ["\r\nA: b\r", "\n\r\n1\r\n", "\n\r\n"],
    ["\r\nA: b\r\n", "\r\n1\r\n", "\r\n"],
    ["\r\nA: b\r\n\r", "\n1\r\n", "\n"],
    ["\r\nA: b\r", "\r\n\r\n1\r\n", "\r\n\r\n"],
    ["\r\nA: b\r\n\r\n", "\r\n1\r\n", "\r\n1\r\n"],
    ["\r\nA: b", "c\r\n\r\n1\r\n", "c\r\n\r\n"],
  ])("begins where its head ends, in whichever packet: %j, %j", async (before, packet, piece) => {
    const pieces: string[] = [];
    const open = await listen((socket) => {
      const feeder = new RequestFeeder(socket, { ...host, inChunks: () => false });
      socket.on("data", (chunk: Buffer) => pieces.push(chunk.toString()));
      feeder.start();
    });
    const client = open();
    for (const text of [...(before.match(/\r?[^\r]*/g) ?? [])].filter((part) => part !== "")) {
      client.write(text);
      await sleep(10);
    }
    client.write(packet);
    await expect.poll(() => pieces.join("")).toBe(before + packet);
    const given = pieces.join("").slice(0, before.length + piece.length);
    let length = 0;
    expect(pieces.map((text) => (length += text.length))).toContain(given.length);
  });

  test("is read in turns though the reader of the response before is slow", async () => {
    const feeders: RequestFeeder[] = [];
    const open = await listen((socket) => {
      const feeder = new RequestFeeder(socket, host);
      feeders.push(feeder);
      socket.on("error", () => {});
      socket.on("data", () => {});
      socket.pause();
      feeder.startSoon();
      while (!socket.writableNeedDrain) socket.write(Buffer.alloc(1_000_000));
      socket.resume();
    });
    open();
    await expect.poll(() => feeders[0]?.isFeeding).toBe(true);
  });

  test("is dropped when its client leaves", async () => {
    const feeders: RequestFeeder[] = [];
    const open = await listen((socket) => {
      const feeder = new RequestFeeder(socket, { ...host, isBusy: () => socket.destroyed });
      feeders.push(feeder);
      socket.on("error", () => {});
      // The first bytes are given at once; the rest waits.
      socket.on("data", () => socket.destroy());
      feeder.start();
    });
    const client = open();
    client.write("x".repeat(60_000));
    await expect.poll(() => client.closed).toBe(true);
    expect(feeders.map(({ held }) => held.length)).toEqual([0]);
  });

  test("is not read further once the connection ends", async () => {
    const received: number[] = [];
    const open = await listen((socket) => {
      const feeder = new RequestFeeder(socket, host);
      socket.on("data", (chunk: Buffer) => {
        received.push(chunk.length);
        // While the rest waits for its turn.
        queueMicrotask(() => feeder.stop());
      });
      feeder.start();
    });
    const client = open();
    client.write("x".repeat(60_000));
    await expect.poll(() => received.length).toBeGreaterThan(0);
    await sleep(50);
    expect(received).toHaveLength(1);
  });
});
