import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { create } from "@bufbuild/protobuf";
import { afterEach, expect, test, vi } from "vitest";
import { ObserveMarketsDepthUpdatesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import type { CompressedBytes, Encoding } from "../../src/domain/encoded-response.js";
import { MessageResponse } from "../../src/encoding/message-response.js";
import { heldRequests, largeMessages, requestBytesPerClientMax } from "../../src/transport/call/event-loop.js";
import type { ListeningServer } from "../support/listening.js";
import type { FakeService } from "./fake-api.js";
import { serveFake } from "./serve-fake.js";

const patience = { timeout: 20_000 };
let server: ListeningServer;
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

test("messages that end at once are read in the time of a turn, and clients take turns", async () => {
  ({ server, service } = await serveFake());
  const { port } = server.address;
  const count = 250;
  const body = gzipSync(`{"filter":{"transferTypes":[${"1,".repeat(8_100)}1]}}`);
  const headers = {
    ":method": "POST",
    ":path": `/${method}`,
    "content-type": "application/json",
    "content-encoding": "gzip",
  };
  const open = (localAddress: string) =>
    http2.connect(server.url, { createConnection: () => connect({ port, host: "127.0.0.1", localAddress }) });
  const [many, one] = [open("127.0.0.1"), open("127.0.0.2")];
  const streams = Array.from({ length: count }, () => many.request(headers));
  const other = one.request({ ...headers, ":path": "/datanode.api.v2.TradingDataService/GetMarket" });
  await delay(300);
  for (const stream of streams) stream.end(body);
  other.end(gzipSync('{"marketId":"m"}'));
  const most = await mostInOneTurn(count + 1);
  // Each takes about a millisecond; all of them have arrived in two packets.
  expect(most).toBeLessThan(count / 2);
  expect(service.requests.findIndex((request) => "marketId" in (request as object))).toBeLessThan(count / 2);
  for (const session of [many, one]) session.destroy();
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

const updates = ObserveMarketsDepthUpdatesResponseSchema;
const updatesPath = "/api/v2/stream/markets/depth/updates";

/** A message of half a mebibyte, which tells when it is encoded. */
class LargeUpdate extends MessageResponse<typeof updates> {
  constructor(
    sequenceNumber: number,
    private readonly onEncode: () => void,
  ) {
    const update = [{ marketId: "m".repeat(512 * 1024), sequenceNumber: BigInt(sequenceNumber) }];
    super(updates, create(updates, { update }));
  }

  override encode<Bytes extends CompressedBytes>(encoding: Encoding<Bytes>): Bytes {
    this.onEncode();
    return super.encode(encoding);
  }
}

test("what a stream has at once is encoded as its reader takes it, in turns of the event loop", async () => {
  ({ server, service } = await serveFake());
  const count = 60;
  const turns = new Set<number>();
  let [turn, encoded] = [0, 0];
  const nextTurn = () => {
    turn++;
    if (encoded < count) setImmediate(nextTurn);
  };
  setImmediate(nextTurn);
  service.onOpen = (stream) => {
    const onEncode = () => {
      encoded++;
      turns.add(turn);
    };
    stream.give(...Array.from({ length: count }, (_, n) => new LargeUpdate(n, onEncode)));
  };
  const request = http.get({ port: server.address.port, path: updatesPath, agent: false });
  const [response] = (await once(request, "response")) as [http.IncomingMessage];
  await delay(500);
  // Buffers of both sockets hold some.
  expect(encoded).toBeLessThan(count);
  let [text, lines] = ["", 0];
  for await (const piece of response.setEncoding("latin1")) {
    text += piece;
    lines += piece.split("\n").length - 1;
    if (lines >= count) break;
  }
  expect([...text.matchAll(/"sequenceNumber":"(\d+)"/g)].map(([, n]) => Number(n))).toEqual(
    Array.from({ length: count }, (_, n) => n),
  );
  expect([encoded, turns.size]).toEqual([count, count]);
});
