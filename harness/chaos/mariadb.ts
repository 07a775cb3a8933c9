import { type ChildProcess, execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Connection, createConnection, type RowDataPacket } from "mysql2/promise";
import { findPrograms } from "../../src/embedded/server-programs.js";
import { freePort } from "../../test/support/free-port.js";
import { startChild } from "./children.js";

const acceptPollMs = 20;
const startMaxMs = 30_000;
/** A server that is stopped or silent must not stop the harness. */
export const controlTimeoutMs = 1_000;

/** The user that marketd connects as: it may do what it likes with its databases, and nothing with the server. */
const grants = [
  "CREATE USER IF NOT EXISTS 'marketd'@'%' IDENTIFIED BY 'chaos'",
  "GRANT ALL ON `marketd`.* TO 'marketd'@'%'",
  "GRANT ALL ON `undisturbed`.* TO 'marketd'@'%'",
];

/** A private MariaDB on a loopback port, which can be killed, stopped and started again on the same data. */
export class MariaDb {
  #child: ChildProcess | undefined;
  #stopped = false;
  #onEnd: (() => void) | undefined;

  private constructor(
    readonly port: number,
    private readonly program: string,
    private readonly dataDir: string,
    private readonly logDir: string,
    private readonly id: number,
    private readonly further: readonly string[],
  ) {}

  /**
   * Makes the files of a new server and starts it.
   * @param dataDir its data; an empty or missing directory
   * @param logDir its logs, the binary log too: a full disk under the data must not fill the log's
   */
  static async create(dataDir: string, logDir: string, id: number): Promise<MariaDb> {
    await MariaDb.install(dataDir, logDir);
    const database = await MariaDb.on(dataDir, logDir, id);
    await database.start();
    await database.grant();
    return database;
  }

  /** Makes the files of a new server that has nothing but its system tables. */
  static async install(dataDir: string, logDir: string): Promise<void> {
    for (const directory of [dataDir, logDir]) mkdirSync(directory, { recursive: true });
    const user = ["--auth-root-authentication-method=normal", "--skip-test-db", ...asRoot()];
    const args = ["--no-defaults", `--datadir=${dataDir}`, `--tmpdir=${logDir}`, ...user];
    execFileSync(await programOf("mariadb-install-db"), args, { stdio: "ignore" });
  }

  /** A server on files that are there; not started yet. @param further options of its own */
  static async on(dataDir: string, logDir: string, id: number, further: readonly string[] = []): Promise<MariaDb> {
    mkdirSync(logDir, { recursive: true });
    return new MariaDb(await freePort(), await programOf("mariadbd"), dataDir, logDir, id, further);
  }

  /** What `--database-url` says of a database of this server behind loopback port `port`. */
  static url(port: number, name = "marketd"): string {
    return `mysql://marketd:chaos@127.0.0.1:${port}/${name}`;
  }

  /** The user that marketd connects as. */
  async grant(): Promise<void> {
    for (const grant of grants) await this.run(grant);
  }

  /** Starts it; resolves when it accepts connections. @param once options of this start alone */
  async start(once: readonly string[] = []): Promise<void> {
    const log = openSync(join(this.logDir, "server.log"), "a");
    this.#child = startChild(this.program, [...this.#arguments(), ...once], { stdio: ["ignore", log, log] });
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
      const child = startChild(this.program, [...this.#arguments(), ...options], { stdio: ["ignore", "pipe", "pipe"] });
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
  connect(): Promise<Connection> {
    return createConnection({
      host: "127.0.0.1",
      port: this.port,
      user: "root",
      connectTimeout: controlTimeoutMs,
      supportBigNumbers: true,
      bigNumberStrings: true,
    });
  }

  /** One statement on a connection of its own. */
  async run(sql: string, timeoutMs = 10_000): Promise<RowDataPacket[]> {
    const connection = await this.connect();
    connection.on("error", () => {});
    try {
      const [rows] = await connection.query<RowDataPacket[]>({ sql, timeout: timeoutMs });
      return rows;
    } finally {
      connection.destroy();
    }
  }

  /** Ends every session of marketd, as an operator would where one holds up the others. */
  async endSessions(): Promise<void> {
    const sessions = await this.run("SELECT ID id FROM information_schema.PROCESSLIST WHERE USER = 'marketd'");
    for (const { id } of sessions) await this.run(`KILL ${id}`).catch(() => {});
  }

  /** Makes this server an asynchronous replica of another, from the first entry of that one's log. */
  async follow(primary: MariaDb): Promise<void> {
    await this.run(
      `CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=${primary.port}, MASTER_USER='root', MASTER_PASSWORD='',
       MASTER_LOG_FILE='binary.000001', MASTER_LOG_POS=4, MASTER_CONNECT_RETRY=1`,
    );
    await this.run("START SLAVE");
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
      `--socket=${join(this.logDir, "s.sock")}`,
      `--pid-file=${join(this.logDir, "pid")}`,
      `--log-bin=${join(this.logDir, "binary")}`,
      `--relay-log=${join(this.logDir, "relay")}`,
      `--server-id=${this.id}`,
      "--log-slave-updates=OFF",
      "--binlog-format=ROW",
      "--slave-net-timeout=5",
      "--sync-binlog=0",
      "--innodb-flush-log-at-trx-commit=2",
      "--innodb-buffer-pool-size=64M",
      "--innodb-log-file-size=16M",
      // A loader that waits for a lock is told soon.
      "--innodb-lock-wait-timeout=1",
      "--innodb-fast-shutdown=2",
      "--skip-name-resolve",
      "--max-connections=400",
      "--local-infile=ON",
      ...asRoot(),
      ...this.further,
    ];
  }
}

async function programOf(name: string): Promise<string> {
  const program = (await findPrograms([name])).get(name);
  if (program === undefined) throw new Error(`there is no ${name} on this machine`);
  return program;
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
