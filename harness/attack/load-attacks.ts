import { setTimeout as sleep } from "node:timers/promises";
import { type Attack, inParallel, type Round } from "./attack.js";
import { largeBook } from "./large-book.js";
import { RawConnection } from "./raw-connection.js";

const host = "Host: marketd\r\n";
const ledgerPath = "/api/v2/ledgerentry/history?pagination.first=1000";
const streamPath = "/api/v2/stream/markets/depth/updates";

/** The longest that one response of a flood is waited for. */
const responseMs = 20_000;

function get(path: string): string {
  return `GET ${path} HTTP/1.1\r\n${host}\r\n`;
}

/** Asks again and again on one connection, whatever the responses say. */
async function hammer(round: Round, path: string): Promise<void> {
  const connection = await RawConnection.open(round.target.port, round.tally);
  if (connection === undefined) return;
  while (!connection.ended && performance.now() < round.until) {
    connection.received.length = 0;
    connection.receivedBytes = 0;
    round.tally.requests++;
    connection.write(get(path));
    await connection.untilReceived(12, responseMs);
    connection.tallyResponses(round.tally, () => path);
    // The rest of the body, so that the next head is found.
    for (let before = -1; before !== connection.receivedBytes && !connection.ended; ) {
      before = connection.receivedBytes;
      await connection.untilEnded(10);
    }
  }
  connection.close();
}

const ledgerFlood: Attack = {
  name: "300 connections on the ledger",
  expects: "503 with Retry-After beyond capacity, and no starvation",
  run: (round) => inParallel(round, 300, () => hammer(round, ledgerPath)),
};

const metricsFlood: Attack = {
  name: "100 connections on health and metrics",
  expects: "no starvation",
  run: (round) => inParallel(round, 100, (n) => hammer(round, n % 2 === 0 ? "/metrics" : "/readyz")),
};

const cancelledCalls: Attack = {
  name: "cancelled calls",
  expects: "no starvation",
  run: (round) =>
    inParallel(round, 100, async () => {
      const { partyId, assetId } = round.target;
      const exported = `/api/v2/ledgerentry/export?partyId=${encodeURIComponent(partyId)}&assetId=${encodeURIComponent(assetId)}`;
      const connection = await RawConnection.open(round.target.port, round.tally);
      if (connection === undefined) return;
      round.tally.requests++;
      connection.write(get(round.random.pick([ledgerPath, exported])));
      await connection.untilEnded(round.random.below(6));
      connection.close();
    }),
};

