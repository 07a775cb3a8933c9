import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { findServerPrograms } from "../../src/embedded/server-programs.js";
import { openDatabase } from "../../src/store/database.js";
import { copyMadeDatabase } from "./database.js";
import { freePort } from "./free-port.js";

const startTimeoutMs = 120_000;

/** What is missing for a MariaDB server of a test's own; undefined: nothing. */
export async function missingMariaDb(): Promise<string | undefined> {
  const programs = await findServerPrograms().catch(() => undefined);
  if (programs?.kind === "mariadb" && programs.initializer !== undefined) return undefined;
  return "skipped: replicas and servers that hang (there is no MariaDB server on this machine)";
}

/** A MariaDB server of one test's own, on a port and in a directory of its own. */
export class DatabaseServer {
  private constructor(
    readonly port: number,
    public process: ChildProcess,
    private readonly directory: string,
    private readonly spawnServer: () => ChildProcess,
  ) {}

  static async start(settings: readonly string[] = []): Promise<DatabaseServer> {
    const programs = await findServerPrograms();
    if (programs?.initializer === undefined) throw new Error("there is no MariaDB server");
    const directory = await mkdtemp(join(tmpdir(), "marketd-server-"));
    const data = join(directory, "data");
    const user = userInfo().username;
    copyMadeDatabase(data);
    const port = await freePort();
    const args = [
      "--no-defaults",
      `--datadir=${data}`,
      `--socket=${join(directory, "sql.sock")}`,
      "--bind-address=127.0.0.1",
      `--port=${port}`,
      `--user=${user}`,
      "--skip-name-resolve",
      "--innodb-buffer-pool-size=32M",
      "--innodb-flush-log-at-trx-commit=0",
      ...settings,
    ];
    const spawnServer = (): ChildProcess => spawn(programs.server, args, { stdio: "ignore" });
    const started = new DatabaseServer(port, spawnServer(), directory, spawnServer);
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
