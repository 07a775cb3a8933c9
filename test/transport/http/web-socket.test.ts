import http from "node:http";
import net from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import { Failure, unavailable } from "../../../src/domain/failure.js";
import type { RunningServer } from "../../../src/transport/server.js";
import { depthUpdate, type FakeService, piece, type TestStream } from "../fake-api.js";
import { serveFake } from "../serve-fake.js";

const path = "/api/v2/stream/markets/depth/updates";

const limits = { breakOffMs: 100, peerPingIntervalMs: 50, webSocketMessagesPerPingMax: 5 };

let server: RunningServer;
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

test("a text message per answer, whatever its size, and a good end", async () => {
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

test("a refusal is an ordinary error response", async () => {
  expect(await refused("/nope")).toMatchObject({ status: 404 });
  expect(await refused("/api/v2/market/m")).toMatchObject({ status: 400 });
  const unknown = await refused(`${path}?nope=1`);
  expect([unknown.status, JSON.parse(unknown.body).message]).toEqual([
    400,
    "nope: unknown parameter; did you mean alt?",
  ]);
  expect(await refused(path, { "sec-websocket-version": "8" })).toMatchObject({ status: 426 });
  expect(await refused(path, { "sec-websocket-key": "short" })).toMatchObject({ status: 400 });
  expect(service.streams).toHaveLength(0);
  service.refusal = unavailable("not ready", "NOT_READY", 1000);
  const later = await refused(path);
  expect([later.status, JSON.parse(later.body).code]).toEqual([503, 14]);
  service.refusal = undefined;
  service.onOpen = (opened) => opened.fail(new Failure("not_found", "gone", { reason: "UNKNOWN_MARKET" }));
  expect((await refused(path)).status).toBe(404);
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
  for (let i = 0; i < 20; i++) chatty.client.send("hello");
  expect(await chatty.closed).toEqual({ code: 1008, reason: "TOO_MANY_MESSAGES" });
  const verbose = await connect();
  verbose.client.send("x".repeat(5_000));
  expect((await verbose.closed).code).toBe(1009);
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
  await expect.poll(() => messages.length, { timeout: 5000 }).toBe(given + 1);
  client.close();
});

test("another upgrade is left aside, and the request answered", async () => {
  const answer = await new Promise<string>((resolve, reject) => {
    const socket = net.connect(server.address.port, "127.0.0.1");
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n` +
        "HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    );
    let received = "";
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString();
      if (received.endsWith("\r\n\r\n")) {
        stream().give(depthUpdate(1n));
        stream().end();
      }
    });
    socket.on("end", () => resolve(received));
    socket.on("error", reject);
  });
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(answer).toContain("Connection: close");
  expect(answer).toContain('"sequenceNumber":"1"');
});
