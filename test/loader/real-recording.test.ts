import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import { load } from "../../src/loader/load.js";
import type { LoadSummary } from "../../src/loader/load-summary.js";
import { fileSource, streamSource } from "../../src/loader/source.js";
import { openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { dump } from "../support/dump.js";
import { framesOf } from "../support/kafka-broker.js";
import { inChunks } from "../support/recording.js";
import { tries } from "../support/tries.js";

const log = createLog("silent");
const path = process.env["MARKETD_RECORDING"] ?? "";

/** A migrated database of its own. */
async function newDatabase(): Promise<string> {
  const { url } = newDatabaseUrl();
  await migrate(url, log);
  return url;
}

describe.skipIf(path === "")("the recording of a real network", () => {
  let database: string;
  let summary: LoadSummary;
  let rows: string[];
  let bytes: Buffer;

  beforeAll(async () => {
    database = await newDatabase();
    summary = await load({ database, sources: [await fileSource(path)], log });
    rows = await dump(database);
    bytes = gunzipSync(readFileSync(path));
  });

  it("has the counts of its description, and the network's own best prices at every place", async () => {
    expect(summary).toMatchObject({
      events: 31_837,
      blocks: 5_002,
      ledgerEntries: 322,
      bestPricesCompared: 5_110,
      bestPricesDiffering: 0,
      unknownFields: 0,
      progress: { chainId: "testnet-001", streamSequence: 31_836n, height: 5_001n },
    });
    const counts = Object.fromEntries(
      rows.map((line) => line.split(/: | rows /)).map(([table, n]) => [table, Number(n)]),
    );
    expect(counts).toMatchObject({
      block: 5_001,
      market: 16,
      market_depth: 11,
      last_trade: 10,
      account: 118,
      ledger_entry: 322,
      node_signature: 6,
      signer_removed_bundle: 0,
    });
    const store = openDatabase(database);
    const books = await store.query("SELECT DISTINCT market_id FROM price_level WHERE volume > 0");
    const published = await store.query("SELECT market_id FROM market_depth WHERE published_sequence_number > 0");
    const ends = await store.query("SELECT MIN(time_ns) AS first, MAX(time_ns) AS last FROM block");
    await store.close();
    expect(books).toHaveLength(2);
    expect(published).toHaveLength(10);
    expect(ends).toEqual([{ first: 1674004004022698621n, last: 1674005926671178127n }]);
  });

  it("changes no row when it is loaded again", async () => {
    const again = await load({ database, sources: [await fileSource(path)], log });
    expect(again).toMatchObject({ alreadyLoaded: 31_836, blocks: 0, events: 1 });
    expect(await dump(database)).toEqual(rows);
  });

  it("gives the same rows in pieces, cut anywhere, in chunks and transactions of any size", async () => {
    const url = await newDatabase();
    const cuts = Array.from({ length: 12 }, (_, i) => Math.floor(((i + 0.37) * bytes.length) / 12));
    for (const cut of [...cuts, bytes.length]) {
      const source = streamSource(inChunks(bytes.subarray(0, cut), 7_919), "piece");
      const loading = load({ database: url, sources: [source], log, transactionRowsMax: 1 + (cut % 300) });
      if (cut === bytes.length) await loading;
      else await expect(loading).rejects.toThrow(/^piece: ends in the middle of a frame: the one at byte \d+ has only/);
    }
    expect(await dump(url)).toEqual(rows);
  });

  it("gives the same rows block by block, and without LOAD DATA", async () => {
    const url = await newDatabase();
    const options = { database: url, log, localInfile: false };
    const frames = framesOf(bytes);
    const atOnce = Buffer.concat(frames.slice(0, frames.length - tries(frames.length)));
    if (atOnce.length > 0) await load({ ...options, sources: [streamSource(inChunks(atOnce), "first")] });
    await load({ ...options, sources: [await fileSource(path)], blockByBlock: true });
    expect(await dump(url)).toEqual(rows);
  });
});
