import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Report } from "../support/report.js";
import type { HarnessSettings } from "../support/settings.js";
import { Chain } from "./chain.js";
import { startChild } from "./children.js";
import { Commits, type Connectable } from "./commits.js";
import type { DatabaseServer } from "./database-server.js";
import { dumpDatabase } from "./dump.js";
import { Judge } from "./judge.js";
import { type Ending, type Feed, loaderFeed, Supervised, serveArguments } from "./marketd.js";
import type { RandomSource } from "./random-source.js";
import type { Scoreboard } from "./scoreboard.js";

/** Blocks that the network makes each second. */
const blocksPerSecond = 4;
/** Blocks that are there before the first fault. */
export const firstBlocks = 60;
/** Blocks that the network may be ahead of the database. */
const blocksAheadMax = 120;
const readyMaxMs = 90_000;
/** Characters of the log of a service that does not become ready. */
const logShown = 600;

/** What all parts of a run share. */
export interface RunContext {
  /** For all files; it exists, and is removed at the end. */
  readonly directory: string;
  readonly settings: HarnessSettings;
  readonly report: Report;
  readonly random: RandomSource;
  readonly scoreboard: Scoreboard;
}

/** Where marketd's processes find their database. */
export interface Databases {
  /** Where the harness itself sees what is committed. */
  readonly committed: Connectable;
  /** What `--database-url` says to the service and to the loader. */
  readonly serviceUrl: string;
  readonly loaderUrl: string;
}

/**
 * The processes that are tried: a service of two workers and a loader, with a network that makes blocks and the judge of
 * every response. The databases behind them are a subclass's.
 */
export abstract class TestedService {
  #pace: NodeJS.Timeout | undefined;
  /** Set while a fault is on that needs many exports at once. */
  exportBurst = false;
  /** Endings of processes that nobody asked for, since the last fault began. */
  readonly unexpectedEnds: string[] = [];
  readonly directory: string;
  readonly settings: HarnessSettings;
  readonly report: Report;
  readonly random: RandomSource;
  readonly scoreboard: Scoreboard;
  readonly judge: Judge;
  readonly commits: Commits;
  readonly service: Supervised;
  readonly loader: Supervised;

  /** @param environment of the processes that are tried, beside the harness's own */
  protected constructor(
    { directory, settings, report, random, scoreboard }: RunContext,
    private readonly databases: Databases,
    readonly port: number,
    private readonly environment: Readonly<Record<string, string>> = {},
  ) {
    this.directory = directory;
    this.settings = settings;
    this.report = report;
    this.random = random;
    this.scoreboard = scoreboard;
    const chain = new Chain(directory, "chain-1", settings.seed);
    this.commits = new Commits(databases.committed, () => this.judge.chain.id);
    this.judge = new Judge(chain, this.commits, scoreboard);
    this.service = new Supervised(
      this.#command("service"),
      () => ({ args: serveArguments(databases.serviceUrl, port) }),
      (ending) => this.#endedByItself("the service", ending),
    );
    this.loader = new Supervised(
      this.#command("loader"),
      () => this.#feed(random.next() < 0.5 ? "file" : "pipe"),
      (ending) => this.#endedByItself("the loader", ending),
    );
  }

  /** Ends every session of marketd at its databases, as an operator would where one holds up the others. */
  abstract endSessions(): Promise<void>;

  /** Ends the loader, and compares what is in the databases with an undisturbed load of the same blocks. @returns differences */
  abstract compareWithUndisturbed(): Promise<string[]>;

  /** Ends all processes and removes all files. */
  abstract close(): Promise<void>;

  /** Starts loader and service; resolves when the service is ready and has the first blocks. */
  protected async start(): Promise<void> {
    for (let block = 0; block < firstBlocks; block++) this.judge.chain.advance();
    this.loader.start();
    this.commits.start();
    this.service.start();
    await this.until("the first block is committed", readyMaxMs, () => this.commits.height > 0);
    await this.untilReady(this.service, this.port, readyMaxMs);
    this.#pace = setInterval(() => this.#makeBlock(), 1000 / blocksPerSecond);
  }

