import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { listenBacklog, refusalsMax } from "../../src/runtime/connection-distributor.js";
import { connectionsWaitingMax } from "../../src/runtime/descriptors.js";
import { statusOf, WorkersProcess } from "../e2e/workers-process.js";
import { until } from "../embedded/processes.js";
import { MarketFixture } from "../live/market-fixture.js";

/* Connections that come while the only worker stands still, and wait in the primary. */

const openings: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

async function serve(): Promise<{ service: WorkersProcess; url: string }> {
  const fixture = await MarketFixture.create();
  openings.push(() => fixture.drop());
  await fixture.add({ announce: ["a"] });
  const args = ["--database-url", fixture.url, "--listen", "127.0.0.1:0", "--workers", "1", "--drain-ms", "500"];
  const service = new WorkersProcess(args);
  openings.push(() => service.destroy());
  return { service, url: await service.ready() };
}

const get = "GET /api/v2/market/a HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";

/** Sends one request on a connection of its own; resolves with the response's first line. */
async function ask(url: string, localAddress?: string): Promise<string> {
  const received = await send(url, get, localAddress);
  return received.slice(0, received.indexOf("\r\n"));
}

/** Sends bytes on a connection of their own; resolves with what comes, or with how the connection ended. */
function send(url: string, bytes: string, localAddress = "127.0.0.1"): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port: Number(new URL(url).port), host: "127.0.0.1", localAddress });
    openings.push(() => void socket.destroy());
    let received = "";
    socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
    });
    socket.on("end", () => {
      socket.end();
      resolve(received);
    });
    socket.on("connect", () => void socket.write(bytes));
  });
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(process.platform !== "linux")("many connections to a worker that stands still", () => {
  it("is served once that goes on; beyond the bound the oldest are told 503, and nobody is reset", async () => {
    const { service, url } = await serve();
    const [worker = 0] = service.workers();
    process.kill(worker, "SIGSTOP");
    const beyond = 100;
    const connections = connectionsWaitingMax - 2 * refusalsMax + beyond;
    expect(connections).toBeLessThan(listenBacklog);
    const told: Promise<string>[] = [];
    for (let n = 0; n < connections; n++) {
      told.push(ask(url));
      if (n % 10 === 0) await pause(5);
    }
    const isRefused = (line: string) => line === "HTTP/1.1 503 Service Unavailable";
    let refused = 0;
    for (const response of told) void response.then((line) => (refused += isRefused(line) ? 1 : 0));
    await until("the oldest are refused", 8_000, () => refused >= beyond - 2);
    process.kill(worker, "SIGCONT");
    const lines = await Promise.all(told);
    expect(new Set(lines)).toEqual(new Set(["HTTP/1.1 200 OK", "HTTP/1.1 503 Service Unavailable"]));
    expect(lines.filter(isRefused).length).toBeLessThanOrEqual(beyond);
    expect(lines.findIndex(isRefused)).toBeLessThan(3);
    expect(lines.slice(-100).filter(isRefused)).toEqual([]);
    expect(await statusOf(`${url}/readyz`)).toBe(200);
  });

  it("is told that the server shuts down, when it does", async () => {
    const { service, url } = await serve();
    const [worker = 0] = service.workers();
    process.kill(worker, "SIGSTOP");
    // This one is on its way to the worker.
    void send(url, get);
    await pause(200);
    const responses = [send(url, get), send(url, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")];
    await pause(200);
    const end = service.stop("SIGTERM");
    const [ofGet = "", ofPreface = ""] = await Promise.all(responses);
    expect(ofGet).toMatch(/^HTTP\/1\.1 503 .*"reason":"DRAINING"/s);
    // SETTINGS, and GOAWAY with NO_ERROR.
    expect(ofPreface).toBe("\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0");
    await end;
  });

  it("from one address does not delay the connection of another, older or younger", async () => {
    const { service, url } = await serve();
    const [worker = 0] = service.workers();
    process.kill(worker, "SIGSTOP");
    const answered: string[] = [];
    const told: Promise<void>[] = [];
    const open = (name: string, address: string) =>
      told.push(ask(url, address).then((line) => void answered.push(`${name}: ${line}`)));
    for (let n = 0; n < 400; n++) {
      if (n === 50) open("older", "127.0.0.1");
      open("flood", "127.0.0.2");
      if (n % 10 === 0) await pause(5);
    }
    open("younger", "127.0.0.1");
    await pause(200);
    process.kill(worker, "SIGCONT");
    await Promise.all(told);
    expect(answered.length).toBe(402);
    expect(new Set(answered.map((line) => line.slice(line.indexOf(":"))))).toEqual(new Set([": HTTP/1.1 200 OK"]));
    const early = answered.slice(0, 40).filter((line) => !line.startsWith("flood"));
    expect(early).toHaveLength(2);
  });
});
