import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { Network, networkDefaults } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { startTestService, type TestService } from "../live/service.js";
import { DatabaseServer, missingServer } from "../support/database-server.js";
import { TcpBalancer } from "../support/tcp-balancer.js";
import { tries } from "../support/tries.js";

const log = createLog("silent");
const missing = await missingServer();
if (missing !== undefined) process.stderr.write(`${missing}\n`);
const rounds = Number(process.env["MARKETD_LAGGING_TRIES"] ?? tries(150));
const name = "lagging";

let primary: DatabaseServer;
let replica: DatabaseServer;
let balancer: TcpBalancer;
let service: TestService;
let truth: Database;
const network = new Network({ ...networkDefaults, seed: 5, chainId: "lagging-chain", parties: 10 });

async function grow(blocks: number): Promise<void> {
  const recording = Array.from({ length: blocks }, () => network.nextBlock());
  const source = streamSource(Readable.from(recording, { objectMode: false }), "a simulated network");
  await load({ database: primary.url(name), sources: [source], log });
}

async function heightOf(server: DatabaseServer): Promise<bigint> {
  const database = openDatabase(server.url(name), { connectionsMax: 1 });
  try {
    const [row] = await database.query<{ height: bigint }>("SELECT height FROM progress");
    return row?.height ?? 0n;
  } catch {
    return 0n;
  } finally {
    await database.close();
  }
}

beforeAll(async () => {
  if (missing !== undefined) return;
  // Statements are replicated as text: a name that each server made up would differ from one to the other.
  const settings = ["--log-bin=bin", "--binlog-format=STATEMENT", "--loose-gtid-mode=ON"];
  settings.push("--loose-enforce-gtid-consistency=ON");
  primary = await DatabaseServer.start([...settings, "--server-id=1"]);
  replica = await DatabaseServer.start([...settings, "--server-id=2"]);
  await replica.replicate(primary);
  await migrate(primary.url(name), log);
  await grow(20);
  await vi.waitFor(async () => expect(await heightOf(replica)).toBe(BigInt(network.height)), { timeout: 20_000 });
  truth = openDatabase(primary.url(name));
  balancer = await TcpBalancer.before(primary.port, replica.port);
});

afterAll(async () => {
  await service?.drain();
  await truth?.close();
  await balancer?.close();
  await replica?.stop();
  await primary?.stop();
});

const accounts = `FROM ledger_entry AS e JOIN account AS f ON f.account_id = e.from_account
  JOIN account AS t ON t.account_id = e.to_account`;

