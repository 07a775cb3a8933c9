import { constants, openSync } from "node:fs";
import { access, type FileHandle, open, stat } from "node:fs/promises";
import { Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { createGunzip } from "node:zlib";
import { RecordingError } from "./recording-error.js";

/** Bytes read from a file at a time. */
export const readBytes = 1024 * 1024;

/** How often a file that is followed is looked at for more. */
export const followIntervalMs = 50;

/** How often it is checked that a file that is followed is still the one of that name. */
export const followCheckIntervalMs = 1_000;

/** What every compressed recording begins with. */
const gzipMagic = Buffer.from([0x1f, 0x8b]);

/** A recording. */
export interface Source {
  /** For messages. */
  readonly name: string;
  /**
   * Its bytes, compressed or not, in chunks of any size; read once. A source that can begin anywhere begins with the
   * event that is needed first; undefined: the first one there is.
   */
  readonly read: (needed: bigint | undefined) => AsyncIterable<Uint8Array>;
  /** Bytes in all, where known. */
  readonly totalBytes: number | undefined;
  /** Whether it waits for more at its end: from the first wait on, each block is a transaction. */
  readonly followed: boolean;
  /** Whether events may come again, as from a producer that sends what it is not sure of once more; default not. */
  readonly repeats?: boolean;
  /** Whether it cannot be reached now. One that has nothing new is not lost. Default never. */
  readonly isLost?: boolean;
  /** Messages that are there and were not read yet; undefined: not known. */
  readonly messagesBehind?: bigint | undefined;
}

/** Options of {@link fileSource}. */
export interface FileSourceOptions {
  /** Wait for more at the end of the file. Only plain recordings can be followed, not compressed ones. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
  /** Tells how much of a compressed file was looked at before it is loaded, 0 to 1. */
  readonly onCheck?: (share: number) => void;
}

/** A file, or anything else that has a name and gives bytes. @throws RecordingError when it cannot be read */
export async function fileSource(path: string, options: FileSourceOptions = {}): Promise<Source> {
  try {
    // A pipe that has a name would break if it were opened to look.
    const found = await stat(path);
    await access(path, constants.R_OK);
    if (found.isDirectory()) throw new RecordingError(`${path}: is a directory, not a recording`);
    const followed = options.follow === true;
    const totalBytes = followed || !found.isFile() ? undefined : found.size;
    const isChecked = found.isFile() && !followed;
    const read = () =>
      isChecked ? readChecked(path, found.size, options) : (found.isFIFO() ? readPipe : readFile)(path, options);
    return { name: path, read, totalBytes, followed };
  } catch (error) {
    if (error instanceof RecordingError) throw error;
    const why =
      error instanceof Error && "code" in error && error.code === "ENOENT" ? "no such file" : "cannot be read";
    throw new RecordingError(`${path}: ${why}`, error);
  }
}

/** Standard input, or anything else that gives bytes. */
export function streamSource(bytes: AsyncIterable<Uint8Array>, name: string): Source {
  return { name, read: () => bytes, totalBytes: undefined, followed: false };
}

/**
 * The bytes of a file. All of one that is compressed is read before: what is wrong in it often shows only in the checksum
 * at its end, and what was loaded until then could not be taken back. What comes behind a right end does no harm.
 */
async function* readChecked(path: string, size: number, options: FileSourceOptions): AsyncGenerator<Uint8Array> {
  if (await isCompressed(path)) {
    let read = 0;
    const bytes = counted(readFile(path, options), (more) => {
      read += more;
      options.onCheck?.(read / size);
    });
    try {
      for await (const _ of gunzip(bytes, path));
    } catch (error) {
      // One that was stopped meanwhile seems to be cut. What else went wrong, the next reading meets.
      if (options.signal?.aborted === true) return;
      const isWrong = error instanceof RecordingError && error.cause !== undefined;
      if (isWrong) throw new RecordingError(`${error.message}; nothing of it was loaded`, error);
    }
  }
  yield* readFile(path, options);
}

async function isCompressed(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(gzipMagic.length));
    return bytesRead === gzipMagic.length && buffer.equals(gzipMagic);
  } finally {
    await file.close();
  }
}

