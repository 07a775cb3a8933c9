import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  ListLedgerEntriesRequestSchema,
  type ListLedgerEntriesResponse,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { listLedgerEntries } from "../../src/api/list-ledger-entries.js";
import { Failure, unavailable } from "../../src/domain/failure.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { LedgerFixture } from "./ledger-fixture.js";

let fixture: LedgerFixture;
let ledger: LedgerReader;
const quantity = String(2n ** 256n - 1n);

async function ask(
  request: MessageInitShape<typeof ListLedgerEntriesRequestSchema>,
  signal = new AbortController().signal,
) {
  const method = listLedgerEntries({ ledger });
  if (method.kind !== "unary") throw new Error("a list is unary");
  const response = await method.invoke(create(ListLedgerEntriesRequestSchema, request), {
    signal,
    clientAddress: "test",
    requestHeaders: {},
  });
  const message = response.message() as unknown as ListLedgerEntriesResponse;
  return { edges: message.ledgerEntries?.edges ?? [], json: JSON.parse(Buffer.from(response.json()).toString()) };
}

beforeAll(async () => {
  fixture = await LedgerFixture.create();
  ledger = new LedgerReader(fixture.database);
  await fixture.addBlock([
    {
      from: { party: "network", asset: "usd", market: "", type: AccountType.EXTERNAL },
      to: { party: "alice", asset: "usd", market: "", type: AccountType.GENERAL },
      transferType: TransferType.DEPOSIT,
      quantity,
      fromBalance: "0",
      toBalance: "18446744073709551617",
    },
    {
      from: { party: "alice", asset: "usd", market: "", type: AccountType.GENERAL },
      to: { party: "alice", asset: "usd", market: "m1", type: AccountType.MARGIN },
      transferType: TransferType.MARGIN_LOW,
      quantity: "5",
      fromBalance: "1",
      toBalance: "2",
    },
  ]);
});
afterAll(() => fixture.drop());

describe("list of ledger entries", () => {
  test("says everything about an entry, exactly", async () => {
    const { json } = await ask({});
    expect(json.ledgerEntries.edges.map((edge: { node: unknown }) => edge.node)).toEqual([
      {
        timestamp: "1674004005000000001",
        quantity: "5",
        transferType: "TRANSFER_TYPE_MARGIN_LOW",
        assetId: "usd",
        fromAccountType: "ACCOUNT_TYPE_GENERAL",
        toAccountType: "ACCOUNT_TYPE_MARGIN",
        fromAccountPartyId: "alice",
        toAccountPartyId: "alice",
        toAccountMarketId: "m1",
        fromAccountBalance: "1",
        toAccountBalance: "2",
      },
      {
        timestamp: "1674004005000000001",
        quantity,
        transferType: "TRANSFER_TYPE_DEPOSIT",
        assetId: "usd",
        fromAccountType: "ACCOUNT_TYPE_EXTERNAL",
        toAccountType: "ACCOUNT_TYPE_GENERAL",
        fromAccountPartyId: "network",
        toAccountPartyId: "alice",
        fromAccountBalance: "0",
        toAccountBalance: "18446744073709551617",
      },
    ]);
  });

  const party = (id: string) => ({ partyIds: [id] });
  test.each<[MessageInitShape<typeof ListLedgerEntriesRequestSchema>["filter"], number]>([
    [{}, 2],
    [{ fromAccountFilter: {}, toAccountFilter: {}, closeOnAccountFilters: true }, 2],
    [{ fromAccountFilter: party("alice") }, 1],
    [{ fromAccountFilter: party("alice"), closeOnAccountFilters: true }, 1],
    [{ toAccountFilter: party("alice") }, 2],
    [{ fromAccountFilter: party("alice"), toAccountFilter: party("alice") }, 2],
    [{ fromAccountFilter: party("alice"), toAccountFilter: party("alice"), closeOnAccountFilters: true }, 1],
    [{ fromAccountFilter: party("alice"), toAccountFilter: {}, closeOnAccountFilters: false }, 1],
    [{ fromAccountFilter: party("nobody"), toAccountFilter: party("alice") }, 2],
    [{ fromAccountFilter: party("nobody"), toAccountFilter: party("alice"), closeOnAccountFilters: true }, 0],
    [{ transferTypes: [TransferType.DEPOSIT] }, 1],
    [{ toAccountFilter: party("alice"), transferTypes: [TransferType.DEPOSIT, TransferType.DEPOSIT] }, 1],
    [{ fromAccountFilter: party("alice"), toAccountFilter: party("alice"), transferTypes: [TransferType.LOSS] }, 0],
    [{ toAccountFilter: { marketIds: ["m1", "m2"], accountTypes: [AccountType.MARGIN], assetId: "usd" } }, 1],
  ])("%j selects %i", async (filter, count) => {
    expect((await ask({ ...(filter === undefined ? {} : { filter }) })).edges).toHaveLength(count);
  });

  test("a list of 1,001 equal values is one of one value", async () => {
    const marketIds = new Array<string>(1001).fill("m1");
    expect((await ask({ filter: { toAccountFilter: { marketIds } } })).edges).toHaveLength(1);
  });

  test.each<[MessageInitShape<typeof ListLedgerEntriesRequestSchema>["filter"], string]>([
    [
      { fromAccountFilter: { partyIds: ["a", "b"] } },
      "filter.from_account_filter.party_ids: has 2 parties; an account filter takes at most one",
    ],
    [{ toAccountFilter: { partyIds: [""] } }, "filter.to_account_filter.party_ids: is empty; give an identifier"],
    [
      { toAccountFilter: { assetId: "é" } },
      "filter.to_account_filter.asset_id: has an unprintable character at position 1; an identifier is printable ASCII",
    ],
    [
      { toAccountFilter: { marketIds: ["m", "x".repeat(129)] } },
      "filter.to_account_filter.market_ids: has 129 characters; an identifier has at most 128",
    ],
    [
      { toAccountFilter: { marketIds: Array.from({ length: 1001 }, (_, n) => `m${n}`) } },
      "filter.to_account_filter.market_ids: has 1001 values; it takes at most 1000",
    ],
    [
      { fromAccountFilter: { accountTypes: [AccountType.UNSPECIFIED] } },
      "filter.from_account_filter.account_types: is ACCOUNT_TYPE_UNSPECIFIED; leave it out to not filter by it",
    ],
    [
      { transferTypes: [999 as TransferType] },
      "filter.transfer_types: is 999; TransferType has no value of that number",
    ],
  ])("%j is refused", async (filter, message) => {
    const failure = await ask({ ...(filter === undefined ? {} : { filter }) }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(Failure);
    expect(failure).toMatchObject({ code: "invalid_argument", message });
  });

  test("a request that was given up asks nothing, and says why", async () => {
    const reason = unavailable("the server stops", "DRAINING", 1000);
    await expect(ask({}, AbortSignal.abort(reason))).rejects.toBe(reason);
    await expect(ask({}, AbortSignal.abort())).rejects.toMatchObject({ code: "cancelled" });
    expect((await ask({})).edges).toHaveLength(2);
  });

  test("a query that takes too long is given up, and the next one works", async () => {
    const hasty = { class: "ledger", call: undefined, timeoutMs: 50 } as const;
    const sleep = fixture.database.lease(hasty, (reader) => reader.query("SELECT SLEEP(1) AS slept"));
    await expect(sleep).rejects.toMatchObject({ code: "deadline_exceeded", reason: "QUERY_TIMEOUT" });
    expect((await ask({})).edges).toHaveLength(2);
  });
});
