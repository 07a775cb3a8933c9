import { gzipSync } from "node:zlib";
import { type Attack, inParallel, type Round } from "./attack.js";
import { RawConnection } from "./raw-connection.js";
import type { Target } from "./target.js";

const host = "Host: marketd\r\n";
const connectService = "/datanode.api.v2.TradingDataService";
const ledgerPath = "/api/v2/ledgerentry/history?pagination.first=1000";
const streamPath = "/api/v2/stream/markets/depth/updates";

/** How long an attack waits for a response that it needs. */
const responseMs = 15_000;

function get(path: string, headers = ""): string {
  return `GET ${path} HTTP/1.1\r\n${host}${headers}\r\n`;
}

function post(path: string, type: string, body: Uint8Array, headers = ""): Buffer {
  const head = `POST ${path} HTTP/1.1\r\n${host}Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n${headers}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), body]);
}

/** Sends requests on a connection of their own, counts the responses, and hangs up. */
async function send(round: Round, bytes: string | Uint8Array, requests: number, what: string): Promise<void> {
  const connection = await RawConnection.open(round.target.port, round.tally);
  if (connection === undefined) return;
  round.tally.requests += requests;
  connection.write(bytes);
  await connection.untilReceived(1, responseMs);
  await connection.untilEnded(20);
  connection.tallyResponses(round.tally, () => what);
  connection.close();
}

/** As {@link send}, where exactly one response with this status must come. */
async function sendOne(round: Round, bytes: string | Uint8Array, status: number, what: string): Promise<void> {
  const connection = await RawConnection.open(round.target.port, round.tally);
  if (connection === undefined) return;
  round.tally.requests++;
  connection.write(bytes);
  await connection.untilReceived(12, responseMs);
  const head = Buffer.concat(connection.received).toString("latin1", 0, 12);
  connection.tallyResponses(round.tally, () => what);
  const refused = head.endsWith("503") || head.endsWith("429");
  if (!head.endsWith(` ${status}`) && !refused) round.tally.wrong(`"${head}" instead of ${status} for ${what}`);
  connection.close();
}

const pipelinedUpgrade: Attack = {
  name: "pipelined upgrade",
  expects: "no process ends",
  run: (round) =>
    inParallel(round, 4, async () => {
      const upgrade = "Connection: Upgrade, Upgrade\r\nUpgrade: websocket\r\n";
      const first = round.random.pick([ledgerPath, "/healthz", streamPath]);
      const key = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
      const second = get(streamPath, upgrade + (round.random.chance(0.5) ? key : ""));
      await send(round, get(first) + second, 2, "a pipelined upgrade");
    }),
};

const passedDeadline: Attack = {
  name: "expired deadline",
  expects: "DEADLINE_EXCEEDED, and no process ends",
  run: (round) =>
    inParallel(round, 8, async () => {
      const type = round.random.pick(["application/json; charset=utf-8", "application/json"]);
      const deadline = `Connect-Timeout-Ms: ${round.random.below(2)}\r\n`;
      const zipped = round.random.chance(0.3);
      const body = Buffer.from("{}");
      const bytes = zipped
        ? post(`${connectService}/ListLedgerEntries`, type, gzipSync(body), `Content-Encoding: gzip\r\n${deadline}`)
        : post(`${connectService}/ListLedgerEntries`, type, body, deadline);
      const connection = await RawConnection.open(round.target.port, round.tally);
      if (connection === undefined) return;
      round.tally.requests++;
      connection.write(bytes);
      await connection.untilReceived(12, responseMs);
      // 504 is right here: the caller's own deadline has passed.
      const status = Number(Buffer.concat(connection.received).toString("latin1", 9, 12));
      if (status !== 504 && status !== 200 && status !== 503 && status !== 429) {
        round.tally.wrong(`status ${status} for a passed deadline`);
      }
      connection.close();
    }),
};

const pipelining: Attack = {
  name: "unbounded pipelining",
  expects: "a bound on unanswered requests of a connection",
  run: (round) =>
    inParallel(round, 30, async () => {
      const path = round.random.pick(["/metrics", ledgerPath]);
      const request = get(path);
      const many = Math.floor((64 * 1024) / request.length);
      const connection = await RawConnection.open(round.target.port, round.tally);
      if (connection === undefined) return;
      round.tally.requests += many;
      if (round.random.chance(0.5)) connection.write(get(streamPath) + request.repeat(many));
      else connection.write(request.repeat(many));
      await connection.untilEnded(Math.min(2_000, Math.max(100, round.until - performance.now())));
      connection.tallyResponses(round.tally, () => `pipelined ${path}`);
      connection.close();
    }),
};

const methodsAndVersions: Attack = {
  name: "HEAD and HTTP/1.0",
  expects: "200, and an HTTP/1.0 body",
  run: (round) =>
    inParallel(round, 2, async (n) => {
      const { partyId, assetId } = round.target;
      const path = `/api/v2/ledgerentry/export?partyId=${encodeURIComponent(partyId)}&assetId=${encodeURIComponent(assetId)}`;
      const raw = `${path}&alt=media`;
      if (n === 0) await sendOne(round, `HEAD ${raw} HTTP/1.1\r\n${host}\r\n`, 200, "HEAD of the raw export");
      else await sendOne(round, `GET ${raw} HTTP/1.0\r\n${host}\r\n`, 200, "the raw export by HTTP/1.0");
    }),
};

const malformedMessages: Attack = {
  name: "malformed messages",
  expects: "400",
  run: (round) =>
    inParallel(round, 4, async () => {
      const garbage = Buffer.from(
        Array.from({ length: 1 + round.random.below(40) }, () => 0x80 | round.random.below(128)),
      );
      const type = round.random.pick(["application/proto", "application/json"]);
      const method = round.random.pick(["GetMarket", "ListLedgerEntries", "GetLatestMarketDepth"]);
      await sendOne(round, post(`${connectService}/${method}`, type, garbage), 400, `malformed ${type}`);
    }),
};

const foreignOrigin: Attack = {
  name: "foreign origin",
  expects: "403 for a WebSocket from an origin that is not allowed",
  run: (round) =>
    inParallel(round, 2, async () => {
      const upgrade =
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nOrigin: https://evil.example\r\n";
      await sendOne(round, get(streamPath, upgrade), 403, "a WebSocket from a foreign origin");
    }),
};

const bombs: Attack = {
  name: "decompression bombs",
  expects: "a refusal without expanding the body",
  run: async (round) => {
    const zeros = gzipSync(Buffer.alloc(64 * 1024 * 1024, "[")); // 64 KiB that expand to 64 MiB
    await inParallel(round, 4, async () => {
      const type = round.random.pick(["application/json", "application/proto"]);
      const bytes = post(`${connectService}/ListLedgerEntries`, type, zeros, "Content-Encoding: gzip\r\n");
      await send(round, bytes, 1, "a decompression bomb");
    });
  },
};

const largeHeaders: Attack = {
  name: "large headers",
  expects: "431 or 400",
  run: (round) =>
    inParallel(round, 4, async () => {
      const many = round.random.chance(0.5);
      const headers = many ? "X-A: b\r\n".repeat(20_000) : `X-Large: ${"a".repeat(1_000_000)}\r\n`;
      await send(round, get("/healthz", headers), 1, "large headers");
    }),
};

/** Bytes that never become a request, by what the connection sends and goes on sending. */
const unfinished: readonly { readonly name: string; begin(target: Target): string; readonly more: string }[] = [
  { name: "nothing", begin: () => "", more: "" },
  { name: "one byte", begin: () => "G", more: "" },
  { name: "half a preface", begin: () => "PRI * HTTP/2.0\r\n", more: "" },
  { name: "headers that drip", begin: () => `GET / HTTP/1.1\r\n${host}`, more: "X-A: b\r\n" },
  {
    name: "a body that drips",
    begin: () =>
      `POST ${connectService}/GetMarket HTTP/1.1\r\n${host}Content-Type: application/json\r\nContent-Length: 9999\r\n\r\n`,
    more: " ",
  },
  {
    name: "a refused body that drips",
    begin: () =>
      `POST ${connectService}/Nothing HTTP/1.1\r\n${host}Content-Type: application/json\r\nContent-Length: 9999\r\n\r\n`,
    more: " ",
  },
  {
    name: "a chunked body without end",
    begin: () =>
      `POST ${connectService}/GetMarket HTTP/1.1\r\n${host}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    more: "1\r\n \r\n",
  },
];

