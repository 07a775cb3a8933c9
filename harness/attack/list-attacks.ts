import { gzipSync } from "node:zlib";
import { encodeCursor, type ListName } from "../../src/domain/cursor.js";
import type { Random } from "../../src/simulator/random.js";
import { type Attack, inParallel, type Round } from "./attack.js";
import type { Identifiers } from "./operations.js";
import { RawConnection } from "./raw-connection.js";

/** Connections that ask at once: more than the database takes requests. */
const width = 24;

/** The longest that a response is waited for. */
const responseMs = 20_000;

/** How much of a request is within its limits, so that it costs something; at most so. */
const allowedShare = 0.9;

const allowedTimes = ["0", "1", "1704067200123456789", "1704067300000000000", "9223372036854775807"];
const refusedTimes = ["-1", "9223372036854775808", "-9223372036854775808", "18446744073709551616", "1e400", ""];
const allowedSizes = ["1", "100", "5000", "5001", "2147483647"];
const refusedSizes = ["0", "-1", "2147483648", "4294967296", "1.5", ""];

/** The lists with pages, and by which parameters rows are selected. */
const lists: readonly { readonly path: string; readonly name: ListName; readonly parameters: readonly string[] }[] = [
  { path: "/api/v2/trades", name: "trades", parameters: ["marketIds", "partyIds", "orderIds"] },
  { path: "/api/v2/candle", name: "candles", parameters: ["candleId"] },
  {
    path: "/api/v2/accounts",
    name: "accounts",
    parameters: ["filter.partyIds", "filter.assetId", "filter.marketIds", "filter.accountTypes"],
  },
  { path: "/api/v2/balance/changes", name: "balances", parameters: ["filter.partyIds", "filter.assetId"] },
  { path: "/api/v2/markets", name: "markets", parameters: ["includeSettled"] },
  { path: "/api/v2/assets", name: "assets", parameters: ["assetId"] },
];

const intervals = ["block", "1_minute", "5_minutes", "15_minutes", "1_hour", "6_hours", "1_day"];

function pickAny(allowed: readonly string[], refused: readonly string[], random: Random): string {
  return random.pick(random.chance(allowedShare) ? allowed : refused);
}

/** A cursor with a checksum that is right: of the list or of another, and of a place at the edge of all that there are. */
function extremeCursor(name: ListName, random: Random): string {
  const number = (): bigint =>
    random.pick([0n, 1n, (1n << 24n) - 1n, 1n << 32n, (1n << 63n) - 1n, 1n << 63n, (1n << 64n) - 1n]);
  const bytes = Buffer.alloc(16);
  bytes.writeBigUInt64BE(number());
  bytes.writeBigUInt64BE(number(), 8);
  const list = random.chance(0.9) ? name : random.pick(lists).name;
  const isPlace = list === "candles" || list === "balances";
  return encodeCursor(
    list,
    random.chance(0.9) ? bytes.subarray(0, isPlace ? 16 : 8) : bytes.subarray(0, random.below(17)),
  );
}

function someValue(parameter: string, { marketId, partyId, assetId }: Identifiers, random: Random): string {
  const interval = pickAny(intervals, ["2_days", "", "%00"], random);
  const usual: Record<string, string> = {
    candleId: `trades_candle_${interval}_${random.chance(0.9) ? marketId : "nowhere"}`,
    "filter.accountTypes": pickAny(["ACCOUNT_TYPE_GENERAL", "4"], ["99", "-1", "ACCOUNT_TYPE_UNSPECIFIED"], random),
    includeSettled: pickAny(["true", "false"], ["1", "", "maybe"], random),
  };
  const ids = [marketId, partyId, assetId, "", "a".repeat(129), "caf%C3%A9", "'%20OR%201=1", "%25", "nowhere"];
  return random.chance(allowedShare)
    ? (usual[parameter] ?? random.pick([marketId, partyId, assetId]))
    : random.pick(ids);
}

/** None, some, or as many as a list of a filter may have, and one more. */
function someValues(parameter: string, ids: Identifiers, random: Random): string[] {
  if (random.chance(0.05)) {
    return Array.from({ length: random.pick([1_000, 1_001]) }, (_, n) => `${parameter}=id${n}`);
  }
  const isSingle = /Id$|Settled$/.test(parameter);
  const count = isSingle && random.chance(allowedShare) ? 1 : random.below(3);
  return Array.from({ length: count }, () => `${parameter}=${someValue(parameter, ids, random)}`);
}

