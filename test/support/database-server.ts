import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { findServerPrograms, type ServerPrograms } from "../../src/embedded/server-programs.js";
import { openDatabase } from "../../src/store/database.js";
import { copyMadeDatabase } from "./database.js";
import { freePort } from "./free-port.js";

const startTimeoutMs = 120_000;

/** What is missing for a server of a test's own; undefined: nothing. */
export async function missingServer(): Promise<string | undefined> {
  if ((await findServerPrograms().catch(() => undefined)) !== undefined) return undefined;
  return "skipped: replicas and servers that hang (there is no database server on this machine)";
}

/** What else a server is started with, if a test names neither directories nor ports. */
export const serverOptions = {
  mariadb: ["--skip-name-resolve"],
  // Its root may come from localhost, which is the name of 127.0.0.1. A directory for files is configured, but missing.
  mysql: ["--mysqlx=OFF", "--secure-file-priv=NULL", "--local-infile=ON"],
} as const;

/** A database server of one test's own, on a port and in a directory of its own. */
export class DatabaseServer {
  private constructor(
    readonly kind: ServerPrograms["kind"],
    readonly port: number,
    public process: ChildProcess,
    private readonly directory: string,
    private readonly spawnServer: () => ChildProcess,
  ) {}

  static async start(settings: readonly string[] = []): Promise<DatabaseServer> {
    const programs = await findServerPrograms();
    if (programs === undefined) throw new Error("there is no database server");
    const directory = await mkdtemp(join(tmpdir(), "marketd-server-"));
    const data = join(directory, "data");
    const user = userInfo().username;
    copyMadeDatabase(data);
    // MySQL's name for the server, which must not be that of its replica.
    await rm(join(data, "auto.cnf"), { force: true });
    const port = await freePort();
    const args = [
      "--no-defaults",
      `--datadir=${data}`,
      `--socket=${join(directory, "sql.sock")}`,
      "--bind-address=127.0.0.1",
      `--port=${port}`,
      `--user=${user}`,
      "--innodb-buffer-pool-size=32M",
      "--innodb-flush-log-at-trx-commit=0",
      ...serverOptions[programs.kind],
      ...settings,
    ];
    const spawnServer = (): ChildProcess => spawn(programs.server, args, { stdio: "ignore" });
    const started = new DatabaseServer(programs.kind, port, spawnServer(), directory, spawnServer);
    await started.#untilReady();
    return started;
  }

  /** Starts the server again after {@link kill}, and waits until it is ready. */
  async restart(): Promise<void> {
    this.process = this.spawnServer();
    await this.#untilReady();
  }

  async kill(): Promise<void> {
    const ended = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await ended;
  }

  /** The URL of one of its databases; root has no password. */
  url(database: string): string {
    return `mysql://root@127.0.0.1:${this.port}/${database}`;
  }

  /** Runs statements outside of any database of ours. */
  async run(...statements: string[]): Promise<void> {
    const database = openDatabase(this.url("mysql"), { connectionsMax: 1 });
    try {
      for (const statement of statements) await database.withConnection((connection) => connection.run(statement));
    } finally {
      await database.close();
    }
  }

  /** Follows another server, which must write its log with transaction ids. */
  async replicate({ port }: DatabaseServer): Promise<void> {
    await this.run(
      {
        mariadb: `CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = ${port}, MASTER_USER = 'root',
          MASTER_USE_GTID = slave_pos`,
        mysql: `CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = ${port}, SOURCE_USER = 'root',
          SOURCE_AUTO_POSITION = 1`,
      }[this.kind],
      "START REPLICA",
    );
  }

  async stop(): Promise<void> {
    this.process.kill("SIGCONT");
    if (this.process.exitCode === null && this.process.signalCode === null) await this.kill();
    await rm(this.directory, { recursive: true, force: true });
  }

  async #untilReady(): Promise<void> {
    const until = performance.now() + startTimeoutMs;
    for (;;) {
      try {
        // The server's root may only come by its socket at first.
        return await this.run("SELECT 1");
      } catch (error) {
        if (performance.now() > until || this.process.exitCode !== null) throw error;
      }
      await sleep(50);
    }
  }
}
