import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Report } from "../support/report.js";
import type { HarnessSettings } from "../support/settings.js";
import { Chain } from "./chain.js";
import { startChild } from "./children.js";
import { Commits } from "./commits.js";
import { dumpDatabase } from "./dump.js";
import { Judge } from "./judge.js";
import { MariaDb, mountSmallDisk } from "./mariadb.js";
import { type Ending, type Feed, fakeClock, loaderFeed, Supervised, serveArguments } from "./marketd.js";
import { freePort } from "./ports.js";
import { DatabaseProxy } from "./proxy.js";
import type { RandomSource } from "./random-source.js";
import type { Scoreboard } from "./scoreboard.js";

/** Blocks that the network makes each second. */
const blocksPerSecond = 4;
/** Blocks that are there before the first fault. */
const firstBlocks = 60;
/** Blocks that the network may be ahead of the database. */
const blocksAheadMax = 120;
/** The primary's disk. What half an hour of blocks takes is less than half of it. */
const diskMebibytes = 512;
const readyMaxMs = 90_000;

/** What is known of a database whose chain was replaced: it is compared at the end. */
interface Remains {
  readonly chain: Chain;
  readonly height: number;
  readonly dump: ReadonlyMap<string, string>;
}

/**
 * Everything that is tried: two database servers (a primary and its asynchronous replica), a service of two workers and
 * a loader behind a proxy each, and a network that makes blocks. All of it is private, on loopback, and gone at the end.
 */
export class World {
  readonly #remains: Remains[] = [];
  #pace: NodeJS.Timeout | undefined;
  #chains = 1;
  /** Set while a fault is on that needs many exports at once. */
  crowd = false;
  /** Endings of processes that nobody asked for, since the last fault began. */
  readonly unexpectedEnds: string[] = [];
  readonly judge: Judge;
  readonly commits: Commits;
  readonly service: Supervised;
  readonly loader: Supervised;

  private constructor(
    readonly directory: string,
    readonly settings: HarnessSettings,
    readonly report: Report,
    readonly random: RandomSource,
    readonly disk: { readonly path: string; unmount(): void } | undefined,
    readonly primary: MariaDb,
    readonly replica: MariaDb,
    readonly serviceProxy: DatabaseProxy,
    readonly loaderProxy: DatabaseProxy,
    readonly port: number,
    readonly clock: ReturnType<typeof fakeClock>,
    scoreboard: Scoreboard,
  ) {
    const chain = new Chain(directory, "chain-1", settings.seed);
    this.commits = new Commits(primary, () => this.judge.chain.id);
    this.judge = new Judge(chain, this.commits, scoreboard);
    this.service = new Supervised(
      this.#command("service"),
      () => ({ args: serveArguments(MariaDb.url(serviceProxy.port), port) }),
      (ending) => this.#endedByItself("the service", ending),
    );
    this.loader = new Supervised(
      this.#command("loader"),
      () => this.#feed(random.next() < 0.5 ? "file" : "pipe"),
      (ending) => this.#endedByItself("the loader", ending),
    );
  }

  /** Starts everything; resolves when the service is ready and has the first blocks. */
  static async create(
    settings: HarnessSettings,
    report: Report,
    random: RandomSource,
    scoreboard: Scoreboard,
  ): Promise<World> {
    const directory = mkdtempSync(join(tmpdir(), "marketd-chaos-"));
    const mount = mountSmallDisk(join(directory, "disk"), diskMebibytes);
    const disk = mount === undefined ? undefined : { ...mount, path: join(directory, "disk") };
    const dataDir = join(directory, disk === undefined ? "primary-data" : "disk/primary-data");
    const primary = await MariaDb.create(dataDir, join(directory, "primary"), 1);
    const replica = await MariaDb.create(join(directory, "replica-data"), join(directory, "replica"), 2);
    await replica.follow(primary);
    const world = new World(
      directory,
      settings,
      report,
      random,
      disk,
      primary,
      replica,
      await DatabaseProxy.before(primary.port),
      await DatabaseProxy.before(primary.port),
      await freePort(),
      fakeClock(directory),
      scoreboard,
    );
    await world.#start();
    return world;
  }

