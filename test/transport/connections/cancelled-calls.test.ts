import http2 from "node:http2";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { streamsOfConnectionMin, streamsPerTurnMax } from "../../../src/transport/call/event-loop.js";
import {
  CancelledCalls,
  cancellingClientsMax,
  earlyCancelMs,
} from "../../../src/transport/connections/connection-admission.js";
import { defaultTransportLimits } from "../../../src/transport/options.js";
import type { ServerOptions } from "../../../src/transport/server.js";
import {
  data,
  type Frame,
  FrameConnection,
  flag,
  frameType,
  getFields,
  headers,
  postFields,
  preface,
  rstStream,
} from "../../support/http2-frames.js";
import type { ListeningServer } from "../../support/listening.js";
import { ownVersion } from "../../support/node-versions.js";
import type { FakeService } from "../fake-api.js";
import { serveFake } from "../serve-fake.js";

const marketPath = "/api/v2/market/m";
const neverPath = "/api/v2/market/never";
const streamPath = "/api/v2/stream/markets/depth/updates";
const internalError = 2;
const enhanceYourCalm = 11;

/** Whether this Node lets a server say how many streams of a connection may be reset. */
const canSetResets = ownVersion >= 22;

let server: ListeningServer;
let service: FakeService;

async function serve(options: Partial<ServerOptions> = {}): Promise<void> {
  ({ server, service } = await serveFake(options));
}

afterEach(async () => {
  await server.close();
});

/** Calls that are made and cancelled at once, `count` of them from stream `first` on. */
function cancelled(first: number, count: number, more: Record<string, string> = {}): Buffer {
  const ids = Array.from({ length: count }, (_, i) => first + 2 * i);
  return Buffer.concat(
    ids.flatMap((id) => [headers(id, { ...getFields(neverPath), ...more }, flag.endStream), rstStream(id)]),
  );
}

function goawayCode(connection: FrameConnection): number | undefined {
  return connection.frames.find(({ type }) => type === frameType.goaway)?.payload.readUInt32BE(4);
}

