import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { simulate } from "../../src/simulator/network.js";
import { type MountedProcess, openMountedClients, startMounted } from "../connect/mounted-process.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { recordingPath } from "../support/partners.js";
import {
  type Outcome,
  openClients,
  type ProtocolClient,
  type StreamName,
  type UnaryName,
} from "../support/protocol-clients.js";
import { tries } from "../support/tries.js";
import { type Entry, type Facts, readFacts } from "./recording-facts.js";
import { ServiceProcess } from "./service-process.js";

/*
 * One table of cases, answered by the real process over every protocol, and by the Connect handlers of the packed package
 * on plain servers; from a real network's recording (where there is one) and from a simulated one.
 */

interface UnaryCase {
  readonly name: string;
  readonly method: UnaryName;
  readonly request: JsonValue;
  readonly check: (outcome: Outcome) => void;
}

interface StreamCase {
  readonly name: string;
  readonly method: StreamName;
  readonly request: JsonValue;
  readonly count: number;
  readonly check: (outcomes: readonly Outcome[]) => void;
}

const responses = (expected: JsonValue) => (outcome: Outcome) => expect(outcome).toEqual({ reply: expected });

const fails = (code: number, reason: string, message: string | RegExp) => (outcome: Outcome) => {
  expect(outcome).toMatchObject({ error: { code, reason } });
  if ("error" in outcome) {
    if (typeof message === "string") expect(outcome.error.message).toBe(message);
    else expect(outcome.error.message).toMatch(message);
  }
};

function messageOf(outcome: Outcome | undefined): JsonObject {
  if (outcome === undefined || "error" in outcome) throw new Error(`no response: ${JSON.stringify(outcome)}`);
  return outcome.reply as JsonObject;
}

function nodes(outcome: Outcome): JsonValue[] {
  const list = messageOf(outcome)["ledgerEntries"] as { edges: { node: JsonValue }[] };
  return list.edges.map((edge) => edge.node);
}

/** The package is packed for it, in turn with other tests. */
const installMaxMs = 240_000;

const unknownId = "no-such-market";

function marketCases(facts: Facts): UnaryCase[] {
  const cases: UnaryCase[] = [];
  for (const [marketId, market] of facts.markets) {
    cases.push({
      name: `market ${marketId}`,
      method: "getMarket",
      request: { marketId },
      check: responses({ market }),
    });
    const data = facts.marketData.get(marketId);
    cases.push({
      name: `market data of ${marketId}`,
      method: "getLatestMarketData",
      request: { marketId },
      check: data === undefined ? fails(5, "NO_MARKET_DATA_YET", /.+/) : responses({ marketData: data }),
    });
    cases.push({
      name: `depth of ${marketId}`,
      method: "getLatestMarketDepth",
      request: { marketId },
      check: (outcome) =>
        expect(messageOf(outcome)).toMatchObject({ marketId, sequenceNumber: expect.stringMatching(/^[0-9]+$/) }),
    });
  }
  const ids = [...facts.marketData.keys()].sort();
  const all = ids.map((id) => facts.marketData.get(id) ?? null);
  cases.push({
    name: "all market data",
    method: "listLatestMarketData",
    request: {},
    check: responses({ marketsData: all }),
  });
  cases.push({
    name: "market data of two",
    method: "listLatestMarketData",
    request: { market: ids.slice(0, 2) },
    check: responses({ marketsData: all.slice(0, 2) }),
  });
  return cases;
}

