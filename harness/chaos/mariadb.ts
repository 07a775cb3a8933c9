import { type ChildProcess, execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Connection, createConnection, type RowDataPacket } from "mysql2/promise";
import { findPrograms } from "../../src/embedded/server-programs.js";
import { startChild } from "./children.js";
import { freePort } from "./ports.js";

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

  private constructor(
    readonly port: number,
    private readonly program: string,
    private readonly dataDir: string,
    private readonly logDir: string,
    private readonly id: number,
  ) {}

  /**
   * Makes the files of a new server and starts it.
   * @param dataDir its data; an empty or missing directory
   * @param logDir its logs, the binary log too: a full disk under the data must not fill the log's
   */
  static async create(dataDir: string, logDir: string, id: number): Promise<MariaDb> {
    const programs = await findPrograms(["mariadbd", "mariadb-install-db"]);
    const [server, install] = [programs.get("mariadbd"), programs.get("mariadb-install-db")];
    if (server === undefined || install === undefined) throw new Error("there is no mariadbd on this machine");
    for (const directory of [dataDir, logDir]) mkdirSync(directory, { recursive: true });
    execFileSync(
      install,
      [
        "--no-defaults",
        `--datadir=${dataDir}`,
        `--tmpdir=${logDir}`,
        "--auth-root-authentication-method=normal",
      ].concat(["--skip-test-db", ...asRoot()]),
      { stdio: "ignore" },
    );
    const database = new MariaDb(await freePort(), server, dataDir, logDir, id);
    await database.start();
    for (const grant of grants) await database.run(grant);
    return database;
  }

  /** What `--database-url` says of a database of this server behind loopback port `port`. */
  static url(port: number, name = "marketd"): string {
    return `mysql://marketd:chaos@127.0.0.1:${port}/${name}`;
  }

  /** Starts it; resolves when it accepts connections. */
  async start(): Promise<void> {
    const log = openSync(join(this.logDir, "server.log"), "a");
    this.#child = startChild(this.program, this.#arguments(), { stdio: ["ignore", log, log] });
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

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || !this.isRunning) return;
    child.kill("SIGKILL");
    await once(child, "exit");
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
    ];
  }
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