  /** No further blocks: resolves when the loader has committed those of now, or could not, and has ended. */
  protected async settle(): Promise<void> {
    clearInterval(this.#pace);
    await this.within(5_000, () => this.commits.height === this.judge.chain.height);
    await this.loader.stop(2_000);
  }

  /** Ends marketd's processes. */
  protected async stopProcesses(): Promise<void> {
    clearInterval(this.#pace);
    this.commits.close();
    this.service.signal("SIGCONT");
    await Promise.all([this.service.stop(4_000), this.loader.stop(2_000)]);
  }

  protected removeFiles(): void {
    if (process.env["MARKETD_CHAOS_KEEP"] === undefined) rmSync(this.directory, { recursive: true, force: true });
  }

  /** What an undisturbed load of a chain up to `height` makes of an empty database on `server`. */
  protected async loadUndisturbed(server: DatabaseServer, chain: Chain, height: number): Promise<Map<string, string>> {
    const recording = join(this.directory, "undisturbed.recording");
    writeFileSync(recording, chain.bytesAfter(0, height));
    await server.run("DROP DATABASE IF EXISTS undisturbed");
    const url = server.localUrl("undisturbed");
    const args = [this.settings.program, "load", "--database-url", url, "--log-level", "warn", recording];
    const child = startChild(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
    const [code] = await once(child, "close");
    if (code !== 0) throw new Error(`the undisturbed load ended with code ${code}`);
    return dumpDatabase(server, "undisturbed");
  }

  /** The tables of a database that are not what an undisturbed load makes of the same blocks. */
  protected differences(of: string, dump: ReadonlyMap<string, string>, undisturbed: ReadonlyMap<string, string>) {
    const tables = [...undisturbed].filter(([table, rows]) => dump.get(table) !== rows);
    return tables.map(([table, rows]) => `${of}, ${table}: ${dump.get(table)}, undisturbed ${rows}`);
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
    return (await whyNotReady(port)) === undefined;
  }

  /** Resolves when a service is ready. @throws Error with its last answer and the end of its log when it is not in time */
  async untilReady({ command }: Supervised, port: number, maxMs: number): Promise<void> {
    let why: string | undefined;
    const isReady = async () => {
      why = await whyNotReady(port);
      return why === undefined;
    };
    if (await this.within(maxMs, isReady)) return;
    const log = existsSync(command.log) ? readFileSync(command.log, "utf8").slice(-logShown) : "nothing";
    throw new Error(`the ${command.name} is not ready within ${maxMs} ms: ${why}; it wrote: ${log}`);
  }

  #feed(feed: Feed) {
    return loaderFeed(this.judge.chain, this.commits.height, feed, this.directory, this.databases.loaderUrl);
  }

  /** How to run a process that is tried. */
  #command(name: string) {
    return {
      name,
      program: this.settings.program,
      environment: this.environment,
      log: join(this.directory, `${name}.log`),
    };
  }

  #endedByItself(name: string, { code, signal, printed }: Ending): void {
    const lines = printed.trim().split(/[\r\n]+/);
    const said = (lines.find((line) => /^marketd: |Error/.test(line)) ?? lines.at(-1) ?? "").slice(0, 200);
    this.unexpectedEnds.push(`${name} ended by itself with ${signal ?? `code ${code}`}: ${said}`);
    if (/^\s+at .+:\d+/m.test(printed)) this.unexpectedEnds.push(`${name} printed a stack`);
  }
}

/** What a service answers to `/readyz`, or why nothing comes; undefined: it is ready. */
async function whyNotReady(port: number): Promise<string | undefined> {
  try {
    const signal = AbortSignal.timeout(1_000);
    const response = await fetch(`http://127.0.0.1:${port}/readyz`, { headers: { connection: "close" }, signal });
    const text = await response.text();
    return response.status === 200 ? undefined : `${response.status} ${text}`;
  } catch (error) {
    const { cause } = error as Error;
    return `port ${port}: ${String(cause ?? error)}`;
  }
}
