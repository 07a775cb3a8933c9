import { readdirSync } from "node:fs";
import { connect } from "node:http2";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.js";
import type { ServerOptions } from "../../../src/transport/server.js";
import { selfSigned } from "../../support/certificate.js";
import {
  FrameConnection,
  flag,
  frame,
  frameType,
  getFields,
  headerBlock,
  headers,
  ping,
  preface,
  settings,
} from "../../support/http2-frames.js";
import { invalidFrames } from "../../support/http2-invalid-frames.js";
import type { ListeningServer } from "../../support/listening.js";
import { serveFake } from "../serve-fake.js";

const certificate = selfSigned();

/** Sockets that this process holds, of both sides. */
function sockets(): number {
  return readdirSync("/proc/self/fd").length;
}

async function gauge(metrics: Metrics, name: string): Promise<number> {
  const text = await metrics.metrics();
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);
}

describe.each([
  ["h2c", false],
  ["TLS", true],
])("a client that breaks the protocol, over %s", (_name, tls) => {
  let server: ListeningServer;
  let metrics: Metrics;
  let socketsBefore: number;

  /** Looks often after its peers, while the limit on silence stays at minutes unless it is given. */
  async function serve(limits: ServerOptions["limits"] = {}): Promise<void> {
    metrics = createMetrics();
    ({ server } = await serveFake({
      metrics,
      limits: { peerPingIntervalMs: 300, ...limits },
      ...(tls && certificate !== undefined ? { tls: certificate } : {}),
    }));
    socketsBefore = sockets();
  }

  /** Waits until the server, and we, hold what we held at the start. */
  async function expectNothingLeft(withinMs: number): Promise<void> {
    const poll = { timeout: withinMs, interval: 100 };
    await expect.poll(() => gauge(metrics, "marketd_http2_sessions_open"), poll).toBe(0);
    await expect.poll(() => gauge(metrics, "marketd_connections_open"), poll).toBe(0);
    await expect.poll(sockets, poll).toBeLessThanOrEqual(socketsBefore);
  }

  beforeEach((context) => {
    if (tls && certificate === undefined) context.skip();
  });

  afterEach(async () => {
    await server.close();
  });

  /** A connection for each kind of invalid frame, which it has sent. */
  async function sendAll(): Promise<FrameConnection[]> {
    const sending = Object.values(invalidFrames).map(async (bytes) => {
      const connection = await FrameConnection.open(server.address.port, { tls });
      connection.send(bytes);
      return connection;
    });
    return Promise.all(sending);
  }

  test("and hangs up: nothing stays, although the limit on silence is minutes", async () => {
    await serve();
    for (const connection of await sendAll()) setTimeout(() => connection.close(), 100);
    await expectNothingLeft(10_000);
  });

  test.each(["stays", "sends on"])("and %s: is cut after GOAWAY", async (next) => {
    await serve();
    const connections = await sendAll();
    const sending = setInterval(() => {
      if (next === "sends on") for (const connection of connections) connection.send(ping());
    }, 50);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const told = connections.filter(({ frames }) => frames.some(({ type }) => type === frameType.goaway));
    expect(told.length).toBeGreaterThan(30);
    await Promise.race([
      Promise.all(told.map((connection) => connection.closed)),
      new Promise((_resolve, reject) => setTimeout(() => reject(new Error("some are still open")), 10_000)),
    ]);
    clearInterval(sending);
    for (const connection of connections) connection.close();
    await expectNothingLeft(10_000);
  });

  test("and answers no ping: is cut after the limit on silence", async () => {
    // More pings than Node lets be unanswered: calling one off is no response either.
    await serve({ peerPingIntervalMs: 100, peerSilenceMaxMs: 2_000 });
    const living = connect(server.url, { rejectUnauthorized: false });
    for (const connection of await sendAll()) connection.polite = false;
    await expect.poll(() => gauge(metrics, "marketd_http2_sessions_open"), { timeout: 10_000, interval: 100 }).toBe(1);
    expect(living.closed).toBe(false);
    living.destroy();
    await expectNothingLeft(5_000);
  });

  test("and answers no ping, but never stops asking: is cut too", async () => {
    await serve({ peerSilenceMaxMs: 3_000 });
    const connection = await FrameConnection.open(server.address.port, { tls, polite: false });
    let id = 1;
    const asking = setInterval(() => {
      connection.send(headers(id, getFields("/healthz"), 1));
      id += 2;
    }, 20);
    await connection.closed;
    clearInterval(asking);
    expect(id).toBeGreaterThan(50);
    await expectNothingLeft(5_000);
  });

  test("and sends half the headers of a request, in half a frame or without their end", async () => {
    await serve({ headersTimeoutMs: 1_000 });
    const living = connect(server.url, { rejectUnauthorized: false });
    const whole = headers(1, getFields("/healthz"), flag.endStream);
    const unended = frame(frameType.headers, 0, 1, headerBlock(getFields("/healthz")));
    const connections = [];
    for (const bytes of [whole.subarray(0, 5), whole.subarray(0, -3), unended]) {
      const connection = await FrameConnection.open(server.address.port, { tls });
      // A response to a ping in the middle of a header block would break the protocol.
      connection.polite = false;
      connection.send(bytes);
      connections.push(connection);
    }
    const poll = { timeout: 8_000, interval: 100 };
    await expect.poll(() => gauge(metrics, "marketd_http2_sessions_open"), poll).toBe(1);
    expect(living.closed).toBe(false);
    living.destroy();
    await expectNothingLeft(5_000);
  });

  test("and sends half a preface, or half its settings", async () => {
    await serve({ headersTimeoutMs: 500 });
    const beginnings = [preface.subarray(0, 2), preface.subarray(0, 10), preface.subarray(0, 23), preface];
    const half = Buffer.concat([preface, settings([3, 100]).subarray(0, 12)]);
    for (const hangUp of [true, false]) {
      for (const beginning of [...beginnings, half]) {
        const connection = await FrameConnection.connect(server.address.port, { tls, polite: false });
        connection.send(beginning);
        if (hangUp) setTimeout(() => connection.close(), 50);
      }
    }
    await expectNothingLeft(5_000);
  });
});
