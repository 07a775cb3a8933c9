import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { EmbeddedPlaces } from "./embedded-places.js";
import { openOwnLog } from "./private-files.js";
import type { ServerPrograms } from "./server-programs.js";
import type { SupervisorOrder } from "./supervisor-messages.js";

/** How a server process ended. */
export interface ServerExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** One run of the server program. */
export interface DatabaseServer {
  /** Resolves when the process has ended; never rejects. */
  readonly exited: Promise<ServerExit>;
  /** Call it when the server accepts clients. From then on the server is stopped by request, before that by force. */
  ready(): void;
  /** Stops the server, by force if that takes too long or it has not started yet. Both leave the data intact. */
  stop(): Promise<void>;
}

const stopMs = 30_000;
const readyPollMs = 20;
const redoLogBytesMin = 16 * 1024 * 1024;
const redoLogBytesMax = 1024 * 1024 * 1024;
/** Memory for sorting an index that is built: a part of the cache, between the server's default and its maximum. */
const sortBufferPart = 1 / 256;
const sortBufferBytesMin = 1024 * 1024;
const sortBufferBytesMax = 64 * 1024 * 1024;
const logTailLines = 6;
const mebibyte = 1024 * 1024;

/**
 * `$@` becomes the server. A shell beside it holds a pipe from the supervisor. When the supervisor dies, the kernel
 * closes the pipe and the shell stops the server; the word "done" ends the shell. The shell starts first, so the server
 * is never unwatched. A server that gets SIGTERM while it starts may hang; killed, it recovers at its next start.
 */
const watchedExec = `
exec 4<&0
(
  trap '' HUP INT TERM
  signal=KILL
  while read -r word <&4; do
    case $word in
      ready) signal=TERM ;;
      done) exit 0 ;;
    esac
  done
  kill -$signal $$ 2>/dev/null
  seconds=0
  while kill -0 $$ 2>/dev/null; do
    seconds=$((seconds + 1))
    [ "$seconds" -gt 30 ] && kill -KILL $$
    sleep 1
  done
) >/dev/null 2>&1 3>&- &
exec "$@" </dev/null 4<&-
`;

/**
 * Initialises the data of an empty server elsewhere and renames it, so that it is complete or absent.
 * @throws Error with the output of the initialiser
 */
