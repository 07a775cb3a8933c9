import { gzipSync } from "node:zlib";
import {
  data,
  flag,
  frame,
  frameType,
  getFields,
  headerBlock,
  headers,
  headerText,
  ping,
  postFields,
  preface,
  rstStream,
  setting,
  settings,
  windowUpdate,
  words,
} from "../../test/support/http2-frames.js";
import { type Attack, inParallel, type Round } from "./attack.js";
import { RawConnection } from "./raw-connection.js";
import { stalledReaderMs } from "./target.js";

const service = "/datanode.api.v2.TradingDataService";
const ledgerPath = "/api/v2/ledgerentry/history?pagination.first=1000";

/**
 * How long the server may take to end a connection that broke the protocol. Node reports some of these to nobody; the
 * service sees them by its checks, 2 s apart: the third one after the frame ends the connection.
 */
const brokenMaxMs = 10_000;

async function openSession(round: Round, ...entries: readonly (readonly [number, number])[]) {
  const connection = await RawConnection.open(round.target.port, round.tally);
  if (connection === undefined) return undefined;
  connection.write(Buffer.concat([preface, settings(...entries), frame(frameType.settings, flag.ack, 0)]));
  await connection.untilReceived(9, 5_000);
  return connection;
}

function get(streamId: number, path: string): Buffer {
  return headers(streamId, getFields(path), flag.endStream);
}

function rpcHeaders(streamId: number, method: string, more: Readonly<Record<string, string>> = {}): Buffer {
  return headers(streamId, { ...postFields(`${service}/${method}`, "application/grpc"), ...more });
}

/** A call whose request is the empty message. */
function emptyCall(streamId: number, method: string): Buffer {
  return Buffer.concat([rpcHeaders(streamId, method), data(streamId, Buffer.alloc(5), flag.endStream)]);
}

/** Frames that break the protocol. Each ends the connection. */
const invalidFrames: readonly { readonly name: string; readonly bytes: Buffer }[] = [
  { name: "PING of one byte", bytes: frame(frameType.ping, 0, 0, Buffer.alloc(1)) },
  { name: "PING on a stream", bytes: frame(frameType.ping, 0, 1, Buffer.alloc(8)) },
  { name: "DATA on an idle stream", bytes: data(1, Buffer.from("a")) },
  { name: "DATA on stream 0", bytes: data(0, Buffer.from("a")) },
  {
    name: "a bad HPACK index",
    bytes: frame(frameType.headers, flag.endHeaders | flag.endStream, 1, Buffer.from([0xff, 0xff, 0xff])),
  },
  { name: "HEADERS on stream 0", bytes: headers(0, getFields("/")) },
  { name: "HEADERS on an even stream", bytes: headers(2, getFields("/")) },
  { name: "WINDOW_UPDATE of 0", bytes: windowUpdate(0, 0) },
  {
    name: "WINDOW_UPDATE beyond 2^31",
    bytes: Buffer.concat([windowUpdate(0, 0x7fffffff), windowUpdate(0, 0x7fffffff)]),
  },
  { name: "SETTINGS of five bytes", bytes: frame(frameType.settings, 0, 0, Buffer.alloc(5)) },
  { name: "SETTINGS on a stream", bytes: frame(frameType.settings, 0, 1) },
  { name: "SETTINGS with a window beyond 2^31", bytes: settings([setting.initialWindowSize, 0xffffffff]) },
  { name: "RST_STREAM on an idle stream", bytes: rstStream(1) },
  { name: "CONTINUATION without HEADERS", bytes: frame(frameType.continuation, flag.endHeaders, 1, Buffer.alloc(1)) },
  {
    name: "PING inside a header block",
    bytes: Buffer.concat([frame(frameType.headers, 0, 1, headerBlock(getFields("/"))), ping()]),
  },
  { name: "a frame of 1 MiB", bytes: data(1, Buffer.alloc(1 << 20)) },
  { name: "PUSH_PROMISE", bytes: frame(frameType.pushPromise, flag.endHeaders, 1, Buffer.alloc(4)) },
  { name: "padding longer than its frame", bytes: frame(frameType.data, flag.padded, 1, Buffer.from([200, 0])) },
  { name: "PRIORITY of four bytes", bytes: frame(frameType.priority, 0, 1, words(0)) },
];