function errorCases(): UnaryCase[] {
  const empty = "";
  const long = "x".repeat(129);
  return [
    {
      name: "unknown market",
      method: "getMarket",
      request: { marketId: unknownId },
      check: fails(5, "MARKET_UNKNOWN", /no-such-market/),
    },
    {
      name: "unknown market's depth",
      method: "getLatestMarketDepth",
      request: { marketId: unknownId },
      check: fails(5, "MARKET_UNKNOWN", /no-such-market/),
    },
    {
      name: "unknown market's data",
      method: "getLatestMarketData",
      request: { marketId: unknownId },
      check: fails(5, "MARKET_UNKNOWN", /no-such-market/),
    },
    {
      name: "unknown market in a list",
      method: "listLatestMarketData",
      request: { market: [unknownId] },
      check: fails(5, "MARKET_UNKNOWN", /no-such-market/),
    },
    {
      name: "long identifier",
      method: "getMarket",
      request: { marketId: long },
      check: fails(3, "INVALID_IDENTIFIER", /^market(Id|_id): has 129 characters; an identifier has at most 128$/),
    },
    {
      name: "page of nothing",
      method: "listLedgerEntries",
      request: { pagination: { first: 0 } },
      check: fails(3, "INVALID_PAGINATION", /^pagination\.first: /),
    },
    {
      name: "both directions",
      method: "listLedgerEntries",
      request: { pagination: { first: 1, last: 1 } },
      check: fails(3, "INVALID_PAGINATION", /^pagination\./),
    },
    {
      name: "forged cursor",
      method: "listLedgerEntries",
      request: { pagination: { first: 1, after: "Zm9yZ2Vk" } },
      check: fails(3, "INVALID_CURSOR", /^pagination\.after: /),
    },
    {
      name: "range that ends before it starts",
      method: "listLedgerEntries",
      request: { dateRange: { startTimestamp: "2", endTimestamp: "1" } },
      check: fails(3, "INVALID_DATE_RANGE", /^date(Range|_range)\./),
    },
    {
      name: "two parties in an account filter",
      method: "listLedgerEntries",
      request: { filter: { fromAccountFilter: { partyIds: ["a", "b"] } } },
      check: fails(3, "TOO_MANY_PARTIES", /^filter\.(fromAccountFilter\.partyIds|from_account_filter\.party_ids): /),
    },
    {
      name: "epoch that is no number",
      method: "listERC20MultiSigSignerRemovedBundles",
      request: { epochSeq: "ten" },
      check: fails(3, "INVALID_EPOCH", /^epoch(Seq|_seq): /),
    },
    {
      name: "no bundle",
      method: "listERC20MultiSigSignerRemovedBundles",
      request: { nodeId: "nobody" },
      check: (outcome) =>
        expect(messageOf(outcome)).toMatchObject({
          bundles: {
            edges: [],
            pageInfo: { hasNextPage: false, hasPreviousPage: false, startCursor: empty, endCursor: empty },
          },
        }),
    },
  ];
}

function ledgerCases(facts: Facts): UnaryCase[] {
  const newest = facts.entries.toReversed();
  const first = facts.entries[0];
  if (first === undefined) return [];
  const list = (name: string, request: JsonObject, expected: readonly Entry[]): UnaryCase => ({
    name,
    method: "listLedgerEntries",
    request: { pagination: { first: 5000 }, ...request },
    check: (outcome) => expect(nodes(outcome)).toEqual(expected.slice(0, 5000).map((entry) => entry.node)),
  });
  const { party, asset, type } = first.to;
  const side = { partyIds: [party], assetId: asset };
  const touches = (account: Entry["from"]) => account.party === party && account.asset === asset;
  const transferType = first.node["transferType"] as string;
  return [
    list("the whole ledger", {}, newest),
    list("the whole ledger, oldest first", { pagination: { first: 5000, newestFirst: false } }, facts.entries),
    list(
      "what a party got",
      { filter: { toAccountFilter: side } },
      newest.filter((entry) => touches(entry.to)),
    ),
    list(
      "what a party got or sent",
      { filter: { toAccountFilter: side, fromAccountFilter: side } },
      newest.filter((entry) => touches(entry.to) || touches(entry.from)),
    ),
    list(
      "what stayed with a party",
      { filter: { closeOnAccountFilters: true, toAccountFilter: side, fromAccountFilter: side } },
      newest.filter((entry) => touches(entry.to) && touches(entry.from)),
    ),
    list(
      "one transfer type",
      { filter: { transferTypes: [transferType] } },
      newest.filter((entry) => entry.node["transferType"] === transferType),
    ),
    list(
      "one account type",
      { filter: { toAccountFilter: { accountTypes: [type] } } },
      newest.filter((entry) => entry.to.type === type),
    ),
    list(
      "a moment",
      { dateRange: { startTimestamp: timeOf(first), endTimestamp: (BigInt(timeOf(first)) + 1n).toString() } },
      newest.filter((entry) => entry.node["timestamp"] === first.node["timestamp"]),
    ),
    list("nobody's", { filter: { toAccountFilter: { partyIds: ["nobody"] } } }, []),
  ];
}

