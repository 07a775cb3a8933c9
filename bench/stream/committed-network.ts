import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEmbedded } from "../../src/embedded/open-embedded.js";
import { writeBatch } from "../../src/loader/batch.js";
import { readSumsStart, TableSums } from "../../src/loader/table-sums.js";
import { migrate } from "../../src/store/migrate.js";
import type { Progress } from "../../src/store/progress-table.js";
import { openWriter, type Writer } from "../../src/store/writer.js";
import { createLog } from "../../src/telemetry/log.js";
import { type BlockSource, pollIntervalMs } from "./delay.js";
import { nowMs } from "./light-reader.js";
import { FoldedNetwork } from "./simulated-blocks.js";

const historyBlocks = 200;

/** A simulated network that commits its blocks to a private database when it is told to. */
export class CommittedNetwork implements BlockSource {
  readonly #network = new FoldedNetwork();
  #progress: Progress | undefined;
  #newestDigest: Uint8Array | undefined;

  private constructor(
    readonly url: string,
    private readonly writer: Writer,
    private readonly sums: TableSums,
  ) {}

  /** Lends a network that has some blocks behind it. */
  static async lease(use: (network: CommittedNetwork) => Promise<void>): Promise<void> {
    const directory = mkdtempSync(join(tmpdir(), "marketd-bench-"));
    const log = createLog("silent");
    const database = await openEmbedded({ dataDir: join(directory, "database"), log });
    try {
      await migrate(database.url, log);
      const writer = await openWriter(database.url);
      const sums = new TableSums(await writer.transaction((connection) => readSumsStart(connection, undefined)));
      const network = new CommittedNetwork(database.url, writer, sums);
      for (let block = 0; block < historyBlocks; block++) network.#network.nextBlock();
      await network.#commit();
      await use(network);
      writer.close();
    } finally {
      await database.close();
      rmSync(directory, { recursive: true, force: true });
    }
  }

  /** The poll interval, 5 ms, and a second for 100,000 streams. */
  aimMs(streams: number): number {
    return pollIntervalMs + 5 + streams / 100;
  }

  /** Commits blocks up to one that changes a book; gives when the database had committed that, by `nowMs`. */
  async block(): Promise<number> {
    for (;;) {
      this.#network.nextBlock();
      const changedLevels = await this.#commit();
      const committedAt = nowMs();
      if (changedLevels > 0) return committedAt;
    }
  }

  async #commit(): Promise<number> {
    const batch = this.#network.take();
    this.#progress = await this.writer.transaction((connection) =>
      writeBatch(connection, batch, this.#progress, {
        localInfile: false,
        loaderId: "",
        newestDigest: this.#newestDigest,
        sumsAfter: this.sums.after,
      }),
    );
    this.#newestDigest = batch.blocks.get(batch.reached.height)?.digest ?? this.#newestDigest;
    return batch.levels.size;
  }
}
