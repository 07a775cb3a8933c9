import { subscribe, unsubscribe } from "node:diagnostics_channel";
import http, { type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Failure } from "../../../src/domain/failure.js";
import type { ListeningServer } from "../../support/listening.js";
import { RawConnection, rawGet } from "../../support/raw-http.js";
import { depthUpdate, type FakeService, piece, type TestStream } from "../fake-api.js";
import { serveFake } from "../serve-fake.js";

/*
 * `src/transport/http/stream-response.ts` writes finished chunks to `response.socket`, past Node's response. Node does
 * not document what that relies on. So the bytes on the wire are compared one by one, on every supported Node
 * (`test/runtime/other-nodes.test.ts` runs this file on the others).
 */

let connection: RawConnection;

afterEach(() => connection.close());

/** A chunk of a body (RFC 9112, 7.1). */
function chunk(content: string): string {
  return `${Buffer.byteLength(content).toString(16)}\r\n${content}\r\n`;
}

/** Takes the head of the next response, and returns the rest of what arrives, up to and with `end`. */
async function bodyUntil(end: string): Promise<string> {
  await expect.poll(() => connection.received).toContain(end);
  const [, body = ""] = /^HTTP\/1\.1 200 OK\r\n(?:.+\r\n)*\r\n([\s\S]*)$/.exec(connection.received) ?? [];
  return body;
}

describe("a stream of the HTTP API over HTTP/1.1, byte by byte", () => {
  let server: ListeningServer;
  let service: FakeService;

  beforeEach(async () => {
    ({ server, service } = await serveFake());
    connection = await RawConnection.open(server.address.port);
  });

  afterEach(() => server.close());

  const request = rawGet("/api/v2/stream/markets/depth/updates");

  function line(sequenceNumber: bigint): string {
    return chunk(`{"result":${depthUpdate(sequenceNumber).jsonText()}}\n`);
  }

  async function opened(count = 1): Promise<TestStream> {
    await expect.poll(() => service.streams.length).toBe(count);
    const stream = service.streams[count - 1];
    if (stream === undefined) throw new Error("no stream");
    return stream;
  }

  test("the head leaves before the first message", async () => {
    await connection.send(request);
    await connection.arrival(/^HTTP\/1\.1 200 OK\r\n(.+\r\n)*Transfer-Encoding: chunked\r\n(.+\r\n)*\r\n$/);
    expect(service.streams).toHaveLength(1);
  });

  test("a chunk for each message behind the head, then the end", async () => {
    service.onOpen = (stream) => stream.give(depthUpdate(1n));
    await connection.send(request);
    const stream = await opened();
    expect(await bodyUntil(line(1n))).toBe(line(1n));
    stream.give(depthUpdate(2n), depthUpdate(3n));
    stream.give(depthUpdate(4n));
    stream.end();
    expect(await bodyUntil("\r\n0\r\n\r\n")).toBe(`${line(1n)}${line(2n)}${line(3n)}${line(4n)}0\r\n\r\n`);
  });

  test("messages and the end at once", async () => {
    service.onOpen = (stream) => {
      stream.give(depthUpdate(1n), depthUpdate(2n));
      stream.ended = true;
    };
    await connection.send(request);
    expect(await bodyUntil("\r\n0\r\n\r\n")).toBe(`${line(1n)}${line(2n)}0\r\n\r\n`);
  });

  test("trailers behind the last chunk", async () => {
    service.onOpen = (stream) => {
      stream.trailerNames = ["x-last"];
    };
    await connection.send(request);
    const stream = await opened();
    stream.give(depthUpdate(1n));
    stream.trailers.set("x-last", "7");
    stream.end();
    expect(await bodyUntil("\r\nx-last: 7\r\n\r\n")).toBe(`${line(1n)}0\r\nx-last: 7\r\n\r\n`);
    expect(connection.received).toMatch(/\r\ntrailer: x-last\r\n/);
  });

  test("an error as the last chunk, which Node makes", async () => {
    await connection.send(request);
    const stream = await opened();
    stream.give(depthUpdate(1n));
    stream.fail(new Failure("not_found", "gone", { reason: "GONE" }));
    const body = await bodyUntil("\r\n0\r\n\r\n");
    const [, error = ""] = /({"error":.*}\n)/.exec(body) ?? [];
    expect(body).toBe(`${line(1n)}${chunk(error)}0\r\n\r\n`);
  });

  test("the pieces of a file, which Node puts into chunks, and its end at once", async () => {
    service.onOpen = (stream) => {
      stream.give(piece({ contentType: "text/csv", data: Buffer.from("a,b\n") }));
      stream.ended = true;
    };
    await connection.send(rawGet("/api/v2/ledgerentry/export?partyId=p&assetId=a", "Accept: text/csv"));
    expect(await bodyUntil("0\r\n\r\n")).toBe(`${chunk("a,b\n")}0\r\n\r\n`);
  });

  test("a connection has no more listeners after many streams than after one", async () => {
    const sockets: Socket[] = [];
    const keep = (message: unknown): void => {
      sockets.push((message as { readonly socket: Socket }).socket);
    };
    subscribe("net.server.socket", keep);
    const polling = await RawConnection.open(server.address.port);
    await expect.poll(() => sockets.length).toBe(1);
    unsubscribe("net.server.socket", keep);
    service.onOpen = (stream) => {
      stream.give(depthUpdate(1n));
      stream.ended = true;
    };
    const listenersAfter = async (streams: number) => {
      for (let n = 0; n < streams; n++) {
        await polling.send(request);
        expect((await polling.anyResponse()).status).toBe(200);
      }
      // Its turn comes when the response before has left.
      await polling.send(rawGet("/healthz"));
      await polling.response();
      return sockets.flatMap((socket) => socket.eventNames().map((name) => [name, socket.listenerCount(name)]));
    };
    const afterOne = await listenersAfter(1);
    expect(await listenersAfter(20)).toEqual(afterOne);
    polling.close();
  });

  test("the next response of the connection begins behind the end, also if its request was there before", async () => {
    await connection.send(request + request + rawGet("/api/v2/market/m"));
    const first = await opened();
    first.give(depthUpdate(1n));
    expect(await bodyUntil(line(1n))).toBe(line(1n));
    expect(service.streams).toHaveLength(1);
    first.end();
    const second = await opened(2);
    second.give(depthUpdate(2n));
    second.end();
    expect((await connection.anyResponse()).body).toBe(`${line(1n)}0\r\n\r\n`);
    expect((await connection.anyResponse()).body).toBe(`${line(2n)}0\r\n\r\n`);
    expect(JSON.parse((await connection.response()).body)).toMatchObject({ market: { id: "m" } });
    expect(connection.received).toBe("");
  });

  test("a reader that takes nothing stops the stream, and gets every chunk when it reads on", async () => {
    await connection.send(request);
    const stream = await opened();
    await expect.poll(() => connection.received).toContain("\r\n\r\n");
    connection.socket.pause();
    let given = 0;
    const lines: string[] = [];
    // As long as the stream is asked for more, everything given is taken at once.
    for (let before = -1; stream.takes !== before; ) {
      before = stream.takes;
      const batch = Array.from({ length: 2_000 }, () => BigInt(++given));
      lines.push(...batch.map(line));
      stream.give(...batch.map((n) => depthUpdate(n)));
    }
    const { takes } = stream;
    stream.end();
    expect(stream.takes).toBe(takes);
    connection.socket.resume();
    expect((await connection.anyResponse()).body).toBe(`${lines.join("")}0\r\n\r\n`);
  });
});

