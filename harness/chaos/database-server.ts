import { type ChildProcess, execFileSync, type SpawnOptions, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Connection, createConnection, type RowDataPacket } from "mysql2/promise";
import { initialiser } from "../../src/embedded/database-server.js";
import { findServerPrograms, type ServerPrograms } from "../../src/embedded/server-programs.js";
import { freePort } from "../../test/support/free-port.js";
import { startChild } from "./children.js";

const acceptPollMs = 20;
const startMaxMs = 90_000;
/** A server that is stopped or silent must not stop the harness. */
export const controlTimeoutMs = 1_000;

const usualPassword = "chaos";

/**
 * The user that marketd connects as: it may do what it likes with its databases, and nothing with the server. And the
 * user that replicas connect as.
 */
const grants = (password: string): string[] => [
  `CREATE USER IF NOT EXISTS 'marketd'@'%' IDENTIFIED BY '${password}'`,
  "GRANT ALL ON `marketd`.* TO 'marketd'@'%'",
  "GRANT ALL ON `undisturbed`.* TO 'marketd'@'%'",
  "CREATE USER IF NOT EXISTS 'replica'@'%'",
  "GRANT REPLICATION SLAVE ON *.* TO 'replica'@'%'",
];

/** How one server differs from the others. */
export interface ServerSpecifics {
  /** Options of its own. */
  readonly options?: readonly string[];
  /** The command that starts it somewhere else: a program and its arguments, which the server's follow. */
  readonly within?: readonly string[];
}

/**
 * A private server on a loopback port, which can be killed, stopped and started again on the same data: MariaDB or
 * MySQL, whichever comes first in PATH.
 */
export class DatabaseServer {
  #child: ChildProcess | undefined;
  #stopped = false;
  #onEnd: (() => void) | undefined;

  private constructor(
    readonly port: number,
    private readonly programs: ServerPrograms,
    private readonly dataDir: string,
    private readonly logDir: string,
    private readonly id: number,
    private readonly specifics: ServerSpecifics,
  ) {}

  /**
   * Makes the files of a new server and starts it.
   * @param dataDir its data; an empty or missing directory
   * @param logDir its logs, the binary log too: a full disk under the data must not fill the log's
   */
  static async create(
    dataDir: string,
    logDir: string,
    id: number,
    specifics: ServerSpecifics = {},
  ): Promise<DatabaseServer> {
    await DatabaseServer.install(dataDir, logDir);
    const database = await DatabaseServer.on(dataDir, logDir, id, specifics);
    await database.start();
    await database.grant();
    return database;
  }

  /** Makes the files of a new server that has nothing but its system tables. */
  static async install(dataDir: string, logDir: string): Promise<void> {
    mkdirSync(logDir, { recursive: true });
    const [program, args] = initialiser(await serverPrograms(), dataDir, logDir);
    execFileSync(program, args, { stdio: "ignore" });
  }

  /** A server on files that are there; not started yet. */
  static async on(dataDir: string, logDir: string, id: number, specifics: ServerSpecifics): Promise<DatabaseServer> {
    mkdirSync(logDir, { recursive: true });
    return new DatabaseServer(await freePort(), await serverPrograms(), dataDir, logDir, id, specifics);
  }

  /** What `--database-url` says of a database of a server on loopback port `port`, or behind it. */
  static url(port: number, name = "marketd", password = usualPassword): string {
    return `mysql://marketd:${password}@127.0.0.1:${port}/${name}`;
  }

  /** The same of this server, by its socket's file, with all rights. */
  localUrl(name: string): string {
    return `mysql://root@localhost/${name}?socket=${encodeURIComponent(this.socketPath)}`;
  }

  /** Makes the user that marketd connects as. */
  async grant(password = usualPassword): Promise<void> {
    for (const grant of grants(password)) await this.run(grant);
  }

  /** Asks it to end, as its service manager does, and waits for that. */
  async terminate(): Promise<void> {
    const child = this.#child;
    if (child === undefined || !this.isRunning) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  }

