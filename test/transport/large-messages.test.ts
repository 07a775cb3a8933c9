import { connect, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, expect, test } from "vitest";
import type { RunningServer } from "../../src/transport/server.js";
import type { FakeService } from "./fake-api.js";
import { serveFake } from "./serve-fake.js";

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
