import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createConnection, type Connection as DriverConnection, type RowDataPacket } from "mysql2/promise";
import type { DatabaseAddress } from "./database-url.js";
import { type Connection, driverOptions } from "./driver-connection.js";
import { openSocket, silentPeerError } from "./driver-socket.js";

/** Silence within a transaction after which another connection asks about it, in milliseconds. */
export const probeAfterMs = 1_000;

/** Time limit for connecting, and for the query, in milliseconds each. */
export const probeTimeoutMs = 1_000;

/** Pause before the next query, in milliseconds. Short, so that a lost query does not delay the result. */
export const probePauseMs = 250;

/** The time in which data that the server has sent must arrive, in milliseconds. */
export const probeGraceMs = 100;

/** Identifies a server. Behind a balancer the probe may reach another one, which does not know our session. */
const serverName = "CONCAT_WS(':', @@hostname, @@port, @@server_id)";

/**
 * Distinguishes a dead connection from a slow statement: the server's list of sessions says whether it works on the
 * statement. A dead connection is destroyed, and its session is killed, so that its locks are released.
 */
export class ConnectionProbe {
  readonly #socket: Socket;
  readonly #address: DatabaseAddress;
  readonly #threadId: bigint;
  readonly #server: string;
  #timer: NodeJS.Timeout | undefined;
  #bytes = 0;

  private constructor(socket: Socket, address: DatabaseAddress, threadId: bigint, server: string) {
    this.#socket = socket;
    this.#address = address;
    this.#threadId = threadId;
    this.#server = server;
  }

  /** A probe for a connection, which must be idle now. @throws Failure `unavailable` */
  static async of(connection: Connection, socket: Socket, address: DatabaseAddress): Promise<ConnectionProbe> {
    const sql = `SELECT CONNECTION_ID() AS id, ${serverName} AS server`;
    const [row] = await connection.query<{ id: bigint; server: string }>(sql);
    return new ConnectionProbe(socket, address, row?.id ?? 0n, row?.server ?? "");
  }

  /** Watches until `stop`. */
  start(): void {
    this.#bytes = this.#socket.bytesRead + this.#socket.bytesWritten;
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
    return this.#socket.bytesRead + this.#socket.bytesWritten === this.#bytes;
  }

  /** Never rejects: if the server cannot be asked, the time limit of the silent connection decides. */
  async #ask(isStillSilent: () => boolean): Promise<void> {
    const socket = openSocket(this.#address);
    socket.setTimeout(probeTimeoutMs, () => socket.destroy(silentPeerError("no response")));
    try {
      const { database: _, ...options } = driverOptions(this.#address, { connectTimeoutMs: probeTimeoutMs });
      const connection = await createConnection({ ...options, stream: () => socket });
      connection.on("error", () => {});
      if (!(await this.#isIdle(connection))) return;
      await sleep(probeGraceMs, undefined, { ref: false });
      if (!isStillSilent()) return;
      this.#socket.destroy(silentPeerError("the connection died half-way"));
      await connection.query(`KILL ${this.#threadId}`);
    } catch {
      // See above. A session that is gone needs no KILL.
    } finally {
      socket.destroy();
    }
  }

  /** Whether this server has no session of ours, or one with nothing to do. */
  async #isIdle(connection: DriverConnection): Promise<boolean> {
    const [rows] = await connection.query<RowDataPacket[]>(
      `SELECT ${serverName} AS server,
        (SELECT command FROM information_schema.processlist WHERE id = ${this.#threadId}) AS command`,
    );
    const { server, command } = (rows[0] ?? {}) as { server?: string; command?: string | null };
    return server === this.#server && (command === null || command === "Sleep");
  }
}
