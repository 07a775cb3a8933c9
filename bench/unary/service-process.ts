import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { pinnedTo } from "./pinned.js";
import { cpuMicrosOf, residentMibOf } from "./process-usage.js";
import type { MeasuredServer } from "./server-process.js";

/** Longest wait for the service to listen, which it does once it has read the books. */
const listenMsMax = 60_000;
const readyPollMs = 10;

/** What is started, where that is not this checkout as it comes. */
export interface ServiceStart {
  /** Folder of another checkout, which must be built. */
  readonly checkout?: string;
  /** Let it use every core; by default it has the first. */
  readonly everyCore?: boolean;
  /** Further flags of `serve`. */
  readonly flags?: readonly string[];
}

/** `marketd serve` in processes of its own. */
export class ServiceProcess implements MeasuredServer {
  readonly name: string;
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(name: string, url: string, child: ChildProcess) {
    this.name = name;
    this.url = url;
    this.#child = child;
  }

  /** Starts it, and waits until it is ready. */
  static async start(
    name: string,
    databaseUrl: string,
    workers: number,
    options: ServiceStart = {},
  ): Promise<ServiceProcess> {
    const { checkout = fileURLToPath(new URL("../../../", import.meta.url)), everyCore, flags = [] } = options;
    const main = join(checkout, "dist", "src", "main.js");
    const common = ["--database-url", databaseUrl, "--listen", "127.0.0.1:0", "--log-level", "info"];
    const args = [main, "serve", ...common, "--workers", String(workers), ...flags];
    const [program, all] = everyCore === true ? [process.execPath, args] : pinnedTo(0, process.execPath, args);
    const child = spawn(program, all, { stdio: ["ignore", "ignore", "pipe"] });
    const listening = new Promise<string>((resolve, reject) => {
      const late = (): void => reject(new Error(`marketd serve with ${workers} workers did not listen in time`));
      setTimeout(late, listenMsMax).unref();
      child.once("exit", (code) => reject(new Error(`marketd serve ended with ${code}`)));
      createInterface({ input: child.stderr }).on("line", (line) => {
        const match = /serving on ([^\s";]+)/.exec(line)?.[1];
        if (match !== undefined) resolve(match);
      });
    });
    const url = await listening.catch((error: unknown) => {
      child.kill("SIGKILL");
      throw error;
    });
    while ((await fetch(`${url}/readyz`)).status !== 200)
      await new Promise((resolve) => setTimeout(resolve, readyPollMs));
    return new ServiceProcess(name, url, child);
  }

  /** Process ids of the workers. */
  get workerPids(): number[] {
    const { pid } = this.#child;
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").match(/\d+/g) ?? [];
    return children.map(Number);
  }

  /** Resident memory of each worker. */
  residentMib(): number[] {
    return this.workerPids.map(residentMibOf);
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** Of all its processes together. Not by their metrics, which may be half a second old. */
  async cpuMicros(): Promise<number> {
    return [this.#child.pid ?? 0, ...this.workerPids].reduce((sum, pid) => sum + cpuMicrosOf(pid), 0);
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill();
    await ended;
  }
}
