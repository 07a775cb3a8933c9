import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { create } from "@bufbuild/protobuf";
import {
  type Client,
  Code,
  ConnectError,
  createClient,
  createContextKey,
  createContextValues,
  createRouterTransport,
} from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { createConnectTransport } from "@connectrpc/connect-web";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GetMarketResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { type OpenApi, openApi } from "../../src/api/open-api.js";
import { jsonOptions, type MarketdOptions, openMarketd, TradingDataService } from "../../src/connect/open-marketd.js";
import { type RoutesOptions, registerRoutes } from "../../src/connect/routes.js";
import { type Call, unary } from "../../src/domain/service.js";
import { MessageResponse } from "../../src/encoding/message-response.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { smallNetwork } from "../e2e/small-network.js";
import { MarketFixture } from "../live/market-fixture.js";
import { startTestService, type TestService } from "../live/service.js";
import { newDatabaseUrl } from "../support/database.js";
import { loadRecording } from "../support/load-recording.js";

/* The handlers in this process, over a real database, beside our own transport. */

const log = createLog("silent");

type TestClient = Client<typeof TradingDataService>;

function clientOf(options: Omit<RoutesOptions, "log" | "clientAddress">, more: Partial<RoutesOptions> = {}) {
  const routes = { log, clientAddress: () => "", ...options, ...more };
  return createClient(
    TradingDataService,
    createRouterTransport((router) => registerRoutes(router, routes), { router: { jsonOptions } }),
  );
}

function clientOfService({ url }: TestService): TestClient {
  return createClient(TradingDataService, createConnectTransport({ baseUrl: url, useBinaryFormat: true }));
}

async function failureOf(call: Promise<unknown>): Promise<ConnectError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof ConnectError) return error;
    throw error;
  }
  throw new Error("the call succeeded");
}

/** All of an error that a client sees. */
function seen({ code, rawMessage, details, metadata }: ConnectError): object {
  return { code, rawMessage, details, retryAfter: metadata.get("retry-after") };
}

async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const messages: T[] = [];
  for await (const message of stream) messages.push(message);
  return messages;
}

describe("the handlers beside our own transport", () => {
  let opened: OpenApi;
  let service: TestService;
  let handlers: TestClient;
  let own: TestClient;

  beforeAll(async () => {
    const { url } = newDatabaseUrl();
    await loadRecording(url, smallNetwork().bytes());
    opened = await openApi({ databaseUrl: url, log, metrics: createMetrics() });
    service = await startTestService(url);
    handlers = clientOf(opened);
    own = clientOfService(service);
  });

  afterAll(async () => {
    await opened.close();
    await service.drain();
  });

  test("give the same messages in process", async () => {
    for (const client of [handlers, own]) {
      const { buy, sequenceNumber } = await client.getLatestMarketDepth({ marketId: "busy" });
      expect(buy.map(({ price }) => price)).toEqual(["100", "90", "80"]);
      expect(sequenceNumber).toBeTypeOf("bigint");
    }
    expect(await handlers.listLatestMarketData({})).toEqual(await own.listLatestMarketData({}));
    expect(await handlers.listLedgerEntries({})).toEqual(await own.listLedgerEntries({}));
  });

  test("fail with the same code, message, details and time to retry", async () => {
    const calls: ((client: TestClient) => Promise<unknown>)[] = [
      (client) => client.getMarket({ marketId: "nowhere" }),
      (client) => client.getMarket({ marketId: "x".repeat(129) }),
      (client) => client.listLedgerEntries({ pagination: { first: 0 } }),
      (client) => client.listLedgerEntries({ pagination: { first: 1, after: "Zm9yZ2Vk" } }),
      (client) => all(client.observeMarketsDepthUpdates({ marketIds: ["busy", "nowhere"] })),
      (client) => all(client.exportLedgerEntries({ assetId: "usd" })),
    ];
    for (const call of calls) {
      const error = await failureOf(call(handlers));
      expect(seen(error)).toEqual(seen(await failureOf(call(own))));
      expect(error.findDetails(ErrorInfoSchema)).toHaveLength(1);
    }
  });

  test("set headers and trailers, of which a response's own replace the process's", async () => {
    const metadataOf = async (client: TestClient) => {
      const kept: Record<string, Record<string, string>> = {};
      const keep = (name: string) => ({
        onHeader: (fields: Headers) => Object.assign(kept, { [`${name} headers`]: chosen(fields) }),
        onTrailer: (fields: Headers) => Object.assign(kept, { [`${name} trailers`]: chosen(fields) }),
      });
      await client.getMarket({ marketId: "busy" }, keep("market"));
      await client.listLedgerEntries({}, keep("page"));
      await all(client.exportLedgerEntries({ partyId: "alice", assetId: "usd" }, keep("file")));
      return kept;
    };
    const kept = await metadataOf(handlers);
    expect(kept).toEqual(await metadataOf(own));
    expect(kept).toMatchObject({
      "market headers": { "x-block-height": "4" },
      "page headers": { "x-block-height": "4" },
      "file headers": { "content-disposition": 'attachment; filename="ledger-alice-usd.csv"' },
      "file trailers": { "export-rows": "4", "export-sha256": expect.stringMatching(/^[0-9a-f]{64}$/) },
    });
    await handlers.getMarket(
      { marketId: "busy" },
      { onHeader: (fields) => expect(fields.get("marketd-staleness")).toMatch(/^[0-9]+$/) },
    );
  });

  test("give methods the client's address, headers and signal", async () => {
    const address = createContextKey("", { description: "address" });
    const calls: Call[] = [];
    const method = unary(TradingDataService.method.getMarket, (_request, call) => {
      calls.push(call);
      return new MessageResponse(GetMarketResponseSchema, create(GetMarketResponseSchema));
    });
    const client = createClient(
      TradingDataService,
      createRouterTransport(
        (router) =>
          registerRoutes(router, {
            log,
            ...opened,
            methods: [method],
            clientAddress: ({ values }) => values.get(address),
          }),
        {
          router: {
            interceptors: [
              (next) => (request) => {
                request.contextValues.set(address, "192.0.2.7");
                return next(request);
              },
            ],
          },
        },
      ),
    );
    await client.getMarket({}, { headers: { "x-request-id": "one" }, contextValues: createContextValues() });
    expect(calls).toHaveLength(1);
    expect(calls[0]).toMatchObject({ clientAddress: "192.0.2.7", requestHeaders: { "x-request-id": "one" } });
    expect(calls[0]?.signal.aborted).toBe(true); // the call is over
  });

  test("say nothing internal, and log it under the id that the client gets", async () => {
    const lines: object[] = [];
    const method = unary(TradingDataService.method.getMarket, () => {
      throw new Error("secret");
    });
    const kept = Object.assign(createLog("silent"), { error: (fields: object) => lines.push(fields) });
    const error = await failureOf(clientOf({ ...opened, methods: [method] }, { log: kept }).getMarket({}));
    expect(error.code).toBe(Code.Internal);
    expect(error.rawMessage).not.toContain("secret");
    expect(lines).toEqual([{ err: new Error("secret"), id: error.rawMessage.split(" ").at(-1) }]);
  });
});

