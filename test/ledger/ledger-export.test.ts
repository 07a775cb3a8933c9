import { createHash } from "node:crypto";
import { fromBinary, fromJsonString, type JsonObject, toBinary, toJsonString } from "@bufbuild/protobuf";
import { anyUnpack, StructSchema } from "@bufbuild/protobuf/wkt";
import { parse } from "csv-parse/sync";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { HttpBodySchema } from "../../gen/google/api/httpbody_pb.js";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { batchesMax, exportLedgerEntries } from "../../src/api/export-ledger-entries.js";
import { csvHeader, UtcText } from "../../src/api/ledger-csv.js";
import type { TimeRange } from "../../src/domain/date-range.js";
import type { EncodedResponse } from "../../src/domain/encoded-response.js";
import type { Call, ResponseStream } from "../../src/domain/service.js";
import { jsonWriteOptions } from "../../src/encoding/json-encoder.js";
import { AccountDirectory } from "../../src/ledger/account-directory.js";
import { LedgerExport } from "../../src/ledger/ledger-export.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { openDatabase } from "../../src/store/database.js";
import { createLog } from "../../src/telemetry/log.js";
import { LedgerFixture } from "./ledger-fixture.js";
import { modelList } from "./ledger-model.js";

const call: Call = { signal: new AbortController().signal, clientAddress: "test", requestHeaders: {} };

/** Party and asset names that CSV must quote. */
const parties = ["network", 'al"ice', "bob, the second"];
const account = fc.record({
  party: fc.constantFrom(...parties),
  asset: fc.constantFrom("usd", "e,ur"),
  market: fc.constantFrom("", "m1"),
  type: fc.constantFrom(AccountType.MARGIN, AccountType.GENERAL, 77),
});
const digits = fc.oneof(fc.constant(0n), fc.bigInt(1n, 10n ** 15n), fc.bigInt(10n ** 77n, 2n ** 256n - 1n)).map(String);
const newEntry = fc.record({
  from: account,
  to: account,
  transferType: fc.constantFrom(TransferType.DEPOSIT, TransferType.MTM_WIN),
  quantity: digits,
  fromBalance: digits,
  toBalance: digits,
});

let fixture: LedgerFixture;
let ledger: LedgerReader;

beforeAll(async () => {
  fixture = await LedgerFixture.create();
  ledger = new LedgerReader(fixture.database);
  for (let i = 0; i < 60; i++) await fixture.addBlock(fc.sample(newEntry, { numRuns: (i % 3) * 20, seed: i }));
});
afterAll(() => fixture.drop());

function open(
  partyId: string,
  assetId: string,
  time?: TimeRange,
  batchRows = 6000,
  from = ledger,
): Promise<ResponseStream> {
  const method = exportLedgerEntries({ ledger: from, log: createLog("silent"), batchRows });
  if (method.kind !== "server_streaming") throw new Error("the export is a stream");
  const dateRange = time && {
    $typeName: "datanode.api.v2.DateRange" as const,
    ...(time.startNs === undefined ? {} : { startTimestamp: time.startNs }),
    ...(time.endNs === undefined ? {} : { endTimestamp: time.endNs }),
  };
  const request = {
    $typeName: "datanode.api.v2.ExportLedgerEntriesRequest" as const,
    partyId,
    assetId,
    ...(dateRange === undefined ? {} : { dateRange }),
  };
  return Promise.resolve(method.open(request, call));
}

async function readAll(stream: ResponseStream): Promise<EncodedResponse[]> {
  const responses: EncodedResponse[] = [];
  for (;;) {
    const ready = new Promise<void>((resolve) => stream.onReady(resolve));
    const taken = stream.take();
    responses.push(...taken);
    if (taken.length > 0) continue;
    if (stream.failure !== undefined) throw stream.failure;
    if (stream.ended) return responses;
    await ready;
  }
}

function body(response: EncodedResponse) {
  return fromBinary(HttpBodySchema, Uint8Array.from(response.binary()));
}

function facts(response: EncodedResponse | undefined): JsonObject {
  const [extension] = response === undefined ? [] : body(response).extensions;
  const struct = extension && anyUnpack(extension, StructSchema);
  if (struct === undefined) throw new Error("no extension");
  return Object.fromEntries(Object.entries(struct.fields).map(([name, { kind }]) => [name, String(kind.value)]));
}

