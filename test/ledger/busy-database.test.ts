import http from "node:http";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { listLedgerEntries } from "../../src/api/list-ledger-entries.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { type ListeningServer, startListeningServer } from "../support/listening.js";
import { LedgerFixture } from "./ledger-fixture.js";

let fixture: LedgerFixture;
let database: Database;
let server: ListeningServer;

beforeAll(async () => {
  fixture = await LedgerFixture.create();
  await fixture.addBlock([
    {
      from: { party: "network", asset: "usd", market: "", type: AccountType.EXTERNAL },
      to: { party: "alice", asset: "usd", market: "", type: AccountType.GENERAL },
      transferType: TransferType.DEPOSIT,
      quantity: "1",
      fromBalance: "0",
      toBalance: "1",
    },
  ]);
});
afterAll(() => fixture.drop());

async function serve(waitingMax: number, waitMsMax = 60_000): Promise<void> {
  database = openDatabase(fixture.url, { connectionsMax: 1, queue: { waitingMax, waitMsMax } });
  const metrics = createMetrics();
  database.queue.register(metrics);
  server = await startListeningServer({
    api: [listLedgerEntries({ ledger: new LedgerReader(database) })],
    log: createLog("silent"),
    metrics,
    readiness: () => "ready",
  });
}

afterEach(async () => {
  await server.close();
  await database.close();
});

/** Occupies the one connection until the promise of the result is called. */
async function occupy(): Promise<() => void> {
  let release = (): void => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await new Promise<void>((occupied) => {
    void database.withConnection(() => {
      occupied();
      return released;
    });
  });
  return release;
}

interface Reply {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: { readonly message?: string; readonly details?: readonly Record<string, unknown>[] };
}

function ask(localAddress: string, path = "/api/v2/ledgerentry/history"): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const request = http.get(server.url + path, { agent: false, localAddress }, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on("end", () => {
        const body = path === "/metrics" ? { message: text } : JSON.parse(text);
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body });
      });
    });
    request.on("error", reject);
  });
}

test("too many requests are refused at once, with a time to come back, and the rest is answered", async () => {
  await serve(3);
  const release = await occupy();
  const asked = Array.from({ length: 8 }, () => ask("127.0.0.1"));
  await expect.poll(() => database.queue.refused("SERVER_BUSY")).toBe(5);
  const metrics = (await ask("127.0.0.1", "/metrics")).body.message;
  expect(metrics).toContain("marketd_database_requests_running 1\n");
  expect(metrics).toContain("marketd_database_requests_waiting 3\n");
  expect(metrics).toContain('marketd_database_requests_refused_total{reason="SERVER_BUSY"} 5\n');
  release();
  const replies = await Promise.all(asked);
  expect(replies.filter(({ status }) => status === 200)).toHaveLength(3);
  const refused = replies.filter(({ status }) => status === 503);
  expect(refused).toHaveLength(5);
  for (const { headers, body } of refused) {
    expect(headers["retry-after"]).toBe("1");
    expect(body).toMatchObject({ code: 14, details: [{ reason: "SERVER_BUSY" }, { retryDelay: "1s" }] });
  }
});

test("a client of few requests gets its turn beside one of many, who feels its quota", async () => {
  await serve(10);
  const release = await occupy();
  const many = Array.from({ length: 10 }, () => ask("127.0.0.2"));
  await expect.poll(() => database.queue.waiting).toBe(10);
  const order: string[] = [];
  const few = ask("127.0.0.3").then((reply) => {
    order.push("few");
    return reply;
  });
  for (const reply of many) void reply.then(({ status }) => order.push(`many ${status}`));
  await expect.poll(() => database.queue.refused("TOO_MANY_REQUESTS_OF_CLIENT") + order.length).toBeGreaterThan(0);
  release();
  expect((await few).status).toBe(200);
  const replies = await Promise.all(many);
  const quota = replies.filter(({ status }) => status !== 200);
  expect(quota).toHaveLength(1);
  expect(quota[0]).toMatchObject({
    status: 429,
    headers: { "retry-after": "1" },
    body: { code: 8, details: [{ reason: "TOO_MANY_REQUESTS_OF_CLIENT" }, { retryDelay: "1s" }] },
  });
  expect(order.indexOf("few")).toBeLessThanOrEqual(2);
});

test("a request over gRPC is refused in the same way", async () => {
  await serve(0);
  const release = await occupy();
  const client = createClient(TradingDataService, createGrpcTransport({ baseUrl: server.url }));
  const error = await client.listLedgerEntries({}).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({
    code: 14,
    rawMessage: "this server has as many requests to answer as it can; try again",
  });
  const [retry] = (error as { findDetails(schema: typeof RetryInfoSchema): unknown[] }).findDetails(RetryInfoSchema);
  expect(retry).toMatchObject({ retryDelay: { seconds: 1n } });
  release();
  await expect.poll(() => database.queue.running).toBe(0);
  expect((await client.listLedgerEntries({})).ledgerEntries?.edges).toHaveLength(1);
});

test("clients that hang up, cancel, or set a short deadline leave nothing waiting", async () => {
  await serve(100);
  const release = await occupy();
  const hungUp = Array.from({ length: 20 }, () => {
    const request = http.get(`${server.url}/api/v2/ledgerentry/history`, { agent: false });
    request.on("error", () => {});
    return request;
  });
  const client = createClient(TradingDataService, createGrpcTransport({ baseUrl: server.url }));
  const controllers = Array.from({ length: 20 }, () => new AbortController());
  const cancelled = controllers.map(({ signal }) => client.listLedgerEntries({}, { signal }));
  const late = Array.from({ length: 20 }, () => client.listLedgerEntries({}, { timeoutMs: 300 }));
  const outcomes = Promise.allSettled([...cancelled, ...late]);
  await expect.poll(() => database.queue.waiting).toBeGreaterThanOrEqual(40);
  for (const request of hungUp) request.destroy();
  for (const controller of controllers) controller.abort();
  await expect.poll(() => database.queue.waiting, { timeout: 10_000 }).toBe(0);
  await outcomes;
  expect(database.queue.refused("SERVER_BUSY")).toBe(0);
  release();
  expect((await ask("127.0.0.1")).status).toBe(200);
});