export async function initialiseDatabase(order: SupervisorOrder, lock: number): Promise<void> {
  const { places, programs } = order;
  const unfinished = `${places.databaseDir}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  const [program, args] = initialiser(programs, unfinished, places.temporaryDir);
  const log = openOwnLog(places.serverLog);
  const child = spawn(program, args, { detached: true, stdio: ["ignore", log, log, lock] });
  closeSync(log);
  const exit = await exitOf(child);
  if (exit.code !== 0) throw new Error(`the database could not be made: ${serverLogTail(places)}`);
  renameSync(unfinished, places.databaseDir);
}

/** Starts the server; it is not ready yet. Only the holder of the lock may call this, once for each server that has ended. */
export function startDatabaseServer(order: SupervisorOrder, lock: number): DatabaseServer {
  const { places, programs } = order;
  // A killed server leaves its socket, and MySQL its lock file, whose process id may be another process by now.
  for (const file of [places.sqlSocket, `${places.sqlSocket}.lock`]) rmSync(file, { force: true });
  const log = openOwnLog(places.serverLog);
  const args = ["-c", watchedExec, "sh", programs.server, ...serverArguments(order)];
  const child = spawn("/bin/sh", args, { detached: true, stdio: ["pipe", log, log, lock] });
  closeSync(log);
  child.stdin?.on("error", () => {}); // the watch was killed: nothing to tell it any more
  const exited = exitOf(child).then((exit) => {
    child.stdin?.end("done\n");
    return exit;
  });
  let isReady = false;
  const ready = () => {
    isReady = true;
    child.stdin?.write("ready\n");
  };
  return { exited, ready, stop: () => stopServer(child, exited, isReady) };
}

/** Resolves when the server greets on its socket; false if it ended before. */
export async function untilReady(server: DatabaseServer, places: EmbeddedPlaces): Promise<boolean> {
  let ended = false;
  void server.exited.then(() => {
    ended = true;
  });
  while (!ended) {
    if (await greets(places.sqlSocket)) {
      server.ready();
      return true;
    }
    await delay(readyPollMs);
  }
  return false;
}

/** The last errors in the server's log, in one line. */
export function serverLogTail(places: EmbeddedPlaces): string {
  let lines: string[];
  try {
    lines = readFileSync(places.serverLog, "utf8").trim().split("\n");
  } catch {
    return `no log at ${places.serverLog}`;
  }
  const complaints = lines.filter((line) => /\[ERROR\]|^ERROR|^\d{4}-.*(can't|cannot|denied)/i.test(line));
  const tail = (complaints.length > 0 ? complaints : lines).slice(-logTailLines).map((line) => line.trim());
  return `${tail.join(" | ")} (all of it in ${places.serverLog})`;
}

/** A new log for this start; the previous one is kept. */
export function turnServerLog(places: EmbeddedPlaces): void {
  if (existsSync(places.serverLog)) renameSync(places.serverLog, `${places.serverLog}.previous`);
}

/** The program and its arguments that make the files of a new server. */
export function initialiser(programs: ServerPrograms, datadir: string, tmpdir: string): readonly [string, string[]] {
  const common = ["--no-defaults", `--datadir=${datadir}`, `--tmpdir=${tmpdir}`, ...asRoot()];
  if (programs.initializer === undefined) return [programs.server, [...common, "--initialize-insecure"]];
  return [programs.initializer, [...common, "--auth-root-authentication-method=normal", "--skip-test-db"]];
}

/** As root the server must be told to run as root. */
function asRoot(): string[] {
  return process.getuid?.() === 0 ? ["--user=root"] : [];
}

function serverArguments({ places, programs, bufferPoolBytes }: SupervisorOrder): string[] {
  const redoLogBytes = Math.min(Math.max(Math.floor(bufferPoolBytes / 2), redoLogBytesMin), redoLogBytesMax);
  const redoLogMebibytes = Math.floor(redoLogBytes / mebibyte);
  const sortBufferBytes = Math.max(Math.floor(bufferPoolBytes * sortBufferPart), sortBufferBytesMin);
  const ofKind = {
    mariadb: [`--innodb-log-file-size=${redoLogMebibytes}M`],
    mysql: [
      `--loose-innodb-redo-log-capacity=${redoLogMebibytes}M`,
      "--loose-mysqlx=OFF",
      "--disable-log-bin",
      // A directory that distributions configure but do not create with the server program alone. The server does not
      // start without it.
      "--secure-file-priv=NULL",
    ],
  }[programs.kind];
  return [
    "--no-defaults",
    `--datadir=${places.databaseDir}`,
    `--tmpdir=${places.temporaryDir}`,
    `--socket=${places.sqlSocket}`,
    `--pid-file=${places.databaseDir}/server.pid`,
    "--skip-networking",
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    "--local-infile=ON",
    "--default-time-zone=+00:00",
    "--max-allowed-packet=64M",
    "--max-connections=500",
    `--innodb-buffer-pool-size=${bufferPoolBytes}`,
    `--innodb-sort-buffer-size=${Math.min(sortBufferBytes, sortBufferBytesMax)}`,
    // Commits reach the kernel: they survive the server's death, and a power failure loses at most a second.
    "--innodb-flush-log-at-trx-commit=2",
    "--performance-schema=OFF",
    ...ofKind,
    ...asRoot(),
  ];
}

function exitOf(child: ChildProcess): Promise<ServerExit> {
  return new Promise((resolve) => {
    child.once("error", () => resolve({ code: null, signal: null }));
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
}

async function stopServer(child: ChildProcess, exited: Promise<ServerExit>, isReady: boolean): Promise<void> {
  child.kill(isReady ? "SIGTERM" : "SIGKILL");
  const force = setTimeout(() => child.kill("SIGKILL"), stopMs);
  await exited;
  clearTimeout(force);
}

/** A server that accepts clients sends a greeting first. */
function greets(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    socket.once("data", () => {
      resolve(true);
      socket.destroy();
    });
    socket.once("error", () => resolve(false));
    socket.once("close", () => resolve(false));
  });
}
