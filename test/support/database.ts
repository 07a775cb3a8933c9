import { randomBytes } from "node:crypto";
import { cpSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { inject } from "vitest";

/** A database of one test's own. */
export interface TestDatabase {
  /** `mysql://user@localhost/name?socket=/path` or `mysql://user:password@host:port/name`. */
  readonly url: string;
  readonly name: string;
}

/** The URL of a database with a new random name on the run's server; nothing is created yet. */
export function newDatabaseUrl(): TestDatabase {
  const url = new URL(inject("serverUrl"));
  const name = `test_${randomBytes(6).toString("hex")}`;
  url.pathname = `/${name}`;
  return { url: url.href, name };
}

/** Puts the files of an empty database into a directory that does not exist yet, for a server of a test's own. */
export function copyMadeDatabase(directory: string): void {
  cpSync(inject("madeDatabase"), directory, { recursive: true });
}

/** Makes a data directory as `openEmbedded` leaves it, so that it has nothing to make there. */
export function makeDataDirectory(dataDir: string): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  copyMadeDatabase(join(dataDir, "database"));
}
