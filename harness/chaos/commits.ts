import type { Connection, RowDataPacket } from "mysql2/promise";
import { controlTimeoutMs } from "./database-server.js";

const pollMs = 100;
/** Polls that are remembered: an hour of them. */
const pollsMax = 36_000;

/** One database server, or several that hold the same. */
export interface Connectable {
  /** A connection with all rights. */
  connect(): Promise<Connection>;
  /** What is true on a server of several while it has what the others commit, as a condition of SQL. */
  readonly isServing?: string;
}

interface Poll {
  readonly at: number;
  readonly height: number;
}

/** Asks the database itself, past every proxy, which block is committed: what a reader can be held to. */
export class Commits {
  #polls: Poll[] = [];
  #connection: Connection | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(
    private readonly database: Connectable,
    private readonly chainId: () => string,
  ) {}

  start(): void {
    this.#timer = setTimeout(() => void this.#poll(), pollMs);
  }

  /** The newest committed block of the chain; 0: none. */
  get height(): number {
    return this.#polls.at(-1)?.height ?? 0;
  }

  /** The newest block that was certainly committed at a time of `performance.now()`. */
  heightAt(time: number): number {
    for (let index = this.#polls.length - 1; index >= 0; index--) {
      const poll = this.#polls[index];
      if (poll !== undefined && poll.at <= time) return poll.height;
    }
    return 0;
  }

  /** When block `height` was first seen; undefined: not yet. */
  seenAt(height: number): number | undefined {
    if (this.height < height) return undefined;
    let index = this.#polls.length - 1;
    while (index > 0 && (this.#polls[index - 1]?.height ?? 0) >= height) index--;
    return this.#polls[index]?.at;
  }

  /** Forgets everything: the database is to hold another chain. */
  forget(): void {
    this.#polls = [];
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#connection?.destroy();
  }

  async #poll(): Promise<void> {
    try {
      if (this.#connection === undefined) {
        this.#connection = await this.database.connect();
        this.#connection.on("error", () => {});
      }
      const sql = `SELECT chain_id, height FROM marketd.progress WHERE ${this.database.isServing ?? "TRUE"}`;
      const polls = this.#polls;
      const [rows] = await this.#connection.query<RowDataPacket[]>({ sql, timeout: controlTimeoutMs });
      const row = rows[0];
      if (row === undefined) this.#disconnect();
      const height = Number(row?.["height"] ?? 0);
      const isCurrent = String(row?.["chain_id"]) === this.chainId() && polls === this.#polls;
      if (isCurrent && height > this.height) this.#polls.push({ at: performance.now(), height });
      if (this.#polls.length > pollsMax) this.#polls.splice(0, pollsMax / 2);
    } catch (error) {
      // A table that is not there yet is no reason for a new connection.
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code !== "ER_NO_SUCH_TABLE" && code !== "ER_BAD_DB_ERROR") {
        this.#disconnect();
      }
    }
    if (!this.#closed) this.start();
  }

  /** The next poll asks another server, if there are several. */
  #disconnect(): void {
    this.#connection?.destroy();
    this.#connection = undefined;
  }
}