/** Does `work` `times` times, eight at a time. */
async function often(times: number, work: (n: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < times) await work(next++);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

test.skipIf(missing !== undefined)("a replica has the same name for the store", async () => {
  const names = await Promise.all(
    [primary, replica].map(async (server) => {
      const database = openDatabase(server.url(name), { connectionsMax: 1 });
      const rows = await database.query<{ store_id: string }>("SELECT store_id FROM progress");
      await database.close();
      return rows;
    }),
  );
  expect(names[0]?.[0]?.store_id).toMatch(/^[0-9a-f]{24}$/);
  expect(names[1]).toEqual(names[0]);
});

test.skipIf(missing !== undefined)(
  "behind a balancer, a replica that stands still shortens no export, page or list of pages",
  async () => {
    await replica.run("STOP REPLICA SQL_THREAD");
    await grow(20);
    const [subject] = await truth.query<{ party: string; asset: string }>(
      `SELECT f.party_id AS party, f.asset_id AS asset ${accounts} GROUP BY 1, 2 ORDER BY COUNT(*) DESC LIMIT 1`,
    );
    const { party = "", asset = "" } = subject ?? {};
    const idsUpTo = async (height: bigint) => {
      const rows = await truth.query<{ id: bigint }>("SELECT id FROM ledger_entry WHERE id < ? ORDER BY id", [
        (height + 1n) << 24n,
      ]);
      return rows.length;
    };
    const exportedUpTo = async (height: bigint) => {
      const [row] = await truth.query<{ entries: bigint }>(
        `SELECT COUNT(*) AS entries ${accounts} WHERE e.id < ? AND
         ((f.party_id = ? AND f.asset_id = ?) OR (t.party_id = ? AND t.asset_id = ?))`,
        [(height + 1n) << 24n, party, asset, party, asset],
      );
      return Number(row?.entries ?? -1n);
    };
    const heights = [await heightOf(replica), await heightOf(primary)] as const;
    expect(heights[0]).toBeLessThan(heights[1]);
    const whole = await idsUpTo(heights[1]);
    expect(await exportedUpTo(heights[0])).toBeLessThan(await exportedUpTo(heights[1]));

    service = await startTestService(`mysql://root@127.0.0.1:${balancer.port}/${name}`);
    await expect.poll(async () => (await fetch(`${service.url}/readyz`)).status).toBe(200);
    const problems: string[] = [];
    let seen = 0n;
    const query = new URLSearchParams({ partyId: party, assetId: asset, alt: "media" });
    await often(rounds, async () => {
      const seenBefore = seen;
      const response = await fetch(`${service.url}/api/v2/ledgerentry/export?${query}`);
      const rows = (await response.text()).trim().split("\r\n").length - 1;
      const newest = BigInt(response.headers.get("export-newest-block") ?? -1);
      if (response.status !== 200) problems.push(`export: status ${response.status}`);
      else if (rows !== (await exportedUpTo(newest))) problems.push(`export: ${rows} rows up to block ${newest}`);
      else if (newest < seenBefore) problems.push(`export: ends at block ${newest}, after one at ${seenBefore}`);
      if (newest > seen) seen = newest;
    });
    expect(problems).toEqual([]);
    // Some of them reached the primary, so what follows must not fall behind it.
    expect(seen).toBe(heights[1]);
    await often(Math.ceil(rounds / 10), async (n) => {
      const newestFirst = n % 2 === 0;
      let cursor = "";
      let visited = 0;
      for (;;) {
        const after = cursor === "" ? "" : `&pagination.after=${cursor}`;
        const url = `${service.url}/api/v2/ledgerentry/history?pagination.first=200&pagination.newestFirst=${newestFirst}${after}`;
        const response = await fetch(url);
        if (response.status !== 200) return void problems.push(`page: status ${response.status}`);
        const { ledgerEntries } = (await response.json()) as {
          ledgerEntries: { edges: object[]; pageInfo: { hasNextPage: boolean; endCursor: string } };
        };
        visited += ledgerEntries.edges.length;
        cursor = ledgerEntries.pageInfo.endCursor;
        if (!ledgerEntries.pageInfo.hasNextPage) break;
      }
      if (visited !== whole) problems.push(`pages: ${visited} of ${whole} entries`);
    });
    expect(problems).toEqual([]);
  },
  120_000,
);

test.skipIf(missing !== undefined)(
  "with the replica alone there is an honest error, and answers once it has caught up",
  async () => {
    const status = async () => (await fetch(`${service.url}/api/v2/ledgerentry/history?pagination.first=1`)).status;
    const bundles = async () =>
      (await fetch(`${service.url}/api/v2/erc20/multisigcontrol/signer/removed/bundles`)).status;
    expect([await status(), await bundles()]).toEqual([200, 200]);
    balancer.leadTo(replica.port);
    await expect.poll(status, { timeout: 20_000 }).toBe(503);
    const response = await fetch(`${service.url}/api/v2/ledgerentry/history`);
    expect(await response.json()).toMatchObject({ code: 14, details: [{ reason: "DATABASE_BEHIND" }, {}] });
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await bundles()).toBe(503);
    await replica.run("START REPLICA SQL_THREAD");
    await expect.poll(async () => [await status(), await bundles()], { timeout: 10_000 }).toEqual([200, 200]);
  },
  60_000,
);

test.skipIf(missing !== undefined)("a loader leaves a server that is made read-only for the new primary", async () => {
  await primary.run("CREATE USER plain@'%'", `GRANT ALL ON ${name}.* TO plain@'%'`);
  const writers = await TcpBalancer.before(primary.port);
  try {
    const source = streamSource(Readable.from(failOver(writers), { objectMode: false }), "a simulated network");
    await load({
      database: `mysql://plain@127.0.0.1:${writers.port}/${name}`,
      sources: [source],
      log,
      outageMsMax: 5_000,
    });
    expect(await heightOf(replica)).toBe(BigInt(network.height));
  } finally {
    await primary.run("SET GLOBAL read_only = 0");
    await writers.close();
  }
});

/** Blocks; after the second one, the replica takes the primary's place, whose connections stay open. */
async function* failOver(writers: TcpBalancer): AsyncGenerator<Uint8Array> {
  for (let block = 0; block < 2; block++) yield network.nextBlock();
  const before = BigInt(network.height) - 1n;
  await vi.waitFor(async () => expect(await heightOf(primary)).toBeGreaterThanOrEqual(before), { timeout: 20_000 });
  await primary.run("SET GLOBAL read_only = 1");
  const held = await heightOf(primary);
  await vi.waitFor(async () => expect(await heightOf(replica)).toBe(held), { timeout: 20_000 });
  await replica.run("STOP REPLICA");
  writers.leadNewTo(replica.port);
  for (let block = 0; block < 3; block++) yield network.nextBlock();
}
