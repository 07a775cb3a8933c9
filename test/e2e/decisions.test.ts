import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as tlsConnect } from "node:tls";
import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { partnerProgram } from "../support/partners.js";
import { GrpcProtocolClient, getUrl, openClients } from "../support/protocol-clients.js";
import { RecordingBuilder } from "../support/recording.js";
import { ServiceProcess } from "./service-process.js";
import { blockIntervalNs, entryTimes, firstBlockNs, laterBlocks, smallNetwork } from "./small-network.js";

/* What the documentation promises of a running service, tried on real processes. */

const streamPath = getUrl("observeMarketsDepthUpdates", {});
let folder = "";
const running: ServiceProcess[] = [];

async function serve(databaseUrl: string, ...args: string[]): Promise<ServiceProcess> {
  const service = new ServiceProcess(databaseUrl, await freePort(), ...args);
  running.push(service);
  await service.start();
  return service;
}

async function json(url: string, headers: Record<string, string> = {}): Promise<JsonObject> {
  const response = await fetch(url, { headers });
  const body = (await response.json()) as JsonObject;
  expect(response.status, JSON.stringify(body)).toBe(200);
  return body;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "marketd-decisions-"));
});

afterEach(async () => {
  for (const service of running.splice(0)) await service.kill();
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe("the life of a service", () => {
  it("waits for a first load, refuses everything till then, and is ready without a restart", async () => {
    const { url: databaseUrl } = newDatabaseUrl();
    const service = new ServiceProcess(databaseUrl, await freePort());
    running.push(service);
    await service.start(503);
    expect(service.printed).toMatch(/has no tables yet: run marketd load or marketd migrate/);
    const message = "the service has nothing to answer from yet; try again";
    const error = { error: { code: 14, message, reason: "NOT_READY" } };
    for (const client of openClients(service.url)) {
      expect(await client.unary("getMarket", { marketId: "busy" }), client.name).toEqual(error);
      expect(await client.unary("listLedgerEntries", {}), client.name).toEqual(error);
      expect(await client.unary("listERC20MultiSigSignerRemovedBundles", {}), client.name).toEqual(error);
      expect(await client.stream("observeMarketsDepthUpdates", {}, 1), client.name).toEqual([error]);
      expect(await client.stream("exportLedgerEntries", { partyId: "p", assetId: "a" }, 1), client.name).toEqual([
        error,
      ]);
      client.close();
    }
    const refused = await fetch(service.url + streamPath);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
    await loadRecording(databaseUrl, smallNetwork().bytes());
    await expect.poll(async () => (await fetch(`${service.url}/readyz`)).status, { timeout: 10_000 }).toBe(200);
    expect(await json(`${service.url}/api/v2/market/busy`)).toMatchObject({ market: { id: "busy" } });
  });

  it("lets everyone go on SIGTERM: each stream ends with UNAVAILABLE in its own way, and the exit code is 0", async () => {
    const { url: databaseUrl } = newDatabaseUrl();
    await loadRecording(databaseUrl, smallNetwork().bytes());
    const service = await serve(databaseUrl);
    const lines = await fetch(service.url + streamPath);
    const events = await fetch(`${service.url}${streamPath}?alt=sse`);
    const socket = new WebSocket(service.url.replace("http", "ws") + streamPath);
    const texts: string[] = [];
    socket.on("message", (data) => texts.push(String(data)));
    const closed = once(socket, "close");
    await expect.poll(() => texts.length).toBe(1);
    const grpc = new GrpcProtocolClient(service.url);
    const outcomes = grpc.stream("observeMarketsDepthUpdates", {}, 2);
    await sleep(200);
    expect(await service.stop()).toBe(0);
    const failure = { code: 14, message: "this server is shutting down; connect again" };
    expect(JSON.parse((await lines.text()).trimEnd().split("\n").at(-1) ?? "")).toMatchObject({ error: failure });
    const [id, data] = (await events.text()).split("\n\n").map((event) => event.split("\n"));
    expect(id?.[0]).toMatch(/^id: [\w-]{39}$/);
    expect(data?.slice(0, 2)).toEqual(["event: error", "retry: 1000"]);
    expect(JSON.parse(data?.[2]?.replace("data: ", "") ?? "")).toMatchObject({ error: failure });
    expect(JSON.parse(texts.at(-1) ?? "")).toMatchObject({ error: failure });
    expect((await closed)[0]).toBe(1013);
    expect((await outcomes)[1]).toEqual({ error: { ...failure, reason: "DRAINING" } });
    grpc.close();
  });

  it("says UNAVAILABLE when it serves as many streams as it can", async () => {
    const { url: databaseUrl } = newDatabaseUrl();
    await loadRecording(databaseUrl, smallNetwork().bytes());
    const service = await serve(databaseUrl, "--streams-max", "1");
    // Held to the end: a response that nobody holds may be collected as garbage, and its stream is then cancelled.
    const stream = await fetch(service.url + streamPath);
    expect(stream.status).toBe(200);
    const error = { code: 14, message: "this server serves as many streams as it can", reason: "TOO_MANY_STREAMS" };
    for (const client of openClients(service.url)) {
      expect(await client.stream("observeMarketsDepthUpdates", {}, 1), client.name).toEqual([{ error }]);
      client.close();
    }
    const refused = await fetch(service.url + streamPath);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
    await stream.body?.cancel();
  });
});

describe("depth streams", () => {
  it("begin with whole books, go on by block, take in later markets, and break silence", async () => {
    const { url: databaseUrl } = newDatabaseUrl();
    const recording = smallNetwork();
    await loadRecording(databaseUrl, recording.bytes());
    const service = await serve(databaseUrl, "--heartbeat-ms", "300");
    const gone = new AbortController();
    const response = await fetch(service.url + streamPath, { signal: gone.signal });
    const messages: { update: JsonObject[] }[] = [];
    const read = async () => {
      let rest = "";
      for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        const lines = (rest + chunk).split("\n");
        rest = lines.pop() ?? "";
        messages.push(...lines.map((line) => JSON.parse(line).result));
      }
    };
    read().catch(() => {});
    await expect.poll(() => messages.length).toBeGreaterThan(0);
    const floored = (firstBlockNs / 1000n) * 1000n;
    const first = messages[0]?.update.sort((a, b) => (String(a["marketId"]) < String(b["marketId"]) ? -1 : 1));
    const empty = { buy: [], sell: [], previousSequenceNumber: "0" };
    const level = (price: string, volume: string) => ({ price, numberOfOrders: "1", volume });
    expect(first).toEqual([
      { ...empty, marketId: "a/b +%", sequenceNumber: "0" },
      {
        marketId: "busy",
        // The order events of the first block are its events 6 to 10.
        sequenceNumber: String(floored + 10n),
        previousSequenceNumber: "0",
        buy: [level("100", "5"), level("90", "5"), level("80", "5")],
        sell: [level("110", "1"), level("120", "1")],
      },
      { ...empty, marketId: "emptied", sequenceNumber: "0" },
      { ...empty, marketId: "quiet", sequenceNumber: "0" },
    ]);
    await expect.poll(() => messages.at(-1)).toEqual({ update: [] });
    const time = firstBlockNs + 1_000_000n;
    recording.block(laterBlocks + 2, time, (r) =>
      r.market("later").order({ id: "l", marketId: "later" }).order({ id: "b1", marketId: "busy", remaining: 0n }),
    );
    await loadRecording(databaseUrl, recording.bytes());
    const blockTime = (time / 1000n) * 1000n;
    await expect
      .poll(() => messages.flatMap((message) => message.update).slice(4))
      .toEqual(
        expect.arrayContaining([
          {
            marketId: "busy",
            buy: [{ price: "100", numberOfOrders: "0", volume: "0" }],
            sell: [],
            previousSequenceNumber: String(floored + 10n),
            sequenceNumber: String(blockTime + 4n),
          },
          {
            marketId: "later",
            buy: [level("100", "1")],
            sell: [],
            previousSequenceNumber: "0",
            sequenceNumber: String(blockTime + 3n),
          },
        ]),
      );
    gone.abort();
  });
});

describe("answers", () => {
  let service: ServiceProcess;
  let other: ServiceProcess;

  beforeAll(async () => {
    const { url: databaseUrl } = newDatabaseUrl();
    await loadRecording(databaseUrl, smallNetwork().bytes());
    service = new ServiceProcess(databaseUrl, await freePort());
    other = new ServiceProcess(
      databaseUrl,
      await freePort(),
      "--base-path",
      "/base",
      "--cors-origins",
      "https://a.example",
    );
    await Promise.all([service.start(), other.start()]);
  });

  afterAll(async () => {
    await Promise.all([service.kill(), other.kill()]);
  });

  it("have the tag that any process gives, another for each encoding and depth, and 304 for who has it", async () => {
    const tag = async (url: string, encoding = "identity") => {
      const response = await fetch(url, { headers: { "accept-encoding": encoding } });
      expect(response.status).toBe(200);
      return response.headers.get("etag") ?? "none";
    };
    const large = "/markets/data";
    const paths = ["/api/v2/market/busy", "/api/v2/market/depth/busy/latest", "/api/v2/market/data/busy/latest", large];
    for (const path of paths) {
      const etag = await tag(service.url + path);
      expect(etag).toMatch(/^"[!#-~]+"$/);
      expect(await tag(`${other.url}/base${path}`)).toBe(etag);
      for (const value of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
        const response = await fetch(service.url + path, {
          headers: { "accept-encoding": "identity", "if-none-match": value },
        });
        expect([response.status, await response.text(), response.headers.get("etag")]).toEqual([304, "", etag]);
      }
      const changed = await fetch(service.url + path, { headers: { "if-none-match": '"other"' } });
      expect(changed.status).toBe(200);
    }
    const codings = await Promise.all(["identity", "gzip", "br"].map((coding) => tag(service.url + large, coding)));
    expect(new Set(codings).size).toBe(3);
    const depth = `${service.url}/api/v2/market/depth/busy/latest`;
    const depths = await Promise.all([depth, `${depth}?maxDepth=1`, `${depth}?maxDepth=2`].map((url) => tag(url)));
    expect(new Set(depths).size).toBe(3);
    expect(await tag(`${depth}?maxDepth=0`)).toBe(depths[0]);
  });

  it("give as many levels as asked, the best first", async () => {
    const depth = async (query: string) => {
      const reply = await json(`${service.url}/api/v2/market/depth/busy/latest${query}`);
      const prices = (side: string) => (reply[side] as { price: string }[]).map((level) => level.price);
      return [prices("buy"), prices("sell")];
    };
    const all = [
      ["100", "90", "80"],
      ["110", "120"],
    ];
    expect(await depth("")).toEqual(all);
    expect(await depth("?maxDepth=0")).toEqual(all);
    expect(await depth("?max_depth=1")).toEqual([["100"], ["110"]]);
    expect(await depth("?maxDepth=2")).toEqual([
      ["100", "90"],
      ["110", "120"],
    ]);
    expect(await depth("?maxDepth=18446744073709551615")).toEqual(all);
  });

  it("know a market by any way to write its id, at both addresses of the list", async () => {
    const id = "a/b +%";
    const data = { market: id, timestamp: String(firstBlockNs) };
    expect(await json(`${service.url}/api/v2/market/a%2Fb%20+%25`)).toMatchObject({ market: { id } });
    for (const query of ["market=a%2Fb+%2B%25", "market=a/b%20%2b%25", "market=a/b%20%2b%25&_=1&_=2"]) {
      for (const path of ["/markets/data", "/api/v2/markets/data"]) {
        expect(await json(`${service.url}${path}?${query}`)).toMatchObject({ marketsData: [data] });
      }
    }
    const { marketsData } = await json(`${service.url}/markets/data`);
    expect((marketsData as { market: string }[]).map(({ market }) => market)).toEqual(["a/b +%", "busy", "emptied"]);
    const twice = await json(`${service.url}/markets/data?market=emptied&market=busy&market=`);
    expect((twice["marketsData"] as { market: string }[]).map(({ market }) => market)).toEqual(["busy", "emptied"]);
  });

  it("take ranges of time to the nanosecond, the start inclusive and the end not", async () => {
    const count = async (start: bigint, end: bigint) => {
      const range = `dateRange.startTimestamp=${start}&dateRange.endTimestamp=${end}`;
      const list = await json(`${service.url}/api/v2/ledgerentry/history?${range}`);
      const csv = await fetch(`${service.url}/api/v2/ledgerentry/export?partyId=bob&assetId=usd&${range}&alt=media`);
      const rows = (await csv.text()).split("\r\n").length - 2;
      return [((list["ledgerEntries"] as JsonObject)["edges"] as unknown[]).length, rows];
    };
    const [one = 0n, two = 0n, three = 0n] = entryTimes;
    expect(two - one).toBe(blockIntervalNs);
    expect(await count(one, two)).toEqual([1, 1]);
    expect(await count(one, three)).toEqual([2, 2]);
    expect(await count(two, two)).toEqual([0, 0]);
    expect(await count(three, three + 1n)).toEqual([3, 2]);
    expect(await count(three + 1n, 9_223_372_036_854_775_807n)).toEqual([0, 0]);
    expect(await count(-9_223_372_036_854_775_808n, one)).toEqual([0, 0]);
  });

  it("leave out what is unset, and quote what CSV needs quoted", async () => {
    const list = await json(`${service.url}/api/v2/ledgerentry/history?pagination.last=1&pagination.newestFirst=true`);
    const [edge] = (list["ledgerEntries"] as { edges: { node: JsonObject }[] }).edges;
    expect(edge?.node).toMatchObject({ quantity: "0", timestamp: String(entryTimes[0]) });
    expect(Object.keys(edge?.node ?? {})).not.toContain("fromAccountMarketId");
    const query = "partyId=q%22u%2C+ote&assetId=usd&alt=media";
    const file = await fetch(`${service.url}/api/v2/ledgerentry/export?${query}`);
    const about = ["content-type", "content-disposition", "export-party-id", "export-asset-id", "export-newest-block"];
    expect(about.map((name) => file.headers.get(name))).toEqual([
      ...["text/csv", 'attachment; filename="ledger-q_u__ote-usd.csv"', 'q"u, ote', "usd", String(laterBlocks + 1)],
    ]);
    const csv = await file.text();
    expect(csv.split("\r\n")[1]).toMatch(
      /^2023-01-18T01:06:45\.123456792Z,1,-1,TRANSFER_FUNDS_SEND,usd,,"q""u, ote",GENERAL,0,,bob,GENERAL,1$/,
    );
  });

  it("stand under a base path and for named origins only", async () => {
    expect((await fetch(`${other.url}/api/v2/market/busy`)).status).toBe(404);
    expect((await fetch(`${other.url}/base/markets/data`)).status).toBe(200);
    expect((await fetch(`${other.url}/readyz`)).status).toBe(200);
    const from = async (origin: string) => {
      const response = await fetch(`${other.url}/base/api/v2/market/busy`, { headers: { origin } });
      return [response.status, response.headers.get("access-control-allow-origin")];
    };
    expect(await from("https://a.example")).toEqual([200, "https://a.example"]);
    expect(await from("https://b.example")).toEqual([200, null]);
  });

  it("are counted in figures that Prometheus can read", async () => {
    await fetch(`${service.url}/api/v2/market/nowhere`);
    const response = await fetch(`${service.url}/metrics`);
    expect(response.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
    const text = await response.text();
    const line =
      /^(?:# (?:HELP|TYPE) [a-z0-9_]+ .+|[a-z0-9_]+(?:\{[a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*\})? [-+0-9.e]+(?:NaN)?)$/;
    for (const each of text.trimEnd().split("\n").filter(Boolean)) expect(each).toMatch(line);
    expect(text).toMatch(/^marketd_requests_total\{method="GetMarket",protocol="http",code="not_found"\} [1-9]/m);
    expect(text).toMatch(/^marketd_block_age_seconds [0-9]/m);
  });
});

describe("pages", () => {
  it("have 1000 rows unless asked, 5000 at most, and cursors that hold in any direction and under any filter", async () => {
    const { url: databaseUrl } = newDatabaseUrl();
    const rows = 5_003;
    const entries = Array.from({ length: rows }, (_, n) => ({ amount: String(n) }));
    const recording = new RecordingBuilder().block(1, 1n, (r) => r.market("m").transfer(...entries));
    await loadRecording(databaseUrl, recording.bytes());
    const service = await serve(databaseUrl);
    const page = async (query: string) => {
      const { ledgerEntries } = await json(`${service.url}/api/v2/ledgerentry/history?${query}`);
      const { edges, pageInfo } = ledgerEntries as {
        edges: { cursor: string; node: { quantity: string } }[];
        pageInfo: JsonObject;
      };
      const quantities = edges.map((edge) => Number(edge.node.quantity));
      return { edges, pageInfo, length: edges.length, first: quantities[0], last: quantities.at(-1) };
    };
    expect(await page("")).toMatchObject({ length: 1000, first: rows - 1, last: rows - 1000 });
    const none = { hasPreviousPage: false, hasNextPage: true };
    expect(await page("pagination.first=5001")).toMatchObject({ length: 5000, first: rows - 1, pageInfo: none });
    const end = await page("pagination.last=2147483647");
    expect(end).toMatchObject({ length: 5000, last: 0, pageInfo: { hasPreviousPage: true, hasNextPage: false } });
    const cursor = end.edges[2]?.cursor ?? "";
    const at = Number(end.edges[2]?.node.quantity);
    expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
    const place = (query: string) => page(`pagination.first=1&${query}&pagination.after=${cursor}`);
    expect(await place("")).toMatchObject({ first: at - 1 });
    expect(await place("pagination.newestFirst=false")).toMatchObject({ first: at + 1 });
    expect(await place("filter.toAccountFilter.partyIds=bob")).toMatchObject({ first: at - 1 });
    expect(await page(`pagination.last=2&pagination.before=${cursor}`)).toMatchObject({ first: at + 2, last: at + 1 });
    const others = await fetch(
      `${service.url}/api/v2/erc20/multisigcontrol/signer/removed/bundles?pagination.after=${cursor}`,
    );
    expect(await others.json()).toMatchObject({
      code: 3,
      message: "pagination.after: is a cursor of another list (ledger); this list is bundles",
    });
  });
});

describe.skipIf(partnerProgram("openssl") === undefined)("TLS", () => {
  it("is spoken with the certificate that is given, in the HTTP version that ALPN chooses", async () => {
    const { url: databaseUrl } = newDatabaseUrl();
    await loadRecording(databaseUrl, smallNetwork().bytes());
    const [certificate, key] = [join(folder, "certificate.pem"), join(folder, "key.pem")];
    const options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1";
    execFileSync(partnerProgram("openssl") ?? "", [...options.split(" "), "-keyout", key, "-out", certificate], {
      stdio: "ignore",
    });
    const port = await freePort();
    const service = new ServiceProcess(databaseUrl, port, "--tls-certificate", certificate, "--tls-key", key);
    running.push(service);
    await service.startUntil(() => /serving on https:/.test(service.printed));
    const status = await new Promise((resolve, reject) => {
      const target = { port, path: "/api/v2/market/busy", rejectUnauthorized: false };
      httpsRequest(target, (response) => resolve(response.statusCode))
        .on("error", reject)
        .end();
    });
    expect(status).toBe(200);
    for (const protocol of ["h2", "http/1.1"]) {
      const socket = tlsConnect({ port, ALPNProtocols: [protocol], rejectUnauthorized: false });
      await once(socket, "secureConnect");
      expect(socket.alpnProtocol).toBe(protocol);
      socket.destroy();
    }
  });
});
