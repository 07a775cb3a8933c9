import { createGzip, gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NodeSignatureSchema } from "../../gen/vega/commands/v1/validator_commands_pb.js";
import { BusEventSchema } from "../../gen/vega/events/v1/events_pb.js";
import { LedgerEntrySchema } from "../../gen/vega/vega_pb.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { emptyStore, storeTables } from "../support/dump.js";
import { inChunks, RecordingBuilder } from "../support/recording.js";

/* What a recording may hold. Whatever else it holds ends the load with one line; the block before is kept, and of the
   block with the mistake nothing is. */

const log = createLog("silent");
const quantity = "it takes decimal digits, at most 78, and a number below 2^256";
const most = `${(1n << 256n) - 1n}`;
const above = `${1n << 256n}`;

let url: string;
let store: Database;

beforeAll(async () => {
  url = newDatabaseUrl().url;
  await migrate(url, log);
  store = openDatabase(url, { connectionsMax: 2 });
});

afterAll(async () => {
  await store.close();
});

async function loadBytes(bytes: Uint8Array): Promise<void> {
  await emptyStore(store);
  await load({ database: url, sources: [streamSource(inChunks(bytes, 64 * 1024), "test")], log });
}

/** Block 1 is right, block 2 has the mistake, in event 5, behind a market that is right. */
function withMistake(add: (recording: RecordingBuilder) => unknown): Buffer {
  const recording = new RecordingBuilder().block(1, 10n, (r) => r.market("first"));
  recording.begin(2, 20n).market("second");
  add(recording);
  return recording.end().bytes();
}

async function rowsOf(tables: readonly string[]): Promise<number> {
  let rows = 0;
  for (const table of tables) rows += (await store.query(`SELECT 1 FROM ${table}`)).length;
  return rows;
}

type Case = readonly [name: string, add: (recording: RecordingBuilder) => unknown, message: string];

const trade = { id: "t", marketId: "m", price: "1" };
const removed = { validatorId: "v", signatureSubmitters: [{ signatureId: "s", submitter: "0xa" }] };
const long = "x".repeat(200);

