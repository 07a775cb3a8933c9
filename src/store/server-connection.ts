import type { Socket } from "node:net";
import { type ConnectionOptions, createConnection, type Connection as DriverConnection } from "mysql2/promise";
import { toDatabaseFailure } from "./database-error.js";
import type { DatabaseAddress } from "./database-url.js";
import { type Connection, driverOptions, sessionSettings, wrapConnection } from "./driver-connection.js";
import { openSocket, silentPeerError } from "./driver-socket.js";

/**
 * How long a connection in doubt may say nothing: a ping, or a statement that waits when another connection was found
 * dead. Longer than a busy server takes to begin with a response.
 */
export const probeTimeoutMs = 1_000;

/** How long the server may take to hear goodbye. */
const endTimeoutMs = 1_000;

/** The longest limit that Node's timers keep. */
const timerMsMax = 2 ** 31 - 1;

/** How a connection is opened. */
export interface ServerConnectionOptions {
  /** For all of it, the session's settings included. */
  readonly connectTimeoutMs: number;
  /** Longest silence of the server during a statement; Infinity: any. */
  readonly statementTimeoutMs: number;
  /** Whether one text may hold several statements. */
  readonly multipleStatements?: boolean;
}

/**
 * A connection to the server that is given up, with its statements, when the server is silent for too long. The driver
 * has no such limits, and only half-closes its socket, so the socket is ours.
 */
export class ServerConnection {
  readonly connection: Connection;
  readonly #driver: DriverConnection;
  readonly #socket: Socket;
  readonly #statementTimeoutMs: number;
  /** Statements under way, by how to reject them. */
  readonly #waiting = new Set<(error: unknown) => void>();
  #timer: NodeJS.Timeout | undefined;
  #heardAt = performance.now();
  #doubted = false;

  private constructor(driver: DriverConnection, socket: Socket, options: ServerConnectionOptions) {
    this.#driver = driver;
    this.#socket = socket;
    this.#statementTimeoutMs = options.statementTimeoutMs;
    this.connection = wrapConnection(driver, (statement) => this.#watch(statement));
    // What breaks while nobody waits for a response is noticed by the next one who wants the connection.
    driver.on("error", () => {});
    // The driver forgets the statements of a connection that it was told to end.
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
      const { connectionLimit, queueLimit, connectTimeout, ...common } = driverOptions(address);
      const config: ConnectionOptions = { ...common, connectTimeout: 0, multipleStatements, stream: () => socket };
      const driver = await createConnection(config);
      const opened = new ServerConnection(driver, socket, options);
      for (const setting of sessionSettings) await opened.connection.run(setting);
      return opened;
    } catch (error) {
      socket.destroy();
      throw toDatabaseFailure(error);
    } finally {
      clearTimeout(limit);
    }
  }

  /** Whether it broke, or was given up. */
  get isClosed(): boolean {
    return this.#socket.destroyed || this.#socket.writableEnded;
  }

  /** How long ago the server last answered, in milliseconds. */
  get idleMs(): number {
    return performance.now() - this.#heardAt;
  }

  /** Whether it has to answer before it is trusted. */
  get isDoubted(): boolean {
    return this.#doubted;
  }

  /** Whether the server is still there: asks it. Never rejects; one that is silent is destroyed. */
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

  /** Another connection to the same server turned out to be dead: from now on this one may be silent for less long. */
  doubt(): void {
    // A limit that runs already is not put off.
    const isLimited = this.#doubted;
    this.#doubted = true;
    if (!isLimited && this.#waiting.size > 0) this.#limitSilence();
  }

  /** Breaks it at once; statements under way fail. */
  destroy(): void {
    this.#socket.destroy(silentPeerError("the connection was given up"));
  }

  /** Says goodbye to the server, which would otherwise log an aborted connection. Never rejects. */
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

  /** Gives the connection up unless it says something in time; begins again with each byte. */
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
    // The driver's own word goes first.
    setImmediate(() => {
      for (const reject of this.#waiting) reject(lost);
    });
  }
}

/** An event loop that was late itself may have a response waiting: it is read before the verdict. */
function afterInput(verdict: () => void): void {
  setImmediate(verdict);
}
