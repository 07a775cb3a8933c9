import { once } from "node:events";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import type { Connection } from "../../src/store/connection/connection.js";
import { openDatabase } from "../../src/store/database.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import {
  getUrl,
  type Outcome,
  openClients,
  type ProtocolClient,
  type StreamName,
  type UnaryName,
} from "../support/protocol-clients.js";
import { DatabaseProxy } from "./database-proxy.js";
import { ServiceProcess } from "./service-process.js";
import { smallNetwork } from "./small-network.js";

/*
 * Every row of the documented table of errors: its condition made true for a real process, and what each protocol then
 * says, word for word.
 */

interface Row {
  readonly condition: string;
  readonly method: UnaryName | StreamName;
  readonly request: JsonObject;
  readonly status: number;
  readonly code: number;
  readonly reason: string;
  /** Over HTTP. */
  readonly message: string;
  /** Over gRPC, gRPC-Web and Connect, where that is another. */
  readonly rpcMessage?: string;
}

interface ErrorBody {
  readonly code: number;
  readonly message: string;
  readonly details: readonly JsonObject[];
}

const requestTimeoutMs = 400;
const streamsPerAddressMax = 3;

const invalid = (
  method: Row["method"],
  request: JsonObject,
  reason: string,
  message: string,
  rpcMessage = message,
): Row => {
  return { condition: message, method, request, status: 400, code: 3, reason, message, rpcMessage };
};

const missing = (method: Row["method"], request: JsonObject, reason: string, message: string): Row => {
  return { condition: `${method}: ${reason}`, method, request, status: 404, code: 5, reason, message };
};

const unknown = (method: Row["method"], request: JsonObject): Row => ({
  ...missing(method, request, "MARKET_UNKNOWN", "market nowhere is not known; GET /api/v2/markets lists all"),
  rpcMessage: "market nowhere is not known; TradingDataService.ListMarkets lists all",
});

const noData = "market quiet has no market data yet, and a venue's market may never have any; ask for its depth";
const combined = "page forwards with first and after, or backwards with last and before";
const noCursor = "is not a cursor; take it from an earlier response, unchanged";