const mistakes: readonly Case[] = [
  ["a price that is text", (r) => r.trade({ ...trade, price: "abc" }), `has trade.price "abc"; ${quantity}`],
  ["a price that is missing", (r) => r.trade({ ...trade, price: "" }), `has trade.price ""; ${quantity}`],
  ["a price above 2^256", (r) => r.trade({ ...trade, price: above }), `has trade.price "${above}"; ${quantity}`],
  ["a negative price", (r) => r.trade({ ...trade, price: "-1" }), `has trade.price "-1"; ${quantity}`],
  [
    "a price of a million digits",
    (r) => r.trade({ ...trade, price: "9".repeat(1_000_000) }),
    `has trade.price "${"9".repeat(80)}"… (1000000 characters); ${quantity}`,
  ],
  [
    "a price that would steer a terminal",
    (r) => r.trade({ ...trade, price: "\u001b[2J\u202e1" }),
    `has trade.price "\\u001b[2J\\u202e1"; ${quantity}`,
  ],
  [
    "a fee",
    (r) => r.trade({ ...trade, sellerFee: { liquidityFee: "1e3" } }),
    `has trade.seller_fee.liquidity_fee "1e3"; ${quantity}`,
  ],
  ["a buyer", (r) => r.trade({ ...trade, buyer: "a\nb" }), 'has trade.buyer "a\\nb", which has an unprintable'],
  ["a trade's id", (r) => r.trade({ ...trade, id: "" }), 'has trade.id "", which is empty'],
  ["a trade's market", (r) => r.trade({ ...trade, marketId: long }), "has trade.market_id"],
  ["an order's price", (r) => r.order({ id: "o", marketId: "m", price: "1.5" }), `has order.price "1.5"; ${quantity}`],
  ["an order's price above", (r) => r.order({ id: "o", marketId: "m", price: above }), "has order.price"],
  ["an order's id", (r) => r.order({ id: long, marketId: "m" }), "which has 200 characters"],
  [
    "volumes beyond 64 bits",
    (r) => {
      for (const id of ["a", "b"]) r.order({ id, marketId: "m", size: 1n, remaining: (1n << 64n) - 1n });
    },
    'has orders of market m at price 100 that add up to a volume of "36893488147419103230"; it takes 64 bits',
  ],
  [
    "market data's price",
    (r) => r.marketData({ market: "m", markPrice: "0x10" }),
    `has market_data.mark_price "0x10"; ${quantity}`,
  ],
  [
    "market data's stake",
    (r) => r.marketData({ market: "m", suppliedStake: above }),
    `has market_data.supplied_stake "${above}"; ${quantity}`,
  ],
  [
    "market data's bounds",
    (r) => r.marketData({ market: "m", priceMonitoringBounds: [{ minValidPrice: "1", maxValidPrice: "NaN" }] }),
    `has market_data.price_monitoring_bounds.max_valid_price "NaN"; ${quantity}`,
  ],
  [
    "market data's share",
    (r) => r.marketData({ market: "m", liquidityProviderFeeShare: [{ equityLikeShare: "half" }] }),
    'has market_data.liquidity_provider_fee_share.equity_like_share "half"; it takes a decimal number such as 0.025',
  ],
  ["market data's market", (r) => r.marketData({ market: "" }), 'has market_data.market "", which is empty'],
  [
    "a market's fee",
    (r) => r.market("m", { fees: { factors: { makerFee: "1/2" } } }),
    'has market_created.fees.factors.maker_fee "1/2"; it takes a decimal number such as 0.025',
  ],
  ["a market's id", (r) => r.market("a\u0000"), 'has market_created.id "a\\u0000", which has an unprintable'],
  [
    "a market of 2 MiB",
    (r) => r.market("m", { tradableInstrument: { instrument: { name: "x".repeat(2 * 1024 * 1024) } } }),
    "has a market_created of 2097170 bytes; one has at most 1048576",
  ],
  [
    "a market's decimals",
    (r) => r.market("m", { decimalPlaces: 400_000_000n }),
    'has market_created.decimal_places "400000000"; it takes 0 to 30',
  ],
  [
    "a market's decimals of sizes",
    (r) => r.market("m", { positionDecimalPlaces: 31n }),
    'has market_created.position_decimal_places "31"; it takes -30 to 30',
  ],
  [
    "a market's negative decimals of sizes",
    (r) => r.market("m", { positionDecimalPlaces: -31n }),
    'has market_created.position_decimal_places "-31"; it takes -30 to 30',
  ],
  [
    "a market's name",
    (r) => r.market("m", { tradableInstrument: { instrument: { name: "n".repeat(1_025) } } }),
    "(1025 characters); it takes at most 1024 characters",
  ],
  [
    "a market's tag",
    (r) => r.market("m", { tradableInstrument: { instrument: { metadata: { tags: ["a", "t".repeat(1_025)] } } } }),
    "has market_created.tradable_instrument.instrument.metadata.tags",
  ],
  [
    "a market's tags",
    (r) => r.market("m", { tradableInstrument: { instrument: { metadata: { tags: Array(101).fill("t") } } } }),
    'metadata.tags "101 tags"; it takes at most 100',
  ],
  ["an amount", (r) => r.transfer({ amount: above }), `has ledger_movements.entries.amount "${above}"; ${quantity}`],
  [
    "a balance",
    (r) => r.transfer({ toBalance: "-5" }),
    `has ledger_movements.entries.to_account_balance "-5"; ${quantity}`,
  ],
  [
    "a balance before it",
    (r) => r.transfer({ fromBalance: "9".repeat(79) }),
    `has ledger_movements.entries.from_account_balance "${"9".repeat(79)}"; ${quantity}`,
  ],
  [
    "an account's owner",
    (r) => r.transfer({ from: { assetId: "a", type: 4, owner: long } }),
    "has ledger_movements.account.owner",
  ],
  ["an account's asset", (r) => r.transfer({ from: { type: 4 } }), 'has ledger_movements.account.asset_id ""'],
  [
    "bytes for an account that are none",
    (r) => r.event({ case: "ledgerMovements", value: brokenMovement([0x0a, 2, 0x0a, 0x7f]) }),
    "holds bytes that are not a vega.AccountDetails",
  ],
  [
    "an amount of another wire type",
    (r) => r.event({ case: "ledgerMovements", value: brokenMovement([0x18, 5]) }),
    "is not a protobuf message",
  ],
  [
    "a bundle's nonce",
    (r) => r.signerRemoved({ ...removed, nonce: "n" }),
    `has erc20_multisig_signer_removed.nonce "n"; ${quantity}`,
  ],
  [
    "a bundle's epoch",
    (r) => r.signerRemoved({ ...removed, epochSeq: "18446744073709551616" }),
    'has erc20_multisig_signer_removed.epoch_seq "18446744073709551616"; it takes decimal digits of 64 bits',
  ],
  [
    "a bundle's time",
    (r) => r.signerRemoved({ ...removed, timestamp: -1n }),
    'has erc20_multisig_signer_removed.timestamp "-1"; it takes Unix nanoseconds, 0 or more',
  ],
  [
    "a bundle's submitter",
    (r) => r.signerRemoved({ ...removed, signatureSubmitters: [{ signatureId: "s", submitter: long }] }),
    "has erc20_multisig_signer_removed.signature_submitters.submitter",
  ],
  [
    "a signature of 1,025 bytes",
    (r) => r.nodeSignature("s", Buffer.alloc(1_025)),
    'has node_signature.sig "1025 bytes"; it takes at most 1024 bytes',
  ],
  ["an event of groups in groups", (r) => r.frame(nested(100_000)), "is not a protobuf message"],
  [
    "a trade of groups in groups",
    (r) => r.frame(memberOf(107, nested(200_000))),
    "holds bytes that are not a vega.Trade",
  ],
];

