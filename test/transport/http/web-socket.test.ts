import { subscribe, unsubscribe } from "node:diagnostics_channel";
import http from "node:http";
import type { Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { Failure, unavailable } from "../../../src/domain/failure.js";
import type { ListeningServer } from "../../support/listening.js";
import { RawConnection, rawGet, rawUpgrade } from "../../support/raw-http.js";
import { depthUpdate, type FakeService, piece, type TestStream } from "../fake-api.js";
import { serveFake } from "../serve-fake.js";

const path = "/api/v2/stream/markets/depth/updates";

const limits = { breakOffMs: 100, peerPingIntervalMs: 50, webSocketBytesPerPingMax: 20_000 };

let server: ListeningServer;
let service: FakeService;

beforeEach(async () => {
  ({ server, service } = await serveFake({ limits }));
});

afterEach(async () => {
  await server.close();
});

interface Connected {
  readonly client: WebSocket;
  readonly messages: string[];
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
}

async function connect(target = path, options: { autoPong?: boolean } = {}): Promise<Connected> {
  const client = new WebSocket(server.url.replace("http", "ws") + target, options);
  const messages: string[] = [];
  client.on("message", (data, isBinary) => messages.push(isBinary ? "binary" : data.toString()));
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    client.on("close", (code, reason) => resolve({ code, reason: reason.toString() }));
  });
  await new Promise<void>((resolve, reject) => {
    client.on("open", resolve);
    client.on("error", reject);
  });
  return { client, messages, closed };
}

function stream(): TestStream {
  const [first] = service.streams;
  if (first === undefined) throw new Error("no stream");
  return first;
}

