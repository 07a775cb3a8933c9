import { isDeepStrictEqual } from "node:util";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { entryId, firstIdOfBlock } from "../../src/domain/block-position.js";
import { numberCursors } from "../../src/domain/cursor.js";
import type { TimeRange } from "../../src/domain/date-range.js";
import { Failure } from "../../src/domain/failure.js";
import type { PageRequest } from "../../src/domain/page.js";
import { idOf } from "../../src/ledger/entry-row.js";
import { LedgerExport } from "../../src/ledger/ledger-export.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { retain } from "../../src/ledger/retain.js";
import type { LedgerFilter } from "../../src/ledger/selection.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { simulate } from "../../src/simulator/network.js";
import { Random } from "../../src/simulator/random.js";
import { openDatabase } from "../../src/store/database.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { renderFinding } from "../../src/verify/findings.js";
import { verify } from "../../src/verify/verify.js";
import { startTestService, type TestService } from "../live/service.js";
import { newDatabaseUrl } from "../support/database.js";
import { inChunks } from "../support/recording.js";
import { type FixtureEntry, LedgerFixture, type NewEntry } from "./ledger-fixture.js";
import { modelList, modelPage, plain } from "./ledger-model.js";

const log = createLog("silent");
const second = 1_000_000_000n;
const blockCount = 60;
const parties = ["alice", "bob", "carol"];
const always: TimeRange = { startNs: undefined, endNs: undefined };
const everything: LedgerFilter = { from: undefined, to: undefined, closed: false, transferTypes: [] };
const random = new Random(11, "retain");

let fixture: LedgerFixture;
let ledger: LedgerReader;

/** A block a second; some are empty. */
beforeEach(async () => {
  fixture = await LedgerFixture.create();
  for (let i = 0; i < blockCount; i++) {
    await fixture.addBlock(Array.from({ length: [0, 3, 8, 30][i % 4] ?? 0 }, randomEntry), second);
  }
  ledger = new LedgerReader(fixture.database);
});
afterEach(() => fixture.drop());

function randomEntry(): NewEntry {
  const account = () => ({
    party: random.pick(parties),
    asset: random.pick(["usd", "eur"]),
    market: random.pick(["", "m1"]),
    type: 4,
  });
  const rest = { quantity: `${random.below(1_000)}`, fromBalance: "0", toBalance: "1" };
  return { from: account(), to: account(), transferType: random.between(1, 4), ...rest };
}

/** Keeps so many blocks before the newest, in small pieces. */
function keep(blocks: number): Promise<unknown> {
  return retain(fixture.database, { keepNs: BigInt(blocks) * second, entriesPerDelete: 7 });
}

interface Question {
  readonly filter: LedgerFilter;
  readonly time: TimeRange;
  readonly request: PageRequest<bigint>;
}

function timeOf(height: bigint): bigint {
  return (fixture.entries[0]?.timeNs ?? 0n) + (height - 2n) * second;
}

function randomQuestion(): Question {
  const newestFirst = random.chance(0.5);
  const hasCursor = random.chance(0.5);
  const backwards = random.chance(0.5);
  const cursor = hasCursor ? random.pick(fixture.entries).id : undefined;
  const bound = (probability: number) =>
    random.chance(probability) ? timeOf(BigInt(random.between(1, blockCount))) : undefined;
  const [startNs, endNs] = [bound(0.3), bound(0.2)];
  const isRange = startNs === undefined || endNs === undefined || startNs <= endNs;
  const side = { partyId: random.pick(parties), assetId: undefined, marketIds: [], types: [] };
  return {
    filter: random.chance(0.5) ? everything : { ...everything, from: side, to: side },
    time: isRange ? { startNs, endNs } : always,
    request: { newestFirst, backwards, size: random.pick([1, 9, 1_000]), cursor },
  };
}

const notRetained = "not retained";

/** The page of the model where entries from a block on are kept. */
function model({ filter, time, request }: Question, oldest: bigint): unknown {
  const first = firstIdOfBlock(oldest);
  if (request.cursor !== undefined && request.cursor < first) return notRetained;
  if ((time.startNs ?? time.endNs) !== undefined && oldest > 0n) {
    if (time.startNs === undefined || time.startNs <= timeOf(oldest - 1n)) return notRetained;
  }
  const kept = fixture.entries.filter(({ id }) => id >= first);
  return modelPage(modelList(kept, filter, time, request.newestFirst), request);
}

