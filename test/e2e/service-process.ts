import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { withoutLog } from "../support/log-lines.js";

const program = fileURLToPath(new URL("../../bin/marketd", import.meta.url));
const readyMaxMs = 20_000;
const pollMs = 50;

/** Runs a command of ours to its end. @throws Error with what it printed when it fails */
export function runMarketd(...args: string[]): Promise<void> {
  return runMarketdUntil(new AbortController().signal, ...args);
}

/** Runs a command of ours until it ends, or is ended by `signal`. @throws Error with what it printed when it fails */
export async function runMarketdUntil(signal: AbortSignal, ...args: string[]): Promise<void> {
  const child = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "ignore", "pipe"] });
  let printed = "";
  child.stderr.on("data", (text) => {
    printed += String(text);
  });
  signal.addEventListener("abort", () => child.kill("SIGTERM"), { once: true });
  const [code] = await once(child, "close");
  if (code !== 0 && !signal.aborted) throw new Error(`marketd ${args[0]} ended with ${code}: ${withoutLog(printed)}`);
}

/** `marketd serve` as a process of its own, which can be killed and started again on its port. */
export class ServiceProcess {
  readonly url: string;
  readonly #args: readonly string[];
  #child: ChildProcess | undefined;
  #printed = "";

  constructor(databaseUrl: string, port: number, ...more: string[]) {
    this.url = `http://127.0.0.1:${port}`;
    this.#args = ["serve", "--database-url", databaseUrl, "--listen", `127.0.0.1:${port}`, "--workers", "1", ...more];
  }

  /**
   * Resolves when `/readyz` answers with `status`, which is 200 unless there is nothing to serve yet.
   * @throws Error when it does not in time, or ends
   */
  async start(status = 200): Promise<void> {
    await this.startUntil(async () => (await this.#readyStatus()) === status);
  }

  /** Resolves when `started` says so. @throws Error when it does not in time, or the process ends */
  async startUntil(started: () => boolean | Promise<boolean>): Promise<void> {
    const child = spawn(process.execPath, [program, ...this.#args], { stdio: ["ignore", "ignore", "pipe"] });
    this.#printed = "";
    child.stderr.on("data", (text) => {
      this.#printed += String(text);
    });
    this.#child = child;
    const until = Date.now() + readyMaxMs;
    while (!(await started())) {
      if (child.exitCode !== null || Date.now() > until) {
        await this.kill();
        throw new Error(`marketd serve is not up: ${this.#printed}`);
      }
      await delay(pollMs);
    }
  }

  /** What it has written to standard error, since it was last started. */
  get printed(): string {
    return this.#printed;
  }

  /** Asks it to end. Resolves with its exit code. */
  async stop(): Promise<number | null> {
    const child = this.#child;
    if (child === undefined) return null;
    child.kill("SIGTERM");
    if (child.exitCode === null && child.signalCode === null) await once(child, "close");
    return child.exitCode;
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "close");
  }

  async #readyStatus(): Promise<number | undefined> {
    try {
      return (await fetch(`${this.url}/readyz`)).status;
    } catch {
      return undefined;
    }
  }
}
