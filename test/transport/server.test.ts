import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import type { ServerOptions } from "../../src/transport/server.js";
import type { ListeningServer } from "../support/listening.js";
import { partnerProgram } from "../support/partners.js";
import { depthUpdate, type FakeService, piece } from "./fake-api.js";
import { serveFake } from "./serve-fake.js";

const depthStream = "/api/v2/stream/markets/depth/updates";

let server: ListeningServer;
let service: FakeService;

async function serve(options: Partial<ServerOptions> = {}): Promise<void> {
  ({ server, service } = await serveFake(options));
}

afterEach(async () => {
  await server.close();
});

/** Sends bytes, some of them later, and gives all that comes back until the connection ends. */
function raw(...parts: string[]): Promise<string> {
  return new Promise((resolve) => {
    const socket = net.connect({ port: server.address.port, host: "127.0.0.1", noDelay: true });
    let received = "";
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
    });
    socket.on("close", () => resolve(received));
    socket.on("error", () => {});
    const send = async (): Promise<void> => {
      for (const part of parts) {
        socket.write(part);
        await sleep(10);
      }
    };
    void send();
  });
}

function get(path: string, agent?: http.Agent): Promise<{ status: number; headers: http.IncomingHttpHeaders }> {
  return new Promise((resolve, reject) => {
    const request = http.get(server.url + path, agent === undefined ? {} : { agent }, (response) => {
      response.resume();
      response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers }));
      response.on("error", reject);
    });
    request.on("error", reject);
  });
}

function getOverHttp2(session: http2.ClientHttp2Session, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":path": path });
    stream.on("response", (headers) => resolve(Number(headers[":status"])));
    stream.on("error", reject);
    stream.resume();
  });
}

const host = "Host: x\r\n";

/** Connections beside the one that asks. */
async function openConnections(): Promise<number> {
  const reply = await raw(`GET /metrics HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
  return Number(/marketd_connections_open (\d+)/.exec(reply)?.[1] ?? 0) - 1;
}

describe("one port", () => {
  test("HTTP/1.1 byte by byte, pipelined, with an absolute target, and HTTP/1.0", async () => {
    await serve();
    const bytes = [..."GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"];
    expect(await raw(...bytes)).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*\{"status":"alive"\}$/);
    const last = `GET /api/v2/market/m HTTP/1.1\r\n${host}Connection: close\r\n\r\n`;
    const pipelined = await raw(`GET /healthz HTTP/1.1\r\n${host}\r\n${last}`);
    expect(pipelined.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(2);
    expect(await raw(`GET http://x/api/v2/market/m?_=1 HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 200 OK/,
    );
    expect(await raw("GET /healthz HTTP/1.0\r\n\r\n")).toMatch(/^HTTP\/1\.1 200 OK/);
  });

  test("HTTP/2, its preface cut anywhere", async () => {
    await serve();
    const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const settings = "\0\0\0\x04\0\0\0\0\0";
    for (const cut of [1, 2, 3, 10]) {
      const socket = net.connect({ port: server.address.port, host: "127.0.0.1", noDelay: true });
      socket.write(preface.slice(0, cut));
      setTimeout(() => socket.write(preface.slice(cut) + settings, "latin1"), 10);
      const first = await new Promise<Buffer>((resolve) => socket.once("data", resolve));
      expect(first[3]).toBe(4);
      socket.destroy();
    }
    const session = http2.connect(server.url);
    expect(await getOverHttp2(session, "/api/v2/market/m")).toBe(200);
    expect(session.remoteSettings.maxConcurrentStreams).toBe(1000);
    session.destroy();
  });

  test.skipIf(partnerProgram("openssl") === undefined)("TLS with ALPN: both versions, and streams", async () => {
    const folder = mkdtempSync(join(tmpdir(), "tls-"));
    const openssl = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost";
    execFileSync(partnerProgram("openssl") ?? "", [...openssl.split(" "), "-keyout", "key", "-out", "certificate"], {
      cwd: folder,
      stdio: "ignore",
    });
    const tls = {
      key: readFileSync(join(folder, "key"), "utf8"),
      certificate: readFileSync(join(folder, "certificate"), "utf8"),
    };
    rmSync(folder, { recursive: true });
    await serve({ tls });
    expect(server.url).toMatch(/^https:/);
    const { Agent, get: getTls } = await import("node:https");
    const agent = new Agent({ rejectUnauthorized: false, keepAlive: true, maxSockets: 1 });
    const ask = (path: string): Promise<string> =>
      new Promise((resolve, reject) => {
        getTls(server.url + path, { agent }, (response) => {
          let body = "";
          response.on("data", (chunk: Buffer) => {
            body += chunk.toString();
          });
          response.on("end", () => resolve(`${response.statusCode} ${body}`));
        }).on("error", reject);
      });
    const first = await ask("/api/v2/market/m");
    expect(first).toMatch(/^200 \{"market":/);
    for (let i = 0; i < 20; i++) expect(await ask("/api/v2/market/m")).toBe(first);
    agent.destroy();
    const session = http2.connect(server.url, { rejectUnauthorized: false });
    expect(await getOverHttp2(session, "/api/v2/market/m")).toBe(200);
    expect(session.alpnProtocol).toBe("h2");
    session.destroy();
    const client = new WebSocket(server.url.replace("https", "wss") + depthStream, { rejectUnauthorized: false });
    await new Promise((resolve) => client.on("open", resolve));
    client.terminate();
    await expect.poll(() => service.streams[0]?.closed).toBe(true);
  });
});

