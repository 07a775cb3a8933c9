import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { firstIdOfBlock } from "../../src/domain/block-position.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { Network, networkDefaults } from "../../src/simulator/network.js";
import { openDatabase } from "../../src/store/database.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { startTestService, type TestService } from "../live/service.js";
import { newDatabaseUrl } from "../support/database.js";

const log = createLog("silent");
const { url } = newDatabaseUrl();
let service: TestService;

async function fill(chainId: string, seed: number, blocks: number): Promise<void> {
  await migrate(url, log);
  const network = new Network({ ...networkDefaults, seed, chainId, parties: 10 });
  const recording = Array.from({ length: blocks }, () => network.nextBlock());
  const source = streamSource(Readable.from(recording, { objectMode: false }), "a simulated network");
  await load({ database: url, sources: [source], log });
}

/** What the database holds, told by its own joins: from party, to party and quantity of the newest entries. */
async function entriesInDatabase(): Promise<string[]> {
  const database = openDatabase(url, { connectionsMax: 1 });
  try {
    const rows = await database.query<{ entry: string }>(
      `SELECT CAST(CONCAT_WS(' ', f.party_id, t.party_id, e.quantity) AS CHAR) AS entry FROM ledger_entry AS e
       JOIN account AS f ON f.account_id = e.from_account JOIN account AS t ON t.account_id = e.to_account
       ORDER BY e.id DESC LIMIT 1000`,
    );
    return rows.map(({ entry }) => entry);
  } finally {
    await database.close();
  }
}

interface Entry {
  readonly fromAccountPartyId: string;
  readonly toAccountPartyId: string;
  readonly quantity: string;
}

async function entriesServed(query = ""): Promise<string[] | number> {
  const response = await fetch(`${service.url}/api/v2/ledgerentry/history${query}`);
  if (response.status !== 200) return response.status;
  const body = (await response.json()) as { ledgerEntries: { edges: { node: Entry }[] } };
  return body.ledgerEntries.edges.map(
    ({ node }) => `${node.fromAccountPartyId} ${node.toAccountPartyId} ${node.quantity}`,
  );
}

async function exported({ party, asset }: Subject): Promise<number> {
  const query = new URLSearchParams({ partyId: party, assetId: asset, alt: "media" });
  const response = await fetch(`${service.url}/api/v2/ledgerentry/export?${query}`);
  return (await response.text()).trim().split("\r\n").length - 1;
}

interface Subject {
  readonly party: string;
  readonly asset: string;
}

async function heightServed(): Promise<bigint> {
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  return BigInt(/^marketd_block_height (\d+)$/m.exec(metrics)?.[1] ?? "-1");
}

async function heightInDatabase(): Promise<bigint> {
  const database = openDatabase(url, { connectionsMax: 1 });
  const [row] = await database.query<{ height: bigint }>("SELECT height FROM progress");
  await database.close();
  return row?.height ?? -1n;
}

beforeAll(async () => {
  await fill("first-chain", 1, 50);
  service = await startTestService(url, { pollIntervalMs: 5 });
});

afterAll(async () => {
  await service?.drain();
  await dropDatabase(url);
});

const replacements = [
  { what: "another chain, longer than the first", chainId: "second-chain", seed: 2, blocks: 60 },
  { what: "the same chain, shorter", chainId: "second-chain", seed: 2, blocks: 20 },
  { what: "the same chain with other contents, as long", chainId: "second-chain", seed: 3, blocks: 20 },
];

test.each(replacements)("a database with $what in place of the old one is served as it is", async (replacement) => {
  const before = await entriesServed();
  expect(before).toEqual(await entriesInDatabase());
  await dropDatabase(url);
  const filling = fill(replacement.chainId, replacement.seed, replacement.blocks);
  // Whatever is answered meanwhile is what one of the two holds, or an honest error.
  const meanwhile: (string[] | number)[] = [];
  let filled = false;
  const asking = (async () => {
    while (!filled) meanwhile.push(await entriesServed("?pagination.first=20"));
  })();
  await filling;
  filled = true;
  await asking;
  const truth = await entriesInDatabase();
  await expect.poll(entriesServed, { interval: 10 }).toEqual(truth);
  await expect.poll(heightServed).toBe(await heightInDatabase());
  for (let again = 0; again < 50; again++) expect(await entriesServed()).toEqual(truth);
  const known = new Set([...(before as string[]), ...(await everyEntry())]);
  for (const reply of meanwhile) {
    if (typeof reply === "number") expect(reply).toBe(503);
    else expect(reply.filter((entry) => !known.has(entry))).toEqual([]);
  }
  const subject = await busiestSubject();
  expect(await exported(subject)).toBe(subject.entries);
});

async function everyEntry(): Promise<string[]> {
  const database = openDatabase(url, { connectionsMax: 1 });
  const rows = await database.query<{ entry: string }>(
    `SELECT CAST(CONCAT_WS(' ', f.party_id, t.party_id, e.quantity) AS CHAR) AS entry FROM ledger_entry AS e
     JOIN account AS f ON f.account_id = e.from_account JOIN account AS t ON t.account_id = e.to_account`,
  );
  await database.close();
  return rows.map(({ entry }) => entry);
}

/** The party and asset that most entries come from, and how many an export of them holds. */
async function busiestSubject(): Promise<Subject & { readonly entries: number }> {
  const database = openDatabase(url, { connectionsMax: 1 });
  const accounts = `FROM ledger_entry AS e JOIN account AS f ON f.account_id = e.from_account
    JOIN account AS t ON t.account_id = e.to_account`;
  const [subject] = await database.query<{ party: string; asset: string }>(
    `SELECT f.party_id AS party, f.asset_id AS asset ${accounts} GROUP BY 1, 2 ORDER BY COUNT(*) DESC LIMIT 1`,
  );
  const { party = "", asset = "" } = subject ?? {};
  const [row] = await database.query<{ entries: bigint }>(
    `SELECT COUNT(*) AS entries ${accounts}
     WHERE (f.party_id = ? AND f.asset_id = ?) OR (t.party_id = ? AND t.asset_id = ?)`,
    [party, asset, party, asset],
  );
  await database.close();
  return { party, asset, entries: Number(row?.entries ?? -1) };
}

test("a store that got another name is read afresh: the operator's way after a backup was restored", async () => {
  const height = await heightInDatabase();
  const database = openDatabase(url, { connectionsMax: 1 });
  // As a restored backup does, the place goes back, and the entries with it.
  await database.withConnection(async (connection) => {
    await connection.run("UPDATE progress SET stream_sequence = 5, height = 1");
    await connection.run(`DELETE FROM ledger_entry WHERE id >= ${firstIdOfBlock(2n)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await heightServed()).toBe(height);
    expect(await entriesServed()).toBe(503);
    await connection.run("UPDATE progress SET store_id = 'restored'");
  });
  await database.close();
  await expect.poll(heightServed).toBe(1n);
  expect(Array.isArray(await entriesServed())).toBe(true);
});