  /** Starts it; resolves when it accepts connections. @param once options of this start alone */
  async start(once: readonly string[] = []): Promise<void> {
    const log = openSync(join(this.logDir, "server.log"), "a");
    this.#child = this.#run(once, { stdio: ["ignore", log, log] });
    this.#child.once("exit", () => this.#onEnd?.());
    closeSync(log);
    const until = performance.now() + startMaxMs;
    while (!(await this.#accepts())) {
      if (this.#child.exitCode !== null || performance.now() > until) {
        throw new Error(
          `the database does not start: ${readFileSync(join(this.logDir, "server.log"), "utf8").slice(-2000)}`,
        );
      }
      await delay(acceptPollMs);
    }
  }

  get kind(): ServerPrograms["kind"] {
    return this.programs.kind;
  }

  get socketPath(): string {
    return join(this.logDir, "s.sock");
  }

  /** From now on `onEnd` is called whenever it ends; undefined: not any more. */
  watch(onEnd: (() => void) | undefined): void {
    this.#onEnd = onEnd;
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || !this.isRunning) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  /** Ends it for good, though it be stopped. */
  async end(): Promise<void> {
    this.resume();
    await this.kill();
  }

  /** Runs it with these options until it ends by itself. @returns what it printed */
  runToEnd(options: readonly string[]): Promise<string> {
    return new Promise((resolve) => {
      const child = this.#run(options, { stdio: ["ignore", "pipe", "pipe"] });
      let printed = "";
      child.stdout?.on("data", (text) => (printed += String(text)));
      child.stderr?.on("data", (text) => (printed += String(text)));
      child.on("close", () => resolve(printed));
    });
  }

  /** Stops every thread of it; its sockets stay open. */
  pause(): void {
    this.#child?.kill("SIGSTOP");
    this.#stopped = true;
  }

  resume(): void {
    if (this.#stopped) this.#child?.kill("SIGCONT");
    this.#stopped = false;
  }

  /** A connection with all rights, directly to the server. */
  connect(timeoutMs = controlTimeoutMs): Promise<Connection> {
    return createConnection({
      socketPath: this.socketPath,
      user: "root",
      connectTimeout: timeoutMs,
      supportBigNumbers: true,
      bigNumberStrings: true,
    });
  }

  /** One statement on a connection of its own. */
  async run(sql: string, timeoutMs = 10_000): Promise<RowDataPacket[]> {
    const connection = await this.connect(timeoutMs);
    connection.on("error", () => {});
    try {
      const [rows] = await connection.query<RowDataPacket[]>({ sql, timeout: timeoutMs });
      return rows;
    } finally {
      connection.destroy();
    }
  }

  /** Ends every session of marketd, as an operator would where one holds up the others. */
  async endSessions(session?: Connection): Promise<void> {
    const connection = session ?? (await this.connect());
    try {
      const sql = "SELECT ID id FROM information_schema.PROCESSLIST WHERE USER = 'marketd'";
      const [sessions] = await connection.query<RowDataPacket[]>(sql);
      for (const { id } of sessions) await connection.query(`KILL ${id}`).catch(() => {});
    } finally {
      if (session === undefined) connection.destroy();
    }
  }

  /** Makes this server an asynchronous replica of another, from the first entry of that one's log. */
  async follow(primary: DatabaseServer, host = "127.0.0.1"): Promise<void> {
    const place = `HOST='${host}', ?_PORT=${primary.port}, ?_LOG_FILE='binary.000001', ?_LOG_POS=4`;
    const settings = `?_${place}, ?_USER='replica', ?_PASSWORD='', ?_CONNECT_RETRY=1`;
    // MariaDB tries for a day, MySQL 9 ten times.
    if (this.kind === "mariadb") await this.run(`CHANGE MASTER TO ${settings.replaceAll("?", "MASTER")}`);
    else await this.run(`CHANGE REPLICATION SOURCE TO ${settings.replaceAll("?", "SOURCE")}, SOURCE_RETRY_COUNT=86400`);
    await this.run("START REPLICA");
  }

  #run(options: readonly string[], how: SpawnOptions): ChildProcess {
    const [program = "", ...args] = [...(this.specifics.within ?? []), this.programs.server];
    return startChild(program, [...args, ...this.#arguments(), ...options], how);
  }

  async #accepts(): Promise<boolean> {
    try {
      await this.run("SELECT 1", controlTimeoutMs);
      return true;
    } catch {
      return false;
    }
  }

  #arguments(): string[] {
    return [
      "--no-defaults",
      `--datadir=${this.dataDir}`,
      `--tmpdir=${this.logDir}`,
      `--port=${this.port}`,
      "--bind-address=127.0.0.1",
      `--socket=${this.socketPath}`,
      `--pid-file=${join(this.logDir, "pid")}`,
      `--log-bin=${join(this.logDir, "binary")}`,
      `--relay-log=${join(this.logDir, "relay")}`,
      `--server-id=${this.id}`,
      "--binlog-format=ROW",
      "--sync-binlog=0",
      "--innodb-flush-log-at-trx-commit=2",
      "--innodb-buffer-pool-size=64M",
      // A loader that waits for a lock is told soon.
      "--innodb-lock-wait-timeout=1",
      "--innodb-fast-shutdown=2",
      "--max-connections=400",
      "--local-infile=ON",
      ...optionsOf[this.kind],
      ...asRoot(),
      ...(this.specifics.options ?? []),
    ];
  }
}

/** Where the two have options of different names, or other defaults. */
const optionsOf = {
  mariadb: ["--log-slave-updates=OFF", "--slave-net-timeout=5", "--innodb-log-file-size=16M", "--skip-name-resolve"],
  mysql: [
    "--log-replica-updates=OFF",
    "--replica-net-timeout=5",
    "--innodb-redo-log-capacity=32M",
    "--performance-schema=OFF",
    "--mysqlx=OFF",
    "--secure-file-priv=NULL",
  ],
};

async function serverPrograms(): Promise<ServerPrograms> {
  const programs = await findServerPrograms();
  if (programs === undefined) throw new Error("there is no MariaDB or MySQL on this machine");
  return programs;
}

/** The server refuses to run as root unless told to. */
function asRoot(): string[] {
  return process.getuid?.() === 0 ? ["--user=root"] : [];
}

/** A small file system in memory, for a disk that can be filled; undefined where this user may not mount one. */
export function mountSmallDisk(directory: string, mebibytes: number): { unmount(): void } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  mkdirSync(directory, { recursive: true });
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${mebibytes}m`, "tmpfs", directory]);
  if (mounted.status !== 0) return undefined;
  return { unmount: () => void spawnSync("umount", ["-l", directory]) };
}