describe("what is no HTTP", () => {
  test.each<[name: string, bytes: string, status: number, message: string]>([
    ["nonsense", "\x16\x03\x01\r\n\r\n", 400, "the request is not well-formed HTTP"],
    ["a header without a name", `GET / HTTP/1.1\r\n${host}: x\r\n\r\n`, 400, "the request is not well-formed HTTP"],
    [
      "large headers",
      `GET / HTTP/1.1\r\n${host}X: ${"x".repeat(70_000)}\r\n\r\n`,
      431,
      "the request line and headers are longer than 65536 bytes",
    ],
  ])("%s", async (_name, bytes, status, message) => {
    await serve();
    const reply = await raw(bytes);
    expect(reply).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    const [, body = ""] = reply.split("\r\n\r\n");
    expect(JSON.parse(body)).toMatchObject({ code: 3, message });
    expect(reply).toContain(`content-length: ${body.length}\r\n`);
  });

  test("a request that takes too long to arrive, and a connection that says nothing", async () => {
    await serve({ limits: { headersTimeoutMs: 200, requestReceiveTimeoutMs: 400 } });
    const slow = await raw("GET / HTTP/1.1\r\n", "Host: x\r\n");
    expect(slow).toMatch(/^HTTP\/1\.1 408 /);
    expect(slow).toContain('"reason":"REQUEST_TIMEOUT"');
    expect(await raw()).toBe("");
    expect(await raw("PR")).toBe("");
  });
});

test("connections in total and of one address", async () => {
  await serve({ limits: { connectionsMax: 2, connectionsPerAddressMax: 0 } });
  const agent = new http.Agent({ keepAlive: true });
  await get("/healthz", agent);
  const other = net.connect(server.address.port, "127.0.0.1");
  await expect(raw("GET /healthz HTTP/1.1\r\n")).resolves.toMatch(/^HTTP\/1\.1 503 /);
  other.destroy();
  await expect
    .poll(() =>
      get("/healthz").then(
        (reply) => reply.status,
        () => 0,
      ),
    )
    .toBe(200);
  agent.destroy();
  await server.close();
  await serve({ limits: { connectionsPerAddressMax: 1 } });
  const one = net.connect(server.address.port, "127.0.0.1");
  await new Promise((resolve) => one.once("connect", resolve));
  expect(await raw("GET /healthz HTTP/1.1\r\n")).toMatch(/^HTTP\/1\.1 429 /);
  one.destroy();
});

test("a silent HTTP/2 peer is cut, a living one is not", async () => {
  await serve({ limits: { peerPingIntervalMs: 50, peerSilenceMaxMs: 150 } });
  const living = http2.connect(server.url);
  expect(await getOverHttp2(living, "/healthz")).toBe(200);
  const silent = await raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
  expect(silent.length).toBeGreaterThan(0);
  expect(await getOverHttp2(living, "/healthz")).toBe(200);
  living.destroy();
});

