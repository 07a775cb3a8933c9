import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BusEventSchema } from "../../gen/vega/events/v1/events_pb.js";
import type { AccountDetails } from "../../gen/vega/vega_pb.js";
import { entryId } from "../../src/domain/block-position.js";
import type { PageRequest } from "../../src/domain/page.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import type { AccountSide, LedgerFilter } from "../../src/ledger/selection.js";
import { load } from "../../src/loader/load.js";
import { fileSource } from "../../src/loader/source.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { tries } from "../support/tries.js";
import type { FixtureAccount, FixtureEntry } from "./ledger-fixture.js";
import { modelList, modelPage, plain } from "./ledger-model.js";

const path = process.env["MARKETD_RECORDING"] ?? "";
const log = createLog("silent");

function accountOf(details: AccountDetails | undefined): FixtureAccount {
  const { owner, assetId, marketId, type } = details ?? {};
  return { party: owner ?? "network", asset: assetId ?? "", market: marketId ?? "", type: type ?? 0 };
}

/** The ledger of a recording, read as plainly as it goes. */
function ledgerOf(bytes: Buffer): FixtureEntry[] {
  const entries: FixtureEntry[] = [];
  const positions = new Map<bigint, number>();
  let height = 0n;
  let timeNs = 0n;
  for (let at = 0; at < bytes.length; at += 4 + bytes.readUInt32BE(at)) {
    const { event } = fromBinary(BusEventSchema, bytes.subarray(at + 12, at + 4 + bytes.readUInt32BE(at)));
    if (event.case === "beginBlock") ({ height, timestamp: timeNs } = event.value);
    if (event.case !== "ledgerMovements") continue;
    for (const entry of event.value.ledgerMovements.flatMap((movement) => movement.entries)) {
      const position = positions.get(height) ?? 0;
      positions.set(height, position + 1);
      entries.push({
        id: entryId(height, position),
        timeNs,
        from: accountOf(entry.fromAccount),
        to: accountOf(entry.toAccount),
        transferType: entry.type,
        quantity: entry.amount,
        fromBalance: entry.fromAccountBalance,
        toBalance: entry.toAccountBalance,
      });
    }
  }
  return entries;
}

describe.skipIf(path === "")("the ledger of a real network", () => {
  let database: Database;
  let ledger: LedgerReader;
  let entries: FixtureEntry[];

  beforeAll(async () => {
    const { url } = newDatabaseUrl();
    await migrate(url, log);
    await load({ database: url, sources: [await fileSource(path)], log });
    database = openDatabase(url);
    ledger = new LedgerReader(database);
    const raw = readFileSync(path);
    entries = ledgerOf(raw[0] === 0x1f ? gunzipSync(raw) : raw);
  });
  afterAll(() => database.close());

  function sides(): fc.Arbitrary<AccountSide | undefined> {
    const accounts = entries.flatMap(({ from, to }) => [from, to]);
    const some = <T>(values: readonly T[]) => fc.oneof(fc.constant([]), fc.subarray([...new Set(values)]));
    return fc.option(
      fc.record({
        partyId: fc.option(fc.constantFrom(...accounts.map(({ party }) => party)), { nil: undefined }),
        assetId: fc.option(fc.constantFrom(...accounts.map(({ asset }) => asset)), { nil: undefined, freq: 2 }),
        marketIds: some(accounts.map(({ market }) => market).filter((market) => market !== "")),
        types: some(accounts.map(({ type }) => type)),
      }),
      { nil: undefined },
    );
  }

  it("answers every filter as the recording says", async () => {
    expect(entries.length).toBeGreaterThan(0);
    const transferTypes = [...new Set(entries.map(({ transferType }) => transferType))];
    const filter: fc.Arbitrary<LedgerFilter> = fc.record({
      from: sides(),
      to: sides(),
      closed: fc.boolean(),
      transferTypes: fc.oneof(fc.constant([]), fc.subarray(transferTypes)),
    });
    const request: fc.Arbitrary<PageRequest<bigint>> = fc.record({
      newestFirst: fc.boolean(),
      size: fc.constantFrom(1, 20, 5000),
      backwards: fc.boolean(),
      cursor: fc.option(fc.constantFrom(...entries.map(({ id }) => id)), { nil: undefined }),
    });
    const always = { startNs: undefined, endNs: undefined };
    await fc.assert(
      fc.asyncProperty(filter, request, async (chosen, asked) => {
        const { rows, hasNext, hasPrevious } = await ledger.page(chosen, always, asked);
        const expected = modelPage(modelList(entries, chosen, always, asked.newestFirst), asked);
        expect({ rows: plain(rows), hasNext, hasPrevious }).toEqual(expected);
      }),
      { numRuns: tries(300) },
    );
  });
});
