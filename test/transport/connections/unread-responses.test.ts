import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, type TestContext, test } from "vitest";
import { Failure } from "../../../src/domain/failure.js";
import { errorTextLengthMax, violationsMax } from "../../../src/encoding/status.js";
import { pieceBytes, unreadBytesPerClientMax } from "../../../src/transport/connections/unread-responses.js";
import type { TransportLimits } from "../../../src/transport/options.js";
import {
  data,
  FrameConnection,
  flag,
  frameType,
  getFields,
  headers,
  postFields,
  setting,
  windowUpdate,
} from "../../support/http2-frames.js";
import { depthMessage } from "../grpc/fake-api.js";
import { type RpcServer, startRpcServer } from "../grpc/rpc-server.js";
import { serveFake } from "../serve-fake.js";

const service = "/datanode.api.v2.TradingDataService";
const enhanceYourCalm = 11;
const closedWindow = [[setting.initialWindowSize, 0]] as const;

/** A server for one test, which closes it when it has finished. */
async function serve({ onTestFinished }: TestContext, limits: Partial<TransportLimits>): Promise<RpcServer> {
  const server = await startRpcServer(limits);
  onTestFinished(() => server.close());
  return server;
}

/** The envelope of a request for a market, or for the depth of one: both have the id as field 1. */
function request(id: string): Buffer {
  const bytes = Buffer.from(id);
  return Buffer.concat([Buffer.from([0, 0, 0, 0, bytes.length + 2, 10, bytes.length]), bytes]);
}

/** How each protocol is asked, by stream id. */
const asked: Readonly<Record<string, (id: number) => Buffer>> = {
  gRPC: (id) => call(id, "GetMarket", "application/grpc", request("hot")),
  "gRPC through the router": (id) =>
    call(id, "GetMarket", "application/grpc+json", Buffer.from("\0\0\0\0\x02{}", "latin1")),
  "gRPC-Web": (id) => call(id, "GetMarket", "application/grpc-web+proto", request("hot")),
  "gRPC-Web, an error": (id) => call(id, "GetMarket", "application/grpc-web+proto", request("none")),
  "Connect, JSON": (id) => call(id, "GetMarket", "application/json", Buffer.from('{"marketId":"hot"}')),
  "Connect, an error": (id) => call(id, "GetMarket", "application/json", Buffer.from('{"marketId":"none"}')),
  HTTP: (id) => headers(id, getFields("/api/v2/market/hot"), flag.endStream),
  "HTTP, an error": (id) => headers(id, getFields("/nowhere"), flag.endStream),
  "HTTP, metrics": (id) => headers(id, getFields("/metrics"), flag.endStream),
};

const streams: Readonly<Record<string, (id: number) => Buffer>> = {
  gRPC: (id) => call(id, "ObserveMarketsDepthUpdates", "application/grpc", request("open")),
  "gRPC-Web": (id) => call(id, "ObserveMarketsDepthUpdates", "application/grpc-web+proto", request("open")),
  Connect: (id) => call(id, "ObserveMarketsDepthUpdates", "application/connect+proto", request("open")),
  HTTP: (id) => headers(id, getFields("/api/v2/stream/markets/depth/updates?marketIds=open"), flag.endStream),
};

function call(id: number, method: string, contentType: string, body: Buffer): Buffer {
  return Buffer.concat([headers(id, postFields(`${service}/${method}`, contentType)), data(id, body, flag.endStream)]);
}

function resetOf(connection: FrameConnection, id: number) {
  return connection.frame(({ type, streamId }) => type === frameType.rstStream && streamId === id);
}

// Each test waits for a server of its own to lose patience: all of them at once.
describe("a reader whose window stays closed is reset", { concurrent: true }, () => {
  test.for(Object.entries(asked))("%s: a small response", async ([, ask], context) => {
    const server = await serve(context, { stalledReaderMs: 300 });
    const connection = await FrameConnection.open(server.port, { settings: closedWindow });
    connection.send(ask(1));
    const reset = await resetOf(connection, 1);
    expect(reset?.payload.readUInt32BE()).toBe(enhanceYourCalm);
    expect(connection.typesOf(1)).toEqual([frameType.headers, frameType.rstStream]);
    // The connection itself is sound.
    connection.send(windowUpdate(0, 1000), ask(3), windowUpdate(3, 1_000_000));
    expect(
      await connection.frame(({ streamId, flags }) => streamId === 3 && (flags & flag.endStream) !== 0),
    ).toBeDefined();
    connection.close();
  });

  test.for(Object.entries(streams))("%s: a stream of small messages that go on", async ([, ask], context) => {
    const server = await serve(context, { stalledReaderMs: 500, breakOffMs: 100 });
    const connection = await FrameConnection.open(server.port, { settings: closedWindow });
    connection.send(ask(1));
    await context.expect.poll(() => server.streams.length).toBe(1);
    const giving = setInterval(() => server.streams[0]?.give(depthMessage("m")), 50);
    const reset = await resetOf(connection, 1);
    clearInterval(giving);
    expect(reset?.payload.readUInt32BE()).toBe(enhanceYourCalm);
    await context.expect.poll(() => server.streams[0]?.closed).toBeGreaterThan(0);
    connection.close();
  });
});

