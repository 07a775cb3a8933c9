import { closeSync } from "node:fs";
import { cp, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { takeExclusiveLock } from "../../src/embedded/exclusive-lock.js";
import { openEmbedded } from "../../src/embedded/open-embedded.js";
import { createLog } from "../../src/telemetry/log.js";

/** A running database server for tests. */
export interface TestServer {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

const prefix = "marketd-test-";
const leftoverAgeMs = 3_600_000;
const bufferPoolBytes = 128 * 1024 * 1024;

/**
 * The server that MARKETD_TEST_SERVER_URL names, or a private one of this run's own.
 * @param madeDatabase directory with the files of an empty database, which need not be made then
 */
export async function startTestServer(madeDatabase?: string): Promise<TestServer> {
  const url = process.env["MARKETD_TEST_SERVER_URL"];
  if (url !== undefined && url !== "") return { url, stop: async () => {} };
  await removeLeftovers();
  const dataDir = await mkdtemp(join(tmpdir(), prefix));
  if (madeDatabase !== undefined) await cp(madeDatabase, join(dataDir, "database"), { recursive: true });
  const database = await openEmbedded({
    dataDir,
    log: createLog("warn"),
    onProgress: (text) => process.stderr.write(`test database: ${text}\n`),
    bufferPoolBytes,
    database: "",
  });
  const stop = async (): Promise<void> => {
    await database.close();
    await rm(dataDir, { recursive: true, force: true });
  };
  return { url: database.url, stop };
}

/** A run that was killed leaves its files, but nobody holds their lock. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const dataDir = join(tmpdir(), name);
    if (!name.startsWith(prefix)) continue;
    const changedMs = await stat(dataDir).then(
      (found) => found.mtimeMs,
      () => Date.now(), // another run removed it meanwhile
    );
    if (Date.now() - changedMs < leftoverAgeMs) continue;
    const lock = await takeExclusiveLock(join(dataDir, "lock"), 0).catch(() => undefined);
    if (lock === undefined) continue;
    closeSync(lock);
    await rm(dataDir, { recursive: true, force: true });
  }
}
