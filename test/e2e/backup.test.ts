import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, expect, test } from "vitest";
import { findPrograms } from "../../src/embedded/server-programs.js";
import { retain } from "../../src/ledger/retain.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { Network, networkDefaults } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { renderFinding } from "../../src/verify/findings.js";
import { verify } from "../../src/verify/verify.js";
import { newDatabaseUrl } from "../support/database.js";
import { dump } from "../support/dump.js";

/* The lines of docs/operations.md that back a store up and restore it, while it is loaded and entries are dropped. */

const log = createLog("silent");
const run = promisify(execFile);
const operations = fileURLToPath(new URL("../../docs/operations.md", import.meta.url));
const openings: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

/** The programs of a server's own release, if they are here: MariaDB installs its own under the names of MySQL's too. */
async function clientsOf(kind: "mariadb" | "mysql"): Promise<{ dump: string; client: string } | undefined> {
  const names = kind === "mariadb" ? (["mariadb-dump", "mariadb"] as const) : (["mysqldump", "mysql"] as const);
  const found = await findPrograms(names);
  const [dumper, client] = names.map((name) => found.get(name));
  if (dumper === undefined || client === undefined) return undefined;
  const { stdout } = await run(dumper, ["--version"]);
  return stdout.includes("MariaDB") === (kind === "mariadb") ? { dump: dumper, client } : undefined;
}

/** The documented line that runs a program. */
function documented(program: string): string {
  const line = readFileSync(operations, "utf8")
    .split("\n")
    .find((each) => each.includes(`${program} --defaults-extra-file=`));
  if (line === undefined) throw new Error(`docs/operations.md does not run ${program}`);
  return line;
}

function opened(url: string): Database {
  const database = openDatabase(url, { connectionsMax: 3 });
  openings.push(async () => {
    await database.close();
    await dropDatabase(url);
  });
  return database;
}

/** Lets the programs connect as the tests do. */
function writeOptions(path: string, databaseUrl: string): void {
  const { hostname, port, username, password, searchParams } = new URL(databaseUrl);
  const socket = searchParams.get("socket");
  const place = socket === null ? [`host=${hostname}`, `port=${port || 3306}`] : [`socket=${socket}`];
  const options = ["[client]", ...place, `user=${username}`, `password="${decodeURIComponent(password)}"`];
  writeFileSync(path, `${options.join("\n")}\n`, { mode: 0o600 });
}

async function versionOf(url: string): Promise<"mariadb" | "mysql"> {
  const server = openDatabase(url, { connectionsMax: 1 });
  const [row] = await server.query<{ v: string }>("SELECT CAST(VERSION() AS CHAR CHARACTER SET ascii) AS v");
  await server.close();
  return String(row?.v).includes("MariaDB") ? "mariadb" : "mysql";
}

test("a backup is consistent, verify passes on what is restored, and a loader goes on from there", async () => {
  const [{ url, name }, restored] = [newDatabaseUrl(), newDatabaseUrl()];
  await migrate(url, log);
  const kind = await versionOf(url);
  const clients = await clientsOf(kind);
  if (clients === undefined) {
    process.stderr.write(`skipped: a backup (the client programs of ${kind} are not on this machine)\n`);
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), "marketd-backup-"));
  openings.push(() => rmSync(folder, { recursive: true, force: true }));
  writeOptions(join(folder, "database.cnf"), url);
  const network = new Network({ ...networkDefaults, seed: 22, chainId: "backed-up", parties: 12 });
  const blocks = (count: number) => Array.from({ length: count }, () => network.nextBlock());
  const whole: Buffer[] = blocks(300).map((block) => Buffer.from(block));
  const source = (chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>) =>
    streamSource(Readable.from(chunks, { objectMode: false }), "test");
  await load({ database: url, sources: [source(whole)], log });

  const database = opened(url);
  let isEnough = false;
  const growing = async function* () {
    while (!isEnough || whole.length < 340) {
      const block = Buffer.from(network.nextBlock());
      whole.push(block);
      yield block;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  const loading = load({ database: url, sources: [source(growing())], log, blockByBlock: true });
  const dropping = retain(database, { keepNs: 100_000_000_000n, entriesPerDelete: 20 });
  const line = (program: string, path: string) =>
    documented(program)
      .replaceAll(`${program} `, `${path} `)
      .replaceAll(/\bmarketd\b(?=[ ;])/g, name)
      .replaceAll("restored", restored.name);
  await run("bash", ["-euc", line(kind === "mariadb" ? "mariadb-dump" : "mysqldump", clients.dump)], { cwd: folder });
  isEnough = true;
  await loading;
  await dropping;

  await run("bash", ["-euc", line(kind, clients.client)], { cwd: folder });
  const copy = opened(restored.url);
  const report = await verify(copy);
  expect(report.findings.listed.map(renderFinding)).toEqual([]);
  const height = report.progress?.height ?? 0n;
  expect(height).toBeGreaterThanOrEqual(300n);
  expect(height).toBeLessThan(BigInt(whole.length));
  const id = "SELECT store_id AS id FROM progress";
  expect(await copy.query(id)).toEqual(await database.query(id));
  // The same recording again: what is there already is skipped.
  await load({ database: restored.url, sources: [source(whole)], log });
  for (const each of [database, copy]) {
    await retain(each, { keepNs: 100_000_000_000n });
    expect((await verify(each)).findings.listed.map(renderFinding)).toEqual([]);
  }
  const without = (lines: string[]) => lines.filter((each) => !each.startsWith("progress:"));
  expect(without(await dump(restored.url))).toEqual(without(await dump(url)));
}, 120_000);
