import { type ChildProcess, execFile, type StdioOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Network, networkDefaults } from "../../src/simulator/network.js";
import { freePort } from "../../test/support/free-port.js";
import { startTestServer, type TestServer } from "../../test/support/test-server.js";
import { largeBookBlocks } from "./large-book.js";

/** The network that is served: enough ledger entries that a page of 1,000 costs what it costs in earnest. */
const simulation = ["--blocks", "300", "--markets", "12", "--orders-per-block", "20", "--entries-per-block", "100"];

/** Serving processes, as on a machine of two cores. */
const workers = 2;

/** How long a reader may take nothing, so that an attack need not wait five minutes to see it cut. */
export const stalledReaderMs = 5_000;

/** Pages of this origin may read responses; those of others may not. */
export const allowedOrigin = "https://trusted.example";

const readyMaxMs = 30_000;
const pollMs = 50;

/** Blocks that a fed service begins with, and the time between those that follow. */
const fedBlocksFirst = 100;
const fedBlockMs = 50;

/** Streams that one client may have open at the service of {@link Target.startProxied}. */
export const proxiedStreamsPerAddressMax = 20;

/** A service that one attack starts for itself. */
export interface OwnService {
  readonly port: number;
  /** Of its worker. */
  residentBytes(): number;
  stop(): Promise<void>;
}

/** A service of its own with a network that goes on. */
export interface FedService extends OwnService {
  /** A market that is traded. */
  readonly marketId: string;
  /** Sum of a metric over its labels. */
  metric(name: string): Promise<number>;
}

/** What the service's processes hold at one moment, all together. */
export interface Holding {
  readonly descriptors: number;
  readonly residentBytes: number;
  /** Process ids of the workers. */
  readonly workers: readonly number[];
}

/** The service under attack: a real `marketd serve` with two workers on a private database. */
export class Target {
  readonly port: number;
  readonly adminUrl: string;
  readonly marketId: string;
  readonly partyId: string;
  readonly assetId: string;
  readonly #service: Service;
  readonly #database: TestServer;
  #child: ChildProcess;
  #fed = 0;
  #printed: string[] = [];

  private constructor(service: Service, database: TestServer, child: ChildProcess, ids: Identifiers) {
    this.#service = service;
    this.#database = database;
    this.port = service.port;
    this.adminUrl = service.adminUrl;
    this.marketId = ids.marketId;
    this.partyId = ids.partyId;
    this.assetId = ids.assetId;
    this.#child = child;
    this.#keepLog();
  }

  /** Loads a simulated network into a private database, and serves it with `program`. */
  static async start(program: string, seed: number): Promise<Target> {
    const database = await startTestServer();
    const url = new URL(database.url);
    url.pathname = "/attack";
    const env = { ...process.env, MARKETD_DATABASE_URL: url.href };
    await loadNetwork(program, seed, env);
    const port = await freePort();
    const flags = ["--workers", String(workers), "--stalled-reader-ms", String(stalledReaderMs), "--log-level", "warn"];
    const { stdout: help } = await promisify(execFile)(process.execPath, [program, "serve", "--help"]);
    const adminPort = help.includes("--admin-listen") ? await freePort() : port;
    if (adminPort !== port) flags.push("--admin-listen", `127.0.0.1:${adminPort}`);
    const args = ["serve", "--listen", `127.0.0.1:${port}`, "--cors-origins", allowedOrigin, ...flags];
    const service = { args: [program, ...args], env, port, adminUrl: `http://127.0.0.1:${adminPort}` };
    const child = await startService(service);
    return new Target(service, database, child, await identifiers(port));
  }

  /**
   * Starts another service on the same database, for attacks that need other flags: one worker, `/metrics` on the same
   * port, and all of loopback trusted as proxies.
   */
  startProxied(): Promise<OwnService> {
    const limits = ["--streams-per-address-max", String(proxiedStreamsPerAddressMax)];
    return this.#startOwn(this.#service.env, ["--trusted-proxies", "127.0.0.0/8", ...limits]);
  }

