import { closeSync, mkdirSync } from "node:fs";
import { initialiseDatabase } from "../../src/embedded/database-server.js";
import { embeddedPlaces } from "../../src/embedded/embedded-places.js";
import { takeExclusiveLock } from "../../src/embedded/exclusive-lock.js";
import { findServerPrograms } from "../../src/embedded/server-programs.js";

/**
 * Makes the files of an empty database, as `openEmbedded` does in a new data directory. That takes seconds of CPU time:
 * a run does it once, and its servers start with copies.
 * @returns their directory; undefined where there is no server program
 */
export async function makeDatabase(dataDir: string): Promise<string | undefined> {
  const programs = await findServerPrograms().catch(() => undefined);
  if (programs === undefined) return undefined;
  const places = embeddedPlaces(dataDir);
  const lock = await takeExclusiveLock(places.lockFile, 0);
  if (lock === undefined) throw new Error(`${dataDir} is in use`);
  mkdirSync(places.temporaryDir, { recursive: true });
  await initialiseDatabase({ places, programs, bufferPoolBytes: 0 }, lock);
  closeSync(lock);
  return places.databaseDir;
}