function nested(depth: number): Buffer {
  return Buffer.alloc(depth, 0x9b);
}

/** A BusEvent of the chain whose member of this number has these bytes. */
function memberOf(member: number, body: Uint8Array): Buffer {
  const envelope = toBinary(BusEventSchema, create(BusEventSchema, { id: "2-3", chainId: "test-chain" }));
  const head: number[] = [];
  for (let value = member * 8 + 2; ; value = Math.floor(value / 128)) {
    head.push(value >= 128 ? (value % 128) + 128 : value);
    if (value < 128) break;
  }
  for (let value = body.length; ; value = Math.floor(value / 128)) {
    head.push(value >= 128 ? (value % 128) + 128 : value);
    if (value < 128) break;
  }
  return Buffer.concat([envelope, Buffer.from(head), body]);
}

/** Ledger movements of one entry that begins like a right one and ends with these bytes. */
function brokenMovement(tail: readonly number[]) {
  const account = { assetId: "a", type: 4 };
  const entry = create(LedgerEntrySchema, { fromAccount: account, toAccount: account, amount: "1" });
  entry.$unknown = [];
  const bytes = Buffer.concat([toBinary(LedgerEntrySchema, entry), Buffer.from(tail)]);
  const unknown = { no: 1, wireType: 2, data: Buffer.concat([Buffer.from([bytes.length]), bytes]) };
  return {
    ledgerMovements: [{ $typeName: "vega.LedgerMovement" as const, entries: [], balances: [], $unknown: [unknown] }],
  };
}