test.each([1, 10, 33, 6000])(
  "a file holds the model's rows, adds up, and proves it, in batches of %i",
  async (batch) => {
    for (const party of parties) {
      for (const asset of ["usd", "e,ur"]) {
        const times = fixture.entries.map(({ timeNs }) => timeNs);
        for (const time of [
          { startNs: undefined, endNs: undefined },
          { startNs: times[100], endNs: times[300] },
          { startNs: times[300], endNs: times[300] },
        ]) {
          const stream = await open(party, asset, time, batch);
          const responses = await readAll(stream);
          const csv = Buffer.concat(responses.map((response) => body(response).data));
          const side = { partyId: party, assetId: asset, marketIds: [], types: [] };
          const filter = { from: side, to: side, closed: false, transferTypes: [] };
          const expected = modelList(fixture.entries, filter, time, false);
          const rows = parse(csv, { columns: true, record_delimiter: "\r\n" }) as Record<string, string>[];
          let sum = 0n;
          expect(rows).toEqual(
            expected.map((entry) => {
              const received = entry.to.party === party && entry.to.asset === asset;
              const sent = entry.from.party === party && entry.from.asset === asset;
              const effect = received === sent ? 0n : sent ? -BigInt(entry.quantity) : BigInt(entry.quantity);
              sum += effect;
              return {
                vega_time: new UtcText().of(String(entry.timeNs)),
                quantity: entry.quantity,
                effect: `${effect}`,
                transfer_type: entry.transferType === TransferType.DEPOSIT ? "DEPOSIT" : "MTM_WIN",
                asset_id: entry.from.asset,
                account_from_market_id: entry.from.market,
                account_from_party_id: entry.from.party,
                account_from_account_type: accountType(entry.from.type),
                account_from_balance: entry.fromBalance,
                account_to_market_id: entry.to.market,
                account_to_party_id: entry.to.party,
                account_to_account_type: accountType(entry.to.type),
                account_to_balance: entry.toBalance,
              };
            }),
          );
          expect(facts(responses.at(-1))).toEqual({
            rows: `${expected.length}`,
            sumOfEffects: `${sum}`,
            sha256: createHash("sha256").update(csv).digest("hex"),
          });
          expect(facts(responses[0])).toMatchObject({
            partyId: party,
            assetId: asset,
            newestBlock: `${fixture.height}`,
          });
          expect(stream.trailers.get("export-rows")).toBe(`${expected.length}`);
          expect(stream.trailers.get("export-sum-of-effects")).toBe(`${sum}`);
        }
      }
    }
  },
);

function accountType(type: number): string {
  return type === 77 ? "77" : (AccountType[type] ?? "");
}

test("exports of a store share the texts of its accounts", async () => {
  const first = await readAll(await open("network", "usd"));
  const stream = await open("network", "usd");
  const account = vi.spyOn(AccountDirectory.prototype, "account");
  const second = await readAll(stream);
  expect(account).not.toHaveBeenCalled();
  account.mockRestore();
  expect(second.map((response) => response.jsonText())).toEqual(first.map((response) => response.jsonText()));
});

test("a piece is encoded by hand as the library would", async () => {
  for (const response of await readAll(await open("network", "usd"))) {
    const message = body(response);
    expect(Buffer.from(response.binary())).toEqual(Buffer.from(toBinary(HttpBodySchema, message)));
    expect(Buffer.from(response.json()).toString()).toBe(toJsonString(HttpBodySchema, message, jsonWriteOptions));
    expect(fromJsonString(HttpBodySchema, Buffer.from(response.json()).toString(), jsonWriteOptions)).toEqual(message);
    const made = response.message() as typeof message;
    expect({ ...made, data: Uint8Array.from(made.data) }).toEqual(message);
  }
});

test("nothing that matches is a header alone, and its digest", async () => {
  const stream = await open("nobody", "usd");
  expect(stream.headers.get("content-disposition")).toBe('attachment; filename="ledger-nobody-usd.csv"');
  const responses = await readAll(stream);
  expect(Buffer.concat(responses.map((response) => body(response).data)).toString()).toBe(csvHeader);
  expect(facts(responses.at(-1))).toEqual({
    rows: "0",
    sumOfEffects: "0",
    sha256: createHash("sha256").update(csvHeader).digest("hex"),
  });
});