  /** Starts another service on a database of its own, with a book that would slow down every stream of all markets. */
  async startWithLargeBook(): Promise<OwnService> {
    const url = new URL(this.#service.env["MARKETD_DATABASE_URL"] ?? "");
    url.pathname = "/attack_large_book";
    const env = { ...this.#service.env, MARKETD_DATABASE_URL: url.href };
    const loader = startLoader(this.#service.args[0] ?? "", env);
    for (const block of largeBookBlocks()) loader.stdin?.write(block);
    loader.stdin?.end();
    await once(loader, "close");
    return this.#startOwn(env, []);
  }

  /** Starts another service on a database of its own, into which a loader writes a network's blocks as they come. */
  async startFed(): Promise<FedService> {
    const url = new URL(this.#service.env["MARKETD_DATABASE_URL"] ?? "");
    url.pathname = `/attack_fed_${++this.#fed}`;
    const env = { ...this.#service.env, MARKETD_DATABASE_URL: url.href };
    const network = new Network({ ...networkDefaults, ordersPerBlock: 60 });
    const begin = () => startLoader(this.#service.args[0] ?? "", env);
    const first = begin();
    for (let block = 0; block < fedBlocksFirst; block++) first.stdin?.write(network.nextBlock());
    first.stdin?.end();
    await once(first, "close");
    const loader = begin();
    const feed = setInterval(() => loader.stdin?.write(network.nextBlock()), fedBlockMs);
    const service = await this.#startOwn(env, ["--stalled-reader-ms", String(stalledReaderMs)]);
    const { marketId } = await identifiers(service.port);
    return {
      ...{ ...service, marketId },
      metric: async (name) => (await metricOf(`http://127.0.0.1:${service.port}`, name)) ?? 0,
      stop: async () => {
        clearInterval(feed);
        loader.kill("SIGKILL");
        await service.stop();
      },
    };
  }

  async #startOwn(env: NodeJS.ProcessEnv, flags: readonly string[]): Promise<OwnService> {
    const [program = "", command = ""] = this.#service.args;
    const port = await freePort();
    const common = ["--listen", `127.0.0.1:${port}`, "--workers", "1", "--log-level", "warn"];
    const args = [program, command, ...common, ...flags];
    // Nobody reads its log, as where a collector of logs hangs.
    const child = await startService({ args, env, port, adminUrl: `http://127.0.0.1:${port}` });
    return {
      port,
      residentBytes: () => childrenOf(child.pid ?? 0).reduce((sum, pid) => sum + residentBytesOf(pid), 0),
      stop: async () => {
        const closed = once(child, "close");
        for (const pid of childrenOf(child.pid ?? 0)) process.kill(pid, "SIGKILL");
        child.kill("SIGKILL");
        await closed;
      },
    };
  }

  /** Kills what is left of the service and starts it again on its port: for what an attack has wedged for good. */
  async restart(): Promise<void> {
    for (const pid of this.holding().workers) process.kill(pid, "SIGKILL");
    await this.#kill();
    this.#child = await startService(this.#service);
    this.#keepLog();
  }

  /** Whether the service answers: health, and cached responses on a few new connections, each within a second. */
  async isResponsive(): Promise<boolean> {
    const hot = `http://127.0.0.1:${this.port}/api/v2/market/${this.marketId}`;
    const urls = [`${this.adminUrl}/readyz`, hot, hot, hot, hot];
    const statuses = await Promise.all(urls.map((url) => statusOf(url)));
    return statuses.every((status) => status === 200);
  }

  /** What the command and its workers hold now. */
  holding(): Holding {
    const primary = this.#child.pid ?? 0;
    const children = childrenOf(primary);
    let descriptors = 0;
    let residentBytes = 0;
    for (const pid of [primary, ...children]) {
      descriptors += descriptorsOf(pid);
      residentBytes += residentBytesOf(pid);
    }
    return { descriptors, residentBytes, workers: children };
  }

  /** Whether the command itself still runs. */
  get alive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** The lines of its log since the last call. */
  takeLog(): string[] {
    return this.#printed.splice(0);
  }

  /** Sum of a metric over its labels; undefined where the service does not give it. */
  metric(name: string): Promise<number | undefined> {
    return metricOf(this.adminUrl, name);
  }

  async stop(): Promise<void> {
    if (this.alive) {
      this.#child.kill("SIGTERM");
      const killer = setTimeout(() => this.#child.kill("SIGKILL"), readyMaxMs);
      await once(this.#child, "close");
      clearTimeout(killer);
    }
    await this.#database.stop();
  }

  async #kill(): Promise<void> {
    if (!this.alive) return;
    const closed = once(this.#child, "close");
    this.#child.kill("SIGKILL");
    await closed;
  }

  #keepLog(): void {
    this.#printed = [];
    const printed = this.#printed;
    this.#child.stderr?.on("data", (text) => printed.push(...String(text).split("\n")));
  }
}

/** How the service is started, again and again. */
interface Service {
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly port: number;
  readonly adminUrl: string;
}

async function startService({ args, env, adminUrl }: Service): Promise<ChildProcess> {
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "ignore", "pipe"] });
  await untilReady(adminUrl, child);
  return child;
}

/** A service that does not tell its metrics in this time is stuck. */
const metricsMaxMs = 30_000;

async function metricOf(url: string, name: string): Promise<number | undefined> {
  const text = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(metricsMaxMs) }).then((response) =>
    response.text(),
  );
  const lines = text.split("\n").filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  if (lines.length === 0) return undefined;
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

/** 0 where there is no response within a second. */
async function statusOf(url: string): Promise<number> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(1_000), headers: { connection: "close" } });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return 0;
  }
}

