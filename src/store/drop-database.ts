import { createConnection } from "mysql2/promise";
import { toDatabaseFailure } from "./database-error.js";
import { parseDatabaseUrl } from "./database-url.js";
import { driverOptions } from "./driver-connection.js";

/** Drops the URL's database if it exists. @throws Failure `unavailable` without a server */
export async function dropDatabase(url: string): Promise<void> {
  const { database, ...server } = driverOptions(parseDatabaseUrl(url));
  try {
    const connection = await createConnection(server);
    try {
      await connection.query(`DROP DATABASE IF EXISTS ${connection.escapeId(database ?? "")}`);
    } finally {
      connection.destroy();
    }
  } catch (error) {
    throw toDatabaseFailure(error);
  }
}