function chosen(fields: Headers): Record<string, string> {
  return Object.fromEntries([...fields].filter(([name]) => /^(x-block-|export-|content-disposition)/.test(name)));
}

describe("streams and time limits", () => {
  let fixture: MarketFixture;
  let opened: OpenApi;
  let client: TestClient;
  let server: Server;
  let url = "";
  const metrics = createMetrics();

  beforeAll(async () => {
    fixture = await MarketFixture.create();
    await fixture.add({ announce: ["busy"], levels: [level(1n)] });
    opened = await openApi({ databaseUrl: fixture.url, log, metrics, limits: { pollIntervalMs: 5 } });
    const routes = { ...opened, log, clientAddress: () => "" };
    client = clientOf(opened);
    server = createServer(connectNodeAdapter({ jsonOptions, routes: (router) => registerRoutes(router, routes) }));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${TradingDataService.typeName}`;
  });

  afterAll(async () => {
    server.closeAllConnections();
    server.close();
    await opened.close();
    await fixture.drop();
  });

  async function subscribers(): Promise<number | undefined> {
    const found = await metrics.getSingleMetric("marketd_depth_stream_subscribers")?.get();
    return found?.values[0]?.value;
  }

  test("a slow reader gets merged updates", async () => {
    const gone = new AbortController();
    const messages = client.observeMarketsDepthUpdates({ marketIds: ["busy"] }, { signal: gone.signal });
    const stream = messages[Symbol.asyncIterator]();
    await stream.next();
    const last = 60n;
    for (let volume = 2n; volume <= last; volume++) await fixture.add({ levels: [level(volume)] });
    await expect.poll(() => volumeOf(client)).toBe(last);
    let count = 0;
    for (let volume: bigint | undefined; volume !== last; count++) {
      const { value } = await stream.next();
      volume = value?.update[0]?.buy[0]?.volume;
    }
    expect(count).toBeLessThanOrEqual(3);
    // Connect's clients pass on no return() of their iterators.
    gone.abort();
    await expect.poll(subscribers).toBe(0);
  });

  test("a reader that stops, in process or far away, closes its stream", async () => {
    const gone = new AbortController();
    const stream = client.observeMarketsDepthUpdates({ marketIds: ["busy"] }, { signal: gone.signal });
    const ended = failureOf(all(stream));
    await expect.poll(subscribers).toBe(1);
    gone.abort();
    expect((await ended).code).toBe(Code.Canceled);
    await expect.poll(subscribers).toBe(0);
    const far = createClient(TradingDataService, createConnectTransport({ baseUrl: new URL(url).origin }));
    const left = new AbortController();
    const cut = failureOf(all(far.observeMarketsDepthUpdates({ marketIds: ["busy"] }, { signal: left.signal })));
    await expect.poll(subscribers).toBe(1);
    left.abort();
    await cut;
    await expect.poll(subscribers).toBe(0);
  });

  test("a deadline ends a stream, and a page that waits for the database", async () => {
    const flags = [0, 0, 0, 0, 2];
    const stream = await fetch(`${url}/ObserveMarketsDepthUpdates`, {
      method: "POST",
      headers: { "content-type": "application/connect+json", "connect-timeout-ms": "500" },
      body: Buffer.concat([Buffer.from(flags), Buffer.from("{}")]),
    });
    expect(await stream.text()).toContain('"code":"deadline_exceeded"');
    await expect.poll(subscribers).toBe(0);

    await fixture.database.withConnection(async (connection) => {
      await connection.run("LOCK TABLES ledger_entry WRITE");
      const page = await fetch(`${url}/ListLedgerEntries`, {
        method: "POST",
        headers: { "content-type": "application/json", "connect-timeout-ms": "500" },
        body: "{}",
      });
      await connection.run("UNLOCK TABLES");
      expect(page.status).toBe(504);
      expect(await page.json()).toMatchObject({ code: "deadline_exceeded" });
    });
  });

  test("with the options of ours, JSON has every field", async () => {
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify({ marketId: "busy" }) };
    const depth = await (await fetch(`${url}/GetLatestMarketDepth`, init)).json();
    expect(depth).toMatchObject({ marketId: "busy", sell: [] });
  });

  test.each([
    ["a field", "GetLatestMarketDepth", { marketId: "busy", maxDept: "1" }],
    ["a list", "ListTrades", { marketId: ["busy"] }],
    ["a value of an enum", "ListLedgerEntries", { filter: { transferTypes: ["NOPE"] } }],
  ])("with the options of ours, %s that is not there is refused", async (_, method, request) => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${url}/${method}`, { method: "POST", headers, body: JSON.stringify(request) });
    expect([response.status, await response.json()]).toMatchObject([400, { code: "invalid_argument" }]);
  });
});