/** Asks by HTTP/1.1 on a connection of its own; gives the head of the response, as far as it comes within `ms`. */
async function ask(path: string, ms: number, more = "Connection: close\r\n"): Promise<string> {
  const socket: Socket = connect({ port: server.address.port, host: "127.0.0.1" });
  let received = "";
  socket.on("error", () => {});
  socket.on("data", (chunk: Buffer) => {
    received += chunk.toString("latin1");
  });
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n`);
  await Promise.race([closed, sleep(ms)]);
  socket.destroy();
  return received;
}

describe("a client that cancels its calls at once", () => {
  test("is cut before it has made many more, however many arrive together", async () => {
    await serve();
    const connection = await FrameConnection.open(server.address.port);
    connection.send(cancelled(1, 600));
    await connection.closed;
    expect(goawayCode(connection)).toBe(enhanceYourCalm);
    expect(service.requests.length).toBeLessThanOrEqual(defaultTransportLimits.http2CancelBurstMax);
  });

  test("gets no new budget by reconnecting, in either HTTP version, and may come back soon", async () => {
    await serve({ limits: { cancelledCallBurstMax: 300, cancelledCallsPerSecondMax: 30 } });
    // Each less than a connection may.
    for (let n = 0; n < 2; n++) {
      const connection = await FrameConnection.open(server.address.port);
      connection.send(cancelled(1, 150), headers(1001, getFields(marketPath), flag.endStream));
      await connection.frame(({ streamId, flags }) => streamId === 1001 && (flags & flag.endStream) !== 0);
      connection.close();
    }
    const third = await FrameConnection.open(server.address.port);
    third.send(cancelled(1, 150));
    await third.closed;
    expect(goawayCode(third)).toBe(enhanceYourCalm);
    // What it has cancelled is far above the limit: a pause of a few cancellations is not enough.
    await sleep(200);
    const refused = await FrameConnection.connect(server.address.port);
    refused.send(preface);
    await refused.closed;
    expect(goawayCode(refused)).toBe(enhanceYourCalm);
    const response = await ask(marketPath, 2_000);
    expect(response).toMatch(/^HTTP\/1\.1 429 /);
    expect(response).toMatch(/retry-after: 5\r\n/);
    expect(response).toContain("TOO_MANY_CANCELLED_CALLS");
    await expect.poll(() => ask(marketPath, 2_000), { timeout: 8_000 }).toMatch(/^HTTP\/1\.1 200 /);
  });

  test("and hangs up on all that it has just opened: counts too", async () => {
    await serve({ limits: { cancelledCallBurstMax: 100, cancelledCallsPerSecondMax: 10 } });
    const connection = await FrameConnection.open(server.address.port);
    for (let id = 1; id < 301; id += 2) connection.send(headers(id, getFields(neverPath), flag.endStream));
    await expect.poll(() => service.requests.length).toBe(150);
    connection.close();
    await expect.poll(() => ask(marketPath, 2_000)).toMatch(/^HTTP\/1\.1 429 /);
  });

  test.each([
    ["a unary call", neverPath, ""],
    ["a stream", streamPath, ""],
    [
      "a WebSocket",
      streamPath,
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
    ],
  ])("over HTTP/1.1, by hanging up, is refused: %s", async (_name, path, more) => {
    await serve({ limits: { cancelledCallBurstMax: 10, cancelledCallsPerSecondMax: 1 } });
    for (let n = 0; n < 16; n++) await ask(path, 20, more);
    // On a slow machine some had not been read when their client hung up.
    const again = async (): Promise<string> => {
      await ask(path, 20, more);
      return ask(marketPath, 2_000);
    };
    await expect.poll(again, { interval: 10 }).toMatch(/^HTTP\/1\.1 429 /);
  });

  test("by HTTP/1.1 answers that were read, as often as it likes, is not", async () => {
    await serve({ limits: { cancelledCallBurstMax: 10, cancelledCallsPerSecondMax: 1 } });
    for (let n = 0; n < 30; n++) {
      expect(await ask(marketPath, 2_000)).toMatch(/^HTTP\/1\.1 200 /);
    }
  });
});

describe("behind a trusted proxy", () => {
  const trustedProxies = [{ address: "127.0.0.1", prefixBits: 32 }];
  const from = (client: string) => ({ "x-forwarded-for": client });

  test("the one client is refused, and the others on the same connection are served", async () => {
    await serve({ trustedProxies, limits: { cancelledCallBurstMax: 300, cancelledCallsPerSecondMax: 1 } });
    const connection = await FrameConnection.open(server.address.port);
    connection.send(cancelled(1, 350, from("203.0.113.1")));
    const asking = (id: number, client: string) =>
      connection.send(headers(id, { ...getFields(marketPath), ...from(client) }, flag.endStream));
    asking(1001, "203.0.113.2");
    await connection.frame(({ streamId, flags }) => streamId === 1001 && (flags & flag.endStream) !== 0);
    asking(1003, "203.0.113.1");
    const reset = await connection.frame(({ streamId }) => streamId === 1003);
    expect([reset?.type, reset?.payload.readUInt32BE(0)]).toEqual([frameType.rstStream, enhanceYourCalm]);
    expect(goawayCode(connection)).toBeUndefined();
    connection.close();
    expect(await ask(marketPath, 2_000, "Connection: close\r\nX-Forwarded-For: 203.0.113.1\r\n")).toMatch(
      /^HTTP\/1\.1 429 /,
    );
    expect(await ask(marketPath, 2_000, "Connection: close\r\nX-Forwarded-For: 203.0.113.2\r\n")).toMatch(
      /^HTTP\/1\.1 200 /,
    );
  });

  test("all its clients together may leave very many calls, on Node 22 and later", async () => {
    await serve({ trustedProxies });
    const connection = await FrameConnection.open(server.address.port);
    const isLast = ({ streamId, flags, type }: Frame, id: number): boolean =>
      type === frameType.goaway || (streamId === id && (flags & flag.endStream) !== 0);
    for (let client = 0; client < 20; client++) {
      const [first, own] = [1 + client * 200, 199 + client * 200];
      const asks = { ...getFields(marketPath), ...from("203.0.113.99") };
      connection.send(cancelled(first, 99, from(`203.0.113.${client}`)), headers(own, asks, flag.endStream));
      await connection.frame((frame) => isLast(frame, own));
    }
    expect(goawayCode(connection)).toBe(canSetResets ? undefined : internalError);
    connection.close();
  });

  test("over HTTP/1.1 too", async () => {
    await serve({ trustedProxies, limits: { cancelledCallBurstMax: 10, cancelledCallsPerSecondMax: 1 } });
    for (let n = 0; n < 12; n++) await ask(neverPath, 20, "X-Forwarded-For: 203.0.113.1\r\n");
    expect(await ask(marketPath, 2_000, "Connection: close\r\nX-Forwarded-For: 203.0.113.1\r\n")).toMatch(
      /^HTTP\/1\.1 429 /,
    );
    expect(await ask(marketPath, 2_000, "Connection: close\r\nX-Forwarded-For: 203.0.113.2\r\n")).toMatch(
      /^HTTP\/1\.1 200 /,
    );
    expect(await ask(marketPath, 2_000)).toMatch(/^HTTP\/1\.1 200 /);
  });
});

test("subscriptions that were open for a while may all be left at once", async () => {
  await serve({ limits: { http2CancelBurstMax: 10, cancelledCallBurstMax: 10 } });
  const connection = await FrameConnection.open(server.address.port);
  const ids = Array.from({ length: 990 }, (_, i) => 2 * i + 1);
  for (const id of ids) connection.send(headers(id, getFields(streamPath), flag.endStream));
  await expect.poll(() => service.streams.length).toBe(990);
  await sleep(earlyCancelMs + 100);
  connection.send(...ids.map((id) => rstStream(id)));
  await expect.poll(() => service.streams.every(({ closed }) => closed)).toBe(true);
  connection.send(headers(2001, getFields(marketPath), flag.endStream));
  const end = await connection.frame(({ streamId, flags }) => streamId === 2001 && (flags & flag.endStream) !== 0);
  expect(end?.type).toBe(frameType.data);
  connection.close();
});

test("calls that are cancelled while their connection is cut do not end the process", async () => {
  await serve({ limits: { cancelledCallBurstMax: 1_000_000 } });
  const rpc = "/datanode.api.v2.TradingDataService/";
  const calls = [
    (id: number) => headers(id, getFields(neverPath), flag.endStream),
    (id: number) =>
      Buffer.concat([
        headers(id, postFields(`${rpc}GetMarket`, "application/grpc")),
        data(id, Buffer.alloc(5), flag.endStream),
      ]),
    (id: number) =>
      Buffer.concat([
        headers(id, postFields(`${rpc}ObserveMarketsDepthUpdates`, "application/grpc")),
        data(id, Buffer.alloc(5), flag.endStream),
      ]),
  ];
  let connections = 0;
  const attack = async (until: number): Promise<void> => {
    for (let n = 0; n < 2 || performance.now() < until; n++) {
      const connection = await FrameConnection.open(server.address.port);
      for (let first = 1; first < 2_000 && !connection.socket.closed; first += 100) {
        const ids = Array.from({ length: 50 }, (_, n) => first + 2 * n);
        connection.send(...ids.map((id) => calls[id % calls.length]?.(id) ?? Buffer.alloc(0)));
        if (connections % 2 === 0) await new Promise((resolve) => setImmediate(resolve));
        connection.send(...ids.map((id) => rstStream(id)));
      }
      await Promise.race([connection.closed, sleep(60_000)]);
      expect(connection.socket.closed).toBe(true);
      connections++;
    }
  };
  const until = performance.now() + 4_000;
  await Promise.all(Array.from({ length: 20 }, () => attack(until)));
  expect(connections).toBeGreaterThanOrEqual(40);
});

test("many connections share each turn of the event loop", async () => {
  await serve();
  const connections = await Promise.all(Array.from({ length: 40 }, () => FrameConnection.open(server.address.port)));
  const ids = Array.from({ length: 200 }, (_, i) => 2 * i + 1);
  const turns: number[] = [];
  let before = 0;
  const watching = setInterval(() => {}, 1_000);
  const watch = (): void => {
    turns.push(service.requests.length - before);
    before = service.requests.length;
    if (before < connections.length * ids.length) setImmediate(watch);
  };
  watch();
  for (const connection of connections) {
    connection.send(...ids.map((id) => headers(id, getFields(marketPath), flag.endStream)));
  }
  await expect.poll(() => service.requests.length, { timeout: 20_000 }).toBe(connections.length * ids.length);
  clearInterval(watching);
  for (const connection of connections) connection.close();
  // Between two looks of this test there may be the end of one turn and the beginning of the next.
  expect(Math.max(...turns)).toBeLessThanOrEqual(2 * (streamsPerTurnMax + connections.length * streamsOfConnectionMin));
});

test("clients are remembered in bounded memory, and those that go on are", () => {
  const calls = new CancelledCalls({ cancelledCallBurstMax: 2, cancelledCallsPerSecondMax: 1 });
  for (let n = 0; n < 3 * cancellingClientsMax; n++) {
    calls.allows(`client ${n}`);
    if (n % 1_000 === 0) calls.allows("this one");
  }
  expect(calls.size).toBeLessThanOrEqual(cancellingClientsMax);
  expect(calls.allows("this one")).toBe(false);
  expect(calls.exceededBy("this one")).toBe(true);
  expect(calls.exceededBy("another")).toBe(false);
});

test("a client of Node's own that cancels some calls a second keeps its connection", async () => {
  await serve();
  const session = http2.connect(server.url);
  for (let n = 0; n < 60; n++) {
    const stream = session.request({ ":path": streamPath });
    stream.on("error", () => {});
    await new Promise((resolve) => stream.once("response", resolve));
    stream.close(http2.constants.NGHTTP2_CANCEL);
  }
  expect(session.closed).toBe(false);
  session.destroy();
});