describe("a mistake in a field", () => {
  it.each(mistakes)("%s", async (_name, add, message) => {
    const error: unknown = await loadBytes(withMistake(add)).then(
      () => "no error",
      (reason) => reason,
    );
    expect(error).toMatchObject({ name: "RecordingError", exitCode: 1 });
    const text = (error as Error).message;
    expect(text).toMatch(/^event [5-8] /);
    expect(text).toContain(message);
    expect(text).not.toMatch(/[^\x20-\x7e…]/);
    expect(text.length).toBeLessThan(400);
    expect(await store.query("SELECT market_id FROM market")).toEqual([{ market_id: "first" }]);
    expect(await store.query("SELECT height, ledger_entries FROM block")).toEqual([{ height: 1n, ledger_entries: 0 }]);
    const others = Object.keys(storeTables).filter(
      (table) =>
        !/^((trade_)?progress|block|market|book_segment(_part)?|book_history|(table|history)_digest)$/.test(table),
    );
    expect(await rowsOf(others)).toBe(0);
    expect(await store.query("SELECT market_id FROM book_segment")).toEqual([{ market_id: "first" }]);
  });

  it("a block's time after the year 2116", async () => {
    await expect(loadBytes(new RecordingBuilder().block(1, 1n << 62n).bytes())).rejects.toThrow(
      'event 1 has begin_block.timestamp "4611686018427387904"; it takes Unix nanoseconds, 0 or more, at most 4611686018427387903',
    );
  });

  it("a block's time before 1970", async () => {
    await expect(loadBytes(new RecordingBuilder().block(1, -1n).bytes())).rejects.toThrow(
      'event 1 has begin_block.timestamp "-1"; it takes Unix nanoseconds, 0 or more',
    );
  });

  it("a chain's id that would steer a terminal", async () => {
    const recording = new RecordingBuilder().block(1, 10n);
    recording.chainId = "\u001b[2J";
    await expect(loadBytes(recording.begin(2, 20n).bytes())).rejects.toThrow(/is of chain "\\u001b\[2J", the database/);
  });
});

describe("what the network leaves out, or states at its bounds, is kept", () => {
  it("everything at its bounds", async () => {
    await loadBytes(
      withMistake((r) =>
        r
          .trade({ ...trade, price: most, size: (1n << 64n) - 1n, buyerFee: { makerFee: most } })
          .order({ id: "o", marketId: "m", price: most, remaining: (1n << 64n) - 1n })
          .transfer({ amount: most, fromBalance: most, toBalance: most.replace(/^1/, "0"), type: -1 as number })
          .marketData({
            market: "m",
            markPrice: most,
            nextMarkToMarket: -(1n << 63n),
            priceMonitoringBounds: [{ minValidPrice: "0", maxValidPrice: most, referencePrice: "97600000.25" }],
            liquidityProviderFeeShare: [
              { party: "p", equityLikeShare: "-0.5", averageEntryValuation: "1.5", averageScore: "" },
            ],
          })
          .market("m", { linearSlippageFactor: "", lpPriceRange: "0.95", positionDecimalPlaces: -3n })
          .signerRemoved({ ...removed, nonce: most, epochSeq: "18446744073709551615", timestamp: (1n << 63n) - 1n })
          .nodeSignature("s", Buffer.alloc(1_024)),
      ),
    );
    expect(await store.query("SELECT price, buyer_maker_fee, buyer_liquidity_fee FROM last_trade")).toEqual([
      { price: most, buyer_maker_fee: most, buyer_liquidity_fee: "0" },
    ]);
    expect(await store.query("SELECT quantity, transfer_type FROM ledger_entry")).toEqual([
      { quantity: most, transfer_type: -1 },
    ]);
    expect(await store.query("SELECT volume FROM price_level")).toEqual([{ volume: (1n << 64n) - 1n }]);
  });

  it("quantities without their leading zeros", async () => {
    await loadBytes(
      withMistake((r) =>
        r
          .trade({ ...trade, price: "007", buyerFee: { makerFee: "000", liquidityFee: "010" } })
          .transfer({ amount: "007", fromBalance: "000", toBalance: `${"0".repeat(77)}7` }),
      ),
    );
    expect(await store.query("SELECT price, buyer_maker_fee, buyer_liquidity_fee FROM last_trade")).toEqual([
      { price: "7", buyer_maker_fee: "0", buyer_liquidity_fee: "10" },
    ]);
    expect(await store.query("SELECT quantity, from_balance, to_balance FROM ledger_entry")).toEqual([
      { quantity: "7", from_balance: "0", to_balance: "7" },
    ]);
  });

  it("many markets of nearly 1 MiB in a block, which one statement could not hold", async () => {
    const recording = new RecordingBuilder().begin(1, 10n);
    for (let n = 0; n < 20; n++) {
      const dataSourceSpecBinding = { settlementDataProperty: "x".repeat(1_048_000) };
      const product = { case: "future" as const, value: { dataSourceSpecBinding } };
      recording.market(`m${n}`, { tradableInstrument: { instrument: { product } } });
    }
    await loadBytes(recording.end().bytes());
    const large = "SELECT COUNT(*) AS n FROM market WHERE LENGTH(body) > 1048000";
    expect(await store.query(large)).toEqual([{ n: 20n }]);
  });
});

