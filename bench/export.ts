// npm run bench -- export [--entries N] [--parties N] [--hot-share F] [--rounds N] [--slow-seconds N] [--data-dir DIR]
// The export of the hottest party, below HTTP, against the database's own client that prints the same rows: both read
// from the same server, and the client's statement is the best of two. Memory is this process's.
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { exportLedgerEntries } from "../src/api/export-ledger-entries.js";
import type { ResponseStream } from "../src/domain/service.js";
import { LedgerReader } from "../src/ledger/ledger-reader.js";
import { parseDatabaseUrl } from "../src/store/connection/database-url.js";
import { openDatabase } from "../src/store/database.js";
import { createLog } from "../src/telemetry/log.js";
import { assetId, hotParty, makeDataset, partyId } from "./ledger/dataset.js";
import { openBenchServer } from "./ledger/place.js";

const { values } = parseArgs({
  options: {
    entries: { type: "string", default: "20000000" },
    parties: { type: "string", default: "35500" },
    "hot-share": { type: "string", default: "0.05" },
    rounds: { type: "string", default: "3" },
    "slow-seconds": { type: "string", default: "20" },
    "data-dir": { type: "string" },
  },
});

const slowBytesPerSecond = 1024 * 1024;

interface Outcome {
  readonly ms: number;
  readonly rows: number;
  readonly bytes: number;
  readonly residentMax: number;
}

/** Reads a whole export, as fast as it comes or at a rate. */
async function read(
  ledger: LedgerReader,
  format: "raw" | "envelope",
  limit?: { readonly bytesPerSecond: number; readonly seconds: number },
): Promise<Outcome> {
  const method = exportLedgerEntries({ ledger, log: createLog("silent") });
  if (method.kind !== "server_streaming") throw new Error("the export is a stream");
  const request = {
    $typeName: "datanode.api.v2.ExportLedgerEntriesRequest" as const,
    partyId: partyId(hotParty),
    assetId: assetId(hotParty),
  };
  const began = performance.now();
  const stream: ResponseStream = await method.open(request, {
    signal: new AbortController().signal,
    clientAddress: "bench",
    requestHeaders: {},
  });
  let bytes = 0;
  let residentMax = 0;
  for (;;) {
    const ready = new Promise<void>((resolve) => stream.onReady(resolve));
    const taken = stream.take();
    for (const response of taken) {
      const message = response.message() as unknown as { readonly data: Uint8Array };
      bytes += (format === "raw" ? message.data : response.json()).length;
    }
    residentMax = Math.max(residentMax, process.memoryUsage.rss());
    if (stream.failure !== undefined) throw stream.failure;
    if (taken.length === 0 && stream.ended) break;
    const elapsed = performance.now() - began;
    if (elapsed > (limit?.seconds ?? Number.POSITIVE_INFINITY) * 1000) break;
    if (limit !== undefined) await sleep(Math.max(0, (bytes / limit.bytesPerSecond) * 1000 - elapsed));
    // As with a socket, others have their turn between writes.
    await (taken.length === 0 ? ready : new Promise((resolve) => setImmediate(resolve)));
  }
  stream.close();
  const rows = Number(stream.trailers.get("export-rows") ?? 0);
  return { ms: performance.now() - began, rows, bytes, residentMax };
}

/** `mariadb --batch --quick` into a pipe that is read. */
function client(url: string, sql: string): Promise<Outcome> {
  const { host, port, socketPath, user, password, database } = parseDatabaseUrl(url);
  const place = socketPath === undefined ? [`-h${host}`, `-P${port}`] : [`-S${socketPath}`];
  const args = ["--no-defaults", ...place, `-u${user}`, "--batch", "--quick", database, "-e", sql];
  const began = performance.now();
  const child = spawn("mariadb", args, {
    env: { ...process.env, MYSQL_PWD: password },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let bytes = 0;
  let rows = -1;
  child.stdout.on("data", (piece: Buffer) => {
    bytes += piece.length;
    for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, at + 1)) rows++;
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve({ ms: performance.now() - began, rows, bytes, residentMax: 0 });
      else reject(new Error(`mariadb ended with ${code}`));
    });
  });
}

