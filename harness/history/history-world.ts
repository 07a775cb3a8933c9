import { type ChildProcess, spawnSync } from "node:child_process";
import {
  appendFileSync,
  closeSync,
  cpSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { freePort } from "../../test/support/free-port.js";
import { startChild } from "../chaos/children.js";
import { Commits } from "../chaos/commits.js";
import { DatabaseServer } from "../chaos/database-server.js";
import { Supervised } from "../chaos/marketd.js";
import type { RandomSource } from "../chaos/random-source.js";
import type { Report } from "../support/report.js";
import type { HarnessSettings } from "../support/settings.js";
import { KeptPast } from "./kept-past.js";
import type { BlockEnd } from "./market-past.js";
import { MixedNetwork } from "./mixed-network.js";
import { Oracle } from "./oracle.js";

/** The last commit whose program keeps no past. */
const previousCommit = "7fe8108";
const simulatedMarkets = 4;
/** What is there before anybody asks: blocks that were made in a past that lasted so long. */
const firstBlocks = 600;
const firstBlocksNs = 300_000_000_000n;
const readyMaxMs = 90_000;
/** How far a replica's reader is behind, in seconds. */
const lagSeconds = 1;
/** Blocks that the network may be ahead of the database. */
const blocksAheadMax = 200;
/** Blocks before the newest committed one that a loader's recording begins with. */
const overlapBlocks = 3;
const minuteNs = 60_000_000_000n;

/** What a run is made of. */
export interface RunContext {
  readonly settings: HarnessSettings;
  readonly report: Report;
  readonly random: RandomSource;
}

/** A service that readers can ask. */
export interface Served {
  readonly name: "steady" | "young" | "lagging";
  readonly port: number;
  readonly process: Supervised;
}

/**
 * A network that trades, a loader, a primary and a replica that lags, and three services: one that stays, one that is
 * killed and starts again, one over the replica. All of it is private, on loopback, and gone at the end.
 */
export class HistoryWorld {
  readonly oracle = new Oracle();
  readonly kept = new KeptPast(this.oracle);
  readonly unexpectedEnds: string[] = [];
  readonly loader: Supervised;
  readonly services: readonly Served[];
  readonly commits: Commits;
  /** Those that the replica has. */
  readonly replicaCommits: Commits;
  /** What the next loader is told. */
  keepBooks = "all";
  readonly #network: MixedNetwork;
  readonly #previousLoader: Supervised | undefined;
  readonly #recording: string;
  /** Where in the recording each block ends. */
  readonly #ends: number[] = [];
  #feed = "";
  #feeds = 0;
  #pace: NodeJS.Timeout | undefined;

  private constructor(
    readonly context: RunContext,
    readonly directory: string,
    readonly primary: DatabaseServer,
    private readonly replica: DatabaseServer,
    ports: readonly number[],
    previousProgram: string | undefined,
  ) {
    const { settings, random } = context;
    this.#network = new MixedNetwork(settings.seed, random, simulatedMarkets);
    this.#recording = join(directory, "chain.recording");
    this.commits = new Commits(primary, () => this.#network.chainId);
    this.replicaCommits = new Commits(replica, () => this.#network.chainId);
    const places = [["steady", primary] as const, ["young", primary] as const, ["lagging", replica] as const];
    this.services = places.map(([name, server], index) => {
      const port = ports[index] ?? 0;
      return { name, port, process: this.#supervised(name, settings.program, () => serveArguments(server, port)) };
    });
    const load = (more: readonly string[]) => [...this.#loadArguments(), ...more];
    this.loader = this.#supervised("loader", settings.program, () => load(["--keep-books", this.keepBooks]));
    if (previousProgram !== undefined) {
      this.#previousLoader = this.#supervised("previous loader", previousProgram, () => load([]));
    }
  }

  /** Starts everything; resolves when the services are ready and have the first blocks. */
  static async create(context: RunContext): Promise<HistoryWorld> {
    const directory = mkdtempSync(join(tmpdir(), "marketd-history-"));
    const server = (name: string, id: number) =>
      DatabaseServer.create(join(directory, `${name}-data`), join(directory, name), id);
    const primary = await server("primary", 1);
    const replica = await server("replica", 2);
    await replica.follow(primary);
    const ports = [await freePort(), await freePort(), await freePort()];
    const world = new HistoryWorld(
      context,
      directory,
      primary,
      replica,
      ports,
      previousProgram(directory, context.report),
    );
    try {
      await world.#start();
    } catch (error) {
      context.report.say(world.unexpectedEnds.at(-1) ?? "no process ended");
      await world.close();
      throw error;
    }
    return world;
  }

  get wideMarkets(): string[] {
    return this.#network.wideMarkets;
  }

  /** Whether a program that keeps no past can be tried. */
  get hasPreviousProgram(): boolean {
    return this.#previousLoader !== undefined;
  }

  /** The newest block that is certainly in the primary; undefined: none. */
  get committed(): BlockEnd | undefined {
    const newest = this.oracle.blockAt("height", BigInt(this.commits.height));
    const isRepeated = newest?.height === this.oracle.blocks[(newest?.index ?? 0) - 1]?.height;
    // Of a repeated height it may be the first end.
    return newest && isRepeated ? this.oracle.blockAt("height", newest.height - 1n) : newest;
  }

  /** Blocks from now on, so many a second. */
  trade(blocksPerSecond: number): void {
    clearInterval(this.#pace);
    this.#pace = setInterval(() => this.makeBlock(), 1_000 / blocksPerSecond);
  }

  /** Makes a block, unless the loader is far behind. */
  makeBlock(timeNs = BigInt(Date.now()) * 1_000_000n + 123_456n): void {
    if (Number(this.oracle.newest.height) - this.commits.height > blocksAheadMax) return;
    this.#advance(timeNs);
  }

  /** Lets a replica stand still, and then go on. */
  async stopReplica(ms: number): Promise<void> {
    await this.replica.run("STOP REPLICA SQL_THREAD").catch(() => this.replica.run("STOP REPLICA"));
    await delay(ms);
    await this.replica.run("START REPLICA");
  }

  /** A loader that keeps no past loads for a while: an earlier release, or one that was told so. */
  async leaveOut(by: "previous release" | "off", ms: number): Promise<void> {
    await this.loader.stop(10_000);
    const before = await this.#progress();
    const hadKept = BigInt(before?.["history_sequence"]) === BigInt(before?.["stream_sequence"]);
    this.context.report.check("a loader keeps the past of all that it loads", hadKept, () => JSON.stringify(before));
    const gap = this.kept.leaveOut(this.oracle.blockAt("sequence", BigInt(before?.["stream_sequence"])));
    const other = by === "off" ? this.loader : this.#previousLoader;
    const { keepBooks } = this;
    this.keepBooks = "off";
    other?.start();
    await delay(ms);
    await other?.stop(10_000);
    this.keepBooks = keepBooks;
    const after = await this.#progress();
    gap.until = this.oracle.blockAt("sequence", BigInt(after?.["stream_sequence"]));
    this.loader.start();
    const isKept = async () => {
      const [row] = await this.primary.run("SELECT history_sequence = stream_sequence same FROM marketd.progress");
      return Number(row?.["same"]) === 1;
    };
    await this.within(20_000, isKept);
    gap.closedAt = performance.now();
  }

  /** What `marketd verify` says of the primary, with its exit code. */
  async verify(): Promise<{ readonly code: number | null; readonly printed: string }> {
    const args = [this.context.settings.program, "verify", "--database-url", DatabaseServer.url(this.primary.port)];
    return endOf(startChild(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] }));
  }

  async within(maxMs: number, holds: () => boolean | Promise<boolean>): Promise<boolean> {
    const until = performance.now() + maxMs;
    while (!(await holds())) {
      if (performance.now() > until) return false;
      await delay(25);
    }
    return true;
  }

  /** No further blocks; resolves when the loader has committed those of now, or could not, and has ended. */
  async settle(): Promise<void> {
    clearInterval(this.#pace);
    await this.within(20_000, () => BigInt(this.commits.height) === this.oracle.newest.height);
    await this.loader.stop(10_000);
  }

  async close(): Promise<void> {
    clearInterval(this.#pace);
    this.commits.close();
    this.replicaCommits.close();
    const processes = [this.loader, this.#previousLoader, ...this.services.map((service) => service.process)];
    await Promise.all(processes.map((process) => process?.stop(4_000)));
    for (const server of [this.primary, this.replica]) await server.end();
    if (process.env["MARKETD_HISTORY_KEEP"] === undefined) rmSync(this.directory, { recursive: true, force: true });
  }

  async #start(): Promise<void> {
    const stepNs = firstBlocksNs / BigInt(firstBlocks);
    const startNs = BigInt(Date.now()) * 1_000_000n - firstBlocksNs;
    for (let block = 0; block < firstBlocks; block++) this.#advance(startNs + stepNs * BigInt(block));
    this.loader.start();
    this.commits.start();
    this.replicaCommits.start();
    for (const { process } of this.services) process.start();
    const areReady = async () => {
      if (this.commits.height < firstBlocks) return false;
      return (await Promise.all(this.services.map(({ port }) => isReady(port)))).every((ready) => ready);
    };
    if (!(await this.within(readyMaxMs, areReady)))
      throw new Error(`the services are not ready within ${readyMaxMs} ms`);
    await this.replica.run("STOP REPLICA");
    const word = this.replica.kind === "mariadb" ? "MASTER TO MASTER" : "REPLICATION SOURCE TO SOURCE";
    await this.replica.run(`CHANGE ${word}_DELAY = ${lagSeconds}`);
    await this.replica.run("START REPLICA");
  }

  /** How far loaders have come that ended. A locking read waits for a commit that is still under way. */
  async #progress() {
    const columns = "stream_sequence, history_sequence";
    const [progress] = await this.primary.run(`SELECT ${columns} FROM marketd.progress FOR UPDATE`);
    return progress;
  }

  #advance(timeNs: bigint): void {
    const block = this.#network.nextBlock(timeNs);
    this.oracle.apply(block);
    appendFileSync(this.#recording, block);
    this.#ends.push((this.#ends.at(-1) ?? 0) + block.length);
    if (this.#feed !== "") appendFileSync(this.#feed, block);
    const minutes = /^(\d+)m$/.exec(this.keepBooks)?.[1];
    if (minutes !== undefined) this.kept.prunedBefore(timeNs - BigInt(minutes) * minuteNs);
  }

  /** A recording that begins shortly before the newest committed block, and grows. */
  #loadArguments(): string[] {
    this.#feed = join(this.directory, `feed-${++this.#feeds % 2}.recording`);
    writeFileSync(this.#feed, this.#bytesAfter(Math.max(0, this.commits.height - overlapBlocks)));
    const url = DatabaseServer.url(this.primary.port);
    return ["load", "--database-url", url, "--log-level", "warn", "--follow", this.#feed];
  }

  #bytesAfter(height: number): Buffer {
    const from = this.#ends[height - 1] ?? 0;
    const bytes = Buffer.alloc((this.#ends.at(-1) ?? 0) - from);
    const file = openSync(this.#recording, "r");
    readSync(file, bytes, 0, bytes.length, from);
    closeSync(file);
    return bytes;
  }

  #supervised(name: string, program: string, args: () => string[]): Supervised {
    const command = { name, program, environment: {}, log: join(this.directory, `${name}.log`) };
    const begin = () => ({ args: args() });
    return new Supervised(command, begin, ({ code, signal, printed }) => {
      const line = printed
        .trim()
        .split(/[\r\n]+/)
        .at(-1);
      this.unexpectedEnds.push(`the ${name} ended by itself with ${signal ?? `code ${code}`}: ${line?.slice(0, 300)}`);
    });
  }
}

function serveArguments(server: DatabaseServer, port: number): string[] {
  const where = ["--database-url", DatabaseServer.url(server.port), "--listen", `127.0.0.1:${port}`];
  const limits = ["--heartbeat-ms", "1000", "--drain-ms", "2000", "--streams-per-address-max", "2000"];
  return ["serve", ...where, ...limits, "--workers", "1", "--log-level", "warn"];
}

export async function isReady(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(1_000) });
    await response.arrayBuffer();
    return response.status === 200;
  } catch {
    return false;
  }
}

/** Waits for a child's end. */
export async function endOf(child: ChildProcess): Promise<{ readonly code: number | null; readonly printed: string }> {
  let printed = "";
  child.stdout?.on("data", (text) => (printed += String(text)));
  child.stderr?.on("data", (text) => (printed += String(text)));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, printed };
}

/** Compiles the last program that keeps no past; undefined, and a line, where its commit is not here. */
function previousProgram(directory: string, report: Report): string | undefined {
  const root = fileURLToPath(new URL("../../../", import.meta.url));
  const target = join(directory, "previous");
  const script = `mkdir "$2" && git archive ${previousCommit} | tar -x -C "$2"`;
  const extracted = spawnSync("bash", ["-c", `set -o pipefail; ${script}`, "-", root, target], { cwd: root });
  if (extracted.status !== 0) {
    report.say(`skipped: an earlier release in between (commit ${previousCommit} is not here)`);
    return undefined;
  }
  symlinkSync(join(root, "node_modules"), join(target, "node_modules"));
  // Not by its own script, which would install its dependencies over these.
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const compile = [compiler, "-p", join(target, "tsconfig.build.json"), "--outDir", join(target, "dist")];
  const compiled = spawnSync(process.execPath, compile, { encoding: "utf8" });
  if (compiled.status !== 0) throw new Error(`the earlier release cannot be compiled: ${compiled.stdout}`);
  const migrations = join("src", "store", "migrations");
  cpSync(join(target, migrations), join(target, "dist", migrations), { recursive: true });
  return join(target, "dist", "src", "main.js");
}