/** A request of a list in which everything may be at its limit, or beyond. */
function hostileList(ids: Identifiers, random: Random): string {
  const { path, name, parameters } = random.pick(lists);
  const query = parameters.flatMap((parameter) => someValues(parameter, ids, random));
  const [size, cursor] = random.chance(0.5) ? ["first", "after"] : ["last", "before"];
  const sometimes = (text: () => string): void => {
    if (random.chance(0.4)) query.push(text());
  };
  sometimes(() => `pagination.${size}=${pickAny(allowedSizes, refusedSizes, random)}`);
  sometimes(() => `pagination.${random.chance(0.9) ? cursor : "before"}=${extremeCursor(name, random)}`);
  sometimes(() => `pagination.newestFirst=${pickAny(["true", "false"], ["2"], random)}`);
  const bounds = path.endsWith("candle")
    ? ["fromTimestamp", "toTimestamp"]
    : path.endsWith("accounts")
      ? ["asOf"]
      : ["dateRange.startTimestamp", "dateRange.endTimestamp"];
  for (const bound of bounds) sometimes(() => `${bound}=${pickAny(allowedTimes, refusedTimes, random)}`);
  return `${path}?${query.join("&")}`;
}

async function ask(round: Round): Promise<void> {
  const url = hostileList(round.target, round.random);
  const connection = await RawConnection.open(round.target.port, round.tally);
  if (connection === undefined) return;
  round.tally.requests++;
  connection.write(`GET ${url} HTTP/1.1\r\nHost: marketd\r\nConnection: close\r\n\r\n`);
  await connection.untilEnded(responseMs);
  const responses = connection.tallyResponses(round.tally, () => url.slice(0, 300));
  if (responses === 0 && connection.ended) round.tally.wrong(`no response to ${url.slice(0, 300)}`);
  connection.close();
}

/** Lists with sizes, cursors, times, intervals and filters at their limits and beyond. */
export const hostileLists: Attack = {
  name: "pages and ranges at their limits",
  expects: "no status 500, 502 or 504, a response to each, and no starvation",
  run: (round) => inParallel(round, width, () => ask(round)),
};

/** Values of each list, as many as may be. */
const longest = 1_000;

/** What a page of trades is asked for with lists as long as they may be, of identifiers that are as long as usual. */
const longFilter = JSON.stringify(
  Object.fromEntries(
    (["orderIds", "partyIds", "marketIds"] as const).map((name, list) => {
      return [name, Array.from({ length: longest }, (_, n) => String(list * longest + n).padStart(64, "0"))];
    }),
  ),
);

/** Sends a request on a connection of its own, and waits for the response. */
async function askOnce(round: Round, path: string, request: readonly (string | Buffer)[], waitMs = responseMs) {
  const connection = await RawConnection.open(round.target.port, round.tally);
  if (connection === undefined) return;
  round.tally.requests++;
  for (const part of request) connection.write(part);
  await connection.untilEnded(waitMs);
  if (connection.tallyResponses(round.tally, () => path) === 0) round.tally.wrong(`no response to ${path}`);
  connection.close();
}

/** A Connect call with a body in JSON. */
function post(path: string, body: string | Buffer, more = ""): (string | Buffer)[] {
  const type = `Content-Type: application/json\r\nConnect-Protocol-Version: 1\r\n${more}`;
  const length = `Content-Length: ${body.length}`;
  return [`POST ${path} HTTP/1.1\r\nHost: marketd\r\n${type}${length}\r\nConnection: close\r\n\r\n`, body];
}

function askLong(round: Round): Promise<void> {
  const path = "/datanode.api.v2.TradingDataService/ListTrades";
  return askOnce(round, path, post(path, longFilter));
}

/** Several lists of a filter that are as long as they may be, at once. */
export const longLists: Attack = {
  name: "long lists of a filter, together",
  expects: "no status 500, 502 or 504, a response to each, and no starvation",
  run: (round) => inParallel(round, 8, () => askLong(round)),
};

/** A preference of as many parts as headers have place for. */
const longAccept = `Accept: ${"/,".repeat(30_000)}`;

function askWithPreferences(round: Round): Promise<void> {
  const path = "/api/v2/stream/markets/depth/updates?marketIds=nowhere";
  return askOnce(round, path, [`GET ${path} HTTP/1.1\r\nHost: marketd\r\n${longAccept}\r\nConnection: close\r\n\r\n`]);
}

/** Headers that take long to read. */
export const longPreferences: Attack = {
  name: "preferences of thousands of parts",
  expects: "no status 500, 502 or 504, a response to each, and no starvation",
  run: (round) => inParallel(round, 60, () => askWithPreferences(round)),
};

/** Some hundred bytes that become a list which takes long to read. */
const packedFilter = gzipSync(`{"filter":{"transferTypes":[${"1,".repeat(120_000)}1]}}`);

function askPacked(round: Round): Promise<void> {
  const path = "/datanode.api.v2.TradingDataService/ListLedgerEntries";
  return askOnce(round, path, post(path, packedFilter, "Content-Encoding: gzip\r\n"), 2 * responseMs);
}

/** Compressed messages that take long to read, many at once. */
export const packedLists: Attack = {
  name: "packed lists that take long to read",
  expects: "no status 500, 502 or 504, a response to each, and no starvation",
  run: (round) => inParallel(round, 300, () => askPacked(round)),
};
