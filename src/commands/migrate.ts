import type { Config } from "../config.js";
import { migrate as migrateDatabase } from "../store/migrate.js";
import { createLog } from "../telemetry/log.js";
import { withDatabase } from "./database-choice.js";

/** Migrates the tables, and prints the result on standard output. */
export async function migrate(config: Config<"migrate">): Promise<void> {
  const log = createLog(config.logLevel);
  await withDatabase(config.database, log, async (url) => {
    const { version, applied, databaseCreated } = await migrateDatabase(url, log);
    const created = databaseCreated ? "database created; " : "";
    process.stdout.write(`${created}${applied} migrations applied; the database is at version ${version}\n`);
  });
}
