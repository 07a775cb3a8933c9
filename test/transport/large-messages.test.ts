import http from "node:http";
import { connect, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, expect, test, vi } from "vitest";
import { heldRequests, largeMessages, requestBytesPerClientMax } from "../../src/transport/call/event-loop.js";
import type { RunningServer } from "../../src/transport/server.js";
import type { FakeService } from "./fake-api.js";
import { serveFake } from "./serve-fake.js";

const patience = { timeout: 20_000 };
let server: RunningServer;
let service: FakeService;
let sockets: Socket[] = [];

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets = [];
  await server.close();
});

/** 200,000 bytes of JSON that are slow to read. */
const json = Buffer.from(`{"filter":{"transferTypes":[${"1,".repeat(99_980)}1]}}`);
const method = "datanode.api.v2.TradingDataService/ListLedgerEntries";

/** The most requests that reached the API within one turn of the event loop, until all have. */
async function mostInOneTurn(count: number): Promise<number> {
  let most = 0;
  for (let before = service.requests.length; before < count; ) {
    await new Promise((resolve) => setImmediate(resolve));
    most = Math.max(most, service.requests.length - before);
    before = service.requests.length;
  }
  return most;
}

test.each([
  ["Connect in JSON", "application/json", json],
  ["Connect in JSON with parameters", "application/json; charset=utf-8", json],
  ["Connect in JSON, compressed", "application/json\r\nContent-Encoding: gzip", gzipSync(json)],
])("large messages are read one by one: %s", async (_name, type, body) => {
  ({ server, service } = await serveFake());
  const head = `POST /${method} HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`;
  sockets = Array.from({ length: 12 }, () => connect(server.address.port, "127.0.0.1"));
  for (const socket of sockets) {
    socket.on("error", () => {});
    socket.resume();
    socket.write(head);
    socket.write(body.subarray(0, -1));
  }
  await new Promise((resolve) => setTimeout(resolve, 300));
  for (const socket of sockets) socket.write(body.subarray(-1));
  expect(await mostInOneTurn(sockets.length)).toBe(1);
});

/** A request of a body that is slow to read, from an address of this machine. */
function ask(localAddress: string, body = gzipSync(json)): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", ...(body === small ? {} : { "content-encoding": "gzip" }) };
    const { port } = server.address;
    const request = http.request({ port, localAddress, method: "POST", path: `/${method}`, headers, agent: false });
    request.on("response", async (response) => {
      let text = "";
      for await (const part of response.setEncoding("utf8")) text += part;
      resolve({ status: response.statusCode ?? 0, text });
    });
    request.on("error", reject);
    request.on("socket", (socket) => sockets.push(socket));
    request.end(body);
  });
}

/** Above the size from which messages are read in turn. */
const small = Buffer.from(`{"filter":{"transferTypes":[${"1,".repeat(9_000)}1]}}`);

test("large messages of one client do not hold up those of another, and wait up to a number", async () => {
  ({ server, service } = await serveFake());
  await ask("127.0.0.1", small);
  const many = Array.from({ length: 100 }, () => ask("127.0.0.2"));
  await vi.waitFor(() => expect(service.requests.length).toBeGreaterThan(2), patience);
  const other = await ask("127.0.0.1", small);
  const servedBefore = service.requests.length;
  const responses = await Promise.all(many);
  expect(other.status).toBe(responses.find(({ status }) => status !== 429)?.status);
  const refused = responses.filter(({ text }) => text.includes("TOO_MANY_REQUESTS"));
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.every(({ status }) => status === 429)).toBe(true);
  expect(servedBefore).toBeLessThan(60);
});

test("a large message that is refused leaves no timer", async () => {
  ({ server, service } = await serveFake());
  await ask("127.0.0.1", small);
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  heldRequests.add("127.0.0.2", requestBytesPerClientMax);
  try {
    for (let n = 0; n < 5; n++) expect((await ask("127.0.0.2", small)).text).toContain("TOO_MANY_REQUESTS");
  } finally {
    heldRequests.remove("127.0.0.2", requestBytesPerClientMax);
  }
  for (const socket of sockets) socket.destroy();
  await vi.waitFor(() => expect(timers()).toBeLessThanOrEqual(before), patience);
});

test("large messages of a client that has left are not read", async () => {
  ({ server, service } = await serveFake());
  const many = Array.from({ length: 40 }, () => ask("127.0.0.2").catch(() => undefined));
  await vi.waitFor(() => expect(service.requests.length).toBeGreaterThan(1), patience);
  for (const socket of sockets) socket.destroy();
  await Promise.all(many);
  await vi.waitFor(() => expect(largeMessages.waitingOf("127.0.0.2")).toBe(0), patience);
  expect(service.requests.length).toBeLessThan(30);
});

test("requests that are held back half-way are counted, by client", async () => {
  ({ server, service } = await serveFake());
  const part = Buffer.alloc(250_000, " ");
  const head = `POST /${method} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 260000\r\n\r\n`;
  const halves = Array.from({ length: 160 }, () => {
    const socket = connect({ port: server.address.port, host: "127.0.0.1", localAddress: "127.0.0.2" });
    sockets.push(socket);
    let response = "";
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      response += bytes.toString();
    });
    socket.write(head);
    socket.write(part);
    return () => response;
  });
  // 32 MiB are 134 of them.
  await vi.waitFor(() => expect(halves.filter((response) => response() !== "").length).toBeGreaterThan(20), patience);
  expect(halves.filter((response) => response() !== "").length).toBeLessThan(40);
  const refused = halves.map((response) => response()).find((response) => response !== "");
  expect(refused).toContain("429");
  expect(refused).toContain("TOO_MANY_REQUESTS");
  // Others are served, and so is the client when its requests are gone.
  expect((await ask("127.0.0.1")).status).not.toBe(429);
  for (const socket of sockets) socket.destroy();
  await vi.waitFor(async () => expect((await ask("127.0.0.2")).status).not.toBe(429), patience);
});
