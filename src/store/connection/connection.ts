import { connect, type Socket } from "node:net";
import { createConnection, type Connection as DriverConnection, type ResultSetHeader } from "mysql2/promise";
import { type ColumnValue, checkColumns, type Row } from "./column.js";
import { isSilence, toDatabaseFailure } from "./database-error.js";
import type { DatabaseAddress } from "./database-url.js";
import { connectTimeoutMs, driverOptions, sessionSettings } from "./driver-options.js";

/** Values for the `?` of a statement. A bigint is compared as a number, which text of digits is not. */
export type Parameter = bigint | number | string | boolean | Uint8Array | null;

/** How many rows a statement changed. */
export type Affected = Pick<ResultSetHeader, "affectedRows">;

/** The values of a statement, in order. An array becomes a list: `IN (?)`. */
export type ParameterList = readonly (Parameter | readonly Parameter[])[];

/** A connection that is lent for a while: its user neither opens nor closes it. */
export type Connection = Pick<ServerConnection, "query" | "run" | "driver" | "socket">;

/** The error of a connection that was closed because its peer was silent. */
export function silentPeerError(message: string): Error {
  return Object.assign(new Error(message), { code: "ETIMEDOUT", fatal: true });
}

/**
 * How long a suspect connection may be silent: during a ping, or during a statement when another connection proved
 * dead. Longer than a busy server takes to begin a response.
 */
export const probeTimeoutMs = 1_000;

/** How long the server may take to read the goodbye. */
const endTimeoutMs = 1_000;

/** The longest delay of Node's timers. */
const timerMsMax = 2 ** 31 - 1;

/** How a connection is opened. */
export interface ConnectionSettings {
  /** The longest silence of the server during a statement; Infinity: no limit. */
  readonly statementTimeoutMs: number;
  /** Whether a query may hold several statements. */
  readonly multipleStatements?: boolean;
  /** Whether LOAD DATA LOCAL may be used. */
  readonly localInfile?: boolean;
  /** The first statement. Default: {@link sessionSettings}. */
  readonly settings?: string;
  /** Ends the attempt to connect. */
  readonly signal?: AbortSignal;
}

/**
 * A connection that is closed, with its statements, when the server is silent for too long. The driver has no such
 * limit, and only half-closes its socket, so the socket is ours.
 */
export class ServerConnection {
  /** The driver's connection, for what only it can do (LOAD DATA from a stream). Only the store may touch it. */
  readonly driver: DriverConnection;
  /** What the driver reads and writes. Only the store may touch it. */
  readonly socket: Socket;
  readonly #statementTimeoutMs: number;
  /** Current statements, with how to reject each. */
  readonly #waiting = new Set<(error: unknown) => void>();
  #timer: NodeJS.Timeout | undefined;
  #heardAt = performance.now();
  #doubted = false;

