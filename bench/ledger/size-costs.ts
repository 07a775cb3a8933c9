import { spawn } from "node:child_process";
import { once } from "node:events";
import { get } from "node:http";
import { fileURLToPath } from "node:url";
import { openDatabase } from "../../src/store/database.js";
import { residentMibOf } from "../unary/process-usage.js";
import { ServiceProcess } from "../unary/service-process.js";
import { appendRate, assetId, type DatasetOptions, hotParty, partyId } from "./dataset.js";

/** What a ledger costs besides its pages. Times in milliseconds, memory in MiB. */
export interface SizeCosts {
  readonly entries: number;
  readonly accounts: number;
  /** Of the table with its indexes, in GB. */
  readonly stored: number;
  readonly appendedPerSecond: number;
  /** From starting `serve` with one worker until it is ready, and until it has given a page of a party. */
  readonly ready: number;
  readonly firstPage: number;
  /** Of the worker, after that page and after the exports. */
  readonly resident: number;
  readonly residentAfter: number;
  /** Of `load`: from its start until it has read where to continue, and its memory at most. */
  readonly loadReady: number;
  readonly loadResident: number;
  /** Of the busiest party: all of its entries, and those of one day. */
  readonly wholeExport: Exported;
  readonly dayExport: Exported;
}

interface Exported {
  readonly rows: number;
  readonly ms: number;
}

const appendedEntries = 200_000;
const startRounds = 3;
const samplePauseMs = 20;
const main = fileURLToPath(new URL("../../src/main.js", import.meta.url));
const dayNs = 86_400_000_000_000n;

/** Measures a ledger that {@link makeDataset} has made. */
export async function sizeCosts(url: string, options: DatasetOptions): Promise<SizeCosts> {
  const facts = await readFacts(url);
  const ready: number[] = [];
  const firstPage: number[] = [];
  let service: ServiceProcess | undefined;
  for (let round = 0; round < startRounds; round++) {
    await service?.stop();
    const startedAt = performance.now();
    service = await ServiceProcess.start("ours", url, 1);
    ready.push(performance.now() - startedAt);
    const query = new URLSearchParams({ "filter.fromAccountFilter.partyIds": partyId(hotParty) });
    const page = await fetch(`${service.url}/api/v2/ledgerentry/history?${query}`);
    if (page.status !== 200) throw new Error(`the first page was answered ${page.status}`);
    await page.arrayBuffer();
    firstPage.push(performance.now() - startedAt);
  }
  if (service === undefined) throw new RangeError("no round");
  const [resident = Number.NaN] = service.residentMib();
  const wholeExport = await exported(service.url);
  const dayExport = await exported(service.url, facts.day);
  const [residentAfter = Number.NaN] = service.residentMib();
  await service.stop();
  return {
    entries: options.entries,
    accounts: facts.accounts,
    stored: facts.stored,
    appendedPerSecond: await appendRate(url, options, appendedEntries),
    ...(await loadStart(url)),
    ready: median(ready),
    firstPage: median(firstPage),
    ...{ resident, residentAfter, wholeExport, dayExport },
  };
}

/** Prints a table with a column for each size. */
export function printSizeCosts(costs: readonly SizeCosts[]): void {
  const count = (value: number) => Math.round(value).toLocaleString("en");
  const rows: readonly (readonly [name: string, value: (costs: SizeCosts) => string])[] = [
    ["entries", ({ entries }) => count(entries)],
    ["accounts", ({ accounts }) => count(accounts)],
    ["table with indexes, GB", ({ stored }) => stored.toFixed(1)],
    ["LOAD DATA with all indexes, entries/s", ({ appendedPerSecond }) => count(appendedPerSecond)],
    ["start of serve until ready, ms", ({ ready }) => count(ready)],
    ["start of serve until the first page, ms", ({ firstPage }) => count(firstPage)],
    ["resident after the first page, MiB", ({ resident }) => count(resident)],
    ["start of load, ms", ({ loadReady }) => count(loadReady)],
    ["resident of load at most, MiB", ({ loadResident }) => count(loadResident)],
    ["export of a party, rows", ({ wholeExport }) => count(wholeExport.rows)],
    ["export of a party, rows/s", ({ wholeExport: { rows, ms } }) => count((rows / ms) * 1_000)],
    ["export of its day, rows", ({ dayExport }) => count(dayExport.rows)],
    ["export of its day, ms", ({ dayExport }) => count(dayExport.ms)],
    ["resident after the exports, MiB", ({ residentAfter }) => count(residentAfter)],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  for (const [name, value] of rows) {
    console.log(`${name.padEnd(width)}${costs.map((one) => value(one).padStart(15)).join("")}`);
  }
}

interface Facts {
  readonly accounts: number;
  readonly stored: number;
  /** A day in the middle, as query parameters; all of a ledger that is shorter. */
  readonly day: Record<string, string>;
}

async function readFacts(url: string): Promise<Facts> {
  const database = openDatabase(url, { connectionsMax: 1 });
  try {
    const [times] = await database.query<{ first: bigint; last: bigint }>(
      "SELECT MIN(time_ns) AS first, MAX(time_ns) AS last FROM block",
    );
    const [accounts] = await database.query<{ n: bigint }>("SELECT COUNT(*) AS n FROM account");
    const [first, last] = [times?.first ?? 0n, times?.last ?? 0n];
    const start = last - first > dayNs ? first + (last - first - dayNs) / 2n : first;
    return {
      accounts: Number(accounts?.n ?? 0n),
      stored: Number(await ledgerBytes(database)) / 1e9,
      day: { "dateRange.startTimestamp": String(start), "dateRange.endTimestamp": String(start + dayNs) },
    };
  } finally {
    await database.close();
  }
}

/** Bytes of the ledger's table with its indexes. */
export async function ledgerBytes(database: ReturnType<typeof openDatabase>): Promise<bigint> {
  const [size] = await database.query<{ bytes: bigint }>(
    `SELECT data_length + index_length AS bytes FROM information_schema.tables
     WHERE table_schema = DATABASE() AND table_name = 'ledger_entry'`,
  );
  return size?.bytes ?? 0n;
}

/** Starts `load` without anything to load. */
async function loadStart(url: string): Promise<Pick<SizeCosts, "loadReady" | "loadResident">> {
  const startedAt = performance.now();
  const args = [main, "load", "--database-url", url, "--log-level", "silent", "-"];
  const child = spawn(process.execPath, args, { stdio: "ignore" });
  let loadResident = 0;
  const sampler = setInterval(() => {
    if (child.exitCode === null) loadResident = Math.max(loadResident, residentMibOf(child.pid ?? 0) || 0);
  }, samplePauseMs);
  const [code] = await once(child, "exit");
  clearInterval(sampler);
  if (code !== 0) throw new Error(`marketd load ended with ${code}`);
  return { loadReady: performance.now() - startedAt, loadResident };
}

/** Reads the CSV of the busiest party. @throws Error if it is not complete */
function exported(serverUrl: string, range: Record<string, string> = {}): Promise<Exported> {
  const query = new URLSearchParams({
    partyId: partyId(hotParty),
    assetId: assetId(hotParty),
    alt: "media",
    ...range,
  });
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    get(`${serverUrl}/api/v2/ledgerentry/export?${query}`, { agent: false }, (response) => {
      response.on("error", reject);
      response.resume();
      response.on("end", () => {
        const rows = Number(response.trailers["export-rows"]);
        if (Number.isNaN(rows)) reject(new Error(`the export ended with ${response.statusCode} and no count`));
        else resolve({ rows, ms: performance.now() - startedAt });
      });
    }).on("error", reject);
  });
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}
