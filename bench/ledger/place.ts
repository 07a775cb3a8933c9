import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEmbedded } from "../../src/embedded/open-embedded.js";
import { createLog } from "../../src/telemetry/log.js";

/** Memory for the cache of a private server: holds ledgers of 2 and 20 million entries with their indexes. */
export const bufferPoolGibDefault = 6;

/** A server for a bench: the one that MARKETD_BENCH_SERVER_URL names, or a private one. */
export interface BenchServer {
  databaseUrl(name: string): string;
  close(): Promise<void>;
}

/** `dataDir` keeps what is made there for the next run; without it the folder is a temporary one. */
export async function openBenchServer(
  dataDir: string | undefined,
  bufferPoolGib = bufferPoolGibDefault,
): Promise<BenchServer> {
  const given = process.env["MARKETD_BENCH_SERVER_URL"];
  const databaseUrl = (server: string) => (name: string) => {
    const url = new URL(server);
    url.pathname = `/${name}`;
    return url.href;
  };
  if (given !== undefined && given !== "") return { databaseUrl: databaseUrl(given), close: async () => {} };
  const folder = dataDir ?? (await mkdtemp(join(tmpdir(), "marketd-bench-")));
  const embedded = await openEmbedded({
    dataDir: folder,
    log: createLog("error"),
    onProgress: (text) => console.error(text),
    bufferPoolBytes: bufferPoolGib * 1024 ** 3,
    database: "",
  });
  return {
    databaseUrl: databaseUrl(embedded.url),
    close: async () => {
      await embedded.close();
      if (dataDir === undefined) await rm(folder, { recursive: true, force: true });
    },
  };
}
