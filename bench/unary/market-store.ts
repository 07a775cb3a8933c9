import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { openEmbedded } from "../../src/embedded/open-embedded.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { networkDefaults, simulate } from "../../src/simulator/network.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";

/** Blocks that the store holds. */
export const marketStoreBlocks = 200;

/** Lends a private database with a simulated network's markets. */
export async function withMarketStore(use: (url: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "marketd-bench-"));
  const log = createLog("silent");
  const database = await openEmbedded({ dataDir: join(directory, "database"), log });
  try {
    await migrate(database.url, log);
    const recording = Readable.from(simulate({ ...networkDefaults, blocks: marketStoreBlocks }), { objectMode: false });
    await load({ database: database.url, sources: [streamSource(recording, "simulation")], log });
    await use(database.url);
  } finally {
    await database.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