  private constructor(driver: DriverConnection, socket: Socket, { statementTimeoutMs }: ConnectionSettings) {
    this.driver = driver;
    this.socket = socket;
    this.#statementTimeoutMs = statementTimeoutMs;
    // If the connection breaks while nobody waits, the next user notices.
    driver.on("error", () => {});
    // The driver drops the statements of a connection that is being ended.
    socket.once("close", () => this.#rejectAll());
    socket.once("finish", () => socket.destroy());
  }

  /** Connects; the server may be silent for `timeoutMs`. @throws Failure `unavailable`, or the server's refusal */
  static async open(
    address: DatabaseAddress,
    options: ConnectionSettings,
    timeoutMs = connectTimeoutMs,
  ): Promise<ServerConnection> {
    const { multipleStatements = false, localInfile = false, settings = sessionSettings, signal } = options;
    const { socketPath, host, port } = address;
    const socket =
      socketPath === undefined ? connect({ port, host, noDelay: true, keepAlive: true }) : connect(socketPath);
    const startedAt = performance.now();
    let limit: NodeJS.Timeout | undefined;
    let isOver = false;
    // A server that goes on with the handshake is slow, or this process is: it is not away.
    const limitSilence = (): void => {
      const { bytesRead } = socket;
      const verdict = (): void => {
        if (isOver) return;
        const isHeard = socket.bytesRead > bytesRead && performance.now() - startedAt < connectTimeoutMs;
        if (isHeard) limitSilence();
        else socket.destroy(silentPeerError(`no connection within ${timeoutMs} ms`));
      };
      limit = setTimeout(() => afterInput(verdict), timeoutMs);
    };
    limitSilence();
    const abort = () => socket.destroy(silentPeerError("the attempt to connect was given up"));
    signal?.addEventListener("abort", abort, { once: true });
    try {
      if (signal?.aborted === true) abort();
      const driver = await createConnection({
        ...driverOptions(address),
        multipleStatements,
        flags: [localInfile ? "LOCAL_FILES" : "-LOCAL_FILES"],
        stream: () => socket,
      });
      const opened = new ServerConnection(driver, socket, options);
      await opened.run(settings);
      return opened;
    } catch (error) {
      socket.destroy();
      throw toDatabaseFailure(error);
    } finally {
      isOver = true;
      clearTimeout(limit);
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Whether it broke, or was closed. */
  get isClosed(): boolean {
    return this.socket.destroyed || this.socket.writableEnded;
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
      await this.#watch(this.driver.ping());
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
    this.socket.destroy(silentPeerError("the connection was given up"));
  }

  /** Says goodbye to the server, which otherwise logs an aborted connection. Never rejects. */
  async end(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.socket.once("close", () => resolve()));
    if (this.socket.destroyed) return;
    const limit = setTimeout(() => this.socket.destroy(), endTimeoutMs);
    this.driver.end().catch(() => {});
    await closed;
    clearTimeout(limit);
  }

  /** A query with `?`. Values are escaped by the driver: one round trip. They are read as column.ts says. */
  query<R extends { [K in keyof R]: ColumnValue } = Row>(sql: string, parameters?: ParameterList): Promise<R[]> {
    return this.#ask(sql, parameters);
  }

  /** A statement that changes something. */
  run(sql: string, parameters?: ParameterList): Promise<Affected> {
    return this.#ask(sql, parameters);
  }

  async #ask<R>(sql: string, parameters: ParameterList = []): Promise<R> {
    try {
      const [response, columns] = await this.#watch(this.driver.query(sql, [...parameters]));
      checkColumns(columns);
      return response as R;
    } catch (error) {
      throw toDatabaseFailure(error);
    }
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
    const { bytesRead } = this.socket;
    const timer = setTimeout(() => {
      afterInput(() => {
        if (this.#timer !== timer || this.#waiting.size === 0) return;
        if (this.socket.bytesRead === bytesRead) this.socket.destroy(silentPeerError(`no response for ${limitMs} ms`));
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

/** The time limit for connecting is so many times what the last connection took. */
const reconnectFactor = 4;

/**
 * Opens connections to one server address. Attempts that began while the server was away must not delay its return, so
 * their time limit follows the last connection: between `reconnectMsMin` and `connectTimeoutMs`. After an attempt that
 * took too long, one that nobody waits for may take longer: if the server is not away but slow, the limit follows.
 */
export class Connector {
  #limitMs = connectTimeoutMs;
  #isMeasuring = false;

  constructor(
    private readonly address: DatabaseAddress,
    private readonly reconnectMsMin: number,
  ) {}

  /** @throws Failure `unavailable`, or the server's refusal */
  async open(settings: ConnectionSettings): Promise<ServerConnection> {
    const limitMs = this.#limitMs;
    try {
      return await this.#attempt(settings, limitMs);
    } catch (error) {
      if (limitMs < connectTimeoutMs && isSilence(error)) this.#measure();
      throw error;
    }
  }

  async #attempt(settings: ConnectionSettings, limitMs: number): Promise<ServerConnection> {
    const startedAt = performance.now();
    const opened = await ServerConnection.open(this.address, settings, limitMs);
    const nextMs = Math.max(this.reconnectMsMin, (performance.now() - startedAt) * reconnectFactor);
    this.#limitMs = Math.min(connectTimeoutMs, nextMs);
    return opened;
  }

  #measure(): void {
    if (this.#isMeasuring) return;
    this.#isMeasuring = true;
    this.#attempt({ statementTimeoutMs: connectTimeoutMs }, connectTimeoutMs)
      .then(
        (opened) => opened.end(),
        () => {},
      )
      .finally(() => {
        this.#isMeasuring = false;
      });
  }
}
