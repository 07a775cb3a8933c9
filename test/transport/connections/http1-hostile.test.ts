import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ListeningServer } from "../../support/listening.js";
import { RawConnection, rawGet, rawUpgrade } from "../../support/raw-http.js";
import { tries } from "../../support/tries.js";
import { depthUpdate, type FakeService } from "../fake-api.js";
import { serveFake } from "../serve-fake.js";

/* Peers that speak HTTP/1.1 or WebSocket wrongly, or stop speaking. Whatever they do, the next client is served. */

const streamPath = "/api/v2/stream/markets/depth/updates";
const exportPath = "/api/v2/ledgerentry/export?alt=media";
const unaryPath = "/api/v2/market/m";
const limits = {
  lingerMs: 50,
  breakOffMs: 50,
  stalledReaderMs: 1_000,
  headersTimeoutMs: 2_000,
  requestReceiveTimeoutMs: 2_000,
};
const patience = { timeout: 20_000, interval: 10 };

let server: ListeningServer;
let service: FakeService;
const problems: unknown[] = [];

function note(problem: unknown): void {
  problems.push(problem);
}

beforeEach(async () => {
  ({ server, service } = await serveFake({ limits }));
  service.onOpen = (stream) => stream.give(depthUpdate(1n));
  for (const event of ["warning", "uncaughtException", "unhandledRejection"]) process.on(event, note);
});

afterEach(async () => {
  await server.close();
  for (const event of ["warning", "uncaughtException", "unhandledRejection"]) process.off(event, note);
  expect(problems.splice(0)).toEqual([]);
});

async function expectResponse(): Promise<void> {
  const response = await fetch(server.url + unaryPath);
  // Read, because the connection is not used again before, and would be one more than expected.
  await response.arrayBuffer();
  expect(response.status).toBe(200);
}

/** Nothing of what was done before is left: one connection, which asks, and no stream. */
async function expectNothingLeft(): Promise<void> {
  const left = async (): Promise<string[]> => {
    // While requests wait behind a stream, only a write shows that its client has gone; some open when others have ended.
    for (const stream of service.streams) stream.give(depthUpdate(2n));
    const text = await (await fetch(`${server.url}/metrics`, { headers: { connection: "close" } })).text();
    return text
      .split("\n")
      .filter((line) => /^marketd_(connections_open|streams_open)/.test(line) && !/ [01]$/.test(line));
  };
  await expect.poll(left, patience).toEqual([]);
  await expect.poll(() => service.streams.filter((stream) => !stream.closed), patience).toEqual([]);
}

const masked = (first: number, payload: number[] = [], length = payload.length): number[] => {
  return [first, 0x80 | length, 0, 0, 0, 0, ...payload];
};

