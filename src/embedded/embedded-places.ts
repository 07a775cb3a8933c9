import { createHash } from "node:crypto";
import { accessSync, closeSync, constants, existsSync, lstatSync, mkdirSync, opendirSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { OperatorError } from "../domain/operator-error.js";
import { thrownText } from "../domain/thrown-text.js";
import { openOwnDirectory, requireOwnDirectory } from "./private-files.js";

/** The paths of a private database, derived from the data directory and the user. */
export interface EmbeddedPlaces {
  /** Absolute, with symbolic links resolved. */
  readonly dataDir: string;
  /** The server's data. It appears in one step, complete. */
  readonly databaseDir: string;
  /**
   * A server deletes temporary tables that it finds at its start, including those of other servers, so each needs its
   * own directory.
   */
  readonly temporaryDir: string;
  /** The kernel holds this lock while a supervisor, or a server that it started, lives. */
  readonly lockFile: string;
  readonly serverLog: string;
  readonly supervisorLog: string;
  /** The directory of sockets, outside of the data directory because the path of a socket has a short limit. */
  readonly socketDir: string;
  /** The socket to which users of the database stay connected. */
  readonly supervisorSocket: string;
  readonly sqlSocket: string;
}

/** `sockaddr_un` takes 108 bytes on Linux and 104 on the BSDs and macOS, with the closing zero. */
const socketPathBytesMax = 103;

/**
 * Resolves and creates the data directory.
 * @throws OperatorError if this user cannot write there, or other users may write to it or its contents
 */
export function embeddedPlaces(dataDir: string): EmbeddedPlaces {
  const real = makeDataDir(dataDir);
  const user = process.getuid?.() ?? 0;
  const key = createHash("sha256").update(real).digest("hex").slice(0, 12);
  const socketDir = join(socketBase(), `marketd-${user}-${key}`);
  const places: EmbeddedPlaces = {
    dataDir: real,
    databaseDir: join(real, "database"),
    temporaryDir: join(real, "tmp"),
    lockFile: join(real, "lock"),
    serverLog: join(real, "server.log"),
    supervisorLog: join(real, "supervisor.log"),
    socketDir,
    supervisorSocket: join(socketDir, "users.sock"),
    sqlSocket: join(socketDir, "sql.sock"),
  };
  if (Buffer.byteLength(places.supervisorSocket) > socketPathBytesMax) {
    throw new OperatorError(`the path of the database's socket is too long: ${places.supervisorSocket}`);
  }
  refuseForeignDatabase(places.databaseDir, user);
  requireOwnDirectory(real);
  for (const directory of [places.databaseDir, places.temporaryDir]) {
    if (lstatSync(directory, { throwIfNoEntry: false }) !== undefined) requireOwnDirectory(directory);
  }
  return places;
}

/**
 * Creates the socket directory for this user only, because the database has no password.
 * @throws OperatorError if another user owns that path
 */
export function makeSocketDir(socketDir: string): void {
  try {
    mkdirSync(socketDir, { mode: 0o700 });
  } catch (error) {
    if (!isErrorCode(error, "EEXIST")) {
      throw new OperatorError(`cannot create ${socketDir}: ${thrownText(error)}`, 1, error);
    }
  }
  const descriptor = openOwnDirectory(socketDir);
  if (descriptor === undefined) throw new OperatorError(`${socketDir} was removed as it was made`);
  closeSync(descriptor);
}

/** True for a Node system error with this code. */
export function isErrorCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

function makeDataDir(dataDir: string): string {
  try {
    makeDir(dataDir);
    opendirSync(dataDir).closeSync();
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    return realpathSync(dataDir);
  } catch (error) {
    throw new OperatorError(`cannot use the data directory ${dataDir}: ${thrownText(error)}`, 1, error);
  }
}

/**
 * Node's `recursive` never returns in /proc, whose folders take none. Of a read-only file system, the folder that is there
 * says why.
 */
function makeDir(path: string): void {
  if (existsSync(path)) return;
  const folder = dirname(path);
  makeDir(folder);
  accessSync(folder, constants.W_OK);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Another command may have made it.
    if (!existsSync(path)) throw error;
  }
}

/** Does not prefer TMPDIR: commands with different values would not find each other. */
function socketBase(): string {
  try {
    accessSync("/tmp", constants.W_OK | constants.X_OK);
    return realpathSync("/tmp");
  } catch {
    return realpathSync(tmpdir());
  }
}

/** Root could write there, but the owner could not start the database afterwards. */
function refuseForeignDatabase(databaseDir: string, user: number): void {
  let owner: number;
  try {
    owner = lstatSync(databaseDir).uid;
  } catch {
    return;
  }
  if (owner === user) return;
  throw new OperatorError(
    `the database in ${databaseDir} belongs to user ${owner} and this is user ${user}; choose another data directory`,
  );
}
