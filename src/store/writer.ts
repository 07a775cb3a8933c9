import { createPool, type PoolConnection } from "mysql2/promise";
import { type Connection, driverOptions, sessionSettings, wrapConnection } from "./database.js";
import { toDatabaseFailure } from "./database-error.js";
import { parseDatabaseUrl } from "./database-url.js";

/** The loader's own connection: one, held for the whole load, and the only one that may LOAD DATA LOCAL. */
export interface Writer {
  readonly connection: Connection;
  /** Runs `write` in a transaction: all of it is committed, or nothing. */
  transaction<T>(write: (connection: Connection) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** Connects. @throws Failure `unavailable` when the database cannot be reached */
export async function openWriter(url: string): Promise<Writer> {
  const pool = createPool({
    ...driverOptions(parseDatabaseUrl(url), { connectionsMax: 1 }),
    flags: ["LOCAL_FILES"],
  });
  let driver: PoolConnection;
  try {
    driver = await pool.getConnection();
    for (const setting of sessionSettings) await driver.query(setting);
  } catch (error) {
    await pool.end();
    throw toDatabaseFailure(error);
  }
  const connection = wrapConnection(driver);
  return {
    connection,
    transaction: async (write) => {
      await connection.run("START TRANSACTION");
      try {
        const result = await write(connection);
        await connection.run("COMMIT");
        return result;
      } catch (error) {
        await connection.run("ROLLBACK").catch(() => driver.destroy());
        throw error;
      }
    },
    close: async () => {
      driver.destroy();
      await pool.end();
    },
  };
}
