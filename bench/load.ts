// npm run bench -- load [--entries N] [--parties N] [--blocks N] [--rounds N] [--url URL] [--venues FOLDER [--only NAME] [--changes N]]
// Ledger entries per second of `load` from a recording, against the server's own LOAD DATA LOCAL of the same rows, made
// ready beforehand as a text file, into the same table with the same indexes. Both alternate in one run, each into a
// new database. What `load` does beside that (decoding, numbering accounts, blocks) is its own time. By default there
// are 200 entries to an account, as in the bench of the ledger. Then a recording of much trading is loaded with the past
// of its books and without, in turn: keep_books_vs_off is the ratio of the speeds. With --venues, recorded frames of five
// venues are loaded instead, repeated until their markets have --changes changed levels each on average, and it says
// what a change takes in the database. --rounds 0 compares no speeds.
import { createReadStream, createWriteStream, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { parseArgs } from "node:util";
import { openEmbedded } from "../src/embedded/open-embedded.js";
import { load } from "../src/loader/load.js";
import { fileSource } from "../src/loader/source.js";
import { simulate } from "../src/simulator/network.js";
import { openDatabase } from "../src/store/database.js";
import { migrate } from "../src/store/migrate.js";
import { openWriter } from "../src/store/writer.js";
import { createLog } from "../src/telemetry/log.js";
import { measurePast, venues, writeTrading, writeVenue } from "./load/books.js";

const entriesPerBlock = 5_000;
const loadFile = `LOAD DATA LOCAL INFILE 'rows' INTO TABLE ledger_entry CHARACTER SET binary`;
const orderedColumns =
  "id, from_account, to_account, class_id, transfer_type, time_ns, quantity, from_balance, to_balance";

const { values } = parseArgs({
  options: {
    entries: { type: "string", default: "500000" },
    parties: { type: "string", default: "1250" },
    rounds: { type: "string", default: "5" },
    url: { type: "string" },
    blocks: { type: "string", default: "1000" },
    venues: { type: "string" },
    only: { type: "string" },
    changes: { type: "string", default: "1000000" },
  },
});
const entries = Number(values.entries);
const log = createLog("silent");
const directory = mkdtempSync(join(tmpdir(), "marketd-bench-"));
const recording = join(directory, "recording.evts");
const rows = join(directory, "rows.tsv");
let databases = 0;

async function withNewDatabase<T>(server: string, use: (url: string) => Promise<T>): Promise<T> {
  const url = new URL(server);
  url.pathname = `/bench_load_${process.pid}_${++databases}`;
  await migrate(url.href, log);
  try {
    return await use(url.href);
  } finally {
    const database = openDatabase(url.href);
    await database.withConnection((connection) => connection.run(`DROP DATABASE ${url.pathname.slice(1)}`));
    await database.close();
  }
}

async function secondsOf(act: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await act();
  return (performance.now() - began) / 1_000;
}

async function loadRecording(url: string, keepBooks: "all" | "off" = "all"): Promise<void> {
  await load({ database: url, sources: [await fileSource(recording)], log, keepBooks });
}

async function loadRows(url: string): Promise<number> {
  const writer = await openWriter(url);
  try {
    const infileStreamFactory = () => createReadStream(rows, { highWaterMark: 256 * 1024 });
    const [outcome] = await (await writer.connection()).driver.query({ sql: loadFile, infileStreamFactory });
    return "affectedRows" in outcome ? outcome.affectedRows : 0;
  } finally {
    writer.close();
  }
}

/** Writes the rows that a load made as a text file. @returns how many */
async function prepareRows(url: string): Promise<number> {
  const database = openDatabase(url);
  let count = 0;
  async function* lines() {
    for (let after = -1n; ; ) {
      const page = await database.query(
        `SELECT ${orderedColumns} FROM ledger_entry WHERE id > ? ORDER BY id LIMIT 20000`,
        [after],
      );
      if (page.length === 0) return;
      count += page.length;
      after = page.at(-1)?.["id"] as bigint;
      yield `${page.map((row) => Object.values(row).join("\t")).join("\n")}\n`;
    }
  }
  await pipeline(Readable.from(lines()), createWriteStream(rows));
  await database.close();
  return count;
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;
}

/** Loads the recording with and without the past, in turn. @returns the ratio of the speeds */
async function compareBooks(server: string, rounds: number): Promise<number> {
  const seconds: Record<"all" | "off", number[]> = { all: [], off: [] };
  const cpuSeconds: Record<"all" | "off", number[]> = { all: [], off: [] };
  for (let round = 1; round <= rounds; round++) {
    for (const keep of round % 2 === 1 ? (["all", "off"] as const) : (["off", "all"] as const)) {
      const before = process.cpuUsage();
      seconds[keep].push(await withNewDatabase(server, (url) => secondsOf(() => loadRecording(url, keep))));
      const { user, system } = process.cpuUsage(before);
      cpuSeconds[keep].push((user + system) / 1e6);
    }
  }
  const ratio = median(seconds.off) / median(seconds.all);
  const text = (keep: "all" | "off") =>
    `${median(seconds[keep]).toFixed(2)} s (${median(cpuSeconds[keep]).toFixed(2)} s of CPU)`;
  console.log(`keep books: ${text("all")}, off: ${text("off")}`);
  return Number(ratio.toFixed(3));
}

async function runVenues(server: string, folder: string): Promise<void> {
  const ratios: Record<string, number> = {};
  console.log("venue    changes/update  sealed   bytes/change  (bodies)  unsealed  bytes/change");
  for (const [name, venue] of Object.entries(venues)) {
    if (values.only !== undefined && values.only !== name) continue;
    await writeVenue(recording, folder, venue, Number(values.changes));
    const size = await withNewDatabase(server, async (url) => {
      await loadRecording(url);
      const database = openDatabase(url);
      return await database.withConnection(measurePast).finally(() => database.close());
    });
    const { sealed, unsealed, updates, sealedBytes, unsealedBytes, bodyBytes } = size;
    const each = (bytes: number, changes: number) => (changes === 0 ? "-" : (bytes / changes).toFixed(2));
    const columns = [
      name.padEnd(9),
      ((sealed + unsealed) / updates).toFixed(1).padStart(14),
      String(sealed).padStart(8),
      ...[each(sealedBytes, sealed).padStart(15), each(bodyBytes, sealed).padStart(10)],
      ...[String(unsealed).padStart(10), each(unsealedBytes, unsealed).padStart(14)],
    ];
    console.log(columns.join(""));
    const rounds = Number(values.rounds);
    if (rounds > 0) ratios[`${name}_keep_books_vs_off`] = await compareBooks(server, rounds);
  }
  console.log(JSON.stringify({ name: "load", ratios }));
}

async function run(server: string): Promise<void> {
  const blocks = Math.ceil(entries / entriesPerBlock);
  const options = { seed: 1, markets: 2, parties: Number(values.parties), ordersPerBlock: 0, entriesPerBlock, blocks };
  await pipeline(Readable.from(simulate(options), { objectMode: false }), createWriteStream(recording));
  const count = await withNewDatabase(server, async (url) => {
    await loadRecording(url);
    return await prepareRows(url);
  });
  const mib = (path: string) => (statSync(path).size / 1024 / 1024).toFixed(0);
  console.log(`${count} entries; the recording has ${mib(recording)} MiB, the rows ${mib(rows)} MiB`);
  const ours: number[] = [];
  const theirs: number[] = [];
  console.log("round  load, entries/s  LOAD DATA, entries/s  ratio");
  for (let round = 1; round <= Number(values.rounds); round++) {
    const loading = () => withNewDatabase(server, (url) => secondsOf(() => loadRecording(url)));
    const bulk = () => withNewDatabase(server, (url) => secondsOf(() => loadRows(url)));
    const first = round % 2 === 1;
    if (first) ours.push(await loading());
    theirs.push(await bulk());
    if (!first) ours.push(await loading());
    const [us = Number.NaN, them = Number.NaN] = [ours.at(-1), theirs.at(-1)];
    const rate = (seconds: number) => String(Math.round(count / seconds));
    console.log(
      `${String(round).padStart(5)}${rate(us).padStart(17)}${rate(them).padStart(22)}${(them / us).toFixed(2).padStart(7)}`,
    );
  }
  const ratio = median(theirs) / median(ours);
  await writeTrading(recording, Number(values.blocks));
  const books = await compareBooks(server, Number(values.rounds));
  const ratios = { vs_load_data: Number(ratio.toFixed(3)), keep_books_vs_off: books };
  console.log(JSON.stringify({ name: "load", ratios }));
}

const embedded =
  values.url === undefined
    ? await openEmbedded({ dataDir: join(directory, "database"), log, bufferPoolBytes: 1024 * 1024 * 1024 })
    : undefined;
try {
  const server = values.url ?? embedded?.url ?? "";
  if (values.venues === undefined) await run(server);
  else await runVenues(server, values.venues);
} finally {
  await embedded?.close();
  rmSync(directory, { recursive: true, force: true });
}