function timeOf(entry: Entry): string {
  return entry.node["timestamp"] as string;
}

function streamCases(facts: Facts): StreamCase[] {
  const marketIds = [...facts.markets.keys()].sort();
  const entry = facts.entries[0];
  const cases: StreamCase[] = [
    {
      name: "unknown market's stream",
      method: "observeMarketsDepthUpdates",
      request: { marketIds: [unknownId] },
      count: 1,
      check: ([outcome]) => fails(5, "MARKET_UNKNOWN", /no-such-market/)(outcome ?? { reply: null }),
    },
    {
      name: "whole books of all markets",
      method: "observeMarketsDepthUpdates",
      request: {},
      count: 1,
      check: ([outcome]) => {
        const updates = messageOf(outcome)["update"] as JsonObject[];
        expect(updates.map((update) => update["marketId"]).sort()).toEqual(marketIds);
        for (const update of updates) expect(update["previousSequenceNumber"]).toBe("0");
      },
    },
  ];
  if (entry !== undefined) cases.push(exportCase(facts, entry));
  return cases;
}

function exportCase(facts: Facts, { to }: Entry): StreamCase {
  const mine = (account: Entry["from"]) => account.party === to.party && account.asset === to.asset;
  const rows = facts.entries.filter((entry) => mine(entry.from) || mine(entry.to));
  return {
    name: "export",
    method: "exportLedgerEntries",
    request: { partyId: to.party, assetId: to.asset },
    count: 1_000,
    check: (outcomes) => {
      const messages = outcomes.map(messageOf);
      const csv = Buffer.concat(messages.map((message) => Buffer.from(message["data"] as string, "base64")));
      const lines = csv.toString().split("\r\n");
      expect(lines.pop()).toBe("");
      expect(lines.slice(1).map((line) => line.split(",")[1])).toEqual(rows.map((entry) => entry.node["quantity"]));
      const last = messages.at(-1) ?? {};
      expect(last).toMatchObject({ data: "" });
      const [extension] = last["extensions"] as { value: JsonObject }[];
      const held = extension?.value ?? {};
      expect(Object.values(held).map(String)).toContain(String(rows.length));
      expect(Object.values(held)).toContain(createHash("sha256").update(csv).digest("hex"));
    },
  };
}

async function simulatedRecording(): Promise<Uint8Array> {
  const options = { seed: 7, markets: 6, parties: 20, ordersPerBlock: 12, entriesPerBlock: 6, blocks: 80 };
  return Buffer.concat([...simulate(options)]);
}

const datasets: { readonly name: string; readonly read: () => Promise<Uint8Array> }[] = [
  { name: "a simulated network", read: simulatedRecording },
];
const recorded = recordingPath();
if (recorded !== undefined) {
  datasets.push({ name: "a real network's recording", read: async () => gunzipSync(readFileSync(recorded)) });
}

