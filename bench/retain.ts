// npm run bench -- retain [--blocks N] [--url URL]
// What `marketd retain` costs readers: milliseconds of pages of 100 entries of a party, before, while old entries are
// dropped, and after; and how many entries a second go. Blocks have 5,000 entries, half of them are dropped.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { parseArgs } from "node:util";
import type { PageRequest } from "../src/domain/page.js";
import { openEmbedded } from "../src/embedded/open-embedded.js";
import { LedgerReader } from "../src/ledger/ledger-reader.js";
import { always } from "../src/ledger/ledger-view.js";
import { retain } from "../src/ledger/retain.js";
import type { LedgerFilter } from "../src/ledger/selection.js";
import { load } from "../src/loader/load.js";
import { streamSource } from "../src/loader/source.js";
import { simulate } from "../src/simulator/network.js";
import { type Database, openDatabase } from "../src/store/database.js";
import { migrate } from "../src/store/migrate.js";
import { createLog } from "../src/telemetry/log.js";
import { verify } from "../src/verify/verify.js";

const { values } = parseArgs({ options: { blocks: { type: "string", default: "100" }, url: { type: "string" } } });
const blocks = Number(values.blocks);
const measureMs = 5_000;
const log = createLog("silent");
const request: PageRequest<bigint> = { newestFirst: true, size: 100, backwards: false, cursor: undefined };

/** Medians and 99th percentiles of pages that are read one after the other. */
async function pages(database: Database, until: () => boolean): Promise<string> {
  const [{ party } = { party: "" }] = await database.query<{ party: string }>(
    "SELECT party_id AS party FROM account JOIN ledger_entry ON from_account = account_id ORDER BY id DESC LIMIT 1",
  );
  const side = { partyId: party, assetId: undefined, marketIds: [], types: [] };
  const filter: LedgerFilter = { from: side, to: side, closed: false, transferTypes: [] };
  const ledger = new LedgerReader(database);
  await ledger.page(filter, always, request);
  const times: number[] = [];
  while (!until()) {
    const startedAt = performance.now();
    await ledger.page(filter, always, request);
    times.push(performance.now() - startedAt);
  }
  times.sort((a, b) => a - b);
  const at = (part: number) => (times[Math.floor(part * (times.length - 1))] ?? 0).toFixed(2);
  return `${times.length} pages, median ${at(0.5)} ms, p99 ${at(0.99)} ms, slowest ${at(1)} ms`;
}

function after(ms: number): () => boolean {
  const end = performance.now() + ms;
  return () => performance.now() > end;
}

async function measure(url: string): Promise<void> {
  await migrate(url, log);
  const network = { seed: 3, markets: 4, parties: 1_250, ordersPerBlock: 0, entriesPerBlock: 5_000, blocks };
  const source = streamSource(Readable.from(simulate(network), { objectMode: false }), "bench");
  await load({ database: url, sources: [source], log });
  const database = openDatabase(url);
  const checkedAt = performance.now();
  const { checked } = await verify(database);
  const seconds = (performance.now() - checkedAt) / 1_000;
  console.log(
    `verify: ${checked.entries} entries in ${seconds.toFixed(1)} s, ${Math.round(checked.entries / seconds)}/s`,
  );
  console.log(`before: ${await pages(database, after(measureMs))}`);
  let isDone = false;
  const startedAt = performance.now();
  const dropping = retain(database, { keepNs: BigInt(blocks / 2) * 1_000_000_000n }).finally(() => {
    isDone = true;
  });
  console.log(`while entries are dropped: ${await pages(database, () => isDone)}`);
  const { entries } = await dropping;
  console.log(`dropped: ${entries} entries, ${Math.round((entries * 1_000) / (performance.now() - startedAt))}/s`);
  console.log(`after: ${await pages(database, after(measureMs))}`);
  await database.close();
}

if (values.url !== undefined) {
  await measure(values.url);
} else {
  const directory = mkdtempSync(join(tmpdir(), "marketd-bench-"));
  const server = await openEmbedded({ dataDir: join(directory, "database"), log });
  try {
    await measure(server.url);
  } finally {
    await server.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