async function* readFile(path: string, { follow, signal }: FileSourceOptions): AsyncGenerator<Uint8Array> {
  const file = await open(path);
  let position = 0;
  let checkedMs = performance.now();
  try {
    while (signal?.aborted !== true) {
      const buffer = Buffer.allocUnsafe(readBytes);
      const { bytesRead } = await file.read(buffer, 0, readBytes);
      position += bytesRead;
      if (bytesRead > 0) {
        yield buffer.subarray(0, bytesRead);
        continue;
      }
      if (follow !== true) return;
      if (performance.now() - checkedMs >= followCheckIntervalMs) {
        await checkSameFile(path, file, position);
        checkedMs = performance.now();
      }
      await sleep(followIntervalMs, undefined, { signal }).catch(() => {});
    }
  } finally {
    await file.close();
  }
}

/** @throws RecordingError if nothing will follow in an open file: it has another name now, or none, or became shorter */
async function checkSameFile(path: string, file: FileHandle, position: number): Promise<void> {
  const [named, opened] = await Promise.all([stat(path).catch(() => undefined), file.stat()]);
  if (!opened.isFile()) return;
  const what =
    named === undefined
      ? "was removed"
      : named.ino !== opened.ino || named.dev !== opened.dev
        ? "was replaced"
        : named.size < position
          ? "became shorter"
          : undefined;
  if (what === undefined) return;
  throw new RecordingError(
    `${path}: ${what} while it was followed, after byte ${position}; load again from what goes on`,
  );
}

/** Read as a file, a pipe that nobody writes to would keep the process from ending. */
async function* readPipe(path: string, { follow, signal }: FileSourceOptions): AsyncGenerator<Uint8Array> {
  // A reader that could also write would never see the pipe's end.
  const access = follow === true ? constants.O_RDWR : constants.O_RDONLY;
  const pipe = new Socket({ fd: openSync(path, access | constants.O_NONBLOCK), readable: true, writable: false });
  const close = () => pipe.destroy();
  signal?.addEventListener("abort", close, { once: true });
  try {
    if (signal?.aborted !== true) yield* pipe;
  } finally {
    signal?.removeEventListener("abort", close);
    pipe.destroy();
  }
}

/** The plain bytes of a source: gzip is known by its first two bytes, whatever the name. */
export async function* plainBytes(
  source: Source,
  needed: bigint | undefined,
  onRead: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  const chunks = counted(source.read(needed), onRead);
  try {
    let head = Buffer.alloc(0);
    while (head.length < gzipMagic.length) {
      const next = await chunks.next();
      if (next.done === true) break;
      head = Buffer.concat([head, next.value]);
    }
    const all = following(head, chunks);
    if (!head.subarray(0, gzipMagic.length).equals(gzipMagic)) yield* all;
    else if (!source.followed) yield* gunzip(all, source.name);
    else throw new RecordingError(`${source.name}: is compressed; only a plain recording can be followed`);
  } finally {
    await chunks.return(undefined);
  }
}

async function* following(head: Uint8Array, rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (head.length > 0) yield head;
  yield* rest;
}

async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  onRead: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    onRead(chunk.length);
    yield chunk;
  }
}

async function* gunzip(compressed: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<Uint8Array> {
  const gunzipped = createGunzip({ chunkSize: readBytes });
  let bytes = 0;
  const fed = counted(compressed, (more) => {
    bytes += more;
  });
  // A failure of either is what the reader of `gunzipped` gets.
  const feeding = pipeline(fed, gunzipped).catch(() => {});
  try {
    for await (const chunk of gunzipped) yield chunk;
    // Node takes a zero for the end, and whatever comes behind it for padding.
    if (gunzipped.bytesWritten < bytes) {
      const place = `after byte ${gunzipped.bytesWritten}`;
      throw new RecordingError(`${name}: the compressed file is damaged: ${place} comes what is not compressed`);
    }
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "Z_BUF_ERROR") throw new RecordingError(`${name}: the compressed file ends in the middle`, error);
    if (typeof code === "string" && code.startsWith("Z_")) {
      throw new RecordingError(`${name}: the compressed file is damaged`, error);
    }
    throw error;
  } finally {
    gunzipped.destroy();
    await feeding;
  }
}
