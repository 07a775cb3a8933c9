import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { makeDatabase } from "./made-database.js";
import { skippedPartners } from "./partners.js";
import { startTestServer } from "./test-server.js";
import { leftOutFiles, runsLong } from "./tries.js";

declare module "vitest" {
  interface ProvidedContext {
    /** URL of a server where a test may create databases; no database in it. */
    serverUrl: string;
    /** Directory with the files of an empty database, to be copied; "" where there is no server program. */
    madeDatabase: string;
  }
}

/** One real database server for the whole run; each test file makes databases of its own on it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  for (const line of skippedPartners()) process.stderr.write(`${line}\n`);
  const leftOut = leftOutFiles();
  if (leftOut.length > 0) process.stderr.write(`skipped: ${leftOut.join(", ")} (${runsLong})\n`);
  const folder = await mkdtemp(join(tmpdir(), "marketd-made-"));
  const madeDatabase = await makeDatabase(folder);
  const server = await startTestServer(madeDatabase);
  project.provide("serverUrl", server.url);
  project.provide("madeDatabase", madeDatabase ?? "");
  return async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
}