const brokenFrames: Attack = {
  name: "invalid frames",
  expects: "connection, session and descriptor are gone",
  run: (round) =>
    inParallel(round, 16, async () => {
      const { name, bytes } = round.random.pick(invalidFrames);
      const connection = await openSession(round);
      if (connection === undefined) return;
      round.tally.requests++;
      connection.write(bytes);
      if (round.random.chance(0.9)) {
        await connection.untilEnded(20);
      } else if (!(await connection.untilEnded(brokenMaxMs))) {
        round.tally.wrong(`the connection stays after ${name}`);
      }
      connection.close();
    }),
};

const zeroWindow: Attack = {
  name: "zero window",
  expects: `responses that nobody reads are cut after ${stalledReaderMs} ms`,
  minSeconds: 26,
  run: async (round) => {
    const until = performance.now() + stalledReaderMs * 2 + 15_000;
    await Promise.all(
      Array.from({ length: round.connections }, async (_, n) => {
        const connection = await openSession(round, [setting.initialWindowSize, 0]);
        if (connection === undefined) return;
        const calls = Array.from({ length: 10 }, (_unused, call) =>
          n % 2 === 0
            ? get(2 * call + 1, `/api/v2/market/data/${round.target.marketId}/latest`)
            : emptyCall(2 * call + 1, "ListLatestMarketData"),
        );
        round.tally.requests += calls.length;
        connection.write(Buffer.concat(calls));
        // A stream that is cut is reset; a connection may be ended as a whole.
        while (!connection.ended && resets(connection) < calls.length && performance.now() < until) {
          await connection.untilEnded(250);
        }
        if (!connection.ended && resets(connection) < calls.length) {
          round.tally.wrong(`only ${resets(connection)} of ${calls.length} responses that nobody reads are cut`);
        }
        connection.close();
      }),
    );
  },
};

/** RST_STREAM frames received. */
function resets(connection: RawConnection): number {
  const bytes = Buffer.concat(connection.received);
  let count = 0;
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    if (bytes[at + 3] === frameType.rstStream) count++;
  }
  return count;
}

const rapidReset: Attack = {
  name: "rapid reset",
  expects: "a limit on resets of a connection",
  run: (round) =>
    inParallel(round, 4, async () => {
      const connection = await openSession(round);
      if (connection === undefined) return;
      const method = round.random.pick(["ListLedgerEntries", "GetLatestMarketDepth"]);
      for (let id = 1; id < 20_000 && !connection.ended && performance.now() < round.until; id += 200) {
        const frames: Buffer[] = [];
        for (let stream = id; stream < id + 200; stream += 2) {
          frames.push(emptyCall(stream, method), rstStream(stream));
        }
        round.tally.requests += 100;
        connection.write(Buffer.concat(frames));
        await connection.untilEnded(2);
      }
      connection.close();
    }),
};

const cancelledStreams: Attack = {
  name: "open and cancel",
  expects: "a limit on cancelled calls of a connection and of a client",
  run: (round) =>
    inParallel(round, 30, async () => {
      const connection = await openSession(round);
      if (connection === undefined) return;
      const methods = [
        "ListLedgerEntries",
        "GetLatestMarketDepth",
        "ObserveMarketsDepthUpdates",
        "ListLatestMarketData",
      ];
      for (let id = 1; id < 200_000 && !connection.ended && performance.now() < round.until; id += 100) {
        const method = round.random.pick(methods);
        const ids = Array.from({ length: 50 }, (_, n) => id + 2 * n);
        round.tally.requests += ids.length;
        connection.write(Buffer.concat(ids.map((stream) => emptyCall(stream, method))));
        await connection.untilEnded(round.random.below(20));
        connection.write(Buffer.concat(ids.map((stream) => rstStream(stream))));
        // 30 sessions: some 4,500 calls a second.
        await connection.untilEnded(300);
      }
      connection.close();
    }),
};

/** Frames that are allowed, and cost their sender nothing. */
const floods: readonly { readonly name: string; readonly bytes: Buffer }[] = [
  { name: "PING", bytes: ping() },
  { name: "SETTINGS", bytes: settings([setting.maxConcurrentStreams, 100]) },
  { name: "WINDOW_UPDATE", bytes: windowUpdate(0, 1) },
  { name: "PRIORITY", bytes: frame(frameType.priority, 0, 1, Buffer.alloc(5)) },
  { name: "unknown frames", bytes: frame(0xfa, 0, 0, Buffer.alloc(8)) },
];