test.for(Object.entries(streams))("%s: the end of a stream without messages", async ([, ask], context) => {
  const server = await serve(context, { stalledReaderMs: 500, breakOffMs: 100 });
  const connection = await FrameConnection.open(server.port, { settings: closedWindow });
  connection.send(ask(1));
  await context.expect.poll(() => server.streams.length).toBe(1);
  server.streams[0]?.fail(new Failure("unavailable", "it ends", { reason: "DRAINING" }));
  const end = await connection.frame(({ type, streamId, flags }) => {
    return streamId === 1 && (type === frameType.rstStream || (flags & flag.endStream) !== 0);
  });
  expect(end).toBeDefined();
  connection.close();
});

test("a slow reader that takes something is left alone", async (context) => {
  const server = await serve(context, { stalledReaderMs: 600 });
  const connection = await FrameConnection.open(server.port, { settings: closedWindow });
  const bytes = 10 * pieceBytes;
  connection.send(call(1, "GetMarket", "application/grpc", request(`long ${bytes}`)), windowUpdate(0, 0x7fff_0000));
  for (let i = 0; i < 11; i++) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    connection.send(windowUpdate(1, pieceBytes));
  }
  await connection.frame(({ flags, streamId }) => streamId === 1 && (flags & flag.endStream) !== 0);
  const received = connection.frames.reduce((sum, { type, payload }) => sum + (type === 0 ? payload.length : 0), 0);
  expect(received).toBeGreaterThan(bytes);
  expect(connection.typesOf(1)).not.toContain(frameType.rstStream);
  connection.close();
});

test("a peer that reads nothing from its socket for a while is not taken for a dead session", async (context) => {
  const server = await serve(context, { peerPingIntervalMs: 100 });
  const connection = await FrameConnection.open(server.port, { settings: [[setting.initialWindowSize, 0x7fff_0000]] });
  connection.send(windowUpdate(0, 0x7000_0000));
  connection.socket.pause();
  const bytes = 40_000_000;
  connection.send(call(1, "GetMarket", "application/grpc", request(`long ${bytes}`)));
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  connection.socket.resume();
  await connection.frame(({ flags, streamId }) => streamId === 1 && (flags & flag.endStream) !== 0);
  expect(connection.socket.closed).toBe(false);
  expect(connection.typesOf(1)).not.toContain(frameType.rstStream);
  connection.close();
});

test("the responses that a client leaves unread are bounded, and come again once they are read", async (context) => {
  const server = await serve(context, {});
  const connection = await FrameConnection.open(server.port, { settings: closedWindow });
  const bytes = 4_000_000;
  const fit = Math.floor(unreadBytesPerClientMax / bytes);
  const ids = Array.from({ length: fit + 20 }, (_, i) => 2 * i + 1);
  for (const id of ids) connection.send(call(id, "GetMarket", "application/grpc", request(`long ${bytes}`)));
  await connection.frame(({ streamId }) => streamId === ids.at(-1));
  await new Promise((resolve) => setTimeout(resolve, 100));
  // With a status, or, where Connect's router had sent the headers already, by a reset.
  const refused = connection.frames.filter(
    ({ type, flags }) => (type === frameType.headers && (flags & flag.endStream) !== 0) || type === frameType.rstStream,
  );
  expect(refused.length).toBe(20);
  // Another client has its own share.
  const settings = [[setting.initialWindowSize, 10_000_000]] as const;
  const other = await FrameConnection.open(server.port, { settings, localAddress: "127.0.0.2" });
  other.send(windowUpdate(0, 10_000_000), call(1, "GetMarket", "application/grpc", request(`long ${bytes}`)));
  await other.frame(({ streamId, type, flags }) => streamId === 1 && type === frameType.headers && (flags & 1) !== 0);
  expect(other.frames.reduce((sum, { type, payload }) => sum + (type === 0 ? payload.length : 0), 0)).toBeGreaterThan(
    bytes,
  );
  other.close();
  connection.close();
});

