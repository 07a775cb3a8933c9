import type { TestProject } from "vitest/node";
import { skippedPartners } from "./partners.js";
import { startTestServer } from "./test-server.js";

declare module "vitest" {
  interface ProvidedContext {
    /** URL of a server where a test may create databases; no database in it. */
    serverUrl: string;
  }
}

/** One real database server for the whole run; each test file makes databases of its own on it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  for (const line of skippedPartners()) process.stderr.write(`${line}\n`);
  const server = await startTestServer();
  project.provide("serverUrl", server.url);
  return server.stop;
}
