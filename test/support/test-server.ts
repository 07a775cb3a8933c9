import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEmbedded } from "../../src/embedded/open-embedded.js";
import { createLog } from "../../src/telemetry/log.js";

/** A running database server for tests. */
export interface TestServer {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

const bufferPoolBytes = 128 * 1024 * 1024;

/** The server that MARKETD_TEST_SERVER_URL names, or a private one of this run's own. */
export async function startTestServer(): Promise<TestServer> {
  const url = process.env["MARKETD_TEST_SERVER_URL"];
  if (url !== undefined && url !== "") return { url, stop: async () => {} };
  const dataDir = await mkdtemp(join(tmpdir(), "marketd-test-"));
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
