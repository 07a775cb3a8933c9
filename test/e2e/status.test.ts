import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { runToEnd } from "../support/run-marketd.js";
import { DatabaseProxy } from "./database-proxy.js";
import { ServiceProcess } from "./service-process.js";
import { firstBlockNs, laterBlocks, smallNetwork } from "./small-network.js";

/* How a server is, for people and for scripts. */

let database: DatabaseProxy;
let service: ServiceProcess;

beforeAll(async () => {
  const { url } = newDatabaseUrl();
  await loadRecording(url, smallNetwork().bytes());
  database = await DatabaseProxy.before(url);
  service = new ServiceProcess(database.url, await freePort(), "--base-path", "/market-data");
  await service.start();
});

afterAll(async () => {
  await service.kill();
  await database.close();
});

const status = (...args: string[]) => runToEnd(["status", "--server", `${service.url}/market-data`, ...args]);

it("a server that is ready: one screen, and 0", async () => {
  const { code, out, error } = await status();
  expect([code, error]).toEqual([0, ""]);
  const lines = String(out).split("\n");
  const blockTime = "2023-01-18 01:06:45.123456792 UTC";
  expect(lines).toEqual([
    `server    ${service.url}/market-data`,
    "state     ready",
    expect.stringMatching(new RegExp(`^block     ${laterBlocks + 1}, [0-9]+ d old \\(${blockTime}\\)$`)),
    "markets   4 in all, 3 with market data, 0 stale",
    "streams   0 open",
    expect.stringMatching(/^history {3}about [\d,]+ MB, from [-\d: ]{19} to [-\d: ]{19} UTC$/),
    expect.stringMatching(/^trades {4}about [\d,]+ MB, of every block$/),
    "database  answers",
    "",
  ]);
});

it("the same as JSON", async () => {
  const stream = new AbortController();
  const streamed = fetch(`${service.url}/market-data/api/v2/stream/markets/depth/updates`, { signal: stream.signal });
  // Kept until the end: a response that is collected as garbage ends its stream.
  const response = await streamed;
  // The values of a worker that is slow to tell them are those of the last time.
  const told = await vi.waitFor(
    async () => {
      const { code, out } = await status("--json");
      expect(code).toBe(0);
      const values = JSON.parse(String(out));
      expect(values.streams).toBe(1);
      return values;
    },
    { timeout: 20_000 },
  );
  expect(response.ok).toBe(true);
  stream.abort();
  expect(told).toEqual({
    server: `${service.url}/market-data`,
    reachable: true,
    ready: true,
    state: "ready",
    blockHeight: String(laterBlocks + 1),
    blockTimestamp: String(firstBlockNs + BigInt(laterBlocks)),
    blockAgeSeconds: expect.any(Number),
    markets: 4,
    marketsWithData: 3,
    staleMarkets: 0,
    streams: 1,
    historyBytes: expect.any(Number),
    historyOldestSeconds: expect.any(Number),
    historyNewestSeconds: expect.any(Number),
    tradesBytes: expect.any(Number),
    tradesOldestSeconds: 0,
    databaseSilenceSeconds: expect.any(Number),
  });
  expect(told.databaseSilenceSeconds).toBeLessThan(3);
});

it("a database that is away shows, and the server stays ready", async () => {
  database.cut();
  const expected = { code: 0, out: expect.stringMatching(/^database {2}silent for [0-9]+ s$/m) };
  await vi.waitFor(
    async () => {
      const { code, out } = await status();
      expect({ code, out: String(out) }).toMatchObject(expected);
    },
    { timeout: 20_000 },
  );
  database.restore();
});

it("a server without data is not ready: 3", async () => {
  const empty = new ServiceProcess(newDatabaseUrl().url, await freePort());
  await empty.start(503);
  const { code, out, error } = await runToEnd(["status", "--server", empty.url]);
  await empty.kill();
  expect(code).toBe(3);
  const [, state] = /^state +(.+)$/m.exec(String(out)) ?? [];
  expect(error).toBe(`marketd: ${empty.url} is not ready: ${state}\n`);
  expect(String(out)).toMatch(/^block {5}none yet$/m);
});

