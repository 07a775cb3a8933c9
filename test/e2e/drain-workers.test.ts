import { once } from "node:events";
import { createConnection } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { MarketFixture } from "../live/market-fixture.js";
import { openClients } from "../support/protocol-clients.js";
import { statusOf, WorkersProcess } from "./workers-process.js";

/* What clients see when several workers are told to go, and how long that takes. */

const streamPath = "/api/v2/stream/markets/depth/updates";
const drainMs = 1_500;
/** Last words, and processes that end on a busy machine. */
const slackMs = 2_000;
const openings: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

async function start(): Promise<WorkersProcess> {
  const fixture = await MarketFixture.create();
  openings.push(() => fixture.drop());
  await fixture.add({ announce: ["a"], levels: [{ marketId: "a", side: 1, price: "7", volume: 3n }] });
  const args = ["--database-url", fixture.url, "--listen", "127.0.0.1:0", "--workers", "2"];
  const service = new WorkersProcess([...args, "--drain-ms", String(drainMs)]);
  openings.push(() => service.destroy());
  return service;
}

async function serve(): Promise<{ service: WorkersProcess; url: string }> {
  const service = await start();
  return { service, url: await service.ready() };
}

/** The lines of a stream of JSON lines to its end. */
async function linesOf(url: string): Promise<{ first: Promise<void>; all: Promise<string[]> }> {
  const response = await fetch(url + streamPath);
  const reader = response.body?.getReader();
  if (reader === undefined) throw new Error("a stream has a body");
  const decoder = new TextDecoder();
  let text = "";
  let started = (): void => {};
  const first = new Promise<void>((resolve) => {
    started = resolve;
  });
  const all = (async () => {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      text += decoder.decode(part.value, { stream: true });
      started();
    }
    return text.trim().split("\n");
  })();
  return { first, all };
}

const waysToStop = [
  { name: "SIGTERM to the command", signal: "SIGTERM", to: "primary" },
  { name: "SIGINT to all its processes, as a terminal sends it", signal: "SIGINT", to: "group" },
  { name: "SIGTERM to all its processes, as service managers send it", signal: "SIGTERM", to: "group" },
] as const;

describe.each(waysToStop)("$name", ({ signal, to }) => {
  it("ends the streams of all workers with UNAVAILABLE, and the command with 0", async () => {
    const { service, url } = await serve();
    const streams = await Promise.all(Array.from({ length: 8 }, () => linesOf(url)));
    await Promise.all(streams.map((stream) => stream.first));
    const clients = openClients(url);
    for (const client of clients) openings.push(() => client.close());
    const others = clients.map((client) => client.stream("observeMarketsDepthUpdates", {}, 3));
    await new Promise((resolve) => setTimeout(resolve, 200));
    const ending = await service.stop(signal, to);
    expect(ending.signal).toBe(null);
    expect(ending.code).toBe(0);
    expect(ending.tookMs).toBeLessThan(drainMs + slackMs);
    for (const { all } of streams) {
      expect(JSON.parse((await all).at(-1) ?? "")).toMatchObject({ error: { code: 14 } });
    }
    for (const outcomes of await Promise.all(others)) {
      expect(outcomes.at(-1)).toMatchObject({ error: { code: 14, reason: "DRAINING" } });
    }
    expect(() => process.kill(-service.pid, 0)).toThrow("ESRCH");
    expect(await statusOf(`${url}/readyz`)).toBe(0);
  });
});

describe.each(["SIGINT", "SIGTERM"] as const)("%s to all processes before the workers hear signals", (signal) => {
  it("ends the command with 0", async () => {
    const service = await start();
    while (service.workers().length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    const ending = await service.stop(signal, "group");
    expect([ending.code, ending.signal]).toEqual([0, null]);
    expect(ending.printed).not.toContain("before it could serve");
    expect(() => process.kill(-service.pid, 0)).toThrow("ESRCH");
  });
});

describe("clients that do not go", () => {
  it("are cut after the drain time", async () => {
    const { service, url } = await serve();
    const port = Number(new URL(url).port);
    const stuck = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const socket = createConnection(port, "127.0.0.1");
        await once(socket, "connect");
        // Half a request: it waits for the rest.
        socket.write("GET /api/v2/market/a HTTP/1.1\r\nhost: here\r\n");
        return socket;
      }),
    );
    const cut = stuck.map((socket) => once(socket.on("error", () => {}).resume(), "close"));
    await new Promise((resolve) => setTimeout(resolve, 200));
    const ending = await service.stop("SIGTERM");
    await Promise.all(cut);
    expect(ending.code).toBe(0);
    expect(ending.tookMs).toBeGreaterThan(drainMs - 100);
    expect(ending.tookMs).toBeLessThan(drainMs + slackMs);
  });
});