interface Identifiers {
  readonly marketId: string;
  readonly partyId: string;
  readonly assetId: string;
}

async function loadNetwork(program: string, seed: number, env: NodeJS.ProcessEnv): Promise<void> {
  const simulate = spawn(process.execPath, [program, "simulate", ...simulation, "--seed", String(seed)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const load = spawn(process.execPath, [program, "load", "-"], { env, stdio: [simulate.stdout, "ignore", "inherit"] });
  const [code] = await once(load, "close");
  if (code !== 0) throw new Error(`marketd load ended with ${code}`);
}

/** A loader of what is written to its standard input. */
function startLoader(program: string, env: NodeJS.ProcessEnv): ChildProcess {
  const stdio: StdioOptions = ["pipe", "ignore", "inherit"];
  const loader = spawn(process.execPath, [program, "load", "--log-level", "warn", "-"], { env, stdio });
  loader.stdin?.on("error", () => {});
  return loader;
}

async function untilReady(url: string, child: ChildProcess): Promise<void> {
  const until = performance.now() + readyMaxMs;
  for (;;) {
    if ((await statusOf(`${url}/readyz`)) === 200) return;
    if (child.exitCode !== null || performance.now() > until) throw new Error("marketd serve did not become ready");
    await sleep(pollMs);
  }
}

/** A market with data, and a party and an asset with ledger entries, as the service itself names them. */
async function identifiers(port: number): Promise<Identifiers> {
  const base = `http://127.0.0.1:${port}`;
  const data = (await (await fetch(`${base}/markets/data`)).json()) as { marketsData: { market: string }[] };
  const page = (await (await fetch(`${base}/api/v2/ledgerentry/history?pagination.first=1`)).json()) as {
    ledgerEntries: { edges: { node: { toAccountPartyId: string; assetId: string } }[] };
  };
  const [market] = data.marketsData;
  const [edge] = page.ledgerEntries.edges;
  if (market === undefined || edge === undefined) throw new Error("the simulated network has no data");
  return { marketId: market.market, partyId: edge.node.toAccountPartyId, assetId: edge.node.assetId };
}

function childrenOf(pid: number): number[] {
  const found: number[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^[0-9]+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "latin1");
      // The name of the program stands in parentheses and may hold spaces; the parent's id is the second field after.
      const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
      if (parent === pid) found.push(Number(name));
    } catch {
      // It ended meanwhile.
    }
  }
  return found.sort((a, b) => a - b);
}

function descriptorsOf(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return 0;
  }
}

function residentBytesOf(pid: number): number {
  try {
    const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return Number(kilobytes ?? 0) * 1024;
  } catch {
    return 0;
  }
}
