import { nanoseconds } from "../../src/domain/instant.js";
import { apiUrl, errorOf, paths, type Query, request } from "./service.js";

/** How far an export is. */
export interface ExportProgress {
  readonly rows: number;
  readonly bytes: number;
  /** From 0 to 1, by the time of the newest row; undefined while there is none. */
  readonly share: number | undefined;
}

/** A CSV that was read to its end. */
export interface ExportedFile {
  readonly name: string;
  readonly blob: Blob;
  readonly rows: number;
}

const lineFeed = 10;

/** Counts rows and follows the times of a CSV as its bytes arrive. */
class CsvProgress {
  #rows = -1;
  #bytes = 0;
  #first: bigint | undefined;
  #share: number | undefined;
  readonly #newest: bigint | undefined;
  readonly #decoder = new TextDecoder();

  /** @param newest time of the newest block that the file can hold, in nanoseconds */
  constructor(newest: string | null) {
    this.#newest = newest === null ? undefined : BigInt(newest);
  }

  add(chunk: Uint8Array): ExportProgress {
    this.#bytes += chunk.length;
    for (let at = chunk.indexOf(lineFeed); at >= 0; at = chunk.indexOf(lineFeed, at + 1)) this.#rows += 1;
    this.#follow(this.#decoder.decode(chunk, { stream: true }));
    return this.progress;
  }

  get progress(): ExportProgress {
    return { rows: Math.max(0, this.#rows), bytes: this.#bytes, share: this.#share };
  }

  #follow(text: string): void {
    const times = [...text.slice(-1_000).matchAll(/(?:^|\n)(\d{4}-[^,\n]{20,30}Z),/g)];
    const first = /\n(\d{4}-[^,\n]{20,30}Z),/.exec(text.slice(0, 1_000))?.[1];
    const newest = times.at(-1)?.[1] ?? first;
    if (newest === undefined) return;
    const at = BigInt(nanoseconds(newest) ?? 0);
    this.#first ??= BigInt(nanoseconds(first ?? newest) ?? 0);
    if (this.#newest === undefined || this.#newest <= this.#first) return;
    this.#share = Number(((at - this.#first) * 1_000n) / (this.#newest - this.#first)) / 1_000;
  }
}

/**
 * Reads an export as CSV. A file that breaks off is an error, never a short file.
 * @throws {ServiceError} when the service refuses; an error of the network when it breaks off
 */
export async function exportLedger(
  query: Query,
  onProgress: (progress: ExportProgress) => void,
  signal: AbortSignal,
): Promise<ExportedFile> {
  const response = await request(apiUrl(paths.ledgerExport, [...query, ["alt", "media"]]), { signal });
  if (!response.ok || response.body === null) throw await errorOf(response);
  const progress = new CsvProgress(response.headers.get("export-newest-block-timestamp"));
  const name = /filename="?([^";]+)/.exec(response.headers.get("content-disposition") ?? "")?.[1] ?? "ledger.csv";
  const reader = response.body.getReader();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    onProgress(progress.add(value));
  }
  return { name, blob: new Blob(chunks, { type: "text/csv" }), rows: progress.progress.rows };
}

/** Gives a file to the reader, as a download. */
export function save({ name, blob }: ExportedFile): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
