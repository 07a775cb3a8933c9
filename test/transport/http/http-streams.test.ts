import http from "node:http";
import http2 from "node:http2";
import { gunzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Failure, unavailable } from "../../../src/domain/failure.js";
import type { ListeningServer } from "../../support/listening.js";
import { RawConnection } from "../../support/raw-http.js";
import { depthUpdate, type FakeService, piece, type TestStream } from "../fake-api.js";
import { serveFake } from "../serve-fake.js";

const depthPath = "/api/v2/stream/markets/depth/updates";
const exportPath = "/api/v2/ledgerentry/export?partyId=p&assetId=a";

let server: ListeningServer;
let service: FakeService;
let session: http2.ClientHttp2Session | undefined;

beforeEach(async () => {
  ({ server, service } = await serveFake({ limits: { breakOffMs: 100 } }));
});

afterEach(async () => {
  session?.destroy();
  session = undefined;
  await server.close();
});

/** A response that is being read. */
interface Reading {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  readonly received: () => Buffer;
  /** How it ended: the trailers, or the error that broke it. */
  readonly end: Promise<Record<string, unknown> | Error>;
  pause(): void;
  resume(): void;
  leave(): void;
}

type Open = (path: string, headers?: Record<string, string>, method?: string) => Promise<Reading>;

const http1: Open = (path, headers = {}, method = "GET") =>
  new Promise((resolve, reject) => {
    const request = http.request(server.url + path, { method, headers });
    request.on("error", reject);
    request.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      const end = new Promise<Record<string, unknown> | Error>((ended) => {
        response.on("end", () => ended(response.trailers));
        response.on("error", ended);
      });
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        received: () => Buffer.concat(chunks),
        end,
        pause: () => response.pause(),
        resume: () => response.resume(),
        leave: () => request.destroy(),
      });
    });
    request.end();
  });

const overHttp2: Open = (path, headers = {}, method = "GET") =>
  new Promise((resolve, reject) => {
    session ??= http2.connect(server.url);
    const stream = session.request({ ":path": path, ":method": method, ...headers }, { endStream: true });
    const chunks: Buffer[] = [];
    let trailers: Record<string, unknown> = {};
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("trailers", (received) => {
      trailers = received;
    });
    const end = new Promise<Record<string, unknown> | Error>((ended) => {
      stream.on("close", () => (stream.rstCode === 0 ? ended(trailers) : ended(new Error(`reset ${stream.rstCode}`))));
      stream.on("error", (error) => {
        ended(error);
        reject(error);
      });
    });
    stream.on("response", (received) => {
      resolve({
        status: Number(received[":status"]),
        headers: received,
        received: () => Buffer.concat(chunks),
        end,
        pause: () => stream.pause(),
        resume: () => stream.resume(),
        leave: () => stream.close(http2.constants.NGHTTP2_CANCEL),
      });
    });
  });

async function opened(): Promise<TestStream> {
  await expect.poll(() => service.streams.length).toBe(1);
  const [stream] = service.streams;
  if (stream === undefined) throw new Error("no stream");
  return stream;
}

const invalid = new Failure("not_found", "market unknown", { reason: "UNKNOWN_MARKET" });
const draining = unavailable("draining", "DRAINING", 1000);

