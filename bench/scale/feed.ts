import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Database } from "../../src/store/database.js";

const pollMs = 5;
const main = fileURLToPath(new URL("../../src/main.js", import.meta.url));

/** `marketd load -` in a process of its own, which gets its blocks through a pipe. */
export class Feed {
  readonly #child: ChildProcess;
  #ended = false;

  constructor(databaseUrl: string) {
    const args = [main, "load", "--database-url", databaseUrl, "--log-level", "error", "-"];
    this.#child = spawn(process.execPath, args, { stdio: ["pipe", "ignore", "inherit"] });
    this.#child.once("exit", () => {
      this.#ended = true;
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Resolves when the pipe takes more. */
  async write(block: Buffer): Promise<void> {
    const { stdin } = this.#child;
    if (stdin?.write(block) === false) await once(stdin, "drain");
  }

  /** Resolves when the database has a block. @throws Error if the loader ended */
  async committed(database: Database, height: number): Promise<void> {
    for (;;) {
      const [row] = await database.query<{ height: bigint }>("SELECT height FROM progress");
      if (row !== undefined && row.height >= BigInt(height)) return;
      if (this.#ended) throw new Error("marketd load ended");
      await sleep(pollMs);
    }
  }

  async stop(): Promise<void> {
    if (this.#ended) return;
    const exited = once(this.#child, "exit");
    this.#child.stdin?.end();
    await exited;
  }
}