async function ask({ filter, time, request }: Question, reader = ledger): Promise<unknown> {
  try {
    const { rows, hasNext, hasPrevious } = await reader.page(filter, time, request);
    return { rows: plain(rows), hasNext, hasPrevious };
  } catch (error) {
    if (error instanceof Failure && error.reason === "LEDGER_NOT_RETAINED") return notRetained;
    throw error;
  }
}

it("every page is that of the model before entries were dropped or after, also while they are", async () => {
  const reading = { before: 0, after: 0, refused: 0 };
  let oldest = 0n;
  for (const kept of [50, 35, 34, 12, 3, 0]) {
    const next = BigInt(blockCount - kept);
    let dropped = false;
    const dropping = keep(kept).finally(() => {
      dropped = true;
    });
    while (!dropped) {
      const question = randomQuestion();
      const response = await ask(question);
      const [before, after] = [model(question, oldest), model(question, next)];
      const isBefore = isDeepStrictEqual(response, before);
      const isAfter = isDeepStrictEqual(response, after);
      expect(isBefore || isAfter, `${JSON.stringify(question, text)} gave ${JSON.stringify(response, text)}`).toBe(
        true,
      );
      if (response === notRetained) reading.refused++;
      else if (!isAfter) reading.before++;
      else if (!isBefore) reading.after++;
    }
    await dropping;
    // A reader that knows nothing yet, and one that has seen it happen.
    for (let i = 0; i < 40; i++) {
      const question = randomQuestion();
      expect(await ask(question, i % 8 === 0 ? new LedgerReader(fixture.database) : ledger)).toEqual(
        model(question, next),
      );
    }
    oldest = next;
  }
  expect(reading.after).toBeGreaterThan(5);
  expect(reading.refused).toBeGreaterThan(5);
});

describe("an export", () => {
  const subject = (startNs?: bigint) => ({ partyId: "alice", assetId: "usd", time: { startNs, endNs: undefined } });

  function modelExport(startNs: bigint | undefined): FixtureEntry[] {
    const side = { partyId: "alice", assetId: "usd", marketIds: [], types: [] };
    const filter = { from: side, to: side, closed: false, transferTypes: [] };
    return modelList(fixture.entries, filter, { startNs, endNs: undefined }, false);
  }

  /** The ids that it gives, and whether it ended because entries were dropped. */
  async function readAll(source: LedgerExport): Promise<{ readonly ids: string[]; readonly isCut: boolean }> {
    const ids: string[] = [];
    for (;;) {
      try {
        const rows = await source.next(undefined, 10);
        if (rows.length === 0) return { ids, isCut: false };
        ids.push(...rows.map((row) => String(idOf(row))));
      } catch (error) {
        if (error instanceof Failure && error.reason === "LEDGER_NOT_RETAINED") return { ids, isCut: true };
        throw error;
      }
    }
  }

  it("fails once entries that it still needs are dropped, and goes on where it is past them", async () => {
    const needsThem = await LedgerExport.open(ledger, subject(), undefined, 10);
    const isPast = await LedgerExport.open(ledger, subject(timeOf(30n)), undefined, 10);
    await keep(35);
    expect((await readAll(needsThem)).isCut).toBe(true);
    expect(await readAll(isPast)).toEqual({ ids: modelExport(timeOf(30n)).map(({ id }) => `${id}`), isCut: false });
    await expect(LedgerExport.open(ledger, subject(timeOf(24n)))).rejects.toMatchObject({
      code: "failed_precondition",
      reason: "LEDGER_NOT_RETAINED",
      message: `date_range.start_timestamp reaches before block 25, the oldest whose ledger entries are kept; begin at its time, ${timeOf(25n)}, or later`,
    });
    await expect(LedgerExport.open(new LedgerReader(fixture.database), subject())).rejects.toThrow("before block 25");
    const kept = await LedgerExport.open(ledger, subject(timeOf(24n) + 1n));
    expect((await readAll(kept)).ids).toEqual(modelExport(timeOf(25n)).map(({ id }) => `${id}`));
  });

  it("never leaves out what was dropped while it ran", async () => {
    let cut = 0;
    for (const kept of [55, 50, 45, 40, 30, 20, 10, 5]) {
      const start = BigInt(blockCount - kept - random.below(4));
      const oldestNow = (await retain(fixture.database, { keepNs: 1_000n * second })).oldest?.height ?? 0n;
      const startNs = timeOf(start < oldestNow ? oldestNow : start);
      const source = await LedgerExport.open(ledger, subject(startNs), undefined, 10);
      const [{ ids, isCut }] = await Promise.all([readAll(source), keep(kept)]);
      const expected = modelExport(startNs).map(({ id }) => `${id}`);
      expect(ids).toEqual(isCut ? expected.slice(0, ids.length) : expected);
      if (isCut) cut++;
    }
    expect(cut).toBeLessThan(8);
  });
});