describe("Node's response, past which chunks are written", () => {
  let server: http.Server;
  let responses: ServerResponse[];

  beforeEach(async () => {
    responses = [];
    server = http.createServer((_request, response) => responses.push(response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    connection = await RawConnection.open((server.address() as AddressInfo).port);
  });

  afterEach(() => server.close());

  async function respond(index: number): Promise<{ readonly response: ServerResponse; readonly socket: Socket }> {
    await expect.poll(() => responses.length).toBeGreaterThan(index);
    const response = responses[index];
    await expect.poll(() => response?.socket).toBeTruthy();
    if (!response?.socket) throw new Error("no socket");
    response.writeHead(200, ["content-type", "text/plain"]);
    response.flushHeaders();
    return { response, socket: response.socket };
  }

  test("has a socket only while it is its turn, and chunks unless the client is of HTTP/1.0", async () => {
    await connection.send(rawGet("/") + rawGet("/"));
    await expect.poll(() => responses.length).toBe(2);
    expect(responses.map(({ socket }) => socket !== null)).toEqual([true, false]);
    expect(responses.map((response) => response.useChunkedEncodingByDefault)).toEqual([true, true]);
    const { response, socket } = await respond(0);
    response.end();
    expect((await respond(1)).socket).toBe(socket);
    await connection.send("GET / HTTP/1.0\r\n\r\n");
    responses[1]?.end();
    await expect.poll(() => responses[2]?.useChunkedEncodingByDefault).toBe(false);
  });

  test("gives its head to the socket when it is flushed, corked or not, and then only what it is given", async () => {
    await connection.send(rawGet("/"));
    await expect.poll(() => responses[0]?.socket).toBeTruthy();
    responses[0]?.socket?.cork();
    const { response, socket } = await respond(0);
    expect(socket.writableLength).toBeGreaterThan(0);
    socket.write(chunk("first"));
    socket.uncork();
    socket.write(chunk("second"));
    response.addTrailers({ "x-last": "7" });
    response.end("third");
    await expect.poll(() => response.writableFinished).toBe(true);
    expect(await bodyUntil("x-last: 7\r\n\r\n")).toBe(
      `${chunk("first")}${chunk("second")}${chunk("third")}0\r\nx-last: 7\r\n\r\n`,
    );
  });

  test("ends with the last chunk alone if nothing was written to it", async () => {
    await connection.send(rawGet("/"));
    const { response, socket } = await respond(0);
    socket.write(chunk("first"));
    response.end();
    expect(await bodyUntil("0\r\n\r\n")).toBe(`${chunk("first")}0\r\n\r\n`);
    expect(socket.destroyed).toBe(false);
  });

  test("counts on the socket what was written to the socket, which drains", async () => {
    await connection.send(rawGet("/"));
    const { response, socket } = await respond(0);
    await connection.arrival(/\r\n\r\n$/);
    connection.socket.pause();
    const content = "x".repeat(8 * 1024 * 1024);
    expect(socket.write(chunk(content))).toBe(false);
    expect(socket.writableLength).toBeGreaterThan(content.length / 2);
    expect(socket.writableNeedDrain).toBe(true);
    let drained = false;
    socket.once("drain", () => {
      drained = true;
    });
    connection.socket.resume();
    await expect.poll(() => drained).toBe(true);
    expect(socket.writableLength).toBe(0);
    response.end();
    expect(await bodyUntil("\r\n0\r\n\r\n")).toBe(`${chunk(content)}0\r\n\r\n`);
  });
});
