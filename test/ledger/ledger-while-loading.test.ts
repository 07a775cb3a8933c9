import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { entryId } from "../../src/domain/block-position.js";
import type { TimeRange } from "../../src/domain/date-range.js";
import type { PageRequest } from "../../src/domain/page.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import type { AccountSide, LedgerFilter } from "../../src/ledger/selection.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { RecordingBuilder } from "../support/recording.js";
import type { FixtureAccount, FixtureEntry } from "./ledger-fixture.js";
import { modelList, modelPage, plain } from "./ledger-model.js";

const log = createLog("silent");
const always: TimeRange = { startNs: undefined, endNs: undefined };
const parties = ["alice", "bob", "carol"];
const blockCount = 120;
const genesisNs = 1_700_000_000_123_456_789n;

const account: fc.Arbitrary<FixtureAccount> = fc
  .record({
    party: fc.constantFrom("network", ...parties),
    asset: fc.constantFrom("usd", "eur"),
    market: fc.constantFrom("", "m1", "m2"),
    type: fc.constantFrom(1, 3, 4),
  })
  .map((value) => ({ ...value }));
const digits = fc.oneof(fc.bigInt(0n, 9n), fc.bigInt(2n ** 64n, 2n ** 65n), fc.bigInt(10n ** 77n, 2n ** 256n - 1n));
const newEntry = fc.record({
  from: account,
  to: account,
  transferType: fc.constantFrom(1, 2, 3, 4),
  quantity: digits.map(String),
  fromBalance: digits.map(String),
  toBalance: digits.map(String),
});

/** The ledger as blocks; some are empty, some large enough for LOAD DATA. */
const blocks: FixtureEntry[][] = Array.from({ length: blockCount }, (_, i) => {
  const height = BigInt(i + 1);
  const timeNs = genesisNs + height * 1_000_000_007n;
  const size = [0, 2, 5, 40][i % 4] ?? 0;
  return fc
    .sample(newEntry, { numRuns: size, seed: 77 + i })
    .map((entry, position) => ({ ...entry, id: entryId(height, position), timeNs }));
});

const side: fc.Arbitrary<AccountSide | undefined> = fc.option(
  fc.record({
    partyId: fc.option(fc.constantFrom("network", ...parties, "nobody"), { nil: undefined }),
    assetId: fc.option(fc.constantFrom("usd", "eur"), { nil: undefined, freq: 2 }),
    marketIds: fc.oneof(fc.constant([]), fc.subarray(["m1", "m2"])),
    types: fc.oneof(fc.constant([]), fc.subarray([1, 3, 4])),
  }),
  { nil: undefined },
);
const filters: fc.Arbitrary<LedgerFilter> = fc.record({
  from: side,
  to: side,
  closed: fc.boolean(),
  transferTypes: fc.oneof(fc.constant([]), fc.subarray([1, 2, 3, 4])),
});

function details({ party, asset, market, type }: FixtureAccount) {
  const owner = party === "network" ? {} : { owner: party };
  return { assetId: asset, type, ...owner, ...(market === "" ? {} : { marketId: market }) };
}

/** The recording, a block at a time, with pauses in which a loader writes what it has. */
async function* recording(onBlock: (height: number) => void): AsyncGenerator<Uint8Array> {
  const builder = new RecordingBuilder();
  for (const [i, entries] of blocks.entries()) {
    const from = builder.frames.length;
    builder.block(i + 1, genesisNs + BigInt(i + 1) * 1_000_000_007n, (r) =>
      r.transfer(
        ...entries.map((entry) => ({
          from: details(entry.from),
          to: details(entry.to),
          amount: entry.quantity,
          type: entry.transferType,
          fromBalance: entry.fromBalance,
          toBalance: entry.toBalance,
        })),
      ),
    );
    onBlock(i + 1);
    yield Buffer.concat(builder.frames.slice(from));
    await sleep(i % 3 === 0 ? 30 : 5);
  }
}

let url: string;
let database: Database;
let ledger: LedgerReader;

beforeAll(async () => {
  ({ url } = newDatabaseUrl());
  await migrate(url, log);
  database = openDatabase(url);
  ledger = new LedgerReader(database);
});
afterAll(async () => {
  await database.withConnection((connection) => connection.run(`DROP DATABASE ${new URL(url).pathname.slice(1)}`));
  await database.close();
});

const requests: fc.Arbitrary<PageRequest<bigint>> = fc.record({
  newestFirst: fc.boolean(),
  size: fc.constantFrom(1, 7, 1000),
  backwards: fc.boolean(),
  cursor: fc.constant(undefined),
});

/** The page after so many blocks. */
function expectedPage(height: number, filter: LedgerFilter, request: PageRequest<bigint>) {
  return modelPage(modelList(blocks.slice(0, height).flat(), filter, always, request.newestFirst), request);
}

/** The lowest height from `from` to `to` after which the model gives this page; undefined: after none of them. */
function heightOf(page: unknown, from: number, to: number, filter: LedgerFilter, request: PageRequest<bigint>) {
  for (let height = from; height <= to; height++) {
    if (isDeepStrictEqual(page, expectedPage(height, filter, request))) return height;
  }
  return undefined;
}

test("while a loader appends, every page is the model's after some whole block, and never an earlier one again", async () => {
  let offered = 0;
  let loaded = false;
  const bytes = recording((height) => {
    offered = height;
  });
  const loading = load({ database: url, sources: [{ ...streamSource(bytes, "test"), followed: true }], log }).finally(
    () => {
      loaded = true;
    },
  );
  // Where a page is wrong, that is what is to be told.
  loading.catch(() => undefined);
  const questions = fc.sample(fc.tuple(filters, requests), { numRuns: 4_000, seed: 5 });
  const heights = new Set<number>();
  let seen = 0;
  let asked = 0;
  for (const [filter, request] of questions) {
    if (loaded) break;
    const { rows, hasNext, hasPrevious } = await ledger.page(filter, always, request);
    const height = heightOf({ rows: plain(rows), hasNext, hasPrevious }, seen, offered, filter, request);
    expect(height, `a page of ${JSON.stringify(filter)} between block ${seen} and ${offered}`).toBeDefined();
    seen = height ?? seen;
    heights.add(seen);
    asked++;
  }
  await loading;
  // The loader was really at work meanwhile.
  expect(heights.size).toBeGreaterThan(10);
  expect(asked).toBeGreaterThan(50);
  for (const [filter, request] of questions.slice(0, 200)) {
    const { rows, hasNext, hasPrevious } = await ledger.page(filter, always, request);
    const found = { rows: plain(rows), hasNext, hasPrevious };
    expect(found).toEqual(expectedPage(blockCount, filter, request));
  }
});