describe.each(datasets)("$name", ({ read }) => {
  let facts: Facts;
  let service: ServiceProcess;
  let mounted: MountedProcess;
  let clients: ProtocolClient[] = [];
  let mountedClients: ProtocolClient[] = [];

  beforeAll(async () => {
    const bytes = await read();
    facts = readFacts(bytes);
    const database = newDatabaseUrl();
    await loadRecording(database.url, bytes);
    service = new ServiceProcess(database.url, await freePort());
    await service.start();
    clients = openClients(service.url);
    mounted = await startMounted(database.url);
    mountedClients = openMountedClients(mounted);
  }, installMaxMs);

  afterAll(async () => {
    for (const client of [...clients, ...mountedClients]) client.close();
    await service?.kill();
    await mounted?.stop();
  });

  async function everywhere<T>(
    ask: (client: ProtocolClient) => Promise<T>,
    check: (outcome: T) => void,
  ): Promise<void> {
    const [first, ...others] = await Promise.all(
      [...clients, ...mountedClients].map(async (client) => ({ client, outcome: await ask(client) })),
    );
    if (first === undefined) throw new Error("no clients");
    check(first.outcome);
    for (const { client, outcome } of others) {
      const { name } = client;
      const own = ownFields[name];
      if (name === "HTTP") check(outcome);
      const isMounted = mountedClients.includes(client);
      const label = isMounted ? `${name} to handlers` : name;
      const got = isMounted && name === "gRPC" ? unescaped(outcome) : outcome;
      expect(without(own, got), `${label} and ${first.client.name} differ`).toEqual(without(own, first.outcome));
    }
  }

  const table = (make: (facts: Facts) => readonly UnaryCase[]) => async () => {
    for (const { name, method, request, check } of make(facts)) {
      await everywhere((client) => client.unary(method, request), check).catch((error: Error) => {
        error.message = `${name}: ${error.message}`;
        throw error;
      });
    }
  };

  it("answers markets, depth and market data alike through every client", table(marketCases));
  it("answers the ledger alike through every client", table(ledgerCases));
  it("refuses alike through every client", table(errorCases));
  it("streams alike through every client", async () => {
    for (const { method, request, count, check } of streamCases(facts)) {
      await everywhere((client) => client.stream(method, request, count), check);
    }
  });

  it("pages the ledger with every page size, in both directions and both orders", async () => {
    const [client] = clients.filter((each) => each.name === "HTTP");
    if (client === undefined) throw new Error("no HTTP client");
    const total = facts.entries.slice(0, tries(200));
    const dateRange = { endTimestamp: timeOfNext(facts.entries, total) };
    const expected = facts.entries.filter((entry) => BigInt(timeOf(entry)) < BigInt(dateRange.endTimestamp));
    for (const newestFirst of [true, false]) {
      const inOrder = (newestFirst ? expected.toReversed() : expected).map((entry) => entry.node);
      for (const size of [1, 7, 1000]) {
        expect(await readAllPages(client, { dateRange }, { newestFirst }, "first", "after", size)).toEqual(inOrder);
        expect(await readAllPages(client, { dateRange }, { newestFirst }, "last", "before", size)).toEqual(inOrder);
      }
    }
  });
});

/**
 * What clients see differently. Errors speak to HTTP clients of parameters; errors.test.ts holds them word for word. In
 * the JSON of Connect, a file has no extensions; browser-calls.test.ts holds that.
 */
const ownFields: Readonly<Record<string, string>> = {
  HTTP: "message",
  "Connect POST, JSON": "extensions",
  "Connect GET": "extensions",
};

/** Connect's handlers escape characters of a gRPC message that grpc-js leaves escaped: those that URLs reserve. */
function unescaped(outcome: unknown): unknown {
  return JSON.parse(JSON.stringify(outcome).replaceAll(/%(3B|2F|3F|3A|40|26|3D|2B|24|2C|23)/g, decodeURIComponent));
}

function without(field: string | undefined, outcome: unknown): unknown {
  return JSON.parse(JSON.stringify(outcome, (key, value) => (key === field ? undefined : value)));
}

/** The start of the first block after the one that the last of `some` lies in. */
function timeOfNext(all: readonly Entry[], some: readonly Entry[]): string {
  const last = some.at(-1);
  return last === undefined || all.length === 0 ? "1" : (BigInt(timeOf(last)) + 1n).toString();
}

async function readAllPages(
  client: ProtocolClient,
  request: JsonObject,
  order: JsonObject,
  count: "first" | "last",
  from: "after" | "before",
  size: number,
): Promise<JsonValue[]> {
  const found: JsonValue[] = [];
  let cursor: string | undefined;
  for (;;) {
    const pagination = { ...order, [count]: size, ...(cursor === undefined ? {} : { [from]: cursor }) };
    const outcome = await client.unary("listLedgerEntries", { ...request, pagination });
    const page = messageOf(outcome)["ledgerEntries"] as { pageInfo: Record<string, string | boolean> };
    if (count === "first") found.push(...nodes(outcome));
    else found.unshift(...nodes(outcome));
    const { hasNextPage, hasPreviousPage, endCursor, startCursor } = page.pageInfo;
    const more = count === "first" ? hasNextPage : hasPreviousPage;
    const back = count === "first" ? hasPreviousPage : hasNextPage;
    expect(back).toBe(cursor !== undefined);
    if (more !== true) return found;
    cursor = String(count === "first" ? endCursor : startCursor);
  }
}
