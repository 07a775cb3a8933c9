import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { openDatabase } from "../../src/store/database.js";

const program = fileURLToPath(new URL("../../bin/marketd", import.meta.url));

/** `marketd load --follow`, as a process of its own. */
export class Follower {
  readonly child: ChildProcess;
  printed = "";
  readonly #store;

  constructor(url: string, source: string) {
    const args = [program, "load", "--database-url", url, "--follow", "--log-level", "debug", source];
    this.child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
    this.child.stderr?.on("data", (text) => {
      this.printed += String(text);
    });
    this.#store = openDatabase(url, { connectionsMax: 1 });
  }

  /** Waits until the event with this stream sequence number is loaded. */
  async reaches(sequence: bigint | undefined): Promise<void> {
    const reached = async (): Promise<bigint | undefined> => {
      if (this.child.exitCode !== null) throw new Error(`the loader ended: ${this.printed}`);
      const [row] = await this.#store.query<{ s: bigint }>("SELECT stream_sequence AS s FROM progress");
      return row?.s;
    };
    await expect.poll(reached, { timeout: 60_000 }).toBe(sequence);
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    await this.#store.close();
    if (this.child.exitCode !== null || this.child.signalCode !== null) return this.child.exitCode;
    const ended = once(this.child, "exit");
    this.child.kill(signal);
    await ended;
    return this.child.exitCode;
  }
}
