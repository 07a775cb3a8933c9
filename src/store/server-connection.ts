import type { Socket } from "node:net";
import { type ConnectionOptions, createConnection, type Connection as DriverConnection } from "mysql2/promise";
import { toDatabaseFailure } from "./database-error.js";
import type { DatabaseAddress } from "./database-url.js";
import { type Connection, driverOptions, sessionSettings, wrapConnection } from "./driver-connection.js";
import { openSocket, silentPeerError } from "./driver-socket.js";

/**
 * How long a suspect connection may be silent: during a ping, or during a statement when another connection proved
 * dead. Longer than a busy server takes to begin a response.
 */
export const probeTimeoutMs = 1_000;

/** How long the server may take to read the goodbye. */
const endTimeoutMs = 1_000;

/** The longest delay of Node's timers. */
const timerMsMax = 2 ** 31 - 1;

/** Options for opening a connection. */
export interface ServerConnectionOptions {
  /** Time limit for connecting, including the session's settings. */
  readonly connectTimeoutMs: number;
  /** The longest silence of the server during a statement; Infinity: no limit. */
  readonly statementTimeoutMs: number;
  /** Whether a query may hold several statements. */
  readonly multipleStatements?: boolean;
}

/**
 * A connection that is closed, with its statements, when the server is silent for too long. The driver has no such
 * limit, and only half-closes its socket, so the socket is ours.
 */
export class ServerConnection {
  readonly connection: Connection;
  readonly #driver: DriverConnection;
  readonly #socket: Socket;
  readonly #statementTimeoutMs: number;
  /** Current statements, with how to reject each. */
  readonly #waiting = new Set<(error: unknown) => void>();
  #timer: NodeJS.Timeout | undefined;
  #heardAt = performance.now();
  #doubted = false;

  private constructor(driver: DriverConnection, socket: Socket, options: ServerConnectionOptions) {
    this.#driver = driver;
    this.#socket = socket;
    this.#statementTimeoutMs = options.statementTimeoutMs;
    this.connection = wrapConnection(driver, (statement) => this.#watch(statement));
    // If the connection breaks while nobody waits, the next user notices.
    driver.on("error", () => {});
    // The driver drops the statements of a connection that is being ended.
    socket.once("close", () => this.#rejectAll());
    socket.once("finish", () => socket.destroy());
  }

  /** @throws Failure `unavailable`, or the server's refusal */
  static async open(address: DatabaseAddress, options: ServerConnectionOptions): Promise<ServerConnection> {
    const { connectTimeoutMs, multipleStatements = false } = options;
    const socket = openSocket(address);
    const limit = setTimeout(() => {
      afterInput(() => socket.destroy(silentPeerError(`no connection within ${connectTimeoutMs} ms`)));
    }, connectTimeoutMs);
    try {
      const { connectionLimit, connectTimeout, ...common } = driverOptions(address);
      const config: ConnectionOptions = { ...common, connectTimeout: 0, multipleStatements, stream: () => socket };
      const driver = await createConnection(config);
      const opened = new ServerConnection(driver, socket, options);
      await opened.connection.run(sessionSettings);
      return opened;
    } catch (error) {
      socket.destroy();
      throw toDatabaseFailure(error);
    } finally {
      clearTimeout(limit);
    }
  }

  /** Whether it broke, or was closed. */
  get isClosed(): boolean {
    return this.#socket.destroyed || this.#socket.writableEnded;
  }

  /** The time since the server's last reply, in milliseconds. */
  get idleMs(): number {
    return performance.now() - this.#heardAt;
  }

  /** Whether it must respond before it is trusted again. */
  get isDoubted(): boolean {
    return this.#doubted;
  }

  /** Pings the server; returns whether it is alive. Never rejects; a silent connection is destroyed. */
  async isAlive(): Promise<boolean> {
    this.doubt();
    try {
      await this.#watch(this.#driver.ping());
      return true;
    } catch {
      this.destroy();
      return false;
    }
  }

  /** Another connection to the server proved dead: from now on this one may be silent for a shorter time. */
  doubt(): void {
    // A running limit is not extended.
    const isLimited = this.#doubted;
    this.#doubted = true;
    if (!isLimited && this.#waiting.size > 0) this.#limitSilence();
  }

  /** Closes it at once; current statements fail. */
  destroy(): void {
    this.#socket.destroy(silentPeerError("the connection was given up"));
  }

  /** Says goodbye to the server, which otherwise logs an aborted connection. Never rejects. */
  async end(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#socket.once("close", () => resolve()));
    if (this.#socket.destroyed) return;
    const limit = setTimeout(() => this.#socket.destroy(), endTimeoutMs);
    this.#driver.end().catch(() => {});
    await closed;
    clearTimeout(limit);
  }

  #watch<T>(statement: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const done = (): void => {
        this.#waiting.delete(reject);
        this.#heardAt = performance.now();
        this.#doubted = false;
        if (this.#waiting.size === 0) clearTimeout(this.#timer);
      };
      this.#waiting.add(reject);
      if (this.#waiting.size === 1) this.#limitSilence();
      statement.then(resolve, reject);
      statement.then(done, done);
    });
  }

  /** Closes the connection unless it receives something in time; each byte restarts the limit. */
  #limitSilence(): void {
    clearTimeout(this.#timer);
    const limitMs = this.#doubted ? Math.min(probeTimeoutMs, this.#statementTimeoutMs) : this.#statementTimeoutMs;
    if (limitMs > timerMsMax) return;
    const { bytesRead } = this.#socket;
    const timer = setTimeout(() => {
      afterInput(() => {
        if (this.#timer !== timer || this.#waiting.size === 0) return;
        if (this.#socket.bytesRead === bytesRead)
          this.#socket.destroy(silentPeerError(`no response for ${limitMs} ms`));
        else this.#limitSilence();
      });
    }, limitMs);
    this.#timer = timer;
  }

  #rejectAll(): void {
    clearTimeout(this.#timer);
    const lost = silentPeerError("the connection was given up");
    // The driver's own error takes precedence.
    setImmediate(() => {
      for (const reject of this.#waiting) reject(lost);
    });
  }
}

/** If the event loop was late, a reply may be waiting: it is read before the decision. */
function afterInput(verdict: () => void): void {
  setImmediate(verdict);
}