describe("who asks for a large response and does not read it is cut", () => {
  test("over HTTP/1.1", async () => {
    await serve({ limits: { stalledReaderMs: 100 } });
    const socket = net.connect(server.address.port, "127.0.0.1");
    socket.write(`GET /api/v2/market/large HTTP/1.1\r\n${host}\r\n`);
    socket.once("readable", () => {});
    const closed = new Promise((resolve) => socket.on("close", resolve));
    await expect.poll(openConnections).toBe(1);
    await expect.poll(openConnections).toBe(0);
    socket.resume();
    await closed;
    expect(socket.bytesRead).toBeLessThan(20_000_000);
  });

  test("over HTTP/2", async () => {
    await serve({ limits: { stalledReaderMs: 100 } });
    const session = http2.connect(server.url);
    const stream = session.request({ ":path": "/api/v2/market/large" });
    const reset = new Promise((resolve) => stream.on("error", resolve));
    await expect(reset).resolves.toMatchObject({ message: "Stream closed with error code NGHTTP2_ENHANCE_YOUR_CALM" });
    expect(await getOverHttp2(session, "/healthz")).toBe(200);
    session.destroy();
  });
});

describe("draining", () => {
  test("idle connections close, requests finish, subscriptions end with UNAVAILABLE, files come to their end", async () => {
    await serve({ limits: { drainIdleMs: 200 } });
    const agent = new http.Agent({ keepAlive: true });
    await get("/healthz", agent);
    const session = http2.connect(server.url);
    await getOverHttp2(session, "/healthz");
    const goaway = new Promise((resolve) => session.on("goaway", resolve));
    const lines = fetch(server.url + depthStream).then((response) => response.text());
    const file = fetch(`${server.url}/api/v2/ledgerentry/export?alt=media`).then((response) => response.text());
    const client = new WebSocket(server.url.replace("http", "ws") + depthStream);
    const closed = new Promise<number>((resolve) => client.on("close", resolve));
    await expect.poll(() => service.streams.length).toBe(3);
    await new Promise<void>((resolve) => {
      if (client.readyState === WebSocket.OPEN) resolve();
      else client.on("open", resolve);
    });
    for (const stream of service.streams) stream.give(piece({ contentType: "text/csv", data: Buffer.from("a\r\n") }));
    const drained = server.drain(5_000);
    expect(await lines).toMatch(/\n\{"error":\{"code":14,"message":"this server is shutting down; connect again"/);
    expect(await closed).toBe(1013);
    await goaway;
    await expect(get("/healthz")).rejects.toMatchObject({ code: "ECONNREFUSED" });
    const started = Date.now();
    for (const stream of service.streams) {
      if (stream.closed) continue;
      stream.give(piece({ contentType: "text/csv", data: Buffer.from("b\r\n") }));
      stream.end();
    }
    expect(await file).toBe("a\r\nb\r\n");
    await drained;
    expect(Date.now() - started).toBeLessThan(1_000);
    agent.destroy();
  });

  test("what is left after its time is cut", async () => {
    await serve();
    const never = get("/api/v2/market/never");
    never.catch(() => {});
    const stalled = fetch(`${server.url}/api/v2/ledgerentry/export?alt=media`);
    stalled.catch(() => {});
    await expect.poll(() => service.streams.length).toBe(1);
    const started = Date.now();
    await server.drain(100);
    expect(Date.now() - started).toBeLessThan(1_000);
    await expect(never).rejects.toThrow();
    expect((await stalled).status).toBe(503);
  });

  test("a stream opened while draining is refused", async () => {
    await serve();
    const session = http2.connect(server.url);
    await getOverHttp2(session, "/healthz");
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const first = get("/api/v2/market/later", agent);
    await first;
    service.onOpen = (stream) => stream.give(depthUpdate(1n));
    const response = await fetch(server.url + depthStream);
    const drained = server.drain(2_000);
    expect(await response.text()).toContain('"code":14');
    await drained;
    session.destroy();
    agent.destroy();
  });
});