/** Beyond the longest limit for a request to arrive, 30 s, and the interval at which it is checked. */
const unfinishedMaxMs = 40_000;

const slowSenders: Attack = {
  name: "slow senders",
  expects: "each connection is ended by the service within 40 s",
  minSeconds: 42,
  run: async (round) => {
    const width = Math.ceil(round.connections / unfinished.length);
    const startedAt = performance.now();
    await Promise.all(
      unfinished.flatMap(({ name, begin, more }) =>
        Array.from({ length: width }, async () => {
          const connection = await RawConnection.open(round.target.port, round.tally);
          if (connection === undefined) return;
          round.tally.requests++;
          connection.write(begin(round.target));
          while (!connection.ended && performance.now() - startedAt < unfinishedMaxMs) {
            await connection.untilEnded(500);
            if (more !== "") connection.write(more);
          }
          if (!connection.ended) round.tally.wrong(`a connection that sends ${name} is not ended`);
          connection.tallyResponses(round.tally, () => name);
          connection.close();
        }),
      ),
    );
  },
};

/** Attacks by HTTP/1.1. */
export const http1Attacks: readonly Attack[] = [
  pipelinedUpgrade,
  passedDeadline,
  pipelining,
  methodsAndVersions,
  malformedMessages,
  foreignOrigin,
  bombs,
  largeHeaders,
  slowSenders,
];