/** The response to a request to upgrade that is not granted. */
function refused(target: string, headers: Record<string, string> = {}): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const request = http.get(server.url + target, {
      headers: {
        connection: "Upgrade",
        upgrade: "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        ...headers,
      },
    });
    request.on("upgrade", () => reject(new Error("upgraded")));
    request.on("error", reject);
    request.on("response", (response) => {
      let body = "";
      response.on("data", (chunk: Buffer) => {
        body += chunk.toString();
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
  });
}

test("a text message per response, whatever its size, and a good end", async () => {
  const { messages, closed } = await connect(`${path}?marketIds=m`);
  expect(service.requests[0]).toMatchObject({ marketIds: ["m"] });
  const sizes = [0, 100, 125, 126, 65_000, 66_000, 1_000_000];
  stream().give(...sizes.map((size) => piece({ contentType: "x".repeat(size) })));
  stream().give(depthUpdate(1n), depthUpdate(2n));
  stream().end();
  expect(await closed).toEqual({ code: 1000, reason: "" });
  expect(messages).toHaveLength(sizes.length + 2);
  expect(messages.slice(0, -2).map((text) => JSON.parse(text).result.contentType.length)).toEqual(sizes);
  expect(JSON.parse(messages.at(-1) ?? "").result.update[0].sequenceNumber).toBe("2");
  expect(stream().closed).toBe(true);
});

test.each<[failure: Failure, code: number]>([
  [new Failure("not_found", "gone", { reason: "UNKNOWN_MARKET" }), 1008],
  [new Failure("resource_exhausted", "stalled", { reason: "READER_STALLED" }), 1008],
  [new Failure("failed_precondition", "another chain", { reason: "CHAIN_CHANGED" }), 1008],
  [new Failure("out_of_range", "later", { reason: "HISTORY_NOT_YET" }), 1008],
  [unavailable("draining", "DRAINING", 1000), 1013],
  [new Failure("internal", "internal error", { reason: "INTERNAL" }), 1011],
  [new Failure("deadline_exceeded", "late", { reason: "DEADLINE_EXCEEDED" }), 1011],
])("%s: the error as a message, then close %i", async (failure, code) => {
  const { messages, closed } = await connect();
  stream().give(depthUpdate(1n));
  stream().fail(failure);
  expect(await closed).toEqual({ code, reason: failure.reason });
  expect(messages).toHaveLength(2);
  expect(JSON.parse(messages[1] ?? "")).toMatchObject({ error: { message: failure.message } });
});

test("a handshake that is none is refused with an ordinary error response", async () => {
  expect(await refused(path, { "sec-websocket-version": "8" })).toMatchObject({ status: 426 });
  expect(await refused(path, { "sec-websocket-key": "short" })).toMatchObject({ status: 400 });
  for (const protocols of ["a, a", "a b", "{x}", "", "a,,b", "a,\xa0b"]) {
    const { status, body } = await refused(path, { "sec-websocket-protocol": protocols });
    expect([status, JSON.parse(body).details]).toEqual([
      400,
      [expect.objectContaining({ reason: "WEBSOCKET_HANDSHAKE" })],
    ]);
  }
  expect(service.requests).toEqual([]);
});

test("the first of a page's subprotocols is selected", async () => {
  const client = new WebSocket(server.url.replace("http", "ws") + path, ["v2.depth", "other"]);
  await new Promise((resolve, reject) => client.on("open", resolve).on("error", reject));
  expect(client.protocol).toBe("v2.depth");
  client.terminate();
});

/** The error that a connection was told after its handshake, and how it was closed. */
async function told(
  target: string,
): Promise<{ error: { code: number; message: string }; code: number; reason: string }> {
  const { messages, closed } = await connect(target);
  const { code, reason } = await closed;
  expect(messages).toHaveLength(1);
  return { error: JSON.parse(messages[0] ?? "").error, code, reason };
}

test("every other error comes as a message behind the handshake, which browsers can read", async () => {
  expect(await told("/nope")).toMatchObject({ error: { code: 5 }, code: 1008, reason: "UNKNOWN_PATH" });
  expect(await told("/api/v2/market/m")).toMatchObject({ error: { code: 3 }, code: 1008, reason: "NOT_A_STREAM" });
  expect(await told(`${path}?nope=1`)).toMatchObject({
    error: { code: 3, message: "nope: unknown parameter; did you mean alt?" },
    code: 1008,
  });
  expect(service.streams).toHaveLength(0);
  service.refusal = unavailable("not ready", "NOT_READY", 1000);
  expect(await told(path)).toMatchObject({ error: { code: 14 }, code: 1013, reason: "NOT_READY" });
  service.refusal = undefined;
  service.onOpen = (opened) => opened.fail(new Failure("not_found", "gone", { reason: "UNKNOWN_MARKET" }));
  expect(await told(path)).toMatchObject({ error: { code: 5 }, code: 1008, reason: "UNKNOWN_MARKET" });
});

test("a client that leaves closes its stream", async () => {
  const { client } = await connect();
  client.terminate();
  await expect.poll(() => stream().closed).toBe(true);
  expect(service.calls[0]?.signal.aborted).toBe(true);
});

test("a peer that answers pings stays; one that does not is cut", async () => {
  await server.close();
  ({ server, service } = await serveFake({ limits: { ...limits, peerSilenceMaxMs: 500 } }));
  const alive = await connect();
  const dead = await connect(path, { autoPong: false });
  expect(await dead.closed).toMatchObject({ code: 1006 });
  expect(alive.client.readyState).toBe(WebSocket.OPEN);
  alive.client.close();
  await alive.closed;
});

test("messages from the client are ignored, within bounds", async () => {
  const polite = await connect();
  polite.client.send("hello");
  stream().give(depthUpdate(1n));
  await expect.poll(() => polite.messages.length).toBe(1);
  polite.client.close();
  const chatty = await connect();
  for (let i = 0; i < 20; i++) chatty.client.send("x".repeat(2_000));
  expect(await chatty.closed).toEqual({ code: 1008, reason: "TOO_MANY_MESSAGES" });
  const verbose = await connect();
  verbose.client.send("x".repeat(5_000));
  expect((await verbose.closed).code).toBe(1009);
});

test("a message of too many fragments ends the connection", async () => {
  const connection = await RawConnection.open(server.address.port);
  await connection.send(rawUpgrade(path));
  await connection.arrival(/^HTTP\/1\.1 101 /);
  const [first, next] = [Buffer.from([0x01, 0x80, 0, 0, 0, 0]), Buffer.from([0, 0x80, 0, 0, 0, 0])];
  connection.socket.write(Buffer.concat([first, ...Array.from({ length: 100 }, () => next)]));
  expect(await connection.ending()).not.toBe("open");
  const closedByPolicy = "\x03\xf0";
  expect(connection.received).toContain(closedByPolicy);
  connection.close();
});

test("a reader that does not read is not written to", async () => {
  const { client, messages } = await connect();
  client.pause();
  let given = 0;
  for (; given < 40; given++) {
    const before = stream().takes;
    stream().give(piece({ contentType: "x".repeat(1_000_000) }));
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (stream().takes === before) break;
  }
  expect(given).toBeLessThan(40);
  client.resume();
  await expect.poll(() => messages.length).toBe(given + 1);
  client.close();
});

test("a reader that is slow, and sends pings, gets everything behind the end of the stream", async () => {
  const { client, messages, closed } = await connect();
  client.pause();
  for (let given = 0; given < 20; given++) stream().give(piece({ contentType: "x".repeat(100_000) }));
  stream().end();
  await new Promise((resolve) => setTimeout(resolve, 3 * limits.breakOffMs));
  client.ping();
  await new Promise((resolve) => setTimeout(resolve, limits.breakOffMs));
  client.resume();
  expect((await closed).code).toBe(1000);
  expect(messages).toHaveLength(20);
});

test("a reader that takes nothing has its newest ping answered alone", async () => {
  const sockets: Socket[] = [];
  const keep = (message: unknown): void => {
    sockets.push((message as { readonly socket: Socket }).socket);
  };
  subscribe("net.server.socket", keep);
  const connection = await RawConnection.open(server.address.port);
  await connection.send(rawUpgrade(path));
  await connection.arrival(/\r\n\r\n/);
  unsubscribe("net.server.socket", keep);
  connection.socket.pause();
  stream().give(piece({ contentType: "x".repeat(10_000_000) }));
  await new Promise((resolve) => setTimeout(resolve, 100));
  const unread = sockets[0]?.writableLength ?? 0;
  expect(unread).toBeGreaterThan(1_000_000);
  await connection.send("\x89\x81\0\0\0\0a".repeat(500), "\x89\x81\0\0\0\0b");
  await new Promise((resolve) => setTimeout(resolve, 100));
  // Beside pings of the server.
  expect(sockets[0]?.writableLength).toBeLessThan(unread + 100);
  connection.socket.resume();
  await expect.poll(() => connection.received.slice(-10)).toContain("\x8a\x01b");
  expect(connection.received).not.toContain("\x8a\x01a");
  connection.close();
});

test("a client that closes, and does not hang up, has nothing more computed", async () => {
  const connection = await RawConnection.open(server.address.port, true);
  await connection.send(rawUpgrade(path));
  await connection.arrival(/\r\n\r\n/);
  const opened = stream();
  await connection.send("\x88\x80\0\0\0\0");
  await new Promise((resolve) => setTimeout(resolve, 20));
  const before = opened.takes;
  for (let given = 0; given < 20; given++) {
    opened.give(depthUpdate(BigInt(given + 1)));
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(opened.takes - before).toBeLessThanOrEqual(1);
  connection.close();
});

test("pings that arrive as the stream ends do not cut its end off", async () => {
  const connection = await RawConnection.open(server.address.port);
  await connection.send(rawUpgrade(path));
  await connection.arrival(/\r\n\r\n/);
  connection.socket.pause();
  stream().give(piece({ contentType: "x".repeat(5_000_000) }));
  await new Promise((resolve) => setTimeout(resolve, 20));
  // The server reads one in a turn of its loop.
  await connection.send("\x89\x80\0\0\0\0".repeat(2_000));
  for (let turns = 0; turns < 200; turns++) await new Promise((resolve) => setImmediate(resolve));
  stream().end();
  await new Promise((resolve) => setTimeout(resolve, 50));
  connection.socket.resume();
  expect(await connection.ending()).toBe("ended");
  expect(connection.received).toContain("\x88\x02\x03\xe8");
});

describe("another upgrade is left aside", () => {
  const wish = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"];

  test("and the request answered on a connection that stays open", async () => {
    const connection = await RawConnection.open(server.address.port);
    for (let i = 0; i < 20; i++) {
      expect(await connection.ask(rawGet("/api/v2/market/m", ...wish))).toMatchObject({ status: 200 });
    }
    service.onOpen = (opened) => {
      opened.give(depthUpdate(1n));
      opened.end();
    };
    await connection.send(rawGet(path, ...wish), rawGet("/api/v2/market/m"));
    expect((await connection.anyResponse()).body).toContain('"sequenceNumber":"1"');
    expect(await connection.response()).toMatchObject({ status: 200 });
    connection.close();
  });

  test("and the request's body is read: JDK's HttpClient asks for h2c with each POST", async () => {
    const connection = await RawConnection.open(server.address.port);
    const body = '{"marketId":"wanted"}';
    const head = ["POST /datanode.api.v2.TradingDataService/GetMarket HTTP/1.1", "Host: x", ...wish];
    const type = "Content-Type: application/json";
    await connection.send([...head, type, `Content-Length: ${body.length}`, "", body].join("\r\n"));
    expect(await connection.anyResponse()).toMatchObject({ status: 200 });
    expect(service.requests.at(-1)).toMatchObject({ marketId: "wanted" });
    const chunks = `5\r\n${body.slice(0, 5)}\r\n`;
    await connection.send([...head, type, "Transfer-Encoding: chunked", "", chunks].join("\r\n"));
    await connection.send(`${(body.length - 5).toString(16)}\r\n${body.slice(5)}\r\n0\r\n\r\n`);
    expect(await connection.anyResponse()).toMatchObject({ status: 200 });
    expect(service.requests.at(-1)).toMatchObject({ marketId: "wanted" });
    connection.close();
  });
});

describe("origins", () => {
  beforeEach(async () => {
    await server.close();
    ({ server, service } = await serveFake({ limits, corsOrigins: ["https://ours.example"] }));
  });

  test.each(["https://theirs.example", "null"])("%s is refused before the handshake", async (origin) => {
    const { status, body } = await refused(path, { origin });
    expect(status).toBe(403);
    expect(JSON.parse(body)).toMatchObject({ code: 7, details: [{ reason: "ORIGIN_NOT_ALLOWED" }] });
    expect(service.streams).toHaveLength(0);
  });

  test.each([{ origin: "https://ours.example" }, {}])("%o is served", async (headers) => {
    const client = new WebSocket(server.url.replace("http", "ws") + path, { headers });
    await new Promise((resolve, reject) => client.on("open", resolve).on("error", reject));
    client.terminate();
  });
});

test("a peer that was told an error and does not hang up is cut", async () => {
  await server.close();
  ({ server, service } = await serveFake({ limits }));
  const connection = await RawConnection.open(server.address.port, true);
  await connection.send(rawUpgrade("/nope"));
  await connection.ending();
  expect(connection.received).toContain("UNKNOWN_PATH");
  const connections = (): Promise<string> => fetch(`${server.url}/metrics`).then((response) => response.text());
  await expect.poll(connections).toContain("marketd_connections_open 1\n");
  connection.close();
});

test("a handshake with a body is refused", async () => {
  const connection = await RawConnection.open(server.address.port);
  await connection.send(`${rawUpgrade(path, "Content-Length: 5")}hello`);
  expect(await connection.response()).toMatchObject({ status: 400 });
  connection.close();
});

describe("frames that cost work and are no messages", () => {
  const maskedEmpty = {
    ping: [0x89, 0x80, 0, 0, 0, 0],
    pong: [0x8a, 0x80, 0, 0, 0, 0],
    fragment: [0, 0x80, 0, 0, 0, 0],
  };

  test.each(["ping", "pong", "fragment"] as const)("too many of the kind %s end the connection", async (kind) => {
    const connection = await RawConnection.open(server.address.port);
    await connection.send(rawUpgrade(path));
    await connection.arrival(/^HTTP\/1\.1 101 /);
    if (kind === "fragment") connection.socket.write(Buffer.from([0x01, 0x81, 0, 0, 0, 0, 65]));
    const frames = Buffer.concat(Array.from({ length: 1_000 }, () => Buffer.from(maskedEmpty[kind])));
    for (let i = 0; i < 10; i++) {
      connection.socket.write(frames);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const told = (): boolean => connection.end !== "open" || connection.received.includes("TOO_MANY_MESSAGES");
    await expect.poll(told).toBe(true);
    await expect.poll(() => stream().closed).toBe(true);
    connection.close();
  });
});
