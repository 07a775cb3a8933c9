import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { afterEach, describe, expect, it } from "vitest";
import { Primary, type PrimaryLimits } from "../../src/runtime/primary.js";
import { connectionRefusals, refuseConnection } from "../../src/transport/connections/connection-admission.js";
import { childrenOf, statusOf } from "../e2e/workers-process.js";
import { until } from "../embedded/processes.js";
import { MarketFixture } from "../live/market-fixture.js";

/* A primary in the test's own process, with short limits; its workers are real processes of the build. */

const builtWorker = fileURLToPath(new URL("../../dist/src/commands/worker.js", import.meta.url));
const openings: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

interface Started {
  readonly primary: Primary;
  readonly url: string;
  readonly lines: string[];
  workers(): number[];
}

async function start(program: string, limits: Partial<PrimaryLimits>, flags: readonly string[] = []): Promise<Started> {
  const fixture = await MarketFixture.create();
  openings.push(() => fixture.drop());
  await fixture.add({ announce: ["a"] });
  const lines: string[] = [];
  const before = childrenOf(process.pid);
  const primary = new Primary({
    program,
    argv: ["serve", "--database-url", fixture.url, "--log-level", "silent"],
    databaseUrl: undefined,
    listen: { host: "127.0.0.1", port: 0 },
    tls: false,
    adminListen: undefined,
    workers: 1,
    drainMs: 500,
    connectionsMax: 1_000,
    refuse: (socket) => refuseConnection(socket, connectionRefusals.TOO_MANY_CONNECTIONS),
    log: pino({}, { write: (line: string) => lines.push(line) }),
    limits,
    flags,
  });
  openings.push(() => primary.drain());
  const { url } = await primary.start();
  await until("ready", 30_000, async () => (await statusOf(`${url}/readyz`)) === 200);
  return { primary, url, lines, workers: () => childrenOf(process.pid).filter((pid) => !before.includes(pid)) };
}

/** More than a worker needs to load its modules on a busy machine: it answers nothing meanwhile. */
const pingsUnansweredMax = 100;

describe("a worker that stands still", () => {
  it("is found and replaced, and what it held is hung up on", async () => {
    const { url, lines, workers } = await start(builtWorker, { pingIntervalMs: 100, pingsUnansweredMax });
    const [frozen = 0] = workers();
    process.kill(frozen, "SIGSTOP");
    const waiting = fetch(`${url}/healthz`).then(
      () => "answered",
      () => "hung up",
    );
    await until("another serves", 30_000, async () => (await statusOf(`${url}/readyz`)) === 200);
    expect(await waiting).toBe("hung up");
    expect(workers()).not.toContain(frozen);
    expect(lines.join("")).toContain("a worker does not answer; ending it");
  });
});

/** A program for workers. */
function writeProgram(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), "marketd-worker-"));
  openings.push(() => rmSync(folder, { recursive: true, force: true }));
  const program = join(folder, "worker.mjs");
  writeFileSync(program, text);
  return program;
}

/** A worker as built, the first time; later ones hear and answer, but never come to serve. */
function slowProgram(): string {
  return writeProgram(`
    import { existsSync, writeFileSync } from "node:fs";
    const marker = new URL("started", import.meta.url);
    if (existsSync(marker)) {
      process.on("message", ({ kind, id }) => kind === "ping" && process.send({ kind: "pong", id, full: false }));
      process.on("disconnect", () => process.exit(0));
    } else {
      writeFileSync(marker, "");
      await import(${JSON.stringify(builtWorker)});
    }
  `);
}

describe("a new worker that never becomes ready", () => {
  it("stops a rolling restart after its time, and the old one stays", async () => {
    const { primary, url, lines, workers } = await start(slowProgram(), { readyMaxMs: 1_000 });
    const before = workers();
    await primary.restartWorkers();
    await until("the new one is gone", 30_000, () => workers().length === 1);
    expect(workers()).toEqual(before);
    expect(lines.filter((line) => line.includes("a new worker was not ready within 1000 ms"))).toHaveLength(1);
    expect(await statusOf(`${url}/api/v2/market/a`)).toBe(200);
  });
});

/** Workers that tell each connection which process they are, and a last time that they serve when they are to end. */
function crossingProgram(): string {
  return writeProgram(`
    const say = (message) => process.send(message);
    process.on("disconnect", () => process.exit(0));
    process.on("message", ({ kind, id }, socket) => {
      if (kind === "start" || kind === "drain") say({ kind: "serving", state: "ready" });
      if (kind === "drain") setTimeout(() => process.exit(0), 2_000);
      if (kind === "ping") say({ kind: "pong", id, full: false });
      if (kind !== "connection") return;
      say({ kind: "taken", full: false });
      const text = String(process.pid);
      const head = "HTTP/1.1 200 OK\\r\\nconnection: close\\r\\ncontent-length: " + text.length;
      socket.once("data", () => socket.end(head + "\\r\\n\\r\\n" + text));
    });
    say({ kind: "awake" });
  `);
}

describe("a worker that comes to serve when it is to end", () => {
  it("is handed no connection", async () => {
    const { primary, url, workers } = await start(crossingProgram(), {});
    const [old = 0] = workers();
    const responder = async () => Number(await (await fetch(url, { headers: { connection: "close" } })).text());
    expect(await responder()).toBe(old);
    const restarting = primary.restartWorkers();
    await until("the new one serves", 30_000, async () => (await responder()) !== old);
    const responders = new Set<number>();
    for (let n = 0; n < 8; n++) responders.add(await responder());
    expect(workers()).toContain(old);
    expect([...responders]).not.toContain(old);
    await restarting;
  });
});

describe("a worker that the system cannot start", () => {
  it("is tried again, and the primary goes on", async () => {
    const flags: string[] = [];
    const { url, lines, workers } = await start(builtWorker, {}, flags);
    // Node throws for it, as it does where the system has no memory for a process.
    flags.push("\0");
    process.kill(workers()[0] ?? 0, "SIGKILL");
    const isTried = () => lines.some((line) => line.includes("a worker could not be started; trying again"));
    await until("it is tried", 30_000, isTried);
    flags.pop();
    await until("another serves", 30_000, async () => (await statusOf(`${url}/readyz`)) === 200);
    expect(workers()).toHaveLength(1);
  });
});
