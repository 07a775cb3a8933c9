import { connect } from "node:http2";
import { connect as connectTcp } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { streamsOfConnectionMax } from "../../../src/transport/call/event-loop.js";
import { cancelledShareOfServedAtOnce } from "../../../src/transport/connections/http2-connection.js";
import { defaultTransportLimits, type TransportLimits } from "../../../src/transport/options.js";
import {
  data,
  FrameConnection,
  flag,
  frame,
  frameType,
  getFields,
  headerBlock,
  headers,
  ping,
  postFields,
  rstStream,
  settings,
  windowUpdate,
  words,
} from "../../support/http2-frames.js";
import type { ListeningServer } from "../../support/listening.js";
import type { FakeService } from "../fake-api.js";
import { serveFake } from "../serve-fake.js";

const marketPath = "/api/v2/market/m";
const neverPath = "/api/v2/market/never";
const grpc = postFields("/datanode.api.v2.TradingDataService/GetMarket", "application/grpc");
const enhanceYourCalm = 11;
const refusedStream = 7;

let server: ListeningServer;
let service: FakeService;

async function serve(limits: Partial<TransportLimits> = {}): Promise<FrameConnection> {
  ({ server, service } = await serveFake({ limits }));
  return FrameConnection.open(server.address.port);
}

afterEach(async () => {
  await server.close();
});

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

/** Sends as fast as the connection takes it until it is cut. @throws Error when it is not in time */
async function flood(connection: FrameConnection, bytes: () => Buffer, withinMs: number): Promise<void> {
  const until = performance.now() + withinMs;
  while (!connection.socket.closed) {
    if (performance.now() > until) throw new Error("the connection is still open");
    if (!connection.send(bytes())) await new Promise((resolve) => setTimeout(resolve, 1));
    else await turn();
  }
}

/** Streams that are opened and reset, `count` of them from `first` on. */
function resets(first: number, count: number, code?: number): Buffer {
  const ids = Array.from({ length: count }, (_, i) => first + 2 * i);
  return Buffer.concat(ids.flatMap((id) => [headers(id, getFields(neverPath), flag.endStream), rstStream(id, code)]));
}

test("streams whose header fields are too many together are reset, others go on", async () => {
  ({ server, service } = await serveFake({ limits: { http2FieldsOpenMax: 1_000 } }));
  const session = connect(server.url);
  const fields = Object.fromEntries(Array.from({ length: 90 }, (_, n) => [`x-${n}`, "y"]));
  const codes: (number | undefined)[] = [];
  const streams = Array.from({ length: 20 }, () => {
    const stream = session.request({ ":path": neverPath, ...fields });
    stream.on("error", () => {});
    stream.on("close", () => codes.push(stream.rstCode));
    return stream;
  });
  await expect.poll(() => codes).toEqual(Array.from({ length: 10 }, () => enhanceYourCalm));
  for (const stream of streams) stream.close();
  await expect.poll(() => codes.length).toBe(20);
  const call = session.request({ ":path": marketPath, ...fields });
  const status = await new Promise((resolve) => call.on("response", (response) => resolve(response[":status"])));
  expect(status).toBe(200);
  session.destroy();
});

test("streams that a client holds open on all connections are limited, and no other client's", async () => {
  ({ server, service } = await serveFake({ limits: { http2StreamsPerAddressMax: 20, streamsPerAddressMax: 5 } }));
  const { port } = server.address;
  const opened = (localAddress: string) =>
    connect(server.url, {
      settings: { initialWindowSize: 0 },
      createConnection: () => connectTcp({ port, host: "127.0.0.1", localAddress }),
    });
  const codes: (number | undefined)[] = [];
  const statuses: (number | undefined)[] = [];
  const ask = (session: ReturnType<typeof opened>) => {
    const stream = session.request({ ":path": marketPath });
    stream.on("error", () => {});
    stream.on("response", (response) => statuses.push(response[":status"]));
    stream.on("close", () => codes.push(stream.rstCode));
    return stream;
  };
  const sessions = [opened("127.0.0.1"), opened("127.0.0.1")];
  for (const session of sessions) for (let n = 0; n < 15; n++) ask(session);
  await expect.poll(() => [statuses.length, codes]).toEqual([20, Array.from({ length: 10 }, () => refusedStream)]);
  const other = opened("127.0.0.2");
  ask(other);
  await expect.poll(() => statuses.length).toBe(21);
  for (const session of sessions) session.destroy();
  await expect.poll(() => codes.length).toBe(30);
  const again = opened("127.0.0.1");
  await expect
    .poll(() => {
      ask(again);
      return statuses.length;
    })
    .toBeGreaterThan(21);
  other.destroy();
  again.destroy();
});

