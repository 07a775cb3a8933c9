import { once } from "node:events";
import http2 from "node:http2";
import net, { type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { ListeningServer } from "../../support/listening.js";
import { serveFake } from "../serve-fake.js";

let server: ListeningServer;
const sockets: Socket[] = [];

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await server.close();
});

async function serve(limits: object, trustedProxies: readonly { address: string; prefixBits: number }[] = []) {
  ({ server } = await serveFake({ limits, trustedProxies }));
}

interface Talk {
  readonly socket: Socket;
  received: string;
}

async function connect(localAddress = "127.0.0.1"): Promise<Talk> {
  const socket = net.connect({ port: server.address.port, host: "127.0.0.1", localAddress });
  const talk: Talk = { socket, received: "" };
  socket.on("data", (chunk: Buffer) => {
    talk.received += chunk.toString("latin1");
  });
  socket.on("error", () => {});
  sockets.push(socket);
  await once(socket, "connect");
  return talk;
}

/** What a connection gets for one request; it ends if the server refuses it. */
async function ask(talk: Talk, path = "/healthz"): Promise<string> {
  talk.received = "";
  talk.socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
  await expect.poll(() => /\r\n\r\n[\s\S]+$/.test(talk.received) || talk.socket.closed).toBe(true);
  return talk.received;
}

const alive = expect.stringMatching(/^HTTP\/1\.1 200 /);

test("connections of one address, of which others have as many", async () => {
  await serve({ connectionsMax: 100, connectionsPerAddressMax: 3 });
  const three = [await connect(), await connect(), await connect()];
  for (const talk of three) expect(await ask(talk)).toEqual(alive);
  const refused = await ask(await connect());
  expect(refused).toMatch(/^HTTP\/1\.1 429 Too Many Requests\r\n/);
  expect(refused).toContain("\r\nretry-after: 5\r\n");
  expect(refused).toContain("\r\nconnection: close\r\n");
  const body = JSON.parse(refused.slice(refused.indexOf("\r\n\r\n")));
  expect(body).toMatchObject({
    code: 8,
    details: [{ reason: "TOO_MANY_CONNECTIONS_OF_CLIENT" }, { retryDelay: "5s" }],
  });
  expect(await ask(await connect("127.0.0.2"))).toEqual(alive);
  three[0]?.socket.destroy();
  await expect.poll(async () => ask(await connect())).toEqual(alive);
});

test("connections in all, and half of them for one address by default", async () => {
  await serve({ connectionsMax: 4 });
  for (const address of ["127.0.0.1", "127.0.0.1"]) expect(await ask(await connect(address))).toEqual(alive);
  expect(await ask(await connect())).toMatch(/^HTTP\/1\.1 429 /);
  expect(await ask(await connect("127.0.0.2"))).toEqual(alive);
  const watching = await connect("127.0.0.3");
  expect(await ask(watching)).toEqual(alive);
  const refused = await ask(await connect("127.0.0.4"));
  expect(refused).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n[\s\S]*\r\nretry-after: 5\r\n/);
  expect(JSON.parse(refused.slice(refused.indexOf("\r\n\r\n")))).toMatchObject({ code: 14 });
  const metrics = await ask(watching, "/metrics");
  expect(metrics).toContain('marketd_connections_refused_total{reason="TOO_MANY_CONNECTIONS"} 1\n');
  expect(metrics).toContain('marketd_connections_refused_total{reason="TOO_MANY_CONNECTIONS_OF_CLIENT"} 1\n');
  expect(metrics).toContain("marketd_connections_open 4\n");
});

test("HTTP/2 is told to calm down", async () => {
  await serve({ connectionsMax: 10, connectionsPerAddressMax: 1 });
  expect(await ask(await connect())).toEqual(alive);
  const session = http2.connect(server.url);
  session.on("error", () => {});
  const [code] = await once(session, "goaway");
  expect(code).toBe(http2.constants.NGHTTP2_ENHANCE_YOUR_CALM);
  session.destroy();
});

test("refused connections that say nothing, or go on sending, are cut; most of a flood is just closed", async () => {
  await serve({ connectionsMax: 10, connectionsPerAddressMax: 1 });
  const first = await connect();
  expect(await ask(first)).toEqual(alive);
  const flood = await Promise.all(Array.from({ length: 100 }, () => connect()));
  const sender = flood[0]?.socket;
  sender?.write("GET / HTTP/1.1\r\n");
  const sending = setInterval(() => sender?.write("x"), 20);
  await expect.poll(() => flood.every(({ socket }) => socket.closed), { timeout: 15_000 }).toBe(true);
  clearInterval(sending);
  expect(await ask(first)).toEqual(alive);
});

test("the connections of a trusted proxy count in all only", async () => {
  await serve({ connectionsMax: 5, connectionsPerAddressMax: 1 }, [{ address: "127.0.0.8", prefixBits: 30 }]);
  for (const address of ["127.0.0.8", "127.0.0.8", "127.0.0.9", "127.0.0.9"]) {
    expect(await ask(await connect(address))).toEqual(alive);
  }
  expect(await ask(await connect())).toEqual(alive);
  expect(await ask(await connect("127.0.0.8"))).toMatch(/^HTTP\/1\.1 503 /);
});
