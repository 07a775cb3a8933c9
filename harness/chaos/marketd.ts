import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Chain } from "./chain.js";
import { startChild } from "./children.js";

/** What a service manager waits before it starts a process again. */
const restartPauseMs = 100;

/** How a process ended. */
export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** What it wrote to standard error. */
  readonly printed: string;
}

/** How to run one command of the program that is tried. */
export interface Command {
  readonly name: string;
  readonly program: string;
  readonly environment: Readonly<Record<string, string>>;
  /** All that it writes is added to this file. */
  readonly log: string;
}

/** A process of marketd, and the service manager that starts it again whenever it ends. */
export class Supervised {
  #child: ChildProcess | undefined;
  #printed = "";
  #wanted = false;
  #restart: NodeJS.Timeout | undefined;
  /** Of the process of now. Endings that the harness asked for are not reported. */
  #end = { isExpected: false };

  /**
   * @param begin arguments of the next start, and what to do with the child
   * @param onEnded hears of each end that nobody asked for
   */
  constructor(
    readonly command: Command,
    private readonly begin: () => {
      readonly args: readonly string[];
      readonly started?: (child: ChildProcess) => void;
    },
    private readonly onEnded: (ending: Ending) => void,
  ) {}

  get pid(): number | undefined {
    return this.isRunning ? this.#child?.pid : undefined;
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  start(): void {
    this.#wanted = true;
    clearTimeout(this.#restart);
    if (this.isRunning) return;
    const { args, started } = this.begin();
    const env = { ...process.env, ...this.command.environment };
    const child = startChild(process.execPath, [this.command.program, ...args], {
      stdio: ["pipe", "ignore", "pipe"],
      env,
    });
    this.#child = child;
    this.#printed = "";
    // The process before may still have to close: each has its own.
    const end = { isExpected: false };
    this.#end = end;
    child.stdin?.on("error", () => {});
    child.stderr?.on("data", (text) => {
      this.#printed += String(text);
      appendFileSync(this.command.log, String(text));
    });
    child.on("error", () => {});
    child.on("close", (code, signal) => {
      if (!end.isExpected) this.onEnded({ code, signal, printed: this.#printed });
      if (this.#wanted) this.#restart = setTimeout(() => this.start(), restartPauseMs);
    });
    started?.(child);
  }

  /** Sends a signal. Its end, should it come to that, is one that the harness asked for. */
  end(signal: "SIGKILL" | "SIGTERM"): void {
    this.#end.isExpected = true;
    this.#child?.kill(signal);
  }

  /** Sends a signal that ends nothing. */
  signal(signal: "SIGSTOP" | "SIGCONT" | "SIGHUP"): void {
    this.#child?.kill(signal);
  }

  /** Ends it and does not start it again; by force where it takes longer. @returns whether it ended by itself */
  async stop(maxMs: number): Promise<boolean> {
    this.#wanted = false;
    clearTimeout(this.#restart);
    const child = this.#child;
    if (child === undefined || !this.isRunning) return true;
    const ended = once(child, "close");
    this.end("SIGTERM");
    const inTime = await Promise.race([
      ended.then(() => true),
      new Promise((resolve) => setTimeout(resolve, maxMs, false)),
    ]);
    if (inTime !== true) {
      child.kill("SIGCONT");
      child.kill("SIGKILL");
      await ended;
    }
    return inTime === true;
  }

  /** Resolves when the process of now has ended; false when that takes longer. */
  async ended(maxMs: number): Promise<boolean> {
    const child = this.#child;
    if (child === undefined || !this.isRunning) return true;
    const late = new Promise((resolve) => setTimeout(resolve, maxMs, false));
    return (await Promise.race([once(child, "close").then(() => true), late])) === true;
  }

  /** Process ids of its children: the workers of a service. */
  children(): number[] {
    const { pid } = this;
    return pid === undefined ? [] : childrenOf(pid);
  }
}

function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
    return text === "" ? [] : text.split(" ").map(Number);
  } catch {
    return [];
  }
}

/** Arguments of `serve`. Streams say something every second, so that a reader notices one that is dead. */
export function serveArguments(databaseUrl: string, port: number): string[] {
  return ["serve", "--database-url", databaseUrl, "--listen", `127.0.0.1:${port}`].concat([
    "--workers",
    "2",
    "--heartbeat-ms",
    "1000",
    "--drain-ms",
    "2000",
    "--log-level",
    "warn",
  ]);
}

/** How the loader gets the network's events. */
export type Feed = "file" | "pipe";

/** Blocks before the newest committed one that a feed begins with: what is there already is passed over. */
const overlapBlocks = 3;

/**
 * What the next loader reads: a recording that begins shortly before the newest committed block, and grows with the
 * chain. A file that it follows, or its standard input.
 */
export function loaderFeed(chain: Chain, committed: number, feed: Feed, directory: string, databaseUrl: string) {
  const base = chain.bytesAfter(Math.max(0, committed - overlapBlocks));
  const args = ["load", "--database-url", databaseUrl];
  if (feed === "pipe") {
    const started = (child: ChildProcess): void => {
      child.stdin?.write(base);
      chain.readAlong((block) => {
        if (child.stdin?.writable === true) child.stdin.write(block);
      });
    };
    return { args: [...args, "-"], started };
  }
  const file = join(directory, "feed.recording");
  writeFileSync(file, base);
  chain.readAlong((block) => appendFileSync(file, block));
  return { args: [...args, "--follow", file] };
}

const fakeClockLibraries = [
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/faketime/libfaketimeMT.so.1",
];

/** The wall clock of our children alone: their environment, and what sets it; undefined without libfaketime. */
export function fakeClock(directory: string) {
  const library = fakeClockLibraries.find((path) => existsSync(path));
  if (library === undefined) return undefined;
  const file = join(directory, "clock");
  const step = (seconds: number): void => writeFileSync(file, `${seconds < 0 ? "" : "+"}${seconds}\n`);
  step(0);
  const environment = {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_CACHE_DURATION: "1",
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
    DONT_FAKE_MONOTONIC: "1",
    NO_FAKE_STAT: "1",
  };
  return { environment, step };
}

/** How long a child may go on with the time before a step: it looks at the file once a second. */
export const clockStepMs = 1_300;
