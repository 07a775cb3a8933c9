import http2, { type ClientHttp2Session } from "node:http2";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import type { Random } from "../../src/simulator/random.js";
import {
  data,
  flag,
  frame,
  frameType,
  headers,
  postFields,
  preface,
  settings,
} from "../../test/support/http2-frames.js";
import { type Attack, inParallel, type Round } from "./attack.js";
import { mutate } from "./mutate.js";
import { anyOperation, type Identifiers, type Operation } from "./operations.js";
import { attackerAddress, RawConnection } from "./raw-connection.js";
import type { Target } from "./target.js";

const service = "/datanode.api.v2.TradingDataService";
const host = "Host: marketd\r\n";

/** Requests that are sent together on a connection: fewer than a service may leave unanswered. */
const batch = 8;

/** How long the responses to a batch are waited for. A mutated request may never be complete. */
const batchMs = 400;

/** Connections that fuzz at once. */
const width = 12;

/** Streams that end only with their connection are asked for less often: nothing behind them is answered. */
const endlessShare = 0.1;

function someOperation(ids: Identifiers, random: Random): Operation {
  for (;;) {
    const operation = anyOperation(ids, random);
    if (!operation.isEndless || random.chance(endlessShare)) return operation;
  }
}

/** A URL of some operation, or one that is in a form of its own. */
function anyPath(target: Target, random: Random): string {
  const { partyId } = target;
  const others = [
    `/api/v2/ledgerentry/export?partyId=${encodeURIComponent(partyId)}&assetId=none&alt=media`,
    `${service}/GetMarket?encoding=json&message=%7B%22marketId%22%3A%22a%22%7D`,
    `${service}/GetMarket?encoding=proto&base64=1&message=CgFh`,
    "/healthz",
    "/",
  ];
  return random.chance(0.2) ? random.pick(others) : someOperation(target, random).url;
}

/** Sends up to a batch of requests on a connection, and counts the responses. */
async function sendBatch(round: Round, requests: readonly Buffer[]): Promise<void> {
  const connection = await RawConnection.open(round.target.port, round.tally);
  if (connection === undefined) return;
  round.tally.requests += requests.length;
  connection.write(Buffer.concat(requests));
  const until = performance.now() + batchMs;
  let before = -1;
  while (!connection.ended && performance.now() < until) {
    // Several ask for closing or are incomplete: silence after some responses ends the wait.
    if (connection.receivedBytes > 0 && connection.receivedBytes === before) break;
    before = connection.receivedBytes;
    await connection.untilEnded(15);
  }
  connection.tallyResponses(round.tally, () => JSON.stringify(Buffer.concat(requests).toString("latin1")));
  connection.close();
}

function fuzzer(name: string, request: (round: Round) => Buffer): Attack {
  return {
    name: `fuzz: ${name}`,
    expects: "no status 500, 502 or 504, and no process ends",
    run: (round) =>
      inParallel(round, width, () =>
        sendBatch(
          round,
          Array.from({ length: batch }, () => request(round)),
        ),
      ),
  };
}

function plainGet(path: string | Buffer): Buffer {
  return Buffer.concat([Buffer.from("GET "), Buffer.from(path), Buffer.from(` HTTP/1.1\r\n${host}\r\n`)]);
}

/** Bytes that would end the request line are left out, so that it is the URL that is tried. */
const urls = fuzzer("URLs", ({ target, random }) => {
  const mutated = mutate(Buffer.from(anyPath(target, random)), random);
  return plainGet(mutated.filter((byte) => byte > 0x20 && byte !== 0x7f) as Buffer);
});

const headerLines = fuzzer("headers", ({ target, random }) => {
  const lines = [
    "Accept: application/json, text/event-stream;q=0.5",
    "Accept-Encoding: br, gzip",
    'If-None-Match: "abc", W/"def"',
    "Origin: https://trusted.example",
    "Range: bytes=0-10",
    "X-Forwarded-For: 10.0.0.1",
    "Connection: keep-alive",
  ];
  const mutated = mutate(Buffer.from(`${random.pick(lines)}\r\n${random.pick(lines)}`), random);
  const path = anyPath(target, random);
  return Buffer.concat([Buffer.from(`GET ${path} HTTP/1.1\r\n${host}`), mutated, Buffer.from("\r\n\r\n")]);
});

const bytes = fuzzer("HTTP/1.1 bytes", (round) => mutate(valid(round), round.random));

function valid(round: Round): Buffer {
  const { target, random } = round;
  return random.chance(0.5) ? plainGet(anyPath(target, random)) : post(round, (body) => body);
}

const bodies = fuzzer("messages", (round) => post(round, (body) => mutate(body, round.random)));

const bodyTypes = [
  "application/json",
  "application/proto",
  "application/grpc-web+proto",
  "application/connect+json",
  "application/connect+proto",
  "application/grpc-web-text",
] as const;

function post({ target, random }: Round, change: (body: Buffer) => Buffer): Buffer {
  const type = random.pick(bodyTypes);
  const { path, json, binary } = someOperation(target, random);
  const message = type.endsWith("json") ? Buffer.from(json) : binary;
  const zipped = random.chance(0.2);
  const framed = type.includes("grpc-web") || type.includes("connect+");
  const content = zipped ? gzipSync(change(message)) : message;
  const body = change(framed ? envelope(content, zipped) : content);
  const encoding = type.includes("grpc-web")
    ? "grpc-encoding"
    : framed
      ? "connect-content-encoding"
      : "content-encoding";
  const head = `POST ${path} HTTP/1.1\r\n${host}Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n${
    zipped ? `${encoding}: gzip\r\n` : ""
  }\r\n`;
  return Buffer.concat([Buffer.from(head), body]);
}