const rows: readonly Row[] = [
  invalid(
    "getLatestMarketDepth",
    { marketId: "m".repeat(129) },
    "INVALID_IDENTIFIER",
    "marketId: has 129 characters; an identifier has at most 128",
    "market_id: has 129 characters; an identifier has at most 128",
  ),
  invalid(
    "observeMarketsDepthUpdates",
    { marketIds: ["busy", "caf\u00e9"] },
    "INVALID_IDENTIFIER",
    "marketIds: has an unprintable character at position 4; an identifier is printable ASCII",
    "market_ids: has an unprintable character at position 4; an identifier is printable ASCII",
  ),
  invalid(
    "listLedgerEntries",
    { filter: { fromAccountFilter: { partyIds: ["alice", "bob"] } } },
    "TOO_MANY_PARTIES",
    "filter.fromAccountFilter.partyIds: has 2 parties; an account filter takes at most one",
    "filter.from_account_filter.party_ids: has 2 parties; an account filter takes at most one",
  ),
  invalid(
    "listLedgerEntries",
    { filter: { toAccountFilter: { partyIds: ["alice", "bob"] } } },
    "TOO_MANY_PARTIES",
    "filter.toAccountFilter.partyIds: has 2 parties; an account filter takes at most one",
    "filter.to_account_filter.party_ids: has 2 parties; an account filter takes at most one",
  ),
  invalid(
    "listLedgerEntries",
    { dateRange: { startTimestamp: "2", endTimestamp: "1" } },
    "INVALID_DATE_RANGE",
    "dateRange.startTimestamp: is 2, after dateRange.endTimestamp, which is 1",
    "date_range.start_timestamp: is 2, after date_range.end_timestamp, which is 1",
  ),
  invalid(
    "exportLedgerEntries",
    { partyId: "alice", assetId: "usd", dateRange: { startTimestamp: "2", endTimestamp: "1" } },
    "INVALID_DATE_RANGE",
    "dateRange.startTimestamp: is 2, after dateRange.endTimestamp, which is 1",
    "date_range.start_timestamp: is 2, after date_range.end_timestamp, which is 1",
  ),
  invalid(
    "exportLedgerEntries",
    { assetId: "usd" },
    "INVALID_IDENTIFIER",
    "partyId: is empty; give an identifier",
    "party_id: is empty; give an identifier",
  ),
  invalid(
    "exportLedgerEntries",
    { partyId: "alice" },
    "INVALID_IDENTIFIER",
    "assetId: is empty; give an identifier",
    "asset_id: is empty; give an identifier",
  ),
  invalid(
    "listERC20MultiSigSignerRemovedBundles",
    { epochSeq: "18446744073709551616" },
    "INVALID_EPOCH",
    'epochSeq: is "18446744073709551616"; it takes a decimal number from 0 to 18446744073709551615',
    'epoch_seq: is "18446744073709551616"; it takes a decimal number from 0 to 18446744073709551615',
  ),
  ...(["listLedgerEntries", "listERC20MultiSigSignerRemovedBundles"] as const).flatMap((method) => [
    ...(
      [
        [{ first: 0 }, "pagination.first: is 0; it takes a number from 1"],
        [{ last: -1 }, "pagination.last: is -1; it takes a number from 1"],
        [{ first: 1, last: 1 }, `pagination.last: cannot be combined with pagination.first; ${combined}`],
        [{ after: "x", before: "x" }, `pagination.before: cannot be combined with pagination.after; ${combined}`],
        [{ first: 1, before: "x" }, `pagination.before: cannot be combined with pagination.first; ${combined}`],
        [{ last: 1, after: "x" }, `pagination.after: cannot be combined with pagination.last; ${combined}`],
      ] as const
    ).map(([pagination, message]) => invalid(method, { pagination }, "INVALID_PAGINATION", message)),
    invalid(method, { pagination: { after: "x" } }, "INVALID_CURSOR", `pagination.after: ${noCursor}`),
    invalid(method, { pagination: { before: "x" } }, "INVALID_CURSOR", `pagination.before: ${noCursor}`),
  ]),
  unknown("getMarket", { marketId: "nowhere" }),
  unknown("getLatestMarketDepth", { marketId: "nowhere" }),
  unknown("getLatestMarketData", { marketId: "nowhere" }),
  unknown("listLatestMarketData", { market: ["busy", "nowhere"] }),
  unknown("observeMarketsDepthUpdates", { marketIds: ["busy", "nowhere"] }),
  missing("getLatestMarketData", { marketId: "quiet" }, "NO_MARKET_DATA_YET", noData),
  missing("listLatestMarketData", { market: ["quiet"] }, "NO_MARKET_DATA_YET", noData),
];

const databaseAway: readonly Row[] = [
  { method: "listLedgerEntries", request: {} },
  { method: "exportLedgerEntries", request: { partyId: "alice", assetId: "usd" } },
  { method: "listERC20MultiSigSignerRemovedBundles", request: {} },
].map((each) => ({
  ...(each as Pick<Row, "method" | "request">),
  condition: `${each.method}: the database is away`,
  status: 503,
  code: 14,
  reason: "DATABASE_UNAVAILABLE",
  message: "the database cannot be reached; try again",
}));

function isStream(method: Row["method"]): method is StreamName {
  return method === "observeMarketsDepthUpdates" || method === "exportLedgerEntries";
}

async function ask(client: ProtocolClient, method: Row["method"], request: JsonValue): Promise<Outcome> {
  if (!isStream(method)) return client.unary(method, request);
  const [first] = await client.stream(method, request, 1);
  if (first === undefined) throw new Error(`${client.name} gave nothing`);
  return first;
}

