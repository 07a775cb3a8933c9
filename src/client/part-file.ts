import { createHash, type Hash } from "node:crypto";
import { existsSync } from "node:fs";
import { type FileHandle, mkdtemp, open, rename, rm, rmdir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { OperatorError } from "../domain/operator-error.js";

/** The hash of no bytes. */
export const emptySha256 = createHash("sha256").digest("hex");

/** The size of a read from a file. */
const chunkBytes = 1024 * 1024;

/** The end of a file, which one request returns again. */
export interface LastRows {
  /** The time of all these rows, as text. */
  readonly time: string;
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * A CSV file that grows by verified slices: appended bytes are either kept or dropped. Without a path it is a temporary
 * file that nobody else sees, and that is removed when the process ends.
 */
export class PartFile {
  readonly #path: string;
  readonly #handle: FileHandle;
  /** Bytes before the first byte of the file: those that were passed on. */
  #start = 0;
  /** The number and the hash of kept bytes. */
  #kept: { readonly bytes: number; readonly hash: Hash };
  /** The number and the hash of all bytes. */
  #bytes: number;
  #hash: Hash;

  private constructor(path: string, handle: FileHandle, bytes: number, hash: Hash) {
    this.#path = path;
    this.#handle = handle;
    this.#kept = { bytes, hash };
    this.#bytes = bytes;
    this.#hash = hash.copy();
  }

  /** An empty file, which replaces an existing one. @throws OperatorError */
  static async create(path: string | undefined): Promise<PartFile> {
    const file = path ?? join(await mkdtemp(join(tmpdir(), "marketd-export-")), "part");
    const handle = await writing(file, () => open(file, "w+"));
    if (path === undefined) {
      await rm(file);
      await rmdir(dirname(file));
    }
    return new PartFile(file, handle, 0, createHash("sha256"));
  }

  /** The first bytes of an existing file; undefined unless they have this hash. @throws OperatorError */
  static async resume(path: string, bytes: number, sha256: string): Promise<PartFile | undefined> {
    const handle = await writing(path, () => open(path, "r+")).catch(() => undefined);
    if (handle === undefined) return undefined;
    const hash = await hashOf(handle, bytes);
    if (hash?.copy().digest("hex") === sha256) {
      await writing(path, () => handle.truncate(bytes));
      return new PartFile(path, handle, bytes, hash);
    }
    await handle.close();
    return undefined;
  }

  /** Bytes so far, including those that are not kept yet. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The hash of all bytes, in lower-case hexadecimal. */
  get sha256(): string {
    return this.#hash.copy().digest("hex");
  }

  async append(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      const place = this.#bytes - this.#start + at;
      at += (await writing(this.#path, () => this.#handle.write(bytes, at, bytes.length - at, place))).bytesWritten;
    }
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
  }

  keep(): void {
    this.#kept = { bytes: this.#bytes, hash: this.#hash.copy() };
  }

  /** Drops bytes that are not kept. */
  async drop(): Promise<void> {
    this.#bytes = this.#kept.bytes;
    this.#hash = this.#kept.hash.copy();
    await writing(this.#path, () => this.#handle.truncate(this.#bytes - this.#start));
  }

  /** The rows at the end with the time of the last one; undefined if no row was kept. */
  async lastRows(): Promise<LastRows | undefined> {
    const end = this.#bytes - this.#start;
    const first = this.#kept.bytes - this.#start;
    for (let length = Math.min(chunkBytes, end - first); ; length = Math.min(2 * length, end - first)) {
      const text = (await this.#read(end - length, length)).toString("latin1");
      const lastLine = text.lastIndexOf("\n", text.length - 2) + 1;
      const time = text.slice(lastLine, text.indexOf(",", lastLine));
      if (!/^[0-9]{4}-/.test(time)) return undefined;
      const before = text.indexOf(`\n${time},`);
      // A line of another time before them proves that these are all.
      const isWhole = before > 0 && text.lastIndexOf("\n", before - 1) >= 0;
      if (!isWhole && length < end - first) continue;
      const start = text.startsWith(`${time},`) ? 0 : before + 1;
      const rows = Buffer.from(text.slice(start), "latin1");
      return { time, bytes: rows.length, sha256: createHash("sha256").update(rows).digest("hex") };
    }
  }

  /** Passes on the content of the file, and empties it. */
  async handOn(write: (bytes: Uint8Array) => Promise<void>): Promise<void> {
    const end = this.#bytes - this.#start;
    for (let at = 0; at < end; at += chunkBytes) await write(await this.#read(at, Math.min(chunkBytes, end - at)));
    await writing(this.#path, () => this.#handle.truncate(0));
    this.#start = this.#bytes;
  }

  /** Renames the file after it was synced to disk. @throws OperatorError, also if `path` exists and is not replaced */
  async finish(path: string, replaces: boolean): Promise<void> {
    await writing(path, () => this.#handle.sync());
    const found = (await hashOf(this.#handle, this.#bytes))?.digest("hex");
    if (found !== this.sha256) {
      throw new OperatorError(
        `${this.#path} was changed while it was written; see what else writes it, and export again`,
      );
    }
    if (!replaces) await claim(path);
    try {
      await writing(path, () => rename(this.#path, path));
    } catch (error) {
      if (!replaces) await unclaim(path);
      if (existsSync(this.#path)) throw error;
      const why = `see what removes it, or whether another export writes to ${path}, and export again`;
      throw new OperatorError(`${this.#path} is gone: ${why}`, 1, error);
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  async #read(place: number, length: number): Promise<Buffer> {
    const { bytesRead, buffer } = await this.#handle.read(Buffer.alloc(length), 0, length, place);
    return buffer.subarray(0, bytesRead);
  }
}

/** Makes an empty file of a name that is free, so that a rename replaces no file of somebody else. */
async function claim(path: string): Promise<void> {
  try {
    await (await open(path, "wx")).close();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw fileExists(path);
    throw new OperatorError(`cannot write ${path}: ${(error as Error).message}`, 1, error);
  }
}

/** Removes what `claim` made, unless somebody else has written there. */
async function unclaim(path: string): Promise<void> {
  const isEmpty = await stat(path).then(
    ({ size }) => size === 0,
    () => false,
  );
  if (isEmpty) await rm(path, { force: true });
}

/** Says that a file may not be replaced. */
export function fileExists(path: string): OperatorError {
  return new OperatorError(`${path} exists; replace it with --force, or name another file with --out`);
}

/** The hash of the first bytes of a file; undefined if it is shorter. */
async function hashOf(handle: FileHandle, bytes: number): Promise<Hash | undefined> {
  const hash = createHash("sha256");
  const buffer = Buffer.alloc(chunkBytes);
  for (let at = 0; at < bytes; ) {
    const { bytesRead } = await handle.read(buffer, 0, Math.min(chunkBytes, bytes - at), at);
    if (bytesRead === 0) return undefined;
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  return hash;
}

/** @throws OperatorError if the file cannot be written */
export async function writing<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new OperatorError(`cannot write ${path}: ${(error as Error).message}`, 1, error);
  }
}
