import { escapeId } from "mysql2/promise";
import { parseDatabaseUrl } from "./database-url.js";
import { connectTimeoutMs } from "./driver-connection.js";
import { ServerConnection } from "./server-connection.js";

/** Drops the URL's database if it exists. @throws Failure `unavailable` without a server */
export async function dropDatabase(url: string): Promise<void> {
  const address = parseDatabaseUrl(url);
  const server = await ServerConnection.open(
    { ...address, database: "" },
    { connectTimeoutMs, statementTimeoutMs: Number.POSITIVE_INFINITY },
  );
  try {
    await server.connection.run(`DROP DATABASE IF EXISTS ${escapeId(address.database)}`);
  } finally {
    server.destroy();
  }
}