  async #start(): Promise<void> {
    for (let block = 0; block < firstBlocks; block++) this.judge.chain.advance();
    this.loader.start();
    this.commits.start();
    this.service.start();
    await this.until("the service is ready", readyMaxMs, async () => this.commits.height > 0 && (await this.isReady()));
    this.#pace = setInterval(() => this.#makeBlock(), 1000 / blocksPerSecond);
  }

  /** A network does not wait for a loader, but half an hour of faults must not pile up. */
  #makeBlock(): void {
    const { chain } = this.judge;
    if (chain.height - this.commits.height < blocksAheadMax) chain.advance();
  }

  /** Many blocks at once, or as fast as the readers still get their turn. */
  async burst(blocks: number): Promise<void> {
    for (let block = 0; block < blocks; block++) {
      this.judge.chain.advance();
      await delay(1);
    }
  }

  /** Ends every session of marketd at the primary, as an operator would where one holds up the others. */
  async endSessions(): Promise<void> {
    const sessions = await this.primary.run("SELECT ID id FROM information_schema.PROCESSLIST WHERE USER = 'marketd'");
    for (const { id } of sessions) await this.primary.run(`KILL ${id}`).catch(() => {});
  }

  /** Resolves when `holds`. @throws Error when it does not in time */
  async until(what: string, maxMs: number, holds: () => boolean | Promise<boolean>): Promise<void> {
    if (!(await this.within(maxMs, holds))) throw new Error(`${what}: not within ${maxMs} ms`);
  }

  /** Whether something comes to hold within so long. */
  async within(maxMs: number, holds: () => boolean | Promise<boolean>): Promise<boolean> {
    const until = performance.now() + maxMs;
    while (!(await holds())) {
      if (performance.now() > until) return false;
      await delay(25);
    }
    return true;
  }

  async isReady(port = this.port): Promise<boolean> {
    try {
      const signal = AbortSignal.timeout(1_000);
      const response = await fetch(`http://127.0.0.1:${port}/readyz`, { headers: { connection: "close" }, signal });
      await response.arrayBuffer();
      return response.status === 200;
    } catch {
      return false;
    }
  }

  /** Drops the database. The service goes on; what it held stays known, to be compared at the end. */
  async replaceChain(how: "another" | "shorter"): Promise<void> {
    const before = this.judge.chain;
    await this.loader.stop(2_000);
    await this.#remember();
    const name = `chain-${++this.#chains}`;
    const next =
      how === "shorter"
        ? before.againUpTo(Math.min(40, Math.ceil(before.height / 3)), this.directory, name)
        : new Chain(this.directory, name, this.settings.seed + this.#chains);
    while (next.height < firstBlocks / 2) next.advance();
    this.judge.replaceChain(next);
    before.readAlong(undefined);
    await this.primary.run("DROP DATABASE marketd");
    // A poll of a moment ago may have seen the old one, under the same chain id.
    this.commits.forget();
    this.loader.start();
  }

  /** Ends the loader, and compares every database with an undisturbed load of the same blocks. @returns differences */
  async compareWithUndisturbed(): Promise<string[]> {
    clearInterval(this.#pace);
    await this.within(5_000, () => this.commits.height === this.judge.chain.height);
    await this.loader.stop(2_000);
    await this.#remember();
    const differences: string[] = [];
    for (const { chain, height, dump } of this.#remains) {
      const undisturbed = await this.#loadUndisturbed(chain, height);
      for (const [table, rows] of undisturbed) {
        if (dump.get(table) !== rows)
          differences.push(`${chain.id}, block ${height}, ${table}: ${dump.get(table)}, undisturbed ${rows}`);
      }
    }
    return differences;
  }

  get databasesCompared(): number {
    return this.#remains.length;
  }

  /** Ends all processes and removes all files. */
  async close(): Promise<void> {
    clearInterval(this.#pace);
    this.commits.close();
    this.service.signal("SIGCONT");
    await Promise.all([this.service.stop(4_000), this.loader.stop(2_000)]);
    this.serviceProxy.close();
    this.loaderProxy.close();
    for (const server of [this.primary, this.replica]) {
      server.resume();
      await server.kill();
    }
    this.disk?.unmount();
    if (process.env["MARKETD_CHAOS_KEEP"] === undefined) rmSync(this.directory, { recursive: true, force: true });
  }

  #feed(feed: Feed) {
    return loaderFeed(this.judge.chain, this.commits.height, feed, this.directory, MariaDb.url(this.loaderProxy.port));
  }

  /** The command line of a process to be tried, with the clock that can be set. */
  #command(name: string) {
    return {
      name,
      program: this.settings.program,
      environment: this.clock?.environment ?? {},
      log: join(this.directory, `${name}.log`),
    };
  }

  #endedByItself(name: string, { code, signal, printed }: Ending): void {
    const lines = printed.trim().split(/[\r\n]+/);
    const said = (lines.find((line) => /^marketd: |Error/.test(line)) ?? lines.at(-1) ?? "").slice(0, 200);
    this.unexpectedEnds.push(`${name} ended by itself with ${signal ?? `code ${code}`}: ${said}`);
    if (/^\s+at .+:\d+/m.test(printed)) this.unexpectedEnds.push(`${name} printed a stack`);
  }

  async #remember(): Promise<void> {
    const [row] = await this.primary.run("SELECT height FROM marketd.progress");
    const dump = await dumpDatabase(this.primary, "marketd");
    this.#remains.push({ chain: this.judge.chain, height: Number(row?.["height"]), dump });
  }

  async #loadUndisturbed(chain: Chain, height: number): Promise<Map<string, string>> {
    const recording = join(this.directory, "undisturbed.recording");
    writeFileSync(recording, chain.bytesAfter(0, height));
    await this.primary.run("DROP DATABASE IF EXISTS undisturbed");
    const url = MariaDb.url(this.primary.port, "undisturbed");
    const args = [this.settings.program, "load", "--database-url", url, recording];
    const child = startChild(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
    await once(child, "close");
    return dumpDatabase(this.primary, "undisturbed");
  }
}