const invalidFrames: Readonly<Record<string, number[]>> = {
  "an unmasked frame": [0x81, 0x01, 65],
  "a reserved bit": masked(0xc1, [65]),
  "a reserved opcode": masked(0x83, [65]),
  "a reserved control opcode": masked(0x8b),
  "a ping in fragments": masked(0x09),
  "a ping that is too long": [0x89, 0xfe, 0x00, 0x7e, 0, 0, 0, 0, ...Array.from({ length: 126 }, () => 65)],
  "a continuation of nothing": masked(0x80, [65]),
  "a message within a message": [...masked(0x01, [65]), ...masked(0x81, [65])],
  "a close of one byte": masked(0x88, [3]),
  "a close with a code that is none": masked(0x88, [0x03, 0xed]),
  "a close that is no UTF-8": masked(0x88, [0x03, 0xe8, 0xff]),
  "text that is no UTF-8": masked(0x81, [0xff]),
  "a length of 2^63": [0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
  "a length of 1 GiB": [0x82, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0],
  "half a frame": [0x81, 0xfe],
};

describe("WebSocket peers", () => {
  test.each(Object.entries(invalidFrames))("%s ends the connection or waits for more", async (name, bytes) => {
    const connection = await RawConnection.open(server.address.port);
    await connection.send(rawUpgrade(streamPath));
    await connection.arrival(/^HTTP\/1\.1 101 /);
    connection.socket.write(Buffer.from(bytes));
    if (name !== "half a frame") expect(await connection.ending()).not.toBe("open");
    connection.close();
    await expectNothingLeft();
  });

  test("a close handshake that is never finished ends the connection", async () => {
    const connection = await RawConnection.open(server.address.port, true);
    await connection.send(rawUpgrade(streamPath));
    await connection.arrival(/^HTTP\/1\.1 101 /);
    service.streams[0]?.end();
    expect(await connection.ending()).not.toBe("open");
    expect(connection.received).toContain("\x88\x02\x03\xe8");
    await expectNothingLeft();
    connection.close();
  });

  test("a client that closes and keeps its socket open is cut", async () => {
    const connection = await RawConnection.open(server.address.port, true);
    await connection.send(rawUpgrade(streamPath));
    await connection.arrival(/^HTTP\/1\.1 101 /);
    connection.socket.write(Buffer.from(masked(0x88, [0x03, 0xe8])));
    expect(await connection.ending()).not.toBe("open");
    await expectNothingLeft();
    connection.close();
  });
});

const requests: Readonly<Record<string, string>> = {
  "a bad chunk size": `POST ${unaryPath} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
  "a chunk that never ends": `POST ${unaryPath} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab`,
  "a chunk of 2^64 bytes": `POST ${unaryPath} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n`,
  "chunk extensions without end": `POST ${unaryPath} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;${"x".repeat(70_000)}`,
  "two lengths": `POST ${unaryPath} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n`,
  "a length and chunks": `POST ${unaryPath} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
  "a length that is none": `POST ${unaryPath} HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n`,
  "an unknown coding": `POST ${unaryPath} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, magic\r\n\r\n`,
  "a body that never comes": `POST /datanode.api.v2.TradingDataService/GetMarket HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n`,
  "a malformed body of a call": `POST /datanode.api.v2.TradingDataService/GetMarket HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
  "an expectation": rawGet(unaryPath, "Expect: magic"),
  "100-continue without a body": rawGet(unaryPath, "Expect: 100-continue"),
  "100-continue on a stream": rawGet(streamPath, "Expect: 100-continue"),
  CONNECT: "CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
  "CONNECT with a body": "CONNECT x:443 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
  TRACE: `TRACE ${unaryPath} HTTP/1.1\r\nHost: x\r\n\r\n`,
  PRI: "PRI * HTTP/1.1\r\nHost: x\r\n\r\n",
  "an asterisk": "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
  "h2c without settings": rawGet(unaryPath, "Connection: Upgrade", "Upgrade: h2c"),
  "h2c over a stream": rawGet(streamPath, "Connection: Upgrade", "Upgrade: h2c"),
  "several protocols": rawGet(streamPath, "Connection: Upgrade", "Upgrade: h2c, websocket"),
  "a WebSocket over a unary URL": rawUpgrade(unaryPath),
  "a WebSocket over an export": rawUpgrade(exportPath),
  "a WebSocket by POST": rawUpgrade(streamPath).replace("GET", "POST"),
  "a WebSocket by HEAD": rawUpgrade(streamPath).replace("GET", "HEAD"),
  "a WebSocket by HTTP/1.0": rawUpgrade(streamPath).replace("HTTP/1.1", "HTTP/1.0"),
  "a WebSocket without Host": rawUpgrade(streamPath).replace("Host: x\r\n", ""),
  "a WebSocket with extensions that are none": rawUpgrade(streamPath, "Sec-WebSocket-Extensions: ;;;==,,"),
  "a WebSocket with protocols that are none": rawUpgrade(streamPath, "Sec-WebSocket-Protocol: ,,,"),
  "a WebSocket twice": rawUpgrade(streamPath) + rawUpgrade(streamPath),
  "two hosts": rawGet(unaryPath, "Host: y"),
  "2,000 headers": rawGet(unaryPath, ...Array.from({ length: 2_000 }, (_, i) => `X${i}: y`)),
  "an empty name": rawGet(unaryPath, ": x"),
  "a header that goes on": rawGet(unaryPath, "X: a\r\n b"),
  "a bare line feed": `GET ${unaryPath} HTTP/1.1\nHost: x\n\n`,
  "a NUL": rawGet(unaryPath, "X: \0"),
  "a version to come": `GET ${unaryPath} HTTP/3.0\r\nHost: x\r\n\r\n`,
  "a target of another scheme": "GET ftp://x/y HTTP/1.1\r\nHost: x\r\n\r\n",
  "an empty line first": `\r\n\r\n${rawGet(unaryPath)}`,
  "headers that never end": `GET ${unaryPath} HTTP/1.1\r\nHost: x\r\n`,
  "one byte": "G",
  "two bytes of HTTP/2": "PR",
  nothing: "",
};

/** What comes before it: nothing, a response, a stream. */
const before: Readonly<Record<string, string>> = {
  alone: "",
  "behind a GET": rawGet(unaryPath),
  "behind a stream": rawGet(streamPath),
};

/** How the client goes on. */
const endings: Readonly<Record<string, (connection: RawConnection) => void>> = {
  "a FIN": (connection) => connection.socket.end(),
  "a reset": (connection) => connection.socket.resetAndDestroy(),
  "more requests": (connection) => connection.socket.write(rawGet(unaryPath).repeat(3)),
  silence: () => {},
};

describe.each(Object.entries(before))("%s", (_place, first) => {
  test.each(Object.entries(requests))("%s ends no process and leaves nothing", async (_name, request) => {
    for (const end of Object.values(endings)) {
      for (const delayMs of [0, 10]) {
        const connection = await RawConnection.open(server.address.port);
        // A connection that pipelines from its first packet is read in another way.
        if (delayMs > 0) expect(await connection.ask(rawGet(unaryPath))).toMatchObject({ status: 200 });
        connection.socket.write(first + request, "latin1");
        if (delayMs > 0) await sleep(delayMs);
        end(connection);
        await sleep(delayMs);
        for (const stream of service.streams.splice(0)) stream.end();
        setTimeout(() => connection.close(), 20);
      }
    }
    await expectResponse();
    await expectNothingLeft();
  });
});

describe.each([
  ["a GET", rawGet(unaryPath)],
  ["a stream", rawGet(streamPath)],
  ["a WebSocket", rawUpgrade(streamPath)],
])("%s", (_name, request) => {
  test.each([
    ["two hosts", "Host: x\r\nHost: y\r\n", "HOST_REPEATED"],
    ["two equal hosts", "Host: x\r\nhost: x\r\n", "HOST_REPEATED"],
    ["no host", "", "HOST_MISSING"],
    ["a host that is none", "Host: a b\r\n", "HOST_INVALID"],
  ])("with %s is 400", async (_what, hosts, reason) => {
    const connection = await RawConnection.open(server.address.port);
    const response = await connection.ask(request.replace("Host: x\r\n", hosts));
    expect(response).toMatchObject({ status: 400, body: expect.stringContaining(reason) });
    connection.close();
  });
});

test.each([
  ["GET", "HTTP/0.9", "", 505, "HTTP_VERSION"],
  ["GET", "HTTP/2.0", "", 505, "HTTP_VERSION"],
  ["POST", "HTTP/1.1", "Transfer-Encoding: gzip, chunked\r\n", 501, "TRANSFER_CODING"],
])("a %s of %s with the header %j is %i, and the connection ends", async (method, version, header, status, reason) => {
  const connection = await RawConnection.open(server.address.port);
  const end = once(connection.socket, "close");
  const body = header === "" ? "" : "2\r\n{}\r\n0\r\n\r\n";
  const response = await connection.ask(`${method} ${unaryPath} ${version}\r\nHost: x\r\n${header}\r\n${body}`);
  expect(response).toMatchObject({ status, body: expect.stringContaining(reason) });
  await end;
});

test("any sequence of requests, cut anywhere, ends no process and leaves nothing", async () => {
  const parts = [...Object.values(requests), ...Object.values(before), rawUpgrade(streamPath), rawGet(exportPath)];
  const sequence = fc.array(fc.constantFrom(...parts), { minLength: 1, maxLength: 8 });
  const cut = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 });
  const flips = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 });
  const end = fc.constantFrom(...Object.values(endings));
  await fc.assert(
    fc.asyncProperty(sequence, cut, flips, end, async (wanted, cuts, flipped, finish) => {
      const bytes = Buffer.from(wanted.join(""), "latin1");
      for (const [at, to] of flipped) if (bytes.length > 0) bytes[at % bytes.length] = to;
      const connection = await RawConnection.open(server.address.port);
      if (cuts.length % 2 === 1) await connection.ask(rawGet(unaryPath));
      const places = [...cuts.map((place) => Math.floor(place * bytes.length)), bytes.length].sort((a, b) => a - b);
      let from = 0;
      for (const place of places) {
        connection.socket.write(bytes.subarray(from, place));
        from = place;
        await new Promise((resolve) => setImmediate(resolve));
      }
      finish(connection);
      await new Promise((resolve) => setImmediate(resolve));
      for (const stream of service.streams.splice(0)) stream.end();
      setTimeout(() => connection.close(), 5);
    }),
    { numRuns: tries(1_000) },
  );
  await expectResponse();
  await expectNothingLeft();
});