test.for(["/metrics", "/file.txt"])("unread bytes of %s count, and are shared", async (path, { onTestFinished }) => {
  const bytes = 4_000_000;
  let made = 0;
  const metrics = async (): Promise<string> => {
    made++;
    await sleep(200);
    return "x".repeat(bytes);
  };
  const { server } = await serveFake({
    metricsText: { contentType: "text/plain; version=0.0.4; charset=utf-8", metrics },
    files: new Map([["/file.txt", { contentType: "text/plain", bytes: Buffer.alloc(bytes) }]]),
  });
  onTestFinished(() => server.close());
  const connection = await FrameConnection.open(server.address.port, { settings: closedWindow });
  const fit = Math.floor(unreadBytesPerClientMax / bytes);
  const ids = Array.from({ length: fit + 20 }, (_, i) => 2 * i + 1);
  const before = process.memoryUsage().rss;
  connection.send(...ids.map((id) => headers(id, getFields(path), flag.endStream)));
  const heads = (): number => connection.frames.filter(({ type }) => type === frameType.headers).length;
  await expect.poll(heads).toBe(ids.length);
  // A response of 4 MB says its length; a refusal is shorter, and waits for the window too.
  for (const id of ids) connection.send(windowUpdate(id, 1_000));
  const ended = (): number => connection.frames.filter(({ flags, type }) => type === 0 && (flags & 1) !== 0).length;
  await expect.poll(ended).toBe(20);
  expect(made).toBeLessThanOrEqual(5);
  expect(process.memoryUsage().rss - before).toBeLessThan(64_000_000);
  connection.close();
});

test("so are those over HTTP/1.1, of all connections of a client", async ({ onTestFinished }) => {
  const fit = 8;
  const file = { contentType: "text/plain", bytes: Buffer.alloc(unreadBytesPerClientMax / fit) };
  const { server } = await serveFake({ files: new Map([["/file.txt", file]]) });
  onTestFinished(() => server.close());
  const ask = async (localAddress: string): Promise<IncomingMessage> => {
    const { port } = server.address;
    const request = http.get({ port, host: "127.0.0.1", localAddress, path: "/file.txt", agent: false });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    return response;
  };
  const unread = await Promise.all(Array.from({ length: fit }, () => ask("127.0.0.1")));
  expect(unread.map(({ statusCode }) => statusCode)).toEqual(Array(fit).fill(200));
  expect((await ask("127.0.0.1")).statusCode).toBe(429);
  expect((await ask("127.0.0.2")).statusCode).toBe(200);
  const [first] = unread;
  first?.resume();
  await once(first as IncomingMessage, "end");
  expect((await ask("127.0.0.1")).statusCode).toBe(200);
});

test("an error of many bytes is sent to a client that leaves too much unread", async ({ onTestFinished }) => {
  const files = 16;
  const { server, service: fake } = await serveFake({
    files: new Map([
      ["/file.txt", { contentType: "text/plain", bytes: Buffer.alloc(unreadBytesPerClientMax / files) }],
    ]),
  });
  onTestFinished(() => server.close());
  const violation = { field: "市".repeat(errorTextLengthMax), description: "場".repeat(errorTextLengthMax) };
  const violations = Array.from({ length: violationsMax }, () => violation);
  fake.refusal = new Failure("invalid_argument", "no", { reason: "NO", violations });
  const connection = await FrameConnection.open(server.address.port, { settings: closedWindow });
  const ids = Array.from({ length: files }, (_, i) => 2 * i + 1);
  connection.send(...ids.map((id) => headers(id, getFields("/file.txt"), flag.endStream)));
  const asking = 2 * ids.length + 1;
  connection.send(headers(asking, getFields("/api/v2/stream/markets/depth/updates"), flag.endStream));
  connection.send(windowUpdate(0, 1_000_000), windowUpdate(asking, 1_000_000));
  const received = (): number => {
    const ended = connection.frames.some(
      ({ streamId, flags }) => streamId === asking && (flags & flag.endStream) !== 0,
    );
    const data = connection.frames.filter(({ streamId, type }) => streamId === asking && type === frameType.data);
    return ended ? data.reduce((sum, { payload }) => sum + payload.length, 0) : 0;
  };
  await expect.poll(received).toBeGreaterThan(violationsMax * errorTextLengthMax * 6);
  connection.close();
});
