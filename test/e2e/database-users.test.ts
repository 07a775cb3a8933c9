import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { Network, networkDefaults } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { readMigrations } from "../../src/store/migration-files.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { runMarketd, ServiceProcess } from "./service-process.js";

const operations = fileURLToPath(new URL("../../docs/operations.md", import.meta.url));
const { url, name } = newDatabaseUrl();
const users = ["migrate", "load", "serve"] as const;
const password = "choose-a-password";
const folder = mkdtempSync(join(tmpdir(), "marketd-users-"));
const recording = join(folder, "recording");
const more = join(folder, "more");
let root: Database;

/** The statements of the document, for users and a database of this test's own. */
function documented(): string[] {
  const block =
    /### Users of the database[\s\S]*?```sql\n([\s\S]*?)```/.exec(readFileSync(operations, "utf8"))?.[1] ?? "";
  return block
    .replaceAll("marketd.*", `${name}.*`)
    .replaceAll(/'marketd_(\w+)'/g, (_, user: string) => `'${userName(user)}'`)
    .replaceAll(/IDENTIFIED BY '[^']*'/g, `IDENTIFIED BY '${password}'`)
    .split(";")
    .map((statement) => statement.trim())
    .filter((statement) => statement !== "");
}

function userName(user: string): string {
  return `${name}_${user}`;
}

function urlFor(user: (typeof users)[number]): string {
  const given = new URL(url);
  given.username = userName(user);
  given.password = password;
  return given.href;
}

beforeAll(async () => {
  const server = new URL(inject("serverUrl"));
  server.pathname = "/mysql";
  root = openDatabase(server.href);
  for (const statement of documented()) await root.withConnection((connection) => connection.run(statement));
  const network = new Network({ ...networkDefaults, seed: 3 });
  const blocks = (count: number) => Buffer.concat(Array.from({ length: count }, () => network.nextBlock()));
  writeFileSync(recording, blocks(30));
  writeFileSync(more, blocks(10));
});

afterAll(async () => {
  for (const user of users) {
    await root.withConnection((connection) => connection.run(`DROP USER IF EXISTS '${userName(user)}'@'%'`));
  }
  await root.withConnection((connection) => connection.run(`DROP DATABASE IF EXISTS ${name}`));
  await root.close();
  rmSync(folder, { recursive: true, force: true });
});

test("migrate, load and serve do with the rights that the document gives each of them", async () => {
  const tooEarly = () => runMarketd("load", "--database-url", urlFor("load"), recording);
  await expect(tooEarly()).rejects.toThrow(
    /^marketd load ended with 1: marketd: there is no database [^\n]* run marketd migrate with a user who may[^\n]*\n$/,
  );
  await migrate(urlFor("migrate"), createLog("silent"), readMigrations().slice(0, 1));
  await expect(tooEarly()).rejects.toThrow(
    /^marketd load ended with 1: marketd: [^\n]* needs migrations that its user may not make: [^\n]*\n$/,
  );
  await runMarketd("migrate", "--database-url", urlFor("migrate"));
  await runMarketd("load", "--database-url", urlFor("load"), recording);
  const service = new ServiceProcess(urlFor("serve"), await freePort());
  try {
    await service.start();
    const history = async () => {
      const response = await fetch(`${service.url}/api/v2/ledgerentry/history?pagination.first=1`);
      return [response.status, (await response.text()).includes('"cursor"')];
    };
    expect(await history()).toEqual([200, true]);
    await runMarketd("load", "--database-url", urlFor("load"), more);
    await expect.poll(async () => (await fetch(`${service.url}/metrics`)).text()).toMatch(/^marketd_block_height 40$/m);
    await runMarketd("verify", "--database-url", urlFor("serve"));
    await runMarketd("verify", "--renew-digests", "--database-url", urlFor("load"));
    await runMarketd("retain", "--database-url", urlFor("load"), "--keep", "1m");
    expect(await history()).toEqual([200, true]);
    await root.withConnection(async (connection) => {
      const user = userName("serve");
      await connection.run(`ALTER USER '${user}'@'%' ACCOUNT LOCK`);
      const sessions = await connection.query<{ id: string }>(
        `SELECT CAST(id AS CHAR CHARACTER SET ascii) AS id FROM information_schema.processlist WHERE user = '${user}'`,
      );
      for (const { id } of sessions) await connection.run(`KILL ${id}`).catch(() => {});
    });
    expect(await history()).toEqual([503, false]);
    expect(service.printed).toContain("the database denies its user what the service needs");
    await root.withConnection((connection) => connection.run(`ALTER USER '${userName("serve")}'@'%' ACCOUNT UNLOCK`));
    await expect.poll(history, { timeout: 20_000 }).toEqual([200, true]);
  } finally {
    await service.kill();
  }
  // And no more than that.
  const serving = openDatabase(urlFor("serve"), { connectionsMax: 1 });
  const loading = openDatabase(urlFor("load"), { connectionsMax: 1 });
  await expect(serving.withConnection((c) => c.run("DELETE FROM progress"))).rejects.toMatchObject({ errno: 1142 });
  await expect(loading.withConnection((c) => c.run("CREATE TABLE x (id INT)"))).rejects.toMatchObject({ errno: 1142 });
  await Promise.all([serving.close(), loading.close()]);
});
