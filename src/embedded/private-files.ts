import { closeSync, constants, fstatSync, ftruncateSync, lstatSync, openSync, type Stats } from "node:fs";
import { dirname } from "node:path";
import { OperatorError } from "../domain/operator-error.js";

/*
 * The private database has no password. An attacker who could create its files, directories or sockets could pose as
 * the database, or redirect our writes to another file. So owner and permissions are checked before anything is opened,
 * and symbolic links are not followed.
 */

const groupOrOthersWrite = 0o022;
const othersWrite = 0o002;
const sticky = 0o1000;
const groupOrOthers = 0o077;

const user = process.getuid?.();

/**
 * @throws OperatorError unless the path is a directory of this user to which nobody else may write, in a safe
 * location
 */
export function requireOwnDirectory(path: string): void {
  requireSafePlace(path);
  requireOwner(path, lstatSync(path), groupOrOthersWrite);
}

/**
 * @returns a descriptor of a directory of this user that nobody else may enter; undefined if it does not exist. Files
 * opened through it are in that directory, whatever its path refers to later.
 * @throws OperatorError if the path is anything else
 */
export function openOwnDirectory(path: string): number | undefined {
  requireSafePlace(path);
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw refusal(path, "is not a private directory of this user; remove it", error);
  }
  try {
    requireOwner(path, fstatSync(descriptor), groupOrOthers);
    return descriptor;
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

/**
 * Opens or creates a file of this user. Nothing in it changes before its owner is verified.
 * @param flags of open(2), without `O_TRUNC`
 * @throws OperatorError for a symbolic link, a file of another user, and a file with another hard link
 */
export function openOwnFile(path: string, flags: number): number {
  let descriptor: number;
  try {
    // Do not wait for the other end if it is a pipe.
    descriptor = openSync(path, flags | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK, 0o600);
  } catch (error) {
    throw refusal(path, "cannot be opened as a file of this user; remove it", error);
  }
  const stat = fstatSync(descriptor);
  if (stat.isFile() && isOwn(stat) && stat.nlink === 1) return descriptor;
  closeSync(descriptor);
  throw refusal(path, "is not a file of this user alone; remove it");
}

/** Opens a log for appending; `empty` truncates it. @throws OperatorError as {@link openOwnFile} */
export function openOwnLog(path: string, empty = false): number {
  const descriptor = openOwnFile(path, constants.O_WRONLY | constants.O_APPEND);
  if (empty) ftruncateSync(descriptor);
  return descriptor;
}

/** @throws OperatorError if another user could replace a directory of the path */
function requireSafePlace(path: string): void {
  for (let at = dirname(path); ; at = dirname(at)) {
    const { mode, uid } = lstatSync(at);
    const isSafe = (mode & othersWrite) === 0 || ((mode & sticky) !== 0 && (uid === 0 || uid === user));
    if (!isSafe) throw refusal(path, `is not safe: everybody may rename what is in ${at}; choose another place`);
    if (at === dirname(at)) return;
  }
}

function requireOwner(path: string, stat: Stats, forbidden: number): void {
  if (!stat.isDirectory()) throw refusal(path, "is not a directory");
  if (!isOwn(stat)) throw refusal(path, `belongs to user ${stat.uid} and this is user ${user}; it must be ours`);
  if ((stat.mode & forbidden) === 0) return;
  const remedy = forbidden === groupOrOthers ? "go-rwx" : "go-w";
  throw refusal(
    path,
    `may be ${forbidden === groupOrOthers ? "entered" : "written to"} by other users; run: chmod ${remedy} ${path}`,
  );
}

/** On systems without users (Windows), every file counts as one's own. */
function isOwn(stat: Stats): boolean {
  return user === undefined || stat.uid === user;
}

function refusal(path: string, why: string, cause?: unknown): OperatorError {
  return new OperatorError(`${path} ${why}`, 1, cause);
}