test("a refused stream counts as a tenth of a cancelled call, and ends no other stream of its connection before", async () => {
  const limits = { http2StreamsPerAddressMax: 4, streamsPerAddressMax: 2, http2CancelBurstMax: 20 };
  ({ server, service } = await serveFake({ limits: { ...limits, http2CancelsPerSecondMax: 1 } }));
  const session = connect(server.url, { settings: { initialWindowSize: 0 } });
  session.on("error", () => {});
  const goaways: number[] = [];
  session.on("goaway", (code) => goaways.push(code));
  const codes: (number | undefined)[] = [];
  const ask = (count: number) => {
    for (let n = 0; n < count; n++) {
      const stream = session.request({ ":path": marketPath });
      stream.on("error", () => {});
      stream.on("close", () => codes.push(stream.rstCode));
    }
  };
  ask(4 + 190);
  await expect.poll(() => codes).toEqual(Array.from({ length: 190 }, () => refusedStream));
  // More than ten a second, whose count is given back.
  ask(150);
  await expect.poll(() => goaways).toEqual([enhanceYourCalm]);
  expect(codes.length).toBeGreaterThanOrEqual(200);
});

test("fields of one client behind a proxy are no other's", async () => {
  const trustedProxies = [{ address: "127.0.0.1", prefixBits: 32 }];
  ({ server, service } = await serveFake({ limits: { http2FieldsOpenMax: 1_000 }, trustedProxies }));
  const session = connect(server.url);
  const fields = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`x-${n}`, "y"]));
  const reset: string[] = [];
  const open = (client: string, path: string) => {
    const stream = session.request({ ":path": path, "x-forwarded-for": client, ...fields });
    stream.on("error", () => {});
    stream.on("close", () => stream.rstCode === enhanceYourCalm && reset.push(client));
    return stream;
  };
  for (let n = 0; n < 25; n++) open("10.0.0.1", neverPath);
  await expect.poll(() => reset.length).toBeGreaterThan(0);
  const call = open("10.0.0.2", marketPath);
  const status = await new Promise((resolve) => call.on("response", (response) => resolve(response[":status"])));
  expect(status).toBe(200);
  expect(new Set(reset)).toEqual(new Set(["10.0.0.1"]));
  session.destroy();
});

test("trailers of hundreds of fields count as cancelled calls", async () => {
  ({ server, service } = await serveFake({ limits: { cancelledCallBurstMax: 100 } }));
  const session = connect(server.url);
  session.on("error", () => {});
  const closed = new Promise((resolve) => session.on("close", resolve));
  const fields = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`x-${n}`, "y"]));
  for (let n = 0; n < 20; n++) {
    const stream = session.request(grpc, { waitForTrailers: true });
    stream.on("error", () => {});
    stream.on("wantTrailers", () => stream.sendTrailers(fields));
    stream.end();
  }
  await closed;
  expect(session.destroyed).toBe(true);
});

test("requests of hundreds of fields count as cancelled calls", async () => {
  ({ server, service } = await serveFake({ limits: { cancelledCallBurstMax: 100 } }));
  const session = connect(server.url);
  session.on("error", () => {});
  const closed = new Promise((resolve) => session.on("close", resolve));
  const fields = Object.fromEntries(Array.from({ length: 264 }, (_, n) => [`x-${n}`, "y"]));
  const statuses: unknown[] = [];
  for (let n = 0; n < 20; n++) {
    const stream = session.request({ ":path": marketPath, ...fields });
    stream.on("error", () => {});
    stream.on("response", (response) => statuses.push(response[":status"]));
  }
  await closed;
  expect(statuses.length).toBeLessThan(10);
});

