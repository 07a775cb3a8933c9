import { createWriteStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { Config } from "../config.js";
import { OperatorError } from "../domain/operator-error.js";
import { simulate as simulateNetwork } from "../simulator/network.js";
import { ProgressLine } from "./progress-line.js";

/** Favours speed over size: a recording is written once and read once. */
const gzipLevel = 1;

/** Writes the recording of a simulated network. @throws OperatorError if the output cannot be written */
export async function simulate(config: Config<"simulate">): Promise<void> {
  const progress = new ProgressLine();
  const recording = Readable.from(withProgress(simulateNetwork(config), config.blocks, progress), {
    objectMode: false,
  });
  const out = config.out === "-" ? process.stdout : createWriteStream(config.out);
  try {
    if (config.out.endsWith(".gz")) await pipeline(recording, createGzip({ level: gzipLevel }), out);
    else await pipeline(recording, out, { end: config.out !== "-" });
  } catch (error) {
    // The reader of the pipe has what it wanted, as with `| head`.
    if (config.out === "-" && (error as NodeJS.ErrnoException).code === "EPIPE") return;
    throw new OperatorError(`cannot write ${config.out}: ${(error as Error).message}`, 1, error);
  } finally {
    progress.clear();
  }
}

function* withProgress(blocks: Iterable<Uint8Array>, total: number, progress: ProgressLine): Generator<Uint8Array> {
  let written = 0;
  for (const block of blocks) {
    yield block;
    written += 1;
    progress.update(() => `simulated ${written} of ${total} blocks (${Math.floor((100 * written) / total)}%)`);
  }
}