it("behind a proxy that hides all but the base path", async () => {
  const proxy = createServer(async (request, response) => {
    if (!request.url?.startsWith("/market-data/")) return void response.writeHead(404).end("<html>not found</html>");
    const body = request.method === "POST" ? await buffer(request) : null;
    const { "content-type": type = "text/plain" } = request.headers;
    const headers = { "content-type": type, "accept-encoding": "identity" };
    const reply = await fetch(service.url + request.url, { method: request.method ?? "GET", headers, body });
    response.writeHead(reply.status, [...reply.headers].flat()).end(Buffer.from(await reply.arrayBuffer()));
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/market-data`;
  const { code, out, error } = await runToEnd(["status", "--server", url]);
  proxy.closeAllConnections();
  proxy.close();
  expect([code, error]).toEqual([0, ""]);
  expect(String(out).split("\n")).toEqual([
    `server    ${url}`,
    "state     ready by /status; /readyz: 404 is not a response of marketd",
    expect.stringMatching(new RegExp(`^block     ${laterBlocks + 1}, [0-9]+ d old `)),
    "markets   4 in all, 3 with market data, 0 stale",
    "streams   not told",
    "history   not told",
    "trades    not told",
    "database  answers",
    "",
  ]);
});

it("a server that cannot be reached, or does not answer, or is none: 3", async () => {
  const free = `127.0.0.1:${await freePort()}`;
  const nobody = await runToEnd(["status", "--server", `http://${free}`]);
  expect([nobody.code, nobody.error]).toEqual([
    3,
    `marketd: http://${free} cannot be reached: connect ECONNREFUSED ${free}\n`,
  ]);
  const other = createServer((request, response) => {
    if (request.url === "/readyz") response.end("<html>hello\u001b[2J</html>");
  }).listen(0, "127.0.0.1");
  await once(other, "listening");
  const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  const stranger = await runToEnd(["status", "--json", "--server", url, "--timeout-ms", "300"]);
  expect(stranger.code).toBe(3);
  expect(JSON.parse(String(stranger.out))).toMatchObject({ reachable: true, ready: false });
  other.removeAllListeners("request");
  const silent = await runToEnd(["status", "--server", url, "--timeout-ms", "300"]);
  expect([silent.code, String(silent.out)]).toEqual([3, expect.stringContaining("aborted due to timeout")]);
  other.closeAllConnections();
  other.close();
});

it("a path of a server where marketd is not: 1, as watch", async () => {
  const url = `${service.url}/nope`;
  const { code, out, error } = await runToEnd(["status", "--server", url]);
  expect([code, String(out)]).toEqual([1, ""]);
  expect(error).toMatch(new RegExp(`^marketd: ${url} is not marketd: .*\n$`));
  const watched = await runToEnd(["watch", "m", "--server", url]);
  expect([watched.code, watched.error]).toEqual([code, error.replace("ListLatestMarketData", "GetMarket")]);
});

it.each(["watch", "export", "status"])("%s --help tells flags, variables, examples and exit codes", async (command) => {
  const { code, out } = await runToEnd([command, "--help"]);
  expect(code).toBe(0);
  const flat = String(out).replaceAll(/\s+/g, "");
  const flags = String(out).match(/^ {2}--[a-z-]+/gm) ?? [];
  expect(flags).toContain("  --server");
  for (const flag of flags) {
    expect(flat).toContain(`env:MARKETD_${flag.trim().slice(2).replaceAll("-", "_").toUpperCase()}`);
  }
  expect(String(out)).toContain(`For example:\n  marketd ${command}`);
  expect(String(out)).toMatch(/^Exit codes: 0 /m);
  expect(String(out)).toMatch(/^3: /m);
});
