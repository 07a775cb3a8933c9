import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { connectionsOfWorker, connectionsWaiting, requireDescriptors } from "../../src/runtime/descriptors.js";
import { statusOf, WorkersProcess } from "../e2e/workers-process.js";
import { until } from "../embedded/processes.js";
import { MarketFixture } from "../live/market-fixture.js";
import { withoutLog } from "../support/log-lines.js";

/* More clients than descriptors, with the real limit of the system. */

const descriptors = 150;
const clients = 600;
const openings: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

async function serve(...args: string[]): Promise<{ service: WorkersProcess; url: string }> {
  const fixture = await MarketFixture.create();
  openings.push(() => fixture.drop());
  await fixture.add({ announce: ["a"], levels: [{ marketId: "a", side: 1, price: "7", volume: 3n }] });
  const common = ["--database-url", fixture.url, "--listen", "127.0.0.1:0", "--drain-ms", "500"];
  const service = new WorkersProcess([...common, ...args], {}, { shell: `ulimit -n ${descriptors};` });
  openings.push(() => service.destroy());
  return { service, url: await service.ready() };
}

/** Clients that each send a request and keep their connection; those that are hung up on are gone. */
async function openClients(url: string): Promise<Set<Socket>> {
  const open = new Set<Socket>();
  const port = Number(new URL(url).port);
  openings.push(() => {
    for (const socket of open) socket.destroy();
  });
  for (let n = 0; n < clients; n++) {
    const socket = connect(port, "127.0.0.1");
    open.add(socket);
    socket.on("error", () => {}).on("close", () => open.delete(socket));
    socket.on("connect", () => socket.write("GET /api/v2/market/a HTTP/1.1\r\nhost: here\r\n\r\n"));
    socket.resume();
    if (n % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return open;
}

describe.skipIf(process.platform !== "linux").each(["2", "1"])("%s workers of 150 descriptors", (workers) => {
  it("keep as many of 600 clients as they can, hang up on the rest, and serve again when those have left", async () => {
    const { service, url } = await serve("--workers", workers);
    const capacity = Number(workers) * connectionsOfWorker(descriptors, clients);
    const open = await openClients(url);
    await until("the rest is hung up on", 20_000, () => open.size <= capacity);
    // One address may have half of a worker's connections.
    expect(open.size).toBeGreaterThanOrEqual(capacity / 2);
    for (const pid of [service.pid, ...service.workers()]) {
      expect(readdirSync(`/proc/${pid}/fd`).length).toBeLessThan(descriptors - 10);
    }
    for (const socket of open) socket.destroy();
    await until("new connections are taken", 30_000, async () => (await statusOf(`${url}/readyz`)) === 200);
    for (let n = 0; n < 20; n++) expect(await statusOf(`${url}/api/v2/market/a`)).toBe(200);
    expect(service.printed).toMatch(/may open only 150 files \(ulimit -n\): 86 connections per worker at most/);
    expect(service.printed).not.toContain("a worker died");
    expect((await service.stop("SIGTERM")).code).toBe(0);
  });
});

describe("too few descriptors to serve at all", () => {
  it("end the command with a line that says how many are needed", async () => {
    const args = ["--database-url", "mysql://nobody@127.0.0.1:1/none", "--workers", "1"];
    const service = new WorkersProcess(args, {}, { shell: "ulimit -n 70;" });
    openings.push(() => service.destroy());
    const ending = await service.ending();
    expect([ending.code, withoutLog(ending.printed)]).toEqual([
      1,
      "marketd: a process may open only 70 files, and 80 are needed: raise ulimit -n\n",
    ]);
  });

  it("are told from enough by what the primary and its workers keep for themselves", () => {
    expect(() => requireDescriptors(80, 1, 0)).not.toThrow();
    expect(() => requireDescriptors(80, 1, 32)).toThrow("98 are needed");
    expect(connectionsOfWorker(undefined, 20_000)).toBe(20_000);
    expect(connectionsOfWorker(1_048_576, 20_000)).toBe(20_000);
    expect(connectionsWaiting(150, 2, 32)).toBe(66);
  });
});
