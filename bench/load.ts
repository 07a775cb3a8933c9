// npm run bench -- load [--entries N] [--parties N] [--rounds N] [--url URL]
// Ledger entries per second of `load` from a recording, against the server's own LOAD DATA LOCAL of the same rows, made
// ready beforehand as a text file, into the same table with the same indexes. Both alternate in one run, each into a
// new database. What `load` does beside that (decoding, numbering accounts, blocks) is its own time. By default there
// are 200 entries to an account, as in the bench of the ledger.
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

async function loadRecording(url: string): Promise<void> {
  await load({ database: url, sources: [await fileSource(recording)], log });
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
  console.log(JSON.stringify({ name: "load", ratios: { vs_load_data: Number(ratio.toFixed(3)) } }));
}

const embedded =
  values.url === undefined
    ? await openEmbedded({ dataDir: join(directory, "database"), log, bufferPoolBytes: 1024 * 1024 * 1024 })
    : undefined;
try {
  await run(values.url ?? embedded?.url ?? "");
} finally {
  await embedded?.close();
  rmSync(directory, { recursive: true, force: true });
}
