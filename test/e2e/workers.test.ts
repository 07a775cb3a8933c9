import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import https from "node:https";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { type Book, keepBooks } from "../../examples/typescript/keep-a-book.js";
import { metricsMaxAgeMs } from "../../src/runtime/cached-text.js";
import { workerReadingMs } from "../../src/runtime/worker-metrics.js";
import { openDatabase } from "../../src/store/database.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { processesOf, until } from "../embedded/processes.js";
import { MarketFixture } from "../live/market-fixture.js";
import { keptBookText } from "../live/model-network.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { withoutLog } from "../support/log-lines.js";
import { openClients } from "../support/protocol-clients.js";
import { isRunning, statusOf, WorkersProcess } from "./workers-process.js";

/*
 * Several serving processes behind one port, as an operator runs them: real processes, real signals, a real database.
 */

const streamPath = "/api/v2/stream/markets/depth/updates";
const openings: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

function start(databaseUrl: string, ...more: string[]): WorkersProcess {
  const args = ["--database-url", databaseUrl, "--listen", "127.0.0.1:0", "--workers", "2"];
  return started(new WorkersProcess([...args, "--drain-ms", "1000", ...more]));
}

function started(service: WorkersProcess): WorkersProcess {
  openings.push(() => service.destroy());
  return service;
}

const marketIds = ["a", "b"];

const levels = (n: number) =>
  marketIds.map((marketId, i) => ({ marketId, side: 1 as const, price: String(n % 4), volume: BigInt((n + i) % 3) }));

async function openFixture(): Promise<MarketFixture> {
  const fixture = await MarketFixture.create();
  openings.push(() => fixture.drop());
  await fixture.add({ announce: marketIds, levels: levels(1) });
  return fixture;
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "marketd-workers-"));
  openings.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The samples of a metrics text, by name and labels. */
async function metricsOf(url: string): Promise<Map<string, number>> {
  const response = await fetch(`${url}/metrics`, { headers: { connection: "close" } });
  const samples = (await response.text()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(samples.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.split(" ").at(-1))]));
}

/** A reader as the documentation shows it, which opens its stream again whenever that ends, until the test is over. */
class Reader {
  readonly books = new Map<string, Book>();
  readonly endings: string[] = [];
  readonly #gone = new AbortController();

  constructor(url: string) {
    openings.push(() => this.#gone.abort());
    void this.#read(url + streamPath);
  }

  async #read(url: string): Promise<void> {
    while (!this.#gone.signal.aborted) {
      const kept = keepBooks(url, (book) => this.books.set(book.marketId, book), this.#gone.signal);
      await kept.catch((error: Error) => this.endings.push(error.message));
      await delay(50);
    }
  }

  holdsTheBooksOf({ network }: MarketFixture): boolean {
    return marketIds.every((id) => {
      const book = this.books.get(id);
      const published = network.depth(id)?.publishedSequenceNumber;
      if (book === undefined || published === undefined || book.sequenceNumber !== published) return false;
      return JSON.stringify(keptBookText(book)) === JSON.stringify(network.at(id, published));
    });
  }
}

async function openReaders(url: string, count: number, fixture: MarketFixture): Promise<Reader[]> {
  const readers = Array.from({ length: count }, () => new Reader(url));
  await until("all readers hold the books", 30_000, () => readers.every((reader) => reader.holdsTheBooksOf(fixture)));
  return readers;
}

/** Stands before the database, so that it can be away. */
class DatabaseClient {
  readonly url: string;
  readonly #target: string;
  readonly #path: string;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;