function clientStatements(): string[] {
  const columns = `e.time_ns, e.quantity, IF(f.party_id = t.party_id, '0', IF(f.party_id = '${partyId(hotParty)}', CONCAT('-', e.quantity), e.quantity)),
    e.transfer_type, f.asset_id, f.market_id, f.party_id, f.type, e.from_balance, t.market_id, t.party_id, t.type, e.to_balance`;
  const accounts = `SELECT account_id FROM account WHERE party_id = '${partyId(hotParty)}' AND asset_id = '${assetId(hotParty)}'`;
  const joins = "JOIN account f ON f.account_id = e.from_account JOIN account t ON t.account_id = e.to_account";
  return [
    `SELECT STRAIGHT_JOIN ${columns} FROM ledger_entry e FORCE INDEX (PRIMARY) ${joins}
     WHERE (f.party_id = '${partyId(hotParty)}' AND f.asset_id = '${assetId(hotParty)}')
        OR (t.party_id = '${partyId(hotParty)}' AND t.asset_id = '${assetId(hotParty)}') ORDER BY e.id`,
    `SELECT STRAIGHT_JOIN ${columns} FROM (
       SELECT e.id FROM (${accounts}) a JOIN ledger_entry e FORCE INDEX (ledger_entry_from) ON e.from_account = a.account_id
       UNION SELECT e.id FROM (${accounts}) a JOIN ledger_entry e FORCE INDEX (ledger_entry_to) ON e.to_account = a.account_id
     ) k JOIN ledger_entry e ON e.id = k.id ${joins} ORDER BY k.id`,
  ];
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

function show(name: string, outcomes: readonly Outcome[]): number {
  const rate = median(outcomes.map(({ rows, ms }) => (rows / ms) * 1000));
  const [{ rows, bytes } = { rows: 0, bytes: 0 }] = outcomes;
  const resident = Math.max(...outcomes.map(({ residentMax }) => residentMax));
  const memory = resident === 0 ? "" : `, resident at most ${Math.round(resident / 1e6)} MB`;
  const all = `${rows.toLocaleString("en")} rows, ${Math.round(bytes / 1e6)} MB`;
  console.log(`${name.padEnd(24)} ${Math.round(rate).toLocaleString("en").padStart(10)} rows/s (${all}${memory})`);
  return rate;
}

const server = await openBenchServer(values["data-dir"]);
try {
  const entries = Number(values.entries);
  const url = server.databaseUrl(`ledger_${entries}`);
  const options = { entries, parties: Number(values.parties), hotShare: Number(values["hot-share"]) };
  await makeDataset(url, options, console.log);
  const database = openDatabase(url);
  const ledger = new LedgerReader(database);
  await ledger.warm();
  const statements = clientStatements();
  const tried = [];
  for (const sql of statements) tried.push({ sql, ms: (await client(url, sql)).ms });
  const best = tried.sort((a, b) => a.ms - b.ms)[0]?.sql ?? "";
  await read(ledger, "raw");
  const outcomes = { client: [] as Outcome[], raw: [] as Outcome[], envelope: [] as Outcome[] };
  for (let round = 0; round < Number(values.rounds); round++) {
    outcomes.client.push(await client(url, best));
    outcomes.raw.push(await read(ledger, "raw"));
    outcomes.envelope.push(await read(ledger, "envelope"));
  }
  const reference = show("mariadb --batch --quick", outcomes.client);
  const raw = show("raw CSV", outcomes.raw);
  const envelope = show("envelope", outcomes.envelope);
  const before = process.memoryUsage.rss();
  const slow = await read(ledger, "raw", {
    bytesPerSecond: slowBytesPerSecond,
    seconds: Number(values["slow-seconds"]),
  });
  console.log(
    `reader of 1 MB/s for ${values["slow-seconds"]} s: ${Math.round(slow.bytes / 1e6)} MB taken, resident ` +
      `${Math.round(before / 1e6)} MB before, at most ${Math.round(slow.residentMax / 1e6)} MB`,
  );
  await database.close();
  const round = (value: number) => Math.round(value * 1000) / 1000;
  const ratios = {
    raw_vs_mariadb_client: round(raw / reference),
    envelope_vs_mariadb_client: round(envelope / reference),
  };
  console.log(JSON.stringify({ name: "export", ratios }));
} finally {
  await server.close();
}
