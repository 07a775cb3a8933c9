import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { simulate } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { runToEnd, startMarketd } from "../support/run-marketd.js";

/* The connections that each command takes, as docs/operations.md says: its user may have no more. */

const { url, name } = newDatabaseUrl();
const user = `${name}_few`;
const few = new URL(url);
[few.username, few.password] = [user, "a-password"];
const folder = mkdtempSync(join(tmpdir(), "marketd-few-"));
const recording = join(folder, "recording.evts");
const ends: (() => unknown)[] = [];
let admin: Database;

function run(sql: string): Promise<void> {
  return admin.withConnection(async (connection) => {
    await connection.run(sql);
  });
}

/** From now on the user may have so many connections. */
function allow(connections: number): Promise<void> {
  return run(`ALTER USER '${user}'@'%' WITH MAX_USER_CONNECTIONS ${connections}`);
}

beforeAll(async () => {
  await migrate(url, createLog("silent"));
  admin = openDatabase(url, { connectionsMax: 1 });
  await run(`CREATE USER '${user}'@'%' IDENTIFIED BY 'a-password'`);
  await run(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${name}.* TO '${user}'@'%'`);
  const network = { seed: 3, blocks: 60, markets: 3, parties: 6, ordersPerBlock: 9, entriesPerBlock: 20 };
  writeFileSync(recording, Buffer.concat([...simulate(network)]));
});

afterAll(async () => {
  for (const end of ends) end();
  await run(`DROP USER '${user}'@'%'`);
  await admin.close();
  await dropDatabase(url);
  rmSync(folder, { recursive: true });
});

it("load and verify take 2 and 3", async () => {
  await allow(2);
  expect((await runToEnd(["load", "--database-url", few.href, recording])).code).toBe(0);
  await allow(3);
  expect((await runToEnd(["verify", "--database-url", few.href])).code).toBe(0);
});

it("a worker of serve takes up to 11, and works with 2", async () => {
  for (const [connections, requests] of [
    [11, 60],
    [2, 1],
  ] as const) {
    await allow(connections);
    const listen = `127.0.0.1:${await freePort()}`;
    const flags = ["--workers", "1", "--log-level", "warn"];
    const serve = startMarketd(["serve", "--database-url", few.href, "--listen", listen, ...flags]);
    ends.push(() => serve.child.kill("SIGKILL"));
    const ask = async (path: string) => (await fetch(`http://${listen}/${path}`)).status;
    await vi.waitFor(async () => expect(await ask("readyz")).toBe(200), { timeout: 30_000 });
    const paths = ["api/v2/trades", "api/v2/accounts", "api/v2/ledgerentry/history"];
    const asked = Array.from({ length: requests }, (_, n) => ask(paths[n % paths.length] ?? ""));
    expect(new Set(await Promise.all(asked))).toEqual(new Set([200]));
    serve.child.kill("SIGTERM");
    expect(await serve.ending).toMatchObject({ code: 0, error: "" });
  }
});
