import { randomBytes } from "node:crypto";
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
