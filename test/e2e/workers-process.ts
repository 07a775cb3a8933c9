import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { killGroup, until } from "../embedded/processes.js";

const ownProgram = fileURLToPath(new URL("../../bin/marketd", import.meta.url));
const startMaxMs = 20_000;

/** How a process ended, and what it had said on standard error. */
export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly printed: string;
  readonly tookMs: number;
}

/** How the command is started, where that is not as usual. */
export interface ProgramStart {
  /** Path of the command. */
  readonly program?: string;
  /** Path of the Node that runs it. */
  readonly node?: string;
  /** Words of a shell before it, such as `ulimit -n 150;`. */
  readonly shell?: string;
}

/** `marketd serve` with several workers, in a process group of its own as a terminal makes one. */
export class WorkersProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown[]>;
  #printed = "";

  constructor(
    args: readonly string[],
    environment: Readonly<Record<string, string>> = {},
    { program = ownProgram, node = process.execPath, shell }: ProgramStart = {},
  ) {
    const env = { ...process.env, ...environment };
    const words = [node, program, "serve", ...args];
    const [file = "", ...rest] = shell === undefined ? words : ["sh", "-c", `${shell} exec "$@"`, "sh", ...words];
    this.#child = spawn(file, rest, {
      stdio: ["ignore", "ignore", "pipe"],
      detached: true,
      env,
    });
    this.#child.stderr?.on("data", (text) => {
      this.#printed += String(text);
    });
    this.#ended = once(this.#child, "close");
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error("it did not start");
    return this.#child.pid;
  }

  get printed(): string {
    return this.#printed;
  }

  /** Resolves with the base URL once it says that it serves. @throws Error when it ends instead */
  async url(): Promise<string> {
    await until("serving", startMaxMs, () => {
      if (this.#child.exitCode !== null) throw new Error(`marketd serve ended: ${this.#printed}`);
      return /serving on \S+/.test(this.#printed);
    });
    return /serving on ([^\s";]+)/.exec(this.#printed)?.[1] ?? "";
  }

  /** Resolves with the base URL once it is ready. */
  async ready(): Promise<string> {
    const url = await this.url();
    await until("ready", startMaxMs, async () => (await statusOf(`${url}/readyz`)) === 200);
    return url;
  }

  /** Process ids of the workers that run now. */
  workers(): number[] {
    return childrenOf(this.pid);
  }

  /** Sends a signal to the primary, or to the whole group as a terminal does. */
  async stop(signal: NodeJS.Signals, to: "primary" | "group" = "primary"): Promise<Ending> {
    const startedAt = performance.now();
    process.kill(to === "group" ? -this.pid : this.pid, signal);
    return { ...(await this.ending()), tookMs: performance.now() - startedAt };
  }

  async ending(): Promise<Ending> {
    await this.#ended;
    return { code: this.#child.exitCode, signal: this.#child.signalCode, printed: this.#printed, tookMs: 0 };
  }

  /** Whatever is left of it ends now. */
  async destroy(): Promise<void> {
    killGroup(this);
    await this.#ended;
  }
}

/** The status of a GET on a connection of its own; 0 when none is answered. */
export async function statusOf(url: string): Promise<number> {
  try {
    const response = await fetch(url, { headers: { connection: "close" }, signal: AbortSignal.timeout(5_000) });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return 0;
  }
}

/** A process's children, on systems that tell so under /proc. */
export function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return text === "" ? [] : text.split(" ").map(Number);
}

/** Whether a process is there, and not only its remains. */
export function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
