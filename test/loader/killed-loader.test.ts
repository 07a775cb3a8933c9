import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { load } from "../../src/loader/load.js";
import { fileSource } from "../../src/loader/source.js";
import { simulate } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { type VerifyReport, verify } from "../../src/verify/verify.js";
import { newDatabaseUrl } from "../support/database.js";
import { dump } from "../support/dump.js";

const compiled = new URL("../../dist/src/", import.meta.url);
const log = createLog("silent");

/** A loader process of its own, on what `npm run build` made. */
const program = (url: string, path: string, transactionRowsMax: number) => `
  import { load } from ${JSON.stringify(new URL("loader/load.js", compiled).href)};
  import { fileSource } from ${JSON.stringify(new URL("loader/source.js", compiled).href)};
  import { createLog } from ${JSON.stringify(new URL("telemetry/log.js", compiled).href)};
  await load({
    database: ${JSON.stringify(url)}, sources: [await fileSource(${JSON.stringify(path)})],
    log: createLog("silent"), transactionRowsMax: ${transactionRowsMax},
  });`;

async function reached(store: Database): Promise<bigint> {
  const [row] = await store.query<{ stream_sequence: bigint }>("SELECT stream_sequence FROM progress");
  return row?.stream_sequence ?? 0n;
}

async function verified(url: string): Promise<VerifyReport> {
  const database = openDatabase(url, { connectionsMax: 3 });
  try {
    return await verify(database);
  } finally {
    await database.close();
  }
}

it("gives the same rows when the process is killed again and again, at any moment", async () => {
  const directory = mkdtempSync(join(tmpdir(), "marketd-kill-"));
  const path = join(directory, "recording.evts");
  writeFileSync(
    path,
    Buffer.concat([
      ...simulate({ seed: 7, markets: 4, parties: 20, ordersPerBlock: 10, entriesPerBlock: 60, blocks: 300 }),
    ]),
  );
  const [whole, killed] = [newDatabaseUrl().url, newDatabaseUrl().url];
  await migrate(whole, log);
  await migrate(killed, log);
  await load({ database: whole, sources: [await fileSource(path)], log });
  const store = openDatabase(killed, { connectionsMax: 1 });
  let kills = 0;
  try {
    for (let round = 0; ; round++) {
      const before = await reached(store);
      const child = spawn(process.execPath, ["--input-type=module", "-e", program(killed, path, 1 + round * 40)], {
        stdio: ["ignore", "ignore", "inherit"],
      });
      const ended = once(child, "exit");
      let alive = true;
      void ended.then(() => {
        alive = false;
      });
      // Killed soon after it began to write, so that the kill falls into the writing.
      while (alive && (await reached(store)) === before) await sleep(10);
      if (round < 8) {
        await sleep(Math.random() * 60);
        kills += child.kill("SIGKILL") ? 1 : 0;
      }
      const [code] = await ended;
      if (code === 0) break;
    }
  } finally {
    await store.close();
    rmSync(directory, { recursive: true });
  }
  expect(kills).toBeGreaterThan(3);
  expect(await dump(killed)).toEqual(await dump(whole));
  const { findings } = await verified(killed);
  expect(findings.listed).toEqual([]);
});
