import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { asText } from "./column.js";
import { type Connection, ServerConnection, silentPeerError } from "./connection.js";
import { isUnreachable } from "./database-error.js";
import type { DatabaseAddress } from "./database-url.js";

/** Silence within a transaction after which another connection asks about it, in milliseconds. */
export const probeAfterMs = 1_000;

/** Time limit for connecting, and for the query, in milliseconds each. */
export const probeTimeoutMs = 1_000;

/** Pause before the next query, in milliseconds. Short, so that a lost query does not delay the result. */
export const probePauseMs = 250;

/** The time in which data that the server has sent must arrive, in milliseconds. */
export const probeGraceMs = 100;

/** Identifies a server. Behind a balancer the probe may reach another one, which does not know our session. */
const serverName = asText("CONCAT_WS(':', @@hostname, @@port, @@server_id)");

/**
 * Distinguishes a dead connection from a slow statement: the server's list of sessions says whether it works on the
 * statement. A dead connection is destroyed, and its session is killed, so that its locks are released.
 */
export class ConnectionProbe {
  #timer: NodeJS.Timeout | undefined;
  #bytes = 0;

  private constructor(
    private readonly socket: Socket,
    private readonly address: DatabaseAddress,
    private readonly threadId: string,
    private readonly server: string,
  ) {}

  /** A probe for a connection, which must be idle now. @throws Failure `unavailable` */
  static async of(connection: ServerConnection, address: DatabaseAddress): Promise<ConnectionProbe> {
    const sql = `SELECT ${asText("CONNECTION_ID()")} AS id, ${serverName} AS server`;
    const [row] = await connection.query<{ id: string; server: string }>(sql);
    return new ConnectionProbe(connection.socket, address, row?.id ?? "0", row?.server ?? "");
  }

  /** Watches until `stop`. */
  start(): void {
    this.#bytes = this.socket.bytesRead + this.socket.bytesWritten;
    this.#checkAfter(probeAfterMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #checkAfter(pauseMs: number): void {
    this.#timer = setTimeout(() => void this.#check(), pauseMs).unref();
  }

  async #check(): Promise<void> {
    const timer = this.#timer;
    if (this.#isSilent()) await this.#ask(() => this.#timer === timer && this.#isSilent());
    if (this.#timer !== timer) return;
    if (this.#isSilent()) this.#checkAfter(probePauseMs);
    else this.start();
  }

  #isSilent(): boolean {
    return this.socket.bytesRead + this.socket.bytesWritten === this.#bytes;
  }

  /** Never rejects: if the server cannot be asked, the time limit of the silent connection decides. */
  async #ask(isStillSilent: () => boolean): Promise<void> {
    let other: ServerConnection | undefined;
    try {
      const settings = { statementTimeoutMs: probeTimeoutMs };
      other = await ServerConnection.open({ ...this.address, database: "" }, settings, probeTimeoutMs);
      if (!(await this.#isIdle(other))) return;
      await sleep(probeGraceMs, undefined, { ref: false });
      if (!isStillSilent()) return;
      await this.#end(other);
      this.socket.destroy(silentPeerError("the connection died half-way"));
    } catch {
      // No response: the session may still have its locks, and the next check tries again.
    } finally {
      other?.destroy();
    }
  }

  /** Ends the session. @throws an error if the server did not answer */
  async #end(other: Connection): Promise<void> {
    try {
      await other.run(`KILL ${this.threadId}`);
    } catch (error) {
      // It is gone, or it may not be killed: nothing more can be done.
      if (isUnreachable(error)) throw error;
    }
  }

  /** Whether this server has no session of ours, or one with nothing to do. */
  async #isIdle(connection: Connection): Promise<boolean> {
    const [row] = await connection.query<{ server: string; command: string | null }>(
      `SELECT ${serverName} AS server,
        ${asText(`(SELECT command FROM information_schema.processlist WHERE id = ${this.threadId})`)} AS command`,
    );
    return row?.server === this.server && (row.command === null || row.command === "Sleep");
  }
}