const connectionFlood: Attack = {
  name: "connections opened and dropped",
  expects: "no leaked descriptor",
  run: (round) =>
    inParallel(round, 100, async () => {
      const connection = await RawConnection.open(round.target.port, round.tally);
      if (connection === undefined) return;
      round.tally.requests++;
      const bytes = round.random.pick([
        "",
        "G",
        get("/healthz"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\x16\x03\x01\x02\0",
      ]);
      if (bytes !== "") connection.write(bytes);
      if (round.random.chance(0.3)) connection.socket.resetAndDestroy();
      await connection.untilEnded(round.random.below(5));
      connection.close();
    }),
};

const stalledStreams: Attack = {
  name: "streams that nobody reads",
  expects: "bounded memory, and no starvation",
  run: async (round) => {
    const connections: RawConnection[] = [];
    await Promise.all(
      Array.from({ length: Math.max(300, round.connections) }, async () => {
        const connection = await RawConnection.open(round.target.port, round.tally);
        if (connection === undefined) return;
        connections.push(connection);
        round.tally.requests++;
        connection.write(get(streamPath));
        await connection.untilReceived(12, responseMs);
        connection.tallyResponses(round.tally, () => streamPath);
        connection.socket.pause();
      }),
    );
    for (const connection of connections) {
      await connection.untilEnded(Math.max(0, Math.min(20, round.until - performance.now())));
      connection.close();
    }
  },
};

/** What the responses of a large book may add to the memory of a worker, in bytes. */
const depthGrowthMax = 384 * 2 ** 20;

/** So many values of `maxDepth` in each coding: 16 were once kept of each market, whatever their size. */
const depthsAsked = 16;
const codings = ["identity", "gzip", "br"];

/** How long a response of a large book may take, while others take as long. */
const largeResponseMs = 30_000;

/** Asks for as good as all levels of a large book, in ever other numbers, codings and forms. */
const manyDepths: Attack = {
  name: "many depths of a large book",
  expects: "bounded memory",
  run: async (round) => {
    const service = await round.target.startWithLargeBook();
    const before = service.residentBytes();
    let asked = 0;
    let hasGrown = false;
    await inParallel(round, 4, async () => {
      do {
        await askDepth(round, service.port, asked++);
        const growth = service.residentBytes() - before;
        // Said at once: on a busy machine, the round may end before the last response.
        if (growth > depthGrowthMax && !hasGrown) {
          hasGrown = true;
          round.tally.wrong(`the worker grew by ${Math.round(growth / 2 ** 20)} MiB`);
        }
      } while (asked < depthsAsked * codings.length);
    });
    await service.stop();
  },
};

async function askDepth(round: Round, port: number, n: number): Promise<void> {
  const { marketId, sideLevels } = largeBook;
  const maxDepth = sideLevels - 1 - (n % depthsAsked);
  const message = encodeURIComponent(JSON.stringify({ marketId, maxDepth: String(maxDepth) }));
  const rpc = `/datanode.api.v2.TradingDataService/GetLatestMarketDepth?connect=v1&encoding=json&message=${message}`;
  const rest = `/api/v2/market/depth/${marketId}/latest?maxDepth=${maxDepth}`;
  const sweep = Math.floor(n / depthsAsked);
  const path = Math.floor(sweep / codings.length) % 2 === 0 ? rest : rpc;
  await askOnce(round, port, path, codings[sweep % codings.length]);
}

/** One request on a connection of its own. */
async function askOnce(round: Round, port: number, path: string, coding = "identity"): Promise<void> {
  const connection = await RawConnection.open(port, round.tally);
  if (connection === undefined) return;
  round.tally.requests++;
  connection.write(`GET ${path} HTTP/1.1\r\n${host}Accept-Encoding: ${coding}\r\nConnection: close\r\n\r\n`);
  await connection.untilEnded(largeResponseMs);
  connection.tallyResponses(round.tally, () => path);
  connection.close();
}

/** Connections that ask for the past of a large book. */
const pastWidth = 8;

/** How long they ask at least: a percentile takes a hundred calls of others. */
const pastMs = 4_000;

/** The 99th percentile that others' calls may take meanwhile, in milliseconds: such a book takes as long as a whole. */
const othersMsMax = 250;

/** A book of the past is read, folded and sorted for each request, however few of its levels are asked for. */
const pastOfLargeBook: Attack = {
  name: "the past of a large book",
  expects: "no starvation",
  run: async (round) => {
    const service = await round.target.startWithLargeBook();
    const { marketId, blocks } = largeBook;
    const latenciesMs: number[] = [];
    let done = false;
    const judge = async (): Promise<void> => {
      while (!done) {
        const startedMs = performance.now();
        await (await fetch(`http://127.0.0.1:${service.port}/healthz`)).text();
        latenciesMs.push(performance.now() - startedMs);
        await sleep(20);
      }
    };
    const judged = judge().catch((error: unknown) => round.tally.wrong(`health did not respond: ${String(error)}`));
    const until = Math.max(round.until, performance.now() + pastMs);
    await inParallel({ ...round, until }, pastWidth, () => {
      const height = 1 + round.random.below(blocks);
      return askOnce(round, service.port, `/api/v2/market/depth/${marketId}/at?blockHeight=${height}&maxDepth=1`);
    });
    done = true;
    await judged;
    const slow = latenciesMs.sort((a, b) => a - b)[Math.floor(latenciesMs.length * 0.99)] ?? 0;
    if (slow > othersMsMax) round.tally.wrong(`the 99th percentile of others was ${Math.round(slow)} ms`);
    await service.stop();
  },
};

/** Connections that ask for a whole book of the past, and do not read it. */
const unreadPastAsked = 60;

/** Where they come from. */
const unreadAddress = "127.0.0.9";

/** What responses that nobody reads may add to the memory of a worker, in bytes: those of one address are bounded. */
const unreadGrowthMax = 320 * 2 ** 20;

/** Each response is made for its request alone, and is larger than what the kernel takes of it. */
const unreadPast: Attack = {
  name: "books of the past that nobody reads",
  expects: "bounded memory",
  run: async (round) => {
    const service = await round.target.startWithLargeBook();
    const before = service.residentBytes();
    const connections: RawConnection[] = [];
    for (let n = 0; n < unreadPastAsked; n++) {
      const connection = await RawConnection.open(service.port, round.tally, unreadAddress);
      if (connection === undefined) break;
      connections.push(connection);
      round.tally.requests++;
      connection.write(get(`/api/v2/market/depth/${largeBook.marketId}/at?blockHeight=${1 + (n % largeBook.blocks)}`));
      await connection.untilReceived(12, responseMs);
      connection.tallyResponses(round.tally, () => "a book of the past");
      connection.socket.pause();
    }
    const growth = service.residentBytes() - before;
    if (growth > unreadGrowthMax) round.tally.wrong(`the worker grew by ${Math.round(growth / 2 ** 20)} MiB`);
    for (const connection of connections) connection.close();
    await service.stop();
  },
};

/** Attacks by sheer numbers. */
export const loadAttacks: readonly Attack[] = [
  ledgerFlood,
  metricsFlood,
  cancelledCalls,
  connectionFlood,
  stalledStreams,
  manyDepths,
  pastOfLargeBook,
  unreadPast,
];
