import { chmodSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { openEmbedded } from "../../src/embedded/open-embedded.js";
import { findServerPrograms } from "../../src/embedded/server-programs.js";
import { createLog } from "../../src/telemetry/log.js";
import { makeDataDirectory } from "../support/database.js";
import { processesOf, until } from "./processes.js";

/** The clock of this process runs so many times as fast: minutes of an installation are seconds. */
const clockRate = 20;
const slowSeconds = 4;

const path = process.env["PATH"];
let folder = "";

afterEach(() => {
  vi.restoreAllMocks();
  process.env["PATH"] = path;
  rmSync(folder, { recursive: true, force: true });
});

test("a private database is opened though its programs took longer to install than others may hold the lock", async () => {
  const programs = await findServerPrograms();
  folder = realpathSync(mkdtempSync(join(tmpdir(), "marketd-slow-install-")));
  // As slow as apt: what is asked of it is what an installation ends with.
  const server = join(folder, basename(programs?.server ?? ""));
  const script = `case "$*" in *--version*) sleep ${slowSeconds};; esac\nexec ${programs?.server} "$@"`;
  writeFileSync(server, `#!/bin/sh\n${script}\n`);
  chmodSync(server, 0o755);
  process.env["PATH"] = `${folder}:${path}`;
  const dataDir = join(folder, "data");
  makeDataDirectory(dataDir);
  const now = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => now() * clockRate);
  const database = await openEmbedded({ dataDir, log: createLog("silent"), onProgress: () => {} });
  expect(database.url).toMatch(/^mysql:/);
  await database.close();
  vi.restoreAllMocks();
  await until("everything has gone", 10_000, () => processesOf(dataDir, "any").length === 0);
});