test("blocks that arrive after the beginning are not in the file", async () => {
  const side = { partyId: "network", assetId: "usd", marketIds: [], types: [] };
  const filter = { from: side, to: side, closed: false, transferTypes: [] };
  const before = modelList(fixture.entries, filter, { startNs: undefined, endNs: undefined }, false).length;
  const stream = await open("network", "usd");
  await fixture.addBlock(fc.sample(newEntry, { numRuns: 50, seed: 99 }));
  expect(facts((await readAll(stream)).at(-1))["rows"]).toBe(`${before}`);
});

test("times have nine digits, before 1970 too", () => {
  const clock = new UtcText();
  expect(clock.of("1674004195425088123")).toBe("2023-01-18T01:09:55.425088123Z");
  expect(clock.of("0")).toBe("1970-01-01T00:00:00.000000000Z");
  expect(clock.of("-1")).toBe("1969-12-31T23:59:59.999999999Z");
  const times = fc.bigInt({ min: -(2n ** 62n), max: 2n ** 63n - 1n });
  fc.assert(
    fc.property(times, fc.nat({ max: 200_000 }), (timeNs, secondsLater) => {
      for (const ns of [timeNs, timeNs + BigInt(secondsLater) * 1_000_000_000n]) {
        const rest = ((ns % 1_000_000n) + 1_000_000n) % 1_000_000n;
        const milliseconds = new Date(Number((ns - rest) / 1_000_000n)).toISOString().slice(0, -1);
        expect(clock.of(String(ns))).toBe(`${milliseconds}${String(rest).padStart(6, "0")}Z`);
      }
    }),
  );
});

test("a reader that takes nothing makes nothing be read", async () => {
  let queries = 0;
  const counting = new LedgerReader({
    lease: (lease, use) => {
      queries++;
      return fixture.database.lease(lease, use);
    },
  });
  const stream = await open("network", "usd", undefined, 1, counting);
  await new Promise((resolve) => setTimeout(resolve, 300));
  // One for each batch that may be held; the first of them opens it.
  expect(queries).toBe(batchesMax);
  stream.close();
  expect(stream.take()).toEqual([]);
  expect([stream.ended, stream.failure]).toEqual([true, undefined]);
});

test("exports that nobody reads hold fewer entries each, the more of them are open", async () => {
  const next = vi.spyOn(LedgerExport.prototype, "next");
  const method = exportLedgerEntries({ ledger, log: createLog("silent"), batchRows: 100, rowsMax: 200 });
  if (method.kind !== "server_streaming") throw new Error("the export is a stream");
  /** Opens exports, and counts the entries that they hold. */
  const openMany = async (exports: number) => {
    next.mockClear();
    const request = { partyId: "network", assetId: "usd" } as never;
    const streams = await Promise.all(
      Array.from({ length: exports }, () => Promise.resolve(method.open(request, call))),
    );
    await vi.waitFor(() => expect(next.mock.calls.length).toBe(batchesMax * exports));
    const batches: unknown[][] = await Promise.all(next.mock.results.map(({ value }) => value));
    return { streams, entries: batches.reduce((sum, { length }) => sum + length, 0) };
  };
  const many = await openMany(20);
  for (const stream of many.streams) stream.close();
  const one = await openMany(1);
  one.streams[0]?.close();
  next.mockRestore();
  expect(one.entries).toBeGreaterThan(80);
  expect(many.entries).toBeLessThan(10 * one.entries);
});

test("a database that goes away in the middle ends the stream with a failure", async () => {
  const database = openDatabase(fixture.url);
  const stream = await open("network", "usd", undefined, 1, new LedgerReader(database));
  expect(stream.take()).not.toEqual([]);
  await database.close();
  await expect(readAll(stream)).rejects.toMatchObject({ code: "unavailable", reason: "DATABASE_UNAVAILABLE" });
  expect([stream.ended, stream.trailers.size]).toEqual([true, 0]);
});

test("entries beyond the newest block are a part of a transaction, and not served", async () => {
  const [first] = fixture.entries;
  const { party = "", asset = "" } = first?.from ?? {};
  const whole = await readAll(await open(party, asset));
  const moved = (by: number) =>
    fixture.database.withConnection((c) => c.run(`UPDATE progress SET height = height + ${by}`));
  await moved(-3);
  try {
    const opened = open(party, asset).then(readAll);
    await expect(opened).rejects.toMatchObject({ code: "unavailable", reason: "DATABASE_BEHIND" });
  } finally {
    await moved(3);
  }
  expect(await readAll(await open(party, asset))).toHaveLength(whole.length);
});