function level(volume: bigint) {
  return { marketId: "busy", side: 1, price: "9", volume } as const;
}

async function volumeOf(client: TestClient): Promise<bigint | undefined> {
  return (await client.getLatestMarketDepth({ marketId: "busy" })).buy[0]?.volume;
}

describe("openMarketd", () => {
  test("is unavailable while the database is empty, works once it is loaded, and ends its streams", async () => {
    const { url } = newDatabaseUrl();
    const marketd = await openMarketd({ database: url, logLevel: "silent" });
    const client = createClient(TradingDataService, createRouterTransport(marketd.routes));
    const error = await failureOf(client.getMarket({ marketId: "busy" }));
    expect(error.code).toBe(Code.Unavailable);
    expect(error.findDetails(RetryInfoSchema)).toHaveLength(1);
    expect(error.metadata.get("retry-after")).toMatch(/^[0-9]+$/);
    await loadRecording(url, smallNetwork().bytes());
    await expect.poll(() => client.getMarket({ marketId: "busy" }).catch(() => undefined)).toBeDefined();
    const stream = client.observeMarketsDepthUpdates({})[Symbol.asyncIterator]();
    await stream.next();
    const ended = failureOf(stream.next());
    const listed = failureOf(client.listTrades({}));
    await marketd.close();
    for (const failed of [ended, listed, failureOf(client.listMarkets({})), failureOf(client.listTrades({}))]) {
      const { code, rawMessage } = await failed;
      expect([code, rawMessage]).toEqual([Code.Unavailable, "the service is shutting down; call again"]);
    }
  });

  test("names what is wrong with a URL, and not its password", async () => {
    await expect(openMarketd({ database: "postgres://me:secret@host/name" })).rejects.toThrow(/takes mysql:/);
    for (const options of [undefined, {}, { database: 5 }]) {
      await expect(openMarketd(options as MarketdOptions)).rejects.toThrow(/takes options: \{ database: "mysql:/);
    }
    const chatty = { database: "mysql://me@host/name", logLevel: "chatty" } as unknown as MarketdOptions;
    await expect(openMarketd(chatty)).rejects.toThrow("logLevel is one of silent, error, warn, info, debug");
  });
});