describe("the table of errors", () => {
  let service: ServiceProcess;
  let proxy: DatabaseProxy;
  let databaseUrl = "";
  let clients: readonly ProtocolClient[] = [];

  beforeAll(async () => {
    databaseUrl = newDatabaseUrl().url;
    await loadRecording(databaseUrl, smallNetwork().bytes());
    proxy = await DatabaseProxy.before(databaseUrl);
    service = new ServiceProcess(
      ...[proxy.url, await freePort(), "--request-timeout-ms", String(requestTimeoutMs)],
      ...["--streams-per-address-max", String(streamsPerAddressMax), "--heartbeat-ms", "200"],
    );
    await service.start();
    clients = openClients(service.url);
  });

  afterAll(async () => {
    for (const client of clients) client.close();
    await service.kill();
    await proxy.close();
  });

  /** What plain HTTP says, in full. */
  async function held({ method, request, status, code, reason, message }: Row): Promise<ErrorBody> {
    const response = await fetch(service.url + getUrl(method, request));
    const body = (await response.json()) as ErrorBody;
    expect([response.status, body.code, body.message]).toEqual([status, code, message]);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(Object.keys(body)).toEqual(["code", "message", "details"]);
    expect(body.details).toContainEqual({
      "@type": "type.googleapis.com/google.rpc.ErrorInfo",
      reason,
      domain: "marketd",
      metadata: {},
    });
    const retry = body.details.find((detail) => detail["@type"] === "type.googleapis.com/google.rpc.RetryInfo");
    const waits = status === 429 || status === 503;
    expect(response.headers.get("retry-after") !== null).toBe(waits);
    expect(retry !== undefined).toBe(waits);
    if (retry !== undefined) expect(retry).toMatchObject({ retryDelay: expect.stringMatching(/^[0-9.]+s$/) });
    return body;
  }

  async function everywhere(row: Row): Promise<void> {
    const { method, request, code, reason, rpcMessage = row.message } = row;
    for (const client of clients) {
      const message = client.name === "HTTP" ? row.message : rpcMessage;
      expect(await ask(client, method, request), client.name).toEqual({ error: { code, message, reason } });
    }
    await held(row);
  }

  it.each(rows.map((row) => [row.condition, row] as const))("%s", async (_, row) => {
    await everywhere(row);
    if (row.status !== 400) return;
    const { details } = await held(row);
    const at = row.message.indexOf(": ");
    expect(details[0]).toEqual({
      "@type": "type.googleapis.com/google.rpc.BadRequest",
      fieldViolations: [{ field: row.message.slice(0, at), description: row.message.slice(at + 2) }],
    });
  });

  it("a WebSocket and an RPC name fields as their callers know them, in the details too", async () => {
    const socket = new WebSocket(
      `${service.url.replace("http", "ws")}/api/v2/stream/markets/depth/updates?marketIds=caf%C3%A9`,
    );
    const [data] = await once(socket, "message");
    expect(JSON.parse(String(data))).toMatchObject({
      error: {
        message: expect.stringMatching(/^marketIds: /),
        details: [{ fieldViolations: [{ field: "marketIds" }] }, { reason: "INVALID_IDENTIFIER" }],
      },
    });
    const path = "/datanode.api.v2.TradingDataService/ListLedgerEntries";
    const response = await fetch(service.url + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ dateRange: { startTimestamp: "2", endTimestamp: "1" } }),
    });
    const description = "is 2, after date_range.end_timestamp, which is 1";
    expect(await response.json()).toMatchObject({
      message: `date_range.start_timestamp: ${description}`,
      details: [{ debug: { fieldViolations: [{ field: "date_range.start_timestamp", description }] } }, {}],
    });
  });

  it("known, but without orders yet: an empty depth", async () => {
    for (const client of clients) {
      expect(await client.unary("getLatestMarketDepth", { marketId: "quiet" }), client.name).toEqual({
        reply: { marketId: "quiet", buy: [], sell: [], sequenceNumber: "0" },
      });
    }
  });

  it("nothing matches: an empty page, a header alone", async () => {
    const pageInfo = { hasNextPage: false, hasPreviousPage: false, startCursor: "", endCursor: "" };
    for (const client of clients) {
      const filter = { fromAccountFilter: { partyIds: ["nobody"] } };
      expect(await client.unary("listLedgerEntries", { filter }), client.name).toEqual({
        reply: { ledgerEntries: { edges: [], pageInfo } },
      });
      expect(await client.unary("listERC20MultiSigSignerRemovedBundles", { epochSeq: "8" }), client.name).toEqual({
        reply: { bundles: { edges: [], pageInfo } },
      });
    }
    const csv = await fetch(`${service.url}/api/v2/ledgerentry/export?partyId=nobody&assetId=usd&alt=media`);
    expect((await csv.text()).split("\r\n")).toEqual([expect.stringMatching(/^vega_time,quantity,/), ""]);
  });

  it("this client's own limit is reached", async () => {
    const gone = new AbortController();
    const url = service.url + getUrl("observeMarketsDepthUpdates", {});
    const open = Array.from({ length: streamsPerAddressMax }, () => fetch(url, { signal: gone.signal }));
    for (const response of await Promise.all(open)) expect(response.status).toBe(200);
    await everywhere({
      condition: "",
      method: "observeMarketsDepthUpdates",
      request: {},
      status: 429,
      code: 8,
      reason: "TOO_MANY_STREAMS_OF_CLIENT",
      message: `this client has ${streamsPerAddressMax} streams open, as many as one address may; close some`,
    });
    gone.abort();
    await expect.poll(async () => (await fetch(url, { method: "HEAD" })).status).toBe(200);
  });

  it("the deadline passes, the server's or the client's own", async () => {
    const database = openDatabase(databaseUrl);
    await database.withConnection(async (connection: Connection) => {
      await connection.run("LOCK TABLES ledger_entry WRITE");
      const row = {
        condition: "",
        method: "listLedgerEntries",
        request: {},
        status: 504,
        code: 4,
        reason: "DEADLINE_EXCEEDED",
        message: "the deadline of the call passed before its response was complete",
      } as const;
      await everywhere(row);
      const started = performance.now();
      const response = await fetch(`${service.url}/datanode.api.v2.TradingDataService/ListLedgerEntries`, {
        method: "POST",
        headers: { "content-type": "application/json", "connect-timeout-ms": "50", "connect-protocol-version": "1" },
        body: "{}",
      });
      expect(await response.json()).toMatchObject({ code: "deadline_exceeded", message: row.message });
      expect(performance.now() - started).toBeLessThan(requestTimeoutMs);
      await connection.run("UNLOCK TABLES");
    });
    await database.close();
    expect((await fetch(service.url + getUrl("listLedgerEntries", {}))).status).toBe(200);
  });

  it("anything else is told by an id that the log has too, and by nothing internal", async () => {
    const database = openDatabase(databaseUrl);
    const rename = (from: string, to: string) =>
      database.withConnection((connection) => connection.run(`RENAME TABLE ${from} TO ${to}`));
    await rename("signer_removed_bundle", "hidden");
    for (const client of clients) {
      const outcome = await client.unary("listERC20MultiSigSignerRemovedBundles", {});
      if (!("error" in outcome)) throw new Error(`${client.name} answered`);
      expect([outcome.error.code, outcome.error.reason], client.name).toEqual([13, "INTERNAL"]);
      const id = /^internal error; report it with id ([0-9a-f-]{36})$/.exec(outcome.error.message)?.[1] ?? "no id";
      await expect.poll(() => service.printed).toContain(id);
    }
    const response = await fetch(service.url + getUrl("listERC20MultiSigSignerRemovedBundles", {}));
    expect([response.status, (await response.text()).includes("signer_removed_bundle")]).toEqual([500, false]);
    await rename("hidden", "signer_removed_bundle");
    await database.close();
  });

  it("the database is away: cached responses and streams go on, the rest is UNAVAILABLE, and it comes back", async () => {
    proxy.cut();
    for (const row of databaseAway) await everywhere(row);
    for (const client of clients) {
      const data = await client.unary("getLatestMarketData", { marketId: "busy" });
      expect(data, client.name).toMatchObject({ reply: { marketData: { market: "busy" } } });
      const [update] = await client.stream("observeMarketsDepthUpdates", { marketIds: ["busy"] }, 1);
      expect(update, client.name).toMatchObject({ reply: { update: [{ marketId: "busy" }] } });
    }
    expect((await fetch(`${service.url}/readyz`)).status).toBe(200);
    proxy.restore();
    await expect.poll(async () => (await fetch(service.url + getUrl("listLedgerEntries", {}))).status).toBe(200);
  });
});