  constructor(databaseUrl: string, folder: string) {
    const url = new URL(databaseUrl);
    this.#target = url.searchParams.get("socket") ?? "";
    this.#path = join(folder, "client");
    url.searchParams.set("socket", this.#path);
    this.url = url.href;
    openings.push(() => this.close());
  }

  async open(): Promise<void> {
    this.#server = createServer((socket) => {
      const behind = connect(this.#target);
      for (const end of [socket, behind]) {
        this.#sockets.add(end);
        end.on("error", () => {}).on("close", () => this.#sockets.delete(end));
      }
      socket.pipe(behind).pipe(socket);
    }).listen(this.#path);
    await once(this.#server, "listening");
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = once(server.close(), "close");
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}

describe("two workers on one port", () => {
  it("answer every protocol alike, whichever worker takes the connection", async () => {
    const fixture = await openFixture();
    const service = start(fixture.url);
    const url = await service.ready();
    expect(service.workers()).toHaveLength(2);
    const truth = await (await fetch(`${url}/api/v2/market/depth/a/latest`)).json();
    // Clients of the same kind on fresh connections meet both workers.
    for (let round = 0; round < 4; round++) {
      for (const client of openClients(url)) {
        expect(await client.unary("getLatestMarketDepth", { marketId: "a" }), client.name).toEqual({ reply: truth });
        const [first] = await client.stream("observeMarketsDepthUpdates", { marketIds: ["a"] }, 1);
        expect(first, client.name).toMatchObject({ reply: { update: [{ marketId: "a" }] } });
        client.close();
      }
      const socket = new WebSocket(`${url.replace("http", "ws")}${streamPath}`);
      const [data] = await once(socket, "message");
      expect(JSON.parse(String(data))).toMatchObject({ result: { update: [{}, {}] } });
      socket.terminate();
    }
  });

  it("are measured as one: counts add up, places do not, and the dead leave only what they counted", async () => {
    const fixture = await openFixture();
    const service = start(fixture.url);
    const url = await service.ready();
    for (let n = 0; n < 10; n++) expect(await statusOf(`${url}/api/v2/market/depth/a/latest`)).toBe(200);
    const readers = await openReaders(url, 6, fixture);
    const answered = 'marketd_requests_total{method="GetLatestMarketDepth",protocol="http",code="ok"}';
    const timed = 'marketd_request_duration_seconds_count{method="GetLatestMarketDepth",protocol="http"}';
    const before = await metricsOf(url);
    expect(before.get(answered)).toBe(10);
    expect(before.get(timed)).toBe(10);
    expect(before.get("marketd_block_height")).toBe(1);
    expect(before.get("marketd_depth_stream_subscribers")).toBe(readers.length);
    expect(before.get("marketd_workers")).toBe(2);
    expect(before.get("marketd_workers_replaced_total")).toBe(0);
    const [victim] = service.workers();
    process.kill(victim ?? 0, "SIGKILL");
    await until("the next one serves", 30_000, async () => {
      // A connection may still be handed to the one that has just been killed.
      const now = await metricsOf(url).catch(() => new Map<string, number>());
      return now.get("marketd_workers") === 2 && now.get("marketd_workers_replaced_total") === 1;
    });
    await until("all readers are back", 30_000, async () => {
      return (await metricsOf(url)).get("marketd_depth_stream_subscribers") === readers.length;
    });
    const after = await metricsOf(url);
    expect(after.get(answered)).toBe(10);
    expect(after.get(timed)).toBe(10);
    for (const [name, value] of before) {
      // The library calls gauges of its own a total too.
      if (/^marketd_(?!nodejs_active)\w+_(total|count|bucket)\b/.test(name))
        expect(after.get(name), name).toBeGreaterThanOrEqual(value);
    }
  });

  it("tell metrics also while one of them stands still or dies", async () => {
    const fixture = await openFixture();
    const service = start(fixture.url);
    const url = await service.ready();
    await metricsOf(url);
    const [frozen = 0] = service.workers();
    process.kill(frozen, "SIGSTOP");
    const asked = Array.from({ length: 4 }, async () => {
      const signal = AbortSignal.timeout(4_000);
      const response = await fetch(`${url}/metrics`, { headers: { connection: "close" }, signal });
      return response.text();
    });
    const told = (await Promise.allSettled(asked)).filter((one) => one.status === "fulfilled");
    expect(told.length).toBeGreaterThan(0);
    for (const one of told) expect(one.value).toMatch(/^marketd_workers 2$/m);
    const waiting = Promise.allSettled([metricsOf(url), metricsOf(url)]);
    process.kill(frozen, "SIGKILL");
    expect((await waiting).some((one) => one.status === "fulfilled")).toBe(true);
  });

  it("tell metrics at once while one of them waits for the database", async () => {
    const fixture = await openFixture();
    const client = new DatabaseClient(fixture.url, temporaryFolder());
    await client.open();
    const service = start(client.url);
    const url = await service.ready();
    await client.close();
    const [victim = 0] = service.workers();
    process.kill(victim, "SIGKILL");
    const others = () => service.workers().filter((pid) => pid !== victim);
    await until("another one starts", 30_000, () => others().length === 2);
    await until("metrics are told at once", 30_000, async () => {
      // Primary and worker keep their texts for so long.
      await delay(2 * metricsMaxAgeMs + 100);
      const startedAt = performance.now();
      expect((await metricsOf(url)).get("marketd_workers")).toBe(1);
      return performance.now() - startedAt < workerReadingMs / 2;
    });
  });

  it("replace one that is killed, and its readers come back to right books", async () => {
    const fixture = await openFixture();
    const service = start(fixture.url);
    const url = await service.ready();
    const readers = await openReaders(url, 12, fixture);
    const [victim = 0, survivor] = service.workers();
    process.kill(victim, "SIGKILL");
    for (let n = 2; n < 30; n++) {
      await fixture.add({ levels: levels(n) });
      await delay(20);
    }
    await until("all readers hold the newest books", 30_000, () => readers.every((r) => r.holdsTheBooksOf(fixture)));
    const broken = readers.filter((reader) => reader.endings.length > 0).length;
    // Connections are handed out in turn to workers that are free: both had some.
    expect(broken).toBeGreaterThan(0);
    expect(broken).toBeLessThan(readers.length);
    await until("two workers", 30_000, () => service.workers().length === 2);
    expect(service.workers()).toContain(survivor);
    expect(await statusOf(`${url}/readyz`)).toBe(200);
  });

  it("close the connections just handed to them when they die", async () => {
    const fixture = await openFixture();
    const service = start(fixture.url);
    const url = await service.ready();
    const port = Number(new URL(url).port);
    const [frozen = 0] = service.workers();
    process.kill(frozen, "SIGSTOP");
    const answered: Promise<"answered" | "hung up">[] = [];
    for (let n = 0; n < 6; n++) {
      const socket = connect(port, "127.0.0.1");
      socket.write("GET /healthz HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
      answered.push(
        new Promise((resolve) => {
          let text = "";
          socket.on("data", (data) => {
            text += String(data);
          });
          socket.on("error", () => {}).on("close", () => resolve(text === "" ? "hung up" : "answered"));
        }),
      );
    }
    await delay(300);
    process.kill(frozen, "SIGKILL");
    const outcomes = await Promise.all(answered);
    // The frozen one was handed a single connection; all others went to the other worker.
    expect(outcomes.filter((outcome) => outcome === "hung up")).toHaveLength(1);
  });

  it("come back on their port when all of them are killed", async () => {
    const fixture = await openFixture();
    const service = start(fixture.url);
    const url = await service.ready();
    for (const worker of service.workers()) process.kill(worker, "SIGKILL");
    await until("ready again", 30_000, async () => (await statusOf(`${url}/readyz`)) === 200);
  });

  it("are ready together, and not before the database is there", async () => {
    const fixture = await openFixture();
    const client = new DatabaseClient(fixture.url, temporaryFolder());
    const service = start(client.url);
    const url = await service.url();
    for (let n = 0; n < 4; n++) expect(await statusOf(`${url}/readyz`)).toBe(503);
    expect(await statusOf(`${url}/healthz`)).toBe(200);
    await client.open();
    await until("ready", 30_000, async () => (await statusOf(`${url}/readyz`)) === 200);
    for (let n = 0; n < 4; n++) expect(await statusOf(`${url}/api/v2/market/a`)).toBe(200);
    await client.close();
    await delay(300);
    for (let n = 0; n < 4; n++) expect(await statusOf(`${url}/api/v2/market/a`)).toBe(200);
  });

  it("speak TLS; one that cannot start any more is said once per try, ever less often, and comes when it can", async () => {
    const fixture = await openFixture();
    const folder = temporaryFolder();
    const openssl = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost";
    execFileSync("openssl", [...openssl.split(" "), "-keyout", "key", "-out", "certificate"], {
      cwd: folder,
      stdio: "ignore",
    });
    const [certificate, key] = [join(folder, "certificate"), join(folder, "key")];
    const service = start(fixture.url, "--tls-certificate", certificate, "--tls-key", key);
    const url = await service.url();
    expect(url).toMatch(/^https:/);
    const status = () =>
      new Promise<number>((resolve, reject) => {
        https
          .get(`${url}/api/v2/market/a`, { rejectUnauthorized: false, agent: false }, (response) => {
            response.resume();
            resolve(response.statusCode ?? 0);
          })
          .on("error", reject);
      });
    await until("ready", 30_000, async () => (await status()) === 200);
    const database = openDatabase(fixture.url);
    openings.push(() => database.close());
    const run = (sql: string) => database.withConnection((connection) => connection.run(sql));
    await run("INSERT INTO migration VALUES (99, 'later', '', 1, 1)");
    const saidBefore = service.printed.length;
    process.kill(service.workers()[0] ?? 0, "SIGKILL");
    await delay(6_000);
    const lines = service.printed.slice(saidBefore).trim().split("\n");
    const complaints = lines.filter((line) => line.includes("schema version 99"));
    expect(complaints.length).toBeGreaterThan(0);
    expect(complaints.length).toBeLessThan(4);
    expect(lines.length).toBeLessThan(10);
    expect(await status()).toBe(200);
    await run("DELETE FROM migration WHERE version = 99");
    await until("two workers again", 30_000, () => service.workers().length === 2);
    expect(await status()).toBe(200);
  });
});

describe("workers that cannot start", () => {
  it("end the command with one line, and leave nobody", async () => {
    const fixture = await openFixture();
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    openings.push(() => void taken.close());
    const { port } = taken.address() as { port: number };
    const service = start(fixture.url, "--listen", `127.0.0.1:${port}`);
    const ending = await service.ending();
    expect(ending.code).toBe(1);
    const lines = ending.printed.trim().split("\n");
    expect(lines.every((line) => line.startsWith("{"))).toBe(true);
    expect(withoutLog(ending.printed).trim().split("\n")).toEqual([
      `marketd: cannot listen on 127.0.0.1:${port}: something else listens there; stop it, or choose another with --listen`,
    ]);
    expect(processesOf(String(port), "any")).toEqual([]);
    expect(() => process.kill(-service.pid, 0)).toThrow("ESRCH");
  });
});

describe("the log", () => {
  const linesOf = (service: WorkersProcess) =>
    service.printed
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { level: number; pid?: number; msg: string });

  it("has nothing but JSON: which process takes signals, and one line for each thing that a worker waits for", async () => {
    const { url } = newDatabaseUrl();
    openings.push(() => dropDatabase(url));
    await migrate(url, createLog("silent"), []);
    const service = start(url, "--workers", "1", "--poll-interval-ms", "5");
    const base = await service.url();
    await delay(500);
    expect(linesOf(service).filter(({ pid }) => pid !== undefined)).toEqual([
      expect.objectContaining({ pid: service.pid, msg: `serving on ${base}` }),
    ]);
    const messages = () => linesOf(service).flatMap(({ pid, msg }) => (pid === undefined ? [msg] : []));
    const noTables =
      "the database has no tables yet: run marketd load or marketd migrate; meanwhile there is nothing to answer from";
    expect(messages()).toEqual([noTables]);
    await migrate(url, createLog("silent"));
    await until("it is said", 20_000, () => /no block yet/.test(service.printed));
    await delay(500);
    expect(messages()).toEqual([
      noTables,
      "the database has no block yet; waiting for marketd load",
      "the database is back; following it again",
    ]);
    expect(await statusOf(`${base}/readyz`)).toBe(503);
  });

  it("has errors that nobody caught and warnings of Node.js, as JSON too", async () => {
    const fixture = await openFixture();
    const hook = join(temporaryFolder(), "hook.mjs");
    const fail =
      "setTimeout(() => { process.emitWarning('careful'); setTimeout(() => { throw new Error('not caught'); }); }, 3_000);";
    writeFileSync(hook, `if (process.send !== undefined) ${fail}\n`);
    const args = ["--database-url", fixture.url, "--listen", "127.0.0.1:0", "--workers", "1"];
    const service = started(new WorkersProcess(args, { NODE_OPTIONS: `--import=${hook}` }));
    await until("it has died", 30_000, () => /a worker died/.test(service.printed));
    const said = linesOf(service).map((line) => JSON.stringify(line));
    expect(said).toContainEqual(expect.stringMatching(/"level":40.*careful/));
    expect(said).toContainEqual(expect.stringMatching(/"level":60.*not caught/));
  });
});

describe("the number of workers", () => {
  it("comes from MARKETD_WORKERS too", async () => {
    const fixture = await openFixture();
    const args = ["--database-url", fixture.url, "--listen", `127.0.0.1:${await freePort()}`];
    const service = started(new WorkersProcess(args, { MARKETD_WORKERS: "3" }));
    await service.ready();
    expect(service.workers()).toHaveLength(3);
  });
});

describe("a primary that is killed", () => {
  it("takes its workers along, and its private database", async () => {
    const folder = temporaryFolder();
    const args = ["--embedded", "--data-dir", folder, "--listen", "127.0.0.1:0", "--workers", "2"];
    const service = started(new WorkersProcess(args));
    await service.url();
    const workers = service.workers().filter((pid) => isRunning(pid));
    expect(workers.length).toBeGreaterThanOrEqual(2);
    expect(processesOf(folder, "server")).toHaveLength(1);
    process.kill(service.pid, "SIGKILL");
    await until("nobody is left", 30_000, () => {
      return !workers.some(isRunning) && processesOf(folder, "any").length === 0;
    });
    expect(existsSync(folder)).toBe(true);
  });
});
