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
  /** Resolves when the process has ended, however; never rejects. */
  readonly exited: Promise<ServerExit>;
  /** To be called when it accepts clients: from then on it is ended by request, before that by force. */
  ready(): void;
  /** Ends it in order, and by force when that takes too long or it has not started yet; both leave the data whole. */
  stop(): Promise<void>;
}

const stopMs = 30_000;
const readyPollMs = 20;
const redoLogBytesMin = 16 * 1024 * 1024;
const redoLogBytesMax = 1024 * 1024 * 1024;
const logTailLines = 6;
const mebibyte = 1024 * 1024;

/**
 * `$@` becomes the server, and a shell that holds a pipe from the supervisor stays beside it. The end of the pipe, which
 * the kernel brings however the supervisor dies, makes the watch end the server; the word "done" sends the watch away.
 * The watch starts first, so there is no moment without one. A server that gets SIGTERM while it starts may hang for
 * ever; killed, it recovers at its next start.
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
 * Makes the data of an empty server, complete or not at all: it is made elsewhere and then renamed.
 * @throws Error with what the initialiser said
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
  // A server killed leaves its socket, and MySQL its lock file, which names a process that may be another by now.
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

/** Resolves when the server greets on its socket; false when it ended before. */
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

/** The last complaints of the server's own log, in one line. */
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

/** The log of this start alone; the one before stays beside it. */
export function turnServerLog(places: EmbeddedPlaces): void {
  if (existsSync(places.serverLog)) renameSync(places.serverLog, `${places.serverLog}.previous`);
}

function initialiser(programs: ServerPrograms, datadir: string, tmpdir: string): readonly [string, string[]] {
  const common = ["--no-defaults", `--datadir=${datadir}`, `--tmpdir=${tmpdir}`, ...asRoot()];
  if (programs.initializer === undefined) return [programs.server, [...common, "--initialize-insecure"]];
  return [programs.initializer, [...common, "--auth-root-authentication-method=normal", "--skip-test-db"]];
}

/** The server refuses to run as root unless told to. */
function asRoot(): string[] {
  return process.getuid?.() === 0 ? ["--user=root"] : [];
}

function serverArguments({ places, programs, bufferPoolBytes }: SupervisorOrder): string[] {
  const redoLogBytes = Math.min(Math.max(Math.floor(bufferPoolBytes / 2), redoLogBytesMin), redoLogBytesMax);
  const redoLogMebibytes = Math.floor(redoLogBytes / mebibyte);
  const ofKind = {
    mariadb: [`--innodb-log-file-size=${redoLogMebibytes}M`],
    mysql: [
      `--loose-innodb-redo-log-capacity=${redoLogMebibytes}M`,
      "--loose-mysqlx=OFF",
      "--disable-log-bin",
      // A folder that distributions set, and do not make with the server program alone: without it, there is no start.
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
    // Each commit is handed to the kernel: it outlives the server's death, and a power failure costs at most a second.
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

/** A server that accepts clients speaks first. */
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