const frameFloods: Attack = {
  name: "floods of frames",
  expects: "no starvation",
  run: (round) =>
    inParallel(round, 4, async () => {
      const { bytes } = round.random.pick(floods);
      const connection = await openSession(round);
      if (connection === undefined) return;
      const many = Buffer.concat(Array.from({ length: 1_000 }, () => bytes));
      for (let n = 0; n < 50 && !connection.ended && performance.now() < round.until; n++) {
        round.tally.requests += 1_000;
        connection.write(many);
        await connection.untilEnded(2);
      }
      connection.close();
    }),
};

const headerFloods: Attack = {
  name: "endless header blocks",
  expects: "the connection is ended",
  run: (round) =>
    inParallel(round, 4, async () => {
      const connection = await openSession(round);
      if (connection === undefined) return;
      connection.write(frame(frameType.headers, 0, 1, headerBlock(getFields("/"))));
      const block = Buffer.concat(Array.from({ length: 300 }, () => headerBlock({ "x-a": "abc" })));
      const more = frame(frameType.continuation, 0, 1, block);
      for (let n = 0; n < 500 && !connection.ended; n++) {
        round.tally.requests++;
        connection.write(more);
        if (n % 20 === 0) await connection.untilEnded(1);
      }
      if (!(await connection.untilEnded(5_000)))
        round.tally.wrong("a header block of 1.5 MB does not end the connection");
      connection.close();
    }),
};

const openStreams: Attack = {
  name: "requests that never end",
  expects: "each is refused or reset within 40 s",
  minSeconds: 42,
  run: async (round) => {
    await Promise.all(
      Array.from({ length: round.connections }, async (_unused, connectionNumber) => {
        const connection = await openSession(round);
        if (connection === undefined) return;
        const streams = connectionNumber < 4 ? 200 : 4;
        const calls = Array.from({ length: streams }, (_, n) => rpcHeaders(2 * n + 1, "GetMarket"));
        round.tally.requests += calls.length;
        connection.write(Buffer.concat(calls));
        const until = performance.now() + 40_000;
        const open = () => !connection.ended && resets(connection) < streams && endedStreams(connection) < streams;
        while (open() && performance.now() < until) await connection.untilEnded(500);
        if (open()) round.tally.wrong("requests without an end stay open");
        connection.close();
      }),
    );
  },
};

/** Streams that the server ended. */
function endedStreams(connection: RawConnection): number {
  const bytes = Buffer.concat(connection.received);
  let count = 0;
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    const type = bytes[at + 3];
    if ((type === frameType.headers || type === frameType.data) && ((bytes[at + 4] ?? 0) & flag.endStream) !== 0)
      count++;
  }
  return count;
}

/** How long a sender may go on after its request was refused. */
const refusedSenderMaxMs = 8_000;

const refusedSenders: Attack = {
  name: "refused senders",
  expects: "the sender of a refused request is stopped",
  minSeconds: 10,
  run: async (round) => {
    const types = [
      "application/grpc",
      "application/grpc-web+proto",
      "application/json",
      "application/proto",
      "application/connect+json",
    ];
    await Promise.all(
      types.flatMap((type) =>
        Array.from({ length: Math.ceil(round.connections / types.length) }, async () => {
          const connection = await openSession(round);
          if (connection === undefined) return;
          round.tally.requests++;
          connection.write(rpcHeaders(1, "NoSuchMethod", { "content-type": type }));
          const startedAt = performance.now();
          while (!connection.ended && resets(connection) === 0 && performance.now() - startedAt < refusedSenderMaxMs) {
            connection.write(data(1, Buffer.alloc(16)));
            await connection.untilEnded(100);
          }
          if (!connection.ended && resets(connection) === 0) round.tally.wrong(`a refused sender of ${type} goes on`);
          connection.close();
        }),
      ),
    );
  },
};

