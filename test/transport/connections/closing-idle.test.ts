import http from "node:http";
import http2 from "node:http2";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { TransportLimits } from "../../../src/transport/options.js";
import type { ListeningServer } from "../../support/listening.js";
import { RawConnection } from "../../support/raw-http.js";
import { serveFake } from "../serve-fake.js";

/* How connections without a request under way end when the server drains. */

let server: ListeningServer;

async function serve(limits: Partial<TransportLimits>): Promise<void> {
  ({ server } = await serveFake({ limits }));
}

const warnings: Error[] = [];

function noteWarning(warning: Error): void {
  warnings.push(warning);
}

beforeEach(() => {
  process.on("warning", noteWarning);
});

afterEach(async () => {
  process.off("warning", noteWarning);
  await server.close();
  // Node 24 warns of timers with a negative time.
  expect(warnings.splice(0)).toEqual([]);
});

async function ask(session: http2.ClientHttp2Session): Promise<void> {
  const stream = session.request({ ":path": "/healthz" });
  await new Promise((resolve) => stream.resume().on("close", resolve));
}

function get(agent: http.Agent): Promise<http.IncomingHttpHeaders> {
  return exchange(http.request(`${server.url}/healthz`, { agent }));
}

/** A call whose body is sent in chunks. */
function post(agent: http.Agent): Promise<http.IncomingHttpHeaders> {
  const headers = { "content-type": "application/json", "transfer-encoding": "chunked" };
  const url = `${server.url}/datanode.api.v2.TradingDataService/GetMarket`;
  return exchange(http.request(url, { agent, method: "POST", headers }), '{"marketId":"m"}');
}

function exchange(request: http.ClientRequest, body?: string): Promise<http.IncomingHttpHeaders> {
  return new Promise((resolve, reject) => {
    request.on("response", (response) => response.resume().on("end", () => resolve(response.headers)));
    request.on("error", reject);
    request.end(body);
  });
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

it("an idle HTTP/2 session is told its last stream, so that one on its way is safe to try again", async () => {
  await serve({ drainIdleMs: 200 });
  const session = http2.connect(server.url);
  await ask(session);
  const lastStreams: (number | undefined)[] = [];
  session.on("goaway", (_, lastStreamId) => lastStreams.push(lastStreamId));
  const closed = new Promise((resolve) => session.on("close", resolve));
  await Promise.all([server.drain(5_000), closed]);
  expect(new Set(lastStreams)).toEqual(new Set([1]));
});

it("a session with a stream under way is first told of the end, then of its last stream", async () => {
  await serve({ requestTimeoutMs: 1_000, drainIdleMs: 200 });
  const session = http2.connect(server.url);
  const stream = session.request({ ":path": "/api/v2/market/never" });
  await new Promise((resolve) => session.on("remoteSettings", resolve));
  const lastStreams: (number | undefined)[] = [];
  session.on("goaway", (_, lastStreamId) => lastStreams.push(lastStreamId));
  const status = new Promise((resolve) => stream.on("response", (headers) => resolve(headers[":status"])));
  stream.resume();
  await server.drain(5_000);
  expect(await status).toBe(504);
  expect([lastStreams[0], lastStreams.at(-1)]).toEqual([2 ** 31 - 1, 1]);
});

it("an HTTP/2 session that was used a moment ago is told with its next stream, which is answered", async () => {
  await serve({ drainIdleMs: 4_000 });
  const session = http2.connect(server.url);
  await ask(session);
  const lastStreams: (number | undefined)[] = [];
  session.on("goaway", (_, lastStreamId) => lastStreams.push(lastStreamId));
  const drained = server.drain(10_000);
  await pause(500);
  expect(lastStreams).toEqual([]);
  const stream = session.request({ ":path": "/healthz" });
  const status = new Promise((resolve) => stream.on("response", (headers) => resolve(headers[":status"])));
  await new Promise((resolve) => stream.resume().on("close", resolve));
  expect([await status, stream.rstCode, lastStreams[0]]).toEqual([200, 0, 2 ** 31 - 1]);
  const startedAt = performance.now();
  await drained;
  expect(performance.now() - startedAt).toBeLessThan(2_000);
});

it("an HTTP/1.1 connection that was idle for long enough before the drain is closed at once", async () => {
  await serve({ drainIdleMs: 4_000, keepAliveTimeoutMs: 60_000 });
  const agent = new http.Agent({ keepAlive: true });
  await get(agent);
  await pause(4_000);
  const started = performance.now();
  await server.drain(10_000);
  expect(performance.now() - started).toBeLessThan(2_000);
  agent.destroy();
});

it.each([
  ["GET", get],
  ["POST in chunks", post],
])("one that was asked on a moment ago is answered once more, and told (%s)", async (_, ask) => {
  await serve({ drainIdleMs: 2_000 });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  for (let n = 0; n < 2; n++) await ask(agent);
  const drained = server.drain(10_000);
  await pause(200);
  expect((await ask(agent)).connection).toBe("close");
  await drained;
  agent.destroy();
});

it("one whose body came behind the response that refused it is idle", async () => {
  await serve({ drainIdleMs: 500 });
  const connection = await RawConnection.open(server.address.port);
  const head = "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n";
  expect((await connection.ask(head)).status).toBe(404);
  await connection.send("12345");
  await pause(700);
  const started = performance.now();
  await server.drain(10_000);
  expect(performance.now() - started).toBeLessThan(2_000);
  connection.close();
});