describe("hostile bytes", () => {
  it.each([
    ["a frame of 0 bytes", Buffer.alloc(4), "says it has 0 bytes"],
    ["a frame of 4 GiB", Buffer.alloc(4, 0xff), "says it has 4294967295 bytes"],
    ["a frame of 7 bytes", Buffer.from([0, 0, 0, 7]), "says it has 7 bytes"],
    ["a frame that claims 64 MiB", Buffer.from([4, 0, 0, 0]), "has only 4 bytes of it there"],
    ["gzip of 4 GiB of zeros, at its first frame", gzipSync(Buffer.alloc(1024 * 1024)), "says it has 0 bytes"],
    ["gzip of nothing", Buffer.from([0x1f, 0x8b]), "ends in the middle"],
    ["gzip within gzip", gzipSync(gzipSync(Buffer.alloc(100))), "says it has"],
  ])("%s", async (_name, bytes, message) => {
    await expect(loadBytes(bytes)).rejects.toThrow(message);
  });

  it("a block that does not end, from a gzip bomb: memory has a bound", async () => {
    const opening = new RecordingBuilder().begin(1, 10n);
    const many = new RecordingBuilder();
    // Ids of equal length, so that frames are.
    for (let i = 0; i < 10_000; i++) {
      many.event(
        { case: "nodeSignature", value: create(NodeSignatureSchema, { id: "s", sig: Buffer.from([1]) }) },
        13,
        { id: "1-2" },
      );
    }
    const frameBytes = many.frames[0]?.length ?? 0;
    const before = process.memoryUsage().rss;
    let most = 0;
    const bomb = createGzip({ level: 1 }).setMaxListeners(0);
    const feeding = (async () => {
      bomb.write(opening.bytes());
      let sequence = opening.sequence;
      // 1.2 million signatures, where a block may have a million.
      for (let n = 0; n < 120 && !bomb.destroyed; n++) {
        const bytes = Buffer.concat(many.frames);
        for (let at = 0; at < bytes.length; at += frameBytes) bytes.writeBigUInt64BE(sequence++, at + 4);
        if (!bomb.write(bytes)) await new Promise((resolve) => bomb.once("drain", resolve).once("close", resolve));
        most = Math.max(most, process.memoryUsage().rss - before);
      }
      bomb.end();
    })();
    const loading = load({ database: url, sources: [streamSource(bomb, "bomb")], log });
    await expect(loading).rejects.toThrow(/makes block 1 larger than 1024 MiB in memory/);
    bomb.destroy();
    void feeding.catch(() => {});
    expect(most).toBeLessThan(1024 * 1024 * 1024);
  });
});
