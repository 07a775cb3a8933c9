import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { idleConnectionMs, probeAfterIdleMs } from "../../src/store/connection/connection-pool.js";
import { openDatabase } from "../../src/store/database.js";
import { MarketFixture } from "../live/market-fixture.js";
import { startTestService, type TestService } from "../live/service.js";
import { DatabaseServer, missingServer } from "../support/database-server.js";
import { TcpBalancer } from "../support/tcp-balancer.js";

const missing = await missingServer();
const name = "dead_connections";
/** From the end of a fault until all is well again. */
const healMs = 2_000;
/** A slow machine may add this. */
const slackMs = 1_000;
const ledger = "/api/v2/ledgerentry/history";
/** Between the requests of a client: what dies is found by any request, not by as many as the machine can make. */
const askPauseMs = 20;

let server: DatabaseServer;
let proxy: TcpBalancer;
let fixture: MarketFixture;
let service: TestService;

beforeAll(async () => {
  if (missing !== undefined) return;
  server = await DatabaseServer.start();
  proxy = await TcpBalancer.before(server.port);
  fixture = await MarketFixture.create(server.url(name));
  await fixture.add({ announce: ["m"], levels: [{ marketId: "m", side: 1, price: "10", volume: 1n }] });
  service = await startTestService(`mysql://root@127.0.0.1:${proxy.port}/${name}`);
  await vi.waitFor(async () => expect((await fetch(`${service.url}/readyz`)).status).toBe(200), { timeout: 20_000 });
});

afterAll(async () => {
  await service?.drain();
  await fixture?.database.close();
  await proxy?.close();
  await server?.stop();
});

interface Asked {
  readonly status: number;
  readonly tookMs: number;
}

async function ask(): Promise<Asked> {
  const startedAt = performance.now();
  const response = await fetch(service.url + ledger);
  await response.arrayBuffer();
  return { status: response.status, tookMs: performance.now() - startedAt };
}

/** Many at once, so that the pool has all its connections. */
function askTogether(requests = 40): Promise<Asked[]> {
  return Promise.all(Array.from({ length: requests }, ask));
}

/** Commits a block past the proxy, and waits until the service has it. Gives how long that took. */
async function untilFollowed(): Promise<number> {
  const startedAt = performance.now();
  const price = String(Math.floor(performance.now()));
  await fixture.add({ levels: [{ marketId: "m", side: 1, price, volume: 1n }] });
  for (;;) {
    const book = await (await fetch(`${service.url}/api/v2/market/depth/m/latest`)).text();
    if (book.includes(`"${price}"`)) return performance.now() - startedAt;
    if (performance.now() - startedAt > 70_000) throw new Error("the service does not follow");
    await sleep(5);
  }
}

const it = test.skipIf(missing !== undefined);

it("idle connections that died are found together, and cost a request a second at most", async () => {
  await askTogether();
  await sleep(probeAfterIdleMs + 200);
  proxy.silenceOpen();
  const first = await ask();
  expect(first).toMatchObject({ status: 200 });
  expect(first.tookMs).toBeLessThan(healMs);
  const later = await askTogether();
  expect(new Set(later.map(({ status }) => status))).toEqual(new Set([200]));
  expect(Math.max(...later.map(({ tookMs }) => tookMs))).toBeLessThan(healMs);
});

it("connections that died in use cost an honest error soon, and none after that", async () => {
  let asking = true;
  const all: (Asked & { readonly at: number })[] = [];
  const client = async () => {
    while (asking) {
      const at = performance.now();
      all.push({ at, ...(await ask()) });
      await sleep(askPauseMs);
    }
  };
  const clients = Array.from({ length: 20 }, client);
  await sleep(300);
  const diedAt = performance.now();
  const usualMs = Math.max(...all.map(({ tookMs }) => tookMs));
  proxy.silenceOpen();
  await sleep(5_000);
  asking = false;
  await Promise.all(clients);
  const late = all.filter(({ at }) => at > diedAt + healMs + slackMs);
  expect(late.length).toBeGreaterThan(20);
  expect(late.filter(({ status }) => status !== 200)).toEqual([]);
  expect(all.filter(({ status }) => status !== 200 && status !== 503)).toEqual([]);
  expect(Math.max(...all.map(({ tookMs }) => tookMs))).toBeLessThan(healMs + slackMs + usualMs);
  expect(await untilFollowed()).toBeLessThan(healMs);
});

it("a database that falls silent is polled and queried again within two seconds of its return", async () => {
  for (const silentMs of [700, 3_300]) {
    await askTogether();
    proxy.silence();
    const asked = askTogether();
    await sleep(silentMs);
    proxy.speak();
    const backAt = performance.now();
    expect(await untilFollowed()).toBeLessThan(healMs + slackMs);
    await expect.poll(async () => (await ask()).status, { timeout: healMs, interval: 10 }).toBe(200);
    expect(performance.now() - backAt).toBeLessThan(healMs + slackMs);
    for (const { status } of await asked) expect([200, 503]).toContain(status);
    const after = await askTogether();
    expect(new Set(after.map(({ status }) => status))).toEqual(new Set([200]));
  }
});

it("a database that is stopped as a process is followed and asked again within two seconds of its return", async () => {
  for (const stoppedMs of [700, 4_500]) {
    await askTogether();
    server.process.kill("SIGSTOP");
    const asked = askTogether();
    await sleep(stoppedMs);
    server.process.kill("SIGCONT");
    expect(await untilFollowed()).toBeLessThan(healMs + slackMs);
    await expect.poll(async () => (await ask()).status, { timeout: healMs, interval: 10 }).toBe(200);
    for (const { status } of await asked) expect([200, 503]).toContain(status);
    const after = await askTogether();
    expect(new Set(after.map(({ status }) => status))).toEqual(new Set([200]));
  }
});

it("a statement that is given up while others wait for its work does not hold them up", async () => {
  const database = openDatabase(server.url(name), { connectionsMax: 1 });
  const slow = database.withConnection(async (connection) => {
    setTimeout(() => connection.driver.destroy(), 100);
    await connection.query("SELECT SLEEP(30)");
  });
  await expect(slow).rejects.toMatchObject({ reason: "DATABASE_UNAVAILABLE" });
  expect(await database.query("SELECT 1")).toHaveLength(1);
  await database.close();
});

it("a database that has become slow to take connections is not away", async () => {
  const slow = await TcpBalancer.before(server.port);
  const database = openDatabase(`mysql://root@127.0.0.1:${slow.port}/${name}`, { connectionsMax: 1 });
  expect(await database.query("SELECT 1")).toHaveLength(1);
  slow.delayNew(1_500);
  slow.leadTo(server.port);
  // The first attempt is given up after a second, as it is where nobody is there.
  const isAnswered = () =>
    database.query("SELECT 1").then(
      () => true,
      () => false,
    );
  await expect.poll(isAnswered, { timeout: 15_000, interval: 10 }).toBe(true);
  await database.close();
  await slow.close();
});

it("idle connections are closed after a while, and the service goes on", async () => {
  await askTogether();
  expect(proxy.connections).toBeGreaterThan(5);
  await expect.poll(() => proxy.connections, { timeout: idleConnectionMs + 10_000, interval: 500 }).toBe(1);
  expect((await ask()).status).toBe(200);
});
