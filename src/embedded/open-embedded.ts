import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { basename } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { OperatorError } from "../domain/operator-error.js";
import { thrownText } from "../domain/thrown-text.js";
import type { Log } from "../telemetry/log.js";
import { type EmbeddedPlaces, embeddedPlaces } from "./embedded-places.js";
import { requireServerPrograms } from "./install-server.js";
import { openOwnDirectory, openOwnLog } from "./private-files.js";
import type { ServerPrograms } from "./server-programs.js";
import { lockHeldExitCode, onMessage, type SupervisorOrder } from "./supervisor-messages.js";

/** Options of {@link openEmbedded}. */
export interface EmbeddedOptions {
  /** Created if missing; usually `.marketd` in the working directory. Users of the same directory share a server. */
  readonly dataDir: string;
  readonly log: Log;
  /** Receives one line about each step that may take more than a second. Default: the log. */
  readonly onProgress?: (text: string) => void;
  /** Memory for the server's cache. Takes effect only for the process that starts the server. */
  readonly bufferPoolBytes?: number;
  /** The database name in the URL; migrations create the database. */
  readonly database?: string;
}

/** An open private database. */
export interface EmbeddedDatabase {
  /** `mysql://root@localhost/marketd?socket=/path`. It is the same for each opener. */
  readonly url: string;
  /** Releases the database. Resolves when the server has ended, if this was its last user. */
  close(): Promise<void>;
}

/** Default of {@link EmbeddedOptions.bufferPoolBytes}. */
export const bufferPoolBytesDefault = 256 * 1024 * 1024;

const databaseDefault = "marketd";
const retryMs = 50;
/** The longest silence of a supervisor, which sends every second, and the longest wait for a predecessor to end. */
const patienceMs = 60_000;
const rejoinMsMax = 30_000;

/**
 * Opens the private database of a data directory: joins its server, or starts one, installing it if no question is
 * needed. All processes that hold it open share the server; it ends with the last of them, even if that is killed. If
 * the server or its supervisor is killed, it comes back at the same URL.
 * @throws OperatorError whose message is one line for the terminal
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const places = embeddedPlaces(options.dataDir);
  const user = new EmbeddedUser(places, options);
  await user.join();
  const url = new URL(`mysql://root@localhost/${options.database ?? databaseDefault}`);
  url.searchParams.set("socket", places.sqlSocket);
  return { url: url.href, close: () => user.close() };
}

/** One process's use of a private database. */
class EmbeddedUser {
  readonly #places: EmbeddedPlaces;
  readonly #options: EmbeddedOptions;
  readonly #progress: (text: string) => void;
  /** The newest line, which a supervisor repeats every second; empty once the server is ready. */
  #said = "";
  #socket: Socket | undefined;
  #closing = false;

  constructor(places: EmbeddedPlaces, options: EmbeddedOptions) {
    this.#places = places;
    this.#options = options;
    this.#progress = options.onProgress ?? ((text) => options.log.info({ dataDir: places.dataDir }, text));
  }