describe.each<[name: string, open: Open]>([
  ["HTTP/1.1", http1],
  ["HTTP/2", overHttp2],
])("over %s", (_name, open) => {
  test("lines: headers leave at once, then a line per message, in order", async () => {
    const reading = await open(depthPath);
    expect(reading.status).toBe(200);
    expect(reading.headers["content-type"]).toBe("application/json");
    expect(reading.headers["cache-control"]).toBe("no-store");
    expect(reading.headers["access-control-allow-origin"]).toBe("*");
    expect(reading.headers["content-encoding"]).toBeUndefined();
    expect(reading.received()).toHaveLength(0);
    const stream = await opened();
    stream.give(depthUpdate(1n), depthUpdate(2n));
    await expect.poll(() => reading.received().toString().split("\n").length).toBe(3);
    stream.give(depthUpdate(3n));
    stream.end();
    expect(await reading.end).toEqual({});
    const lines = reading.received().toString().trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line).result.update[0].sequenceNumber)).toEqual(["1", "2", "3"]);
    expect(lines[0]).toBe(
      '{"result":{"update":[{"marketId":"m","buy":[],"sell":[],"sequenceNumber":"1","previousSequenceNumber":"0"}]}}',
    );
    expect(stream.closed).toBe(true);
  });

  test.each<[query: string, accept: string | undefined, contentType: string]>([
    ["", "*/*", "application/json"],
    ["", "application/json", "application/json"],
    ["", "application/x-ndjson", "application/x-ndjson"],
    ["", "image/png", "application/json"],
    ["", "text/event-stream", "text/event-stream"],
    ["", "text/event-stream;q=0.1, application/json", "application/json"],
    ["?alt=sse", undefined, "text/event-stream"],
    ["?alt=sse", "application/json", "text/event-stream"],
    // Longer than what is read: reading would take the time of others.
    ["", `text/event-stream${",".repeat(1_100)}`, "application/json"],
  ])("%s with Accept %s is %s", async (query, accept, contentType) => {
    const reading = await open(depthPath + query, accept === undefined ? {} : { accept });
    expect(reading.headers["content-type"]).toBe(contentType);
    (await opened()).end();
    await reading.end;
  });

  test("server-sent events", async () => {
    const reading = await open(`${depthPath}?alt=sse`);
    const stream = await opened();
    stream.give(depthUpdate(1n, 10n), depthUpdate(2n, 11n));
    stream.fail(draining);
    await reading.end;
    const events = reading.received().toString().split("\n\n");
    expect(events[0]).toMatch(/^id: 10\ndata: \{"result":\{"update":\[/);
    expect(events[1]).toMatch(/^id: 11\ndata: \{"result":/);
    expect(events[2]).toMatch(/^event: error\nretry: 1000\ndata: \{"error":\{"code":14,"message":"draining",/);
    expect(events[3]).toBe("");
  });

  test("an error before the first message is an ordinary response: on opening, and on the first take", async () => {
    service.refusal = invalid;
    const refused = await open(depthPath);
    await refused.end;
    expect(refused.status).toBe(404);
    expect(JSON.parse(refused.received().toString())).toMatchObject({ code: 5, message: "market unknown" });
    service.refusal = undefined;
    service.onOpen = (stream) => stream.fail(draining);
    const failed = await open(`${depthPath}?alt=sse`);
    await failed.end;
    expect(failed.status).toBe(503);
    expect(failed.headers["content-type"]).toBe("application/json");
    expect(failed.headers["retry-after"]).toBe("1");
  });

  test("an error after the first message is the last line", async () => {
    const reading = await open(depthPath);
    const stream = await opened();
    stream.give(depthUpdate(1n));
    stream.fail(draining);
    expect(await reading.end).not.toBeInstanceOf(Error);
    const lines = reading.received().toString().split("\n");
    expect(lines).toHaveLength(3);
    expect(JSON.parse(lines[1] ?? "")).toMatchObject({ error: { code: 14, message: "draining" } });
    expect(JSON.parse(lines[1] ?? "").error.details).toHaveLength(2);
  });

  test("a client that leaves closes its stream and aborts its call", async () => {
    const reading = await open(depthPath);
    const stream = await opened();
    reading.leave();
    await expect.poll(() => stream.closed).toBe(true);
    expect(service.calls[0]?.signal.aborted).toBe(true);
  });

  test("a reader that does not read is not written to, and gets everything when it does", async () => {
    const reading = await open(depthPath);
    const stream = await opened();
    reading.pause();
    const padding = "x".repeat(1_000_000);
    let given = 0;
    for (; given < 40 && stream.takes < given + 100; given++) {
      const before = stream.takes;
      stream.give(piece({ contentType: padding }));
      await new Promise((resolve) => setTimeout(resolve, 5));
      if (stream.takes === before) break;
    }
    expect(given).toBeLessThan(40);
    const takes = stream.takes;
    stream.give(depthUpdate(1n));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(stream.takes).toBe(takes);
    reading.resume();
    await expect.poll(() => stream.takes).toBeGreaterThan(takes);
    stream.end();
    await reading.end;
    expect(reading.received().toString().trimEnd().split("\n")).toHaveLength(given + 2);
  });

  test("a failure while the reader does not read breaks the stream off", async () => {
    const reading = await open(depthPath);
    const stream = await opened();
    reading.pause();
    const before = Date.now();
    for (let i = 0; i < 30; i++) stream.give(piece({ contentType: "x".repeat(1_000_000) }));
    await new Promise((resolve) => setTimeout(resolve, 50));
    stream.fail(draining);
    await expect.poll(() => stream.closed).toBe(true);
    expect(Date.now() - before).toBeLessThan(3000);
    reading.resume();
    expect(await reading.end).toBeInstanceOf(Error);
  });

  test("HEAD opens nothing for long", async () => {
    const reading = await open(depthPath, {}, "HEAD");
    expect([reading.status, reading.headers["content-type"]]).toEqual([200, "application/json"]);
    await reading.end;
    expect(service.streams[0]?.closed).toBe(true);
  });

  test("a file in its envelope, without the file's own headers and trailers", async () => {
    service.onOpen = (stream) => stream.headers.set("content-disposition", 'attachment; filename="x.csv"');
    const reading = await open(exportPath);
    expect(reading.headers["content-type"]).toBe("application/json");
    expect(reading.headers["content-disposition"]).toBeUndefined();
    const stream = await opened();
    stream.give(piece({ contentType: "text/csv", data: Buffer.from("a,b\r\n") }));
    stream.trailers.set("x-rows", "1");
    stream.end();
    expect(await reading.end).toEqual({});
    expect(reading.received().toString()).toBe(
      '{"result":{"contentType":"text/csv","data":"YSxiDQo=","extensions":[]}}\n',
    );
  });

  test.each<[query: string, accept: string | undefined, raw: boolean]>([
    ["&alt=media", undefined, true],
    ["&alt=media", "application/json", true],
    ["", "text/csv", true],
    ["", "text/*", true],
    ["", "text/csv, application/json;q=0.9", true],
    ["", "application/json, text/csv;q=0.9", false],
    ["", "*/*", false],
    ["", "image/png", false],
    ["", "application/json", false],
  ])("export%s with Accept %s: the file itself: %s", async (query, accept, raw) => {
    service.onOpen = (stream) => {
      stream.headers.set("content-disposition", 'attachment; filename="x.csv"');
      stream.trailerNames = ["x-rows"];
      stream.trailers.set("x-rows", "2");
      stream.give(
        piece({ contentType: "text/csv", data: Buffer.from("a,b\r\n") }),
        piece({ contentType: "text/csv", data: Buffer.from("1,2\r\n") }),
        piece({ contentType: "text/csv" }),
      );
      stream.end();
    };
    const reading = await open(exportPath + query, accept === undefined ? {} : { accept });
    const trailers = await reading.end;
    expect(reading.headers["content-type"]).toBe(raw ? "text/csv" : "application/json");
    expect(reading.headers["content-disposition"]).toBe(raw ? 'attachment; filename="x.csv"' : undefined);
    expect(reading.headers["trailer"]).toBe(raw ? "x-rows" : undefined);
    const exposed = String(reading.headers["access-control-expose-headers"]).split(", ");
    expect(exposed).toContain("content-disposition");
    expect(new Set(exposed).size).toBe(exposed.length);
    if (raw) {
      expect(reading.received().toString()).toBe("a,b\r\n1,2\r\n");
      expect(trailers).toMatchObject({ "x-rows": "2" });
    } else {
      expect(reading.received().toString().split("\n")).toHaveLength(4);
    }
  });

  test("a file is compressed when asked, trailers included", async () => {
    const rows = "0123456789,abc\r\n".repeat(20_000);
    service.onOpen = (stream) => {
      for (let i = 0; i < 10; i++) stream.give(piece({ contentType: "text/csv", data: Buffer.from(rows) }));
      stream.trailers.set("x-rows", "200000");
      stream.end();
    };
    const reading = await open(`${exportPath}&alt=media`, { "accept-encoding": "gzip" });
    const trailers = await reading.end;
    expect(reading.headers["content-encoding"]).toBe("gzip");
    expect(gunzipSync(reading.received()).toString()).toBe(rows.repeat(10));
    expect(trailers).toMatchObject({ "x-rows": "200000" });
  });

  test("a failure inside of a raw file breaks the body off; before it, it is an ordinary error", async () => {
    const reading = open(`${exportPath}&alt=media`);
    const stream = await opened();
    stream.give(piece({ contentType: "text/csv", data: Buffer.from("a,b\r\n") }));
    const started = await reading;
    stream.fail(draining);
    expect(await started.end).toBeInstanceOf(Error);
    expect(started.received().toString()).not.toContain("draining");
    service.onOpen = (next) => next.fail(invalid);
    const refused = await open(`${exportPath}&alt=media`);
    await refused.end;
    expect(refused.status).toBe(404);
  });

  test("a failure inside of the envelope is its last line, compressed or not", async () => {
    for (const acceptEncoding of ["identity", "gzip"]) {
      service.onOpen = (stream) => {
        stream.give(piece({ contentType: "text/csv", data: Buffer.from("a,b\r\n") }));
        stream.fail(draining);
      };
      const reading = await open(exportPath, { "accept-encoding": acceptEncoding });
      await reading.end;
      const text = acceptEncoding === "gzip" ? gunzipSync(reading.received()) : reading.received();
      expect(JSON.parse(text.toString().split("\n")[1] ?? "")).toMatchObject({ error: { code: 14 } });
    }
  });

  test("a client that leaves before a file's first piece closes the stream", async () => {
    const reading = open(`${exportPath}&alt=media`);
    reading.catch(() => {});
    const stream = await opened();
    if (session === undefined) await server.close();
    else session.destroy();
    await expect.poll(() => stream.closed).toBe(true);
  });

  test.each(["&alt=media", "&alt=media&_=gzip", ""])("HEAD of an export%s is a GET without its body", async (query) => {
    service.onOpen = (stream) => {
      stream.headers.set("content-disposition", 'attachment; filename="x.csv"');
      stream.trailerNames = ["x-rows"];
      stream.trailers.set("x-rows", "1");
      stream.give(piece({ contentType: "text/csv", data: Buffer.from("a,b\r\n") }));
      stream.end();
    };
    const headers = { "accept-encoding": query.includes("gzip") ? "gzip" : "identity" };
    const reading = await open(exportPath + query, headers, "HEAD");
    await reading.end;
    expect(reading.status).toBe(200);
    expect(reading.received()).toHaveLength(0);
    expect(reading.headers["content-disposition"]).toBe(query === "" ? undefined : 'attachment; filename="x.csv"');
    expect(service.streams[0]?.closed).toBe(true);
  });
});

describe("a client of HTTP/1.0", () => {
  /** All that the server sends until it closes. */
  async function ask(
    method: string,
    path: string,
    ...headers: readonly string[]
  ): Promise<[head: string, body: string]> {
    const connection = await RawConnection.open(server.address.port);
    await connection.send([`${method} ${path} HTTP/1.0`, ...headers, "", ""].join("\r\n"));
    expect(await connection.ending()).toBe("ended");
    connection.close();
    const end = connection.received.indexOf("\r\n\r\n") + 4;
    return [connection.received.slice(0, end), connection.received.slice(end)];
  }

  beforeEach(() => {
    service.onOpen = (stream) => {
      stream.trailerNames = ["x-rows"];
      stream.trailers.set("x-rows", "1");
      stream.give(piece({ contentType: "text/csv", data: Buffer.from("a,b\r\n") }));
      stream.end();
    };
  });

  const envelope = '{"result":{"contentType":"text/csv","data":"YSxiDQo=","extensions":[]}}\n';
  const kept = "Connection: keep-alive";

  test.each([
    ["lines", depthPath, envelope],
    ["events", `${depthPath}?alt=sse`, `data: ${envelope}\n`],
    ["a file in its envelope", exportPath, envelope],
    ["a file itself", `${exportPath}&alt=media`, "a,b\r\n"],
  ])("gets %s without chunks or trailers, and the end of the connection", async (_name, path, body) => {
    for (const headers of [[], [kept]]) {
      const [head, received] = await ask("GET", path, ...headers);
      expect(head).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
      expect(head).not.toMatch(/^(transfer-encoding|trailer):/im);
      expect(received).toBe(body);
      const [headAlone, nothing] = await ask("HEAD", path, ...headers.map(() => "Connection: close"));
      expect(headAlone).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
      expect(nothing).toBe("");
    }
  });

  test("gets a compressed file that is whole", async () => {
    const rows = "0123456789,abc\r\n".repeat(20_000);
    service.onOpen = (stream) => {
      stream.trailerNames = ["x-rows"];
      stream.give(piece({ contentType: "text/csv", data: Buffer.from(rows) }));
      stream.trailers.set("x-rows", "20000");
      stream.end();
    };
    const [head, body] = await ask("GET", `${exportPath}&alt=media`, "Accept-Encoding: gzip");
    expect(head).toMatch(/^content-encoding: gzip\r$/im);
    expect(gunzipSync(Buffer.from(body, "latin1")).toString()).toBe(rows);
  });

  test("gets an ordinary response where it asks to become a WebSocket, which HTTP/1.0 has not", async () => {
    const wish = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"];
    expect((await ask("GET", depthPath, ...wish, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))[1]).toBe(envelope);
    expect((await ask("GET", "/nowhere", ...wish))[0]).toMatch(/^HTTP\/1\.1 404 /);
  });
});