describe("resets", () => {
  test("beyond the limit cut the connection", async () => {
    const connection = await serve();
    let id = 1;
    const next = (): Buffer => {
      const bytes = resets(id, 50);
      id += 100;
      return bytes;
    };
    await flood(connection, next, 10_000);
    expect(service.requests.length).toBeLessThan(2_500);
  });

  test.each([
    ["CANCEL", 8],
    ["NO_ERROR", 0],
  ])("with %s at a rate of its own choosing: ENHANCE_YOUR_CALM", async (_name, code) => {
    const connection = await serve({ http2CancelBurstMax: 100, http2CancelsPerSecondMax: 10 });
    connection.send(resets(1, 300, code));
    await connection.closed;
    const goaway = connection.frames.find(({ type }) => type === frameType.goaway);
    expect(goaway?.payload.readUInt32BE(4)).toBe(enhanceYourCalm);
  });

  test("provoked from the server count too", async () => {
    const connection = await serve({ http2CancelBurstMax: 100, http2CancelsPerSecondMax: 10 });
    // Too large a window is answered with a reset.
    const provoke = (id: number): Buffer =>
      Buffer.concat([headers(id, grpc), windowUpdate(id, 0x7fff_ffff), windowUpdate(id, 0x7fff_ffff)]);
    let id = 1;
    await flood(
      connection,
      () => {
        id += 2;
        return provoke(id);
      },
      5_000,
    );
  });

  test("some a second are borne", async () => {
    const connection = await serve();
    for (let id = 1801; id < 1841; id += 2) {
      connection.send(resets(id, 1));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    connection.send(headers(1901, getFields(marketPath), flag.endStream));
    const end = await connection.frame(({ streamId, flags }) => streamId === 1901 && (flags & flag.endStream) !== 0);
    expect(end?.type).toBe(frameType.data);
    expect(connection.frames.some(({ type }) => type === frameType.goaway)).toBe(false);
    connection.close();
  });
});

describe("many requests in one packet", () => {
  test("share the event loop with other connections, and are all answered", async () => {
    const connection = await serve();
    const ids = Array.from({ length: 900 }, (_, i) => 2 * i + 1);
    let most = 0;
    let before = 0;
    let watching = true;
    const watch = (): void => {
      most = Math.max(most, service.requests.length - before);
      before = service.requests.length;
      if (watching) setImmediate(watch);
    };
    watch();
    connection.send(windowUpdate(0, 10_000_000));
    connection.send(Buffer.concat(ids.map((id) => headers(id, getFields(marketPath), flag.endStream))));
    for (const id of ids) {
      const end = await connection.frame(({ streamId, flags }) => streamId === id && (flags & flag.endStream) !== 0);
      expect(end).toBeDefined();
    }
    watching = false;
    expect(service.requests.length).toBe(900);
    expect(most).toBeLessThanOrEqual(2 * streamsOfConnectionMax);
    connection.close();
  });

  test("that are reset in the same packet are not worked on", async () => {
    const connection = await serve();
    connection.send(resets(1, 800));
    await connection.closed;
    const servedMax = defaultTransportLimits.http2CancelBurstMax * cancelledShareOfServedAtOnce + 2;
    expect(service.requests.length).toBeLessThanOrEqual(servedMax);
  });

  test("of a client that cancelled many are answered too", async () => {
    const connection = await serve();
    connection.send(resets(1, 100));
    const ids = Array.from({ length: 50 }, (_, i) => 1001 + 2 * i);
    connection.send(...ids.map((id) => headers(id, getFields(marketPath), flag.endStream)));
    for (const id of ids) {
      const end = await connection.frame(({ streamId, flags }) => streamId === id && (flags & flag.endStream) !== 0);
      expect(end?.type).toBe(frameType.data);
    }
    connection.close();
  });

  test("of a client that cancelled many are not worked on if their resets come a turn later", async () => {
    const connection = await serve();
    const answered = async (id: number): Promise<void> => {
      connection.send(headers(id, getFields(marketPath), flag.endStream));
      await connection.frame(({ streamId, flags }) => streamId === id && (flags & flag.endStream) !== 0);
    };
    connection.send(resets(1, 100));
    await answered(999);
    const before = service.requests.length;
    const ids = Array.from({ length: 50 }, (_, i) => 1001 + 2 * i);
    connection.send(...ids.map((id) => headers(id, getFields(neverPath), flag.endStream)));
    await turn();
    connection.send(...ids.map((id) => rstStream(id)));
    await answered(2001);
    expect(service.requests.length).toBe(before + 1);
    connection.close();
  });

  test("wait with their bodies, whatever becomes of them", async () => {
    const connection = await serve();
    const message = Buffer.from([0, 0, 0, 0, 3, 10, 1, 109]);
    const ids = Array.from({ length: 600 }, (_, i) => 2 * i + 1);
    const calls = ids.flatMap((id) => {
      const call = [headers(id, grpc), data(id, message, flag.endStream)];
      return id % 10 === 1 ? [...call, rstStream(id, 1)] : call;
    });
    connection.send(Buffer.concat(calls));
    for (const id of ids) {
      if (id % 10 === 1) continue;
      await connection.frame(({ streamId, flags }) => streamId === id && (flags & flag.endStream) !== 0);
    }
    connection.close();
  });
});

describe("a flood of frames that are no requests", () => {
  let witness: ReturnType<typeof connect>;
  let connection: FrameConnection;

  beforeEach(async () => {
    // The server checks more often than every 2 s. What a peer may send in a second stays the same.
    connection = await serve({ peerPingIntervalMs: 300 });
    witness = connect(server.url);
  });

  afterEach(() => {
    witness.destroy();
  });

  const chunk = 32_768;
  const many = (one: Buffer): Buffer => Buffer.concat(Array.from({ length: Math.ceil(chunk / one.length) }, () => one));
  const priority = frame(frameType.priority, 0, 1, Buffer.concat([words(0), Buffer.from([1])]));

  test.each<[name: string, first: Buffer, repeated: Buffer]>([
    ["PING", Buffer.alloc(0), ping()],
    ["PING acknowledged, never sent", Buffer.alloc(0), ping(flag.ack)],
    ["SETTINGS", Buffer.alloc(0), settings([3, 100])],
    ["empty SETTINGS", Buffer.alloc(0), settings()],
    ["PRIORITY", Buffer.alloc(0), priority],
    ["WINDOW_UPDATE of the connection", Buffer.alloc(0), Buffer.concat([windowUpdate(0, 1)])],
    ["WINDOW_UPDATE of a stream", headers(1, grpc), windowUpdate(1, 1)],
    ["empty DATA", headers(1, grpc), data(1, Buffer.alloc(0))],
    ["DATA of padding alone", headers(1, grpc), frame(frameType.data, flag.padded, 1, Buffer.from([3, 0, 0, 0]))],
    ["CONTINUATION", frame(frameType.headers, 0, 1, headerBlock(grpc)), frame(frameType.continuation, 0, 1)],
    ["an unknown type", Buffer.alloc(0), frame(0xbe, 0, 0, Buffer.alloc(8))],
    ["HEADERS of one stream, as trailers", headers(1, grpc), headers(1, { a: "b" })],
  ])("of %s is cut, and others are served meanwhile", { timeout: 20_000 }, async (_name, first, repeated) => {
    connection.send(first);
    const bytes = many(repeated);
    const flooded = flood(connection, () => bytes, 15_000);
    let slowestMs = 0;
    while (!connection.socket.closed) {
      const asked = performance.now();
      const stream = witness.request({ ":path": marketPath });
      stream.resume();
      await new Promise((resolve) => stream.once("close", resolve));
      slowestMs = Math.max(slowestMs, performance.now() - asked);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await flooded;
    expect(slowestMs).toBeLessThan(1_000);
  });
});

test("streams that are opened and left get a response, and a reset", async () => {
  const connection = await serve({ headersTimeoutMs: 300, requestReceiveTimeoutMs: 300 });
  const ids = Array.from({ length: 990 }, (_, i) => 2 * i + 1);
  connection.send(...ids.map((id) => headers(id, grpc)));
  await Promise.all(ids.map((id) => connection.frame(({ streamId, type }) => streamId === id && type === 3)));
  for (const id of ids) expect(connection.typesOf(id).at(0)).toBe(frameType.headers);
  connection.send(headers(1999, getFields(marketPath), flag.endStream));
  expect(await connection.frame(({ streamId }) => streamId === 1999)).toBeDefined();
  connection.close();
});