function envelope(message: Uint8Array, zipped: boolean): Buffer {
  const head = Buffer.alloc(5);
  head[0] = zipped ? 1 : 0;
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

const http2Bytes: Attack = {
  name: "fuzz: HTTP/2 bytes",
  expects: "no process ends",
  run: (round) =>
    inParallel(round, width, async () => {
      const connection = await RawConnection.open(round.target.port, round.tally);
      if (connection === undefined) return;
      const calls = Array.from({ length: batch }, (_, n) => {
        const { path, binary } = anyOperation(round.target, round.random);
        const fields = postFields(path, "application/grpc");
        return Buffer.concat([headers(2 * n + 1, fields), data(2 * n + 1, envelope(binary, false), flag.endStream)]);
      });
      round.tally.requests += batch;
      const opening = Buffer.concat([preface, settings(), frame(frameType.settings, flag.ack, 0)]);
      connection.write(opening);
      connection.write(
        Buffer.concat(calls.map((call) => (round.random.chance(0.3) ? mutate(call, round.random) : call))),
      );
      await connection.untilReceived(200, 100);
      await connection.untilEnded(10);
      connection.close();
    }),
};

/** gRPC calls by a real HTTP/2 client, whose messages and metadata are mutated. */
const grpcCalls: Attack = {
  name: "fuzz: gRPC calls",
  expects: "no INTERNAL of our own, and no process ends",
  run: (round) =>
    inParallel(round, 4, async () => {
      round.tally.connections++;
      const session = http2.connect(`http://127.0.0.1:${round.target.port}`, {
        createConnection: () =>
          connect({ port: round.target.port, host: "127.0.0.1", localAddress: attackerAddress() }),
      });
      session.on("error", () => {});
      const calls = Array.from({ length: 32 }, () => grpcCall(round, session));
      await Promise.all(calls);
      session.destroy();
    }),
};

const grpcCallMs = 5_000;

function grpcCall(round: Round, session: ClientHttp2Session): Promise<void> {
  const { target, random, tally } = round;
  const { path, binary, isEndless } = anyOperation(target, random);
  tally.requests++;
  const body = random.chance(0.5) ? mutate(envelope(binary, false), random) : envelope(mutate(binary, random), false);
  const timeout = mutate(Buffer.from("20S"), random).toString("latin1");
  const extra = random.chance(0.2) && /^[\x21-\x7e]+$/.test(timeout) ? { "x-metadata": timeout } : {};
  return new Promise((resolve) => {
    if (session.destroyed || session.closed) {
      resolve();
      return;
    }
    try {
      const stream = session.request({ ...postFields(path, "application/grpc"), ...extra });
      let code: number | undefined;
      let message = "";
      const read = (fields: http2.IncomingHttpHeaders): void => {
        if (fields["grpc-status"] === undefined) return;
        code = Number(fields["grpc-status"]);
        message = String(fields["grpc-message"] ?? "");
      };
      stream.on("response", read);
      stream.on("trailers", read);
      stream.on("error", () => {});
      stream.setTimeout(grpcCallMs, () => stream.close());
      stream.on("close", () => {
        if (code !== undefined && message.includes("report it with id"))
          tally.wrong(`INTERNAL for ${body.toString("hex")}`);
        if (code !== undefined) tally.statuses.set(1000 + code, (tally.statuses.get(1000 + code) ?? 0) + 1);
        resolve();
      });
      if (isEndless) stream.once("data", () => stream.close());
      stream.resume();
      stream.end(body);
    } catch {
      resolve();
    }
  });
}

const webSockets: Attack = {
  name: "fuzz: WebSocket handshakes and frames",
  expects: "no process ends, and a refusal is JSON",
  run: (round) =>
    inParallel(round, width, async () => {
      const { random } = round;
      const connection = await RawConnection.open(round.target.port, round.tally);
      if (connection === undefined) return;
      const upgrade =
        `GET /api/v2/stream/markets/depth/updates?marketIds=${round.target.marketId} HTTP/1.1\r\n${host}` +
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" +
        (random.chance(0.2) ? `Sec-WebSocket-Protocol: ${random.pick(["a, b", "a, a", "", "{a}"])}\r\n\r\n` : "\r\n");
      const opcodes = [0, 1, 2, 8, 9, 10, 3, 15];
      const frames = Array.from({ length: batch }, () => {
        const payload = Buffer.from(random.bytes(random.below(20)));
        const head = Buffer.from([0x80 | random.pick(opcodes), 0x80 | payload.length, 0, 0, 0, 0]);
        return mutate(Buffer.concat([head, payload]), random);
      });
      round.tally.requests += batch;
      connection.write(random.chance(0.1) ? mutate(Buffer.from(upgrade), random) : upgrade);
      if (random.chance(0.7)) await connection.untilReceived(12, 200);
      connection.write(Buffer.concat(frames));
      await connection.untilEnded(15);
      connection.tallyResponses(round.tally, () => "a WebSocket handshake");
      connection.close();
    }),
};

/** Mutation fuzzers. */
export const fuzzers: readonly Attack[] = [urls, headerLines, bytes, bodies, http2Bytes, grpcCalls, webSockets];