const zippedDeadlines: Attack = {
  name: "compressed gRPC with an expired deadline",
  expects: "DEADLINE_EXCEEDED, and no process ends",
  run: (round) =>
    inParallel(round, 4, async () => {
      const connection = await openSession(round);
      if (connection === undefined) return;
      const message = gzipSync(Buffer.alloc(0));
      const framed = Buffer.concat([Buffer.from([1, 0, 0, 0, message.length]), message]);
      const calls = Array.from({ length: 20 }, (_, n) => {
        const more = { "grpc-encoding": "gzip", "grpc-timeout": `${round.random.below(3)}m` };
        const id = 2 * n + 1;
        return Buffer.concat([rpcHeaders(id, "ListLedgerEntries", more), data(id, framed, flag.endStream)]);
      });
      round.tally.requests += calls.length;
      connection.write(Buffer.concat(calls));
      const until = performance.now() + 3_000;
      while (!connection.ended && endedStreams(connection) < calls.length && performance.now() < until) {
        await connection.untilEnded(20);
      }
      connection.close();
    }),
};

const sessionFlood: Attack = {
  name: "one connection, a thousand streams",
  expects: "no starvation",
  run: (round) =>
    inParallel(round, 4, async () => {
      const connection = await openSession(round, [setting.initialWindowSize, 0x7fffffff]);
      if (connection === undefined) return;
      connection.write(windowUpdate(0, 0x7ffeffff));
      const calls = Array.from({ length: 500 }, (_, n) =>
        n % 2 === 0 ? get(2 * n + 1, ledgerPath) : emptyCall(2 * n + 1, "ListLedgerEntries"),
      );
      round.tally.requests += calls.length;
      connection.write(Buffer.concat(calls));
      await connection.untilEnded(Math.max(200, Math.min(500, round.until - performance.now())));
      connection.close();
    }),
};

/** A message that takes a millisecond to read, and its client a hundred bytes. */
const slowMessage = gzipSync(`{"filter":{"transferTypes":[${"1,".repeat(8_100)}1]}}`);

const endedAtOnce: Attack = {
  name: "hundreds of calls that end in one packet",
  expects: "no starvation",
  run: (round) =>
    inParallel(round, 3, async () => {
      const connection = await openSession(round);
      if (connection === undefined) return;
      const fields = { ...postFields(`${service}/ListLedgerEntries`, "application/json"), "content-encoding": "gzip" };
      for (let first = 1; !connection.ended && performance.now() < round.until; first += 400) {
        const ids = Array.from({ length: 200 }, (_, n) => first + 2 * n);
        connection.write(Buffer.concat(ids.map((id) => headers(id, fields))));
        connection.write(Buffer.concat(ids.map((id) => data(id, slowMessage, flag.endStream))));
        round.tally.requests += ids.length;
        await connection.untilReceived(connection.receivedBytes + 200 * 50, 1_000);
      }
      connection.close();
    }),
};

/** A field of the dynamic table, which the first request adds: a byte each time on the wire, 58 in memory. */
const addedField = Buffer.concat([Buffer.from([0x40]), headerText("a"), headerText("y".repeat(55))]);
const indexedField = 0xbe;

const smallFields: Attack = {
  name: "requests of many small header fields",
  expects: "bounded memory, and no starvation",
  run: (round) =>
    inParallel(round, 8, async () => {
      const connection = await openSession(round);
      if (connection === undefined) return;
      const fields = Buffer.alloc(190, indexedField);
      const block = (n: number) =>
        Buffer.concat([headerBlock(getFields("/healthz")), n === 0 ? addedField : fields, fields]);
      const request = (n: number) => frame(frameType.headers, flag.endHeaders | flag.endStream, 2 * n + 1, block(n));
      for (let n = 0; n < 20_000 && !connection.ended && performance.now() < round.until + 1_000; n += 100) {
        connection.write(Buffer.concat(Array.from({ length: 100 }, (_, i) => request(n + i))));
        round.tally.requests += 100;
        await connection.untilReceived(connection.receivedBytes + 1, 500);
      }
      connection.close();
    }),
};

/** Attacks by HTTP/2. */
export const http2Attacks: readonly Attack[] = [
  brokenFrames,
  rapidReset,
  cancelledStreams,
  frameFloods,
  headerFloods,
  zippedDeadlines,
  sessionFlood,
  endedAtOnce,
  smallFields,
  zeroWindow,
  openStreams,
  refusedSenders,
];