describe("over HTTP", () => {
  let service: TestService | undefined;
  afterEach(() => service?.drain());

  it("a list ends at the oldest block that is kept; what reaches before it is refused and names it", async () => {
    await keep(10);
    service = await startTestService(fixture.url);
    await expect.poll(async () => (await fetch(`${service?.url}/readyz`)).status).toBe(200);
    const get = async (path: string) => {
      const response = await fetch(`${service?.url}/api/v2/${path}`);
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    const { body } = await get("ledgerentry/history?pagination.first=5000");
    const { edges, pageInfo } = body["ledgerEntries"] as { edges: unknown[]; pageInfo: object };
    expect(edges).toHaveLength(fixture.entries.filter(({ id }) => id >= firstIdOfBlock(50n)).length);
    expect(pageInfo).toMatchObject({ hasNextPage: false });
    const last = numberCursors("ledger").encode(entryId(49n, 0));
    for (const [path, name] of [
      [`ledgerentry/history?pagination.after=${last}`, "pagination.after"],
      [`ledgerentry/history?pagination.before=${last}`, "pagination.before"],
      [`ledgerentry/history?dateRange.startTimestamp=${timeOf(49n)}`, "dateRange.startTimestamp"],
      [`ledgerentry/history?dateRange.endTimestamp=${timeOf(59n)}`, "dateRange.startTimestamp"],
      ["ledgerentry/export?partyId=alice&assetId=usd", "dateRange.startTimestamp"],
    ]) {
      expect(await get(path ?? "")).toMatchObject({
        status: 400,
        body: {
          code: 9,
          message: `${name} reaches before block 50, the oldest whose ledger entries are kept; begin at its time, ${timeOf(50n)}, or later`,
          details: [
            {
              reason: "LEDGER_NOT_RETAINED",
              metadata: { nearest_height: "50", nearest_timestamp: String(timeOf(50n)) },
            },
          ],
        },
      });
    }
  });
});

describe("a database that was loaded", () => {
  const { url } = newDatabaseUrl();
  afterAll(() => dropDatabase(url));

  it("is verified from the oldest block that is kept on, also while entries are dropped and blocks loaded", async () => {
    await migrate(url, log);
    const blocks = [
      ...simulate({ seed: 4, markets: 4, parties: 10, ordersPerBlock: 6, entriesPerBlock: 25, blocks: 120 }),
    ];
    const loadTo = (height: number) => {
      const source = streamSource(inChunks(Buffer.concat(blocks.slice(0, height))), "test");
      return load({ database: url, sources: [source], log });
    };
    await loadTo(100);
    const database = openDatabase(url, { connectionsMax: 4 });
    const verified = async () => {
      const { findings, undigested } = await verify(database);
      return [...findings.listed.map(renderFinding), ...undigested];
    };
    let isDone = false;
    const changing = Promise.all([loadTo(120), retain(database, { keepNs: 40n * second, entriesPerDelete: 20 })]);
    void changing.finally(() => {
      isDone = true;
    });
    let times = 0;
    for (; !isDone; times++) expect(await verified()).toEqual([]);
    const [, { oldest, entries }] = await changing;
    expect(times).toBeGreaterThan(1);
    expect(entries).toBeGreaterThan(500);
    expect(await verified()).toEqual([]);
    const change = (sql: string) => database.withConnection((connection) => connection.run(sql));
    await change(
      `UPDATE ledger_entry SET quantity = quantity + 1 WHERE id >= ${firstIdOfBlock(oldest?.height ?? 0n)} LIMIT 1`,
    );
    expect(await verified()).toContainEqual(
      `block ${oldest?.height}, ledger_entry: its entries are not what was written`,
    );
    await change("UPDATE block SET time_ns = time_ns + 1 WHERE height = 5");
    expect(await verified()).toContainEqual(expect.stringMatching(/^block 5, block: /));
    await change("UPDATE ledger_retention SET oldest_height = oldest_height + 1");
    expect(await verified()).toContainEqual(expect.stringMatching(/^block \d+, ledger_retention: /));
    await database.close();
  });
});

function text(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? `${value}` : value;
}