  /** Resolves when the server is ready. */
  async join(): Promise<void> {
    let supervisor: ChildProcess | undefined;
    let deadline = performance.now() + patienceMs;
    for (;;) {
      const socket = await connectToSupervisor(this.#places);
      const joined = socket === undefined ? undefined : await this.#untilReady(socket);
      if (socket !== undefined && joined !== undefined) {
        // Another supervisor was first, and ours waits needlessly.
        if (supervisor?.pid !== joined) supervisor?.kill();
        this.#hold(socket);
        return;
      }
      if (performance.now() > deadline) throw this.#failure("another process holds its lock and does not answer");
      if (supervisor === undefined || hasEnded(supervisor)) {
        if (hasFailed(supervisor)) throw this.#failure(supervisorLogTail(this.#places));
        const startedAt = performance.now();
        const programs = await requireServerPrograms((text) => this.#say(text));
        // To install them may take minutes, which are no wait for a predecessor.
        deadline += performance.now() - startedAt;
        supervisor = this.#startSupervisor(programs);
      }
      await delay(retryMs);
    }
  }

  async close(): Promise<void> {
    this.#closing = true;
    const socket = this.#socket;
    if (socket === undefined || socket.destroyed) return;
    socket.ref();
    await new Promise<void>((resolve) => {
      socket.once("close", () => resolve());
      socket.end();
    });
  }

  /** The supervisor's process id; undefined if it was ending. */
  #untilReady(socket: Socket): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      const give = (settle: () => void) => {
        socket.setTimeout(0);
        settle();
      };
      socket.setTimeout(patienceMs, () => socket.destroy(this.#failure("its supervisor does not answer")));
      socket.on("error", (error) => {
        if (error instanceof OperatorError) reject(error);
      });
      socket.once("close", () => resolve(undefined));
      onMessage(socket, (message) => {
        if (message.type === "ready") {
          this.#said = "";
          give(() => resolve(message.supervisor));
        } else if (message.type === "failed") give(() => reject(this.#failure(message.text)));
        else this.#say(message.text);
      });
    });
  }

  #hold(socket: Socket): void {
    this.#socket = socket;
    // It must not keep a command alive. The kernel closes it when the command has ended.
    socket.unref();
    const lost = () => {
      if (!this.#closing) void this.#rejoin();
    };
    if (socket.destroyed) lost();
    else socket.once("close", lost);
  }

  /** The supervisor was killed. The database comes back at the same place, and pools reconnect. */
  async #rejoin(): Promise<void> {
    for (let waitMs = retryMs; !this.#closing; waitMs = Math.min(waitMs * 2, rejoinMsMax)) {
      this.#options.log.warn({ dataDir: this.#places.dataDir }, "the private database was lost, starting it again");
      try {
        await this.join();
        if (this.#closing) await this.close();
        return;
      } catch (error) {
        this.#options.log.error({ error: thrownText(error) }, "the private database did not come back");
      }
      await delay(waitMs, undefined, { ref: false });
    }
  }

  #startSupervisor(programs: ServerPrograms): ChildProcess {
    const { bufferPoolBytes = bufferPoolBytesDefault } = this.#options;
    const order: SupervisorOrder = { places: this.#places, programs, bufferPoolBytes };
    const log = openOwnLog(this.#places.supervisorLog, true);
    const child = spawn(process.execPath, [supervisorScript(), JSON.stringify(order)], {
      detached: true,
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    child.once("error", () => {});
    child.unref();
    return child;
  }

  #say(text: string): void {
    if (text !== this.#said) this.#progress(text);
    this.#said = text;
  }

  #failure(text: string): OperatorError {
    return new OperatorError(`the private database in ${this.#places.dataDir}: ${text}`);
  }
}

/**
 * The compiled supervisor: beside this file, or that of the newest build if this one was removed since, or when tests run
 * the sources.
 */
function supervisorScript(): string {
  const compiled = import.meta.url.endsWith(".js");
  const own = fileURLToPath(new URL("./supervisor.js", import.meta.url));
  if (compiled && existsSync(own)) return own;
  const dist = compiled ? "../../../dist" : "../../dist";
  const newest = fileURLToPath(new URL(`${dist}/src/embedded/supervisor.js`, import.meta.url));
  if (existsSync(newest)) return newest;
  throw new OperatorError(`${newest} is missing; build first: npm run build`);
}

/**
 * Connects; undefined if nobody listens.
 * @throws OperatorError before connecting, if other users may write to the socket's directory
 */
async function connectToSupervisor({ socketDir, supervisorSocket }: EmbeddedPlaces): Promise<Socket | undefined> {
  const directory = openOwnDirectory(socketDir);
  if (directory === undefined) return undefined;
  try {
    // By the directory's descriptor: a directory that is removed with its last user may soon be another user's.
    const isLinux = process.platform === "linux";
    return await connectTo(isLinux ? `/proc/self/fd/${directory}/${basename(supervisorSocket)}` : supervisorSocket);
  } finally {
    closeSync(directory);
  }
}

function connectTo(path: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => resolve(socket));
    socket.once("error", () => resolve(undefined));
  });
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Whether the supervisor failed by itself. Ending in order, yielding to another one, and signals are not failures. */
function hasFailed(child: ChildProcess | undefined): boolean {
  const code = child?.exitCode ?? 0;
  return code !== 0 && code !== lockHeldExitCode;
}

function supervisorLogTail(places: EmbeddedPlaces): string {
  const lines = readFileSync(places.supervisorLog, "utf8").trim().split("\n");
  // Node prints the line of code that threw before the error.
  const complaint = lines.find((line) => /^\w*(Error|Failure)\b.*: /.test(line)) ?? lines.at(-1);
  return `its supervisor did not start: ${complaint?.trim()} (all of it in ${places.supervisorLog})`;
}
