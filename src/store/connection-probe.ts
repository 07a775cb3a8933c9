import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createConnection, type Connection as DriverConnection, type RowDataPacket } from "mysql2/promise";
import { type Connection, driverOptions } from "./database.js";
import type { DatabaseAddress } from "./database-url.js";
import { openSocket, silentPeerError } from "./driver-socket.js";

/** A connection that is silent for so long within a transaction, in milliseconds, is asked after on another one. */
export const probeAfterMs = 1_000;

/** Time limit for connecting, and for the question, in milliseconds each. */
export const probeTimeoutMs = 1_000;

/** The pause before the next question, in milliseconds: a question that got lost must not delay it by much. */
export const probePauseMs = 250;

/** What the server has sent must arrive within this time, in milliseconds. */
export const probeGraceMs = 100;

/** Names a server. Behind a balancer another one may answer, which knows nothing of our session. */
const serverName = "CONCAT_WS(':', @@hostname, @@port, @@server_id)";

/**
 * Tells a dead connection from a slow statement, which look the same from here: the server's list of sessions says
 * whether it works on what we asked. A dead connection is destroyed, and its session is ended, so that its locks go.
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

  /** The probe of a connection, which must not be in use. @throws Failure `unavailable` */
  static async of(connection: Connection, socket: Socket, address: DatabaseAddress): Promise<ConnectionProbe> {
    const sql = `SELECT CONNECTION_ID() AS id, ${serverName} AS server`;
    const [row] = await connection.query<{ id: bigint; server: string }>(sql);
    return new ConnectionProbe(socket, address, row?.id ?? 0n, row?.server ?? "");
  }

  /** Watches from now on, until `stop`. */
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

  /** Never rejects: where the server cannot be asked, the time limit of the silent connection decides. */
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
      // See above; and a session that has gone needs no KILL.
    } finally {
      socket.destroy();
    }
  }

  /** Whether this server has our session no more, or has nothing to do for it. */
  async #isIdle(connection: DriverConnection): Promise<boolean> {
    const [rows] = await connection.query<RowDataPacket[]>(
      `SELECT ${serverName} AS server,
        (SELECT command FROM information_schema.processlist WHERE id = ${this.#threadId}) AS command`,
    );
    const { server, command } = (rows[0] ?? {}) as { server?: string; command?: string | null };
    return server === this.#server && (command === null || command === "Sleep");
  }
}
