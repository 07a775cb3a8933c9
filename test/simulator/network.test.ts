import { createHash } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import { NodeSignatureKind } from "../../gen/vega/commands/v1/validator_commands_pb.js";
import { type BusEvent, BusEventType } from "../../gen/vega/events/v1/events_pb.js";
import { type Market, Market_State, Market_TradingMode } from "../../gen/vega/markets_pb.js";
import {
  type AccountDetails,
  AccountType,
  type LedgerEntry,
  type MarketData,
  Order_Status,
  Order_TimeInForce,
  Order_Type,
  Side,
  type Trade,
  TransferType,
} from "../../gen/vega/vega_pb.js";
import { Network, type NetworkOptions, simulate } from "../../src/simulator/network.js";
import { ordersPerMarketMax } from "../../src/simulator/order-flow.js";
import { readBooks } from "./recorded-book.js";
import { type Frame, frames } from "./recording-frames.js";

const blocks = 400;
const options = { seed: 7, markets: 12, parties: 40, ordersPerBlock: 20, entriesPerBlock: 10, blocks };

function hashOf(chunks: Iterable<Uint8Array>): string {
  const hash = createHash("sha256");
  for (const chunk of chunks) hash.update(chunk);
  return hash.digest("hex");
}

function cases(events: readonly BusEvent[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { event } of events) counts.set(event.case ?? "none", (counts.get(event.case ?? "none") ?? 0) + 1);
  return counts;
}

/** The numbers of an enumeration without its UNSPECIFIED. */
function numbers(enumeration: Record<string, string | number>): number[] {
  return Object.values(enumeration)
    .filter((value) => typeof value === "number")
    .filter((value) => value !== 0);
}

function accountName(account: AccountDetails | undefined): string {
  return `${account?.assetId} ${account?.type} ${account?.owner} ${account?.marketId}`;
}

let recording: Frame[][];
let all: BusEvent[];

beforeAll(() => {
  recording = [...simulate(options)].map((block) => [...frames(block)]);
  all = recording.flat().map((frame) => frame.event);
});

function entries(): LedgerEntry[] {
  return all.flatMap(({ event }) =>
    event.case === "ledgerMovements" ? event.value.ledgerMovements.flatMap((movement) => movement.entries) : [],
  );
}

function marketData(): MarketData[] {
  return all.flatMap(({ event }) => (event.case === "marketData" ? [event.value] : []));
}

function markets(): Market[] {
  return all.flatMap(({ event }) =>
    event.case === "marketCreated" || event.case === "marketUpdated" ? [event.value] : [],
  );
}

function trades(): Trade[] {
  return all.flatMap(({ event }) => (event.case === "trade" ? [event.value] : []));
}

describe("the same options", () => {
  const small = { ...options, blocks: 40 };
  let usual: string;

  beforeAll(() => {
    usual = hashOf(simulate(small));
  });

  it("give the same bytes", () => {
    expect(hashOf(simulate(small))).toBe(usual);
  });

  it("give the bytes of this very release, so that a recording can be named by its options", () => {
    expect(hashOf(simulate({ ...small, seed: 1 }))).toMatchInlineSnapshot(
      `"9243f2645d2bd2a7c3988ffc2c829ca41106939877de4ab2f17e08aa5909796d"`,
    );
  });

  it.each([
    ["seed", { seed: 8 }],
    ["markets", { markets: 11 }],
    ["parties", { parties: 41 }],
    ["ordersPerBlock", { ordersPerBlock: 21 }],
    ["entriesPerBlock", { entriesPerBlock: 11 }],
  ])("but another %s give others", (_, change) => {
    expect(hashOf(simulate({ ...small, ...change }))).not.toBe(usual);
  });

  it("make the chain id from the seed", () => {
    expect(new Network({ ...options, seed: 42 }).chainId).toBe("simulated-42");
  });
});

describe("a network that is made again", () => {
  it("goes on with the same bytes after skipping to a height", () => {
    const first = new Network(options);
    const second = new Network(options);
    first.skipTo(60);
    for (let i = 0; i < 60; i++) second.nextBlock();
    expect(first.streamSequence).toBe(second.streamSequence);
    expect(hashOf([first.nextBlock()])).toBe(hashOf([second.nextBlock()]));
  });

  it("has the same events at other times", () => {
    const usual = new Network(options);
    const other = new Network(options);
    for (let i = 1; i <= 150; i++) {
      usual.nextBlock();
      other.nextBlock(BigInt(i) * 5_000_000_000n + 2_000_000_000_000_000_000n);
    }
    expect(other.streamSequence).toBe(usual.streamSequence);
    expect([...frames(other.nextBlock())].map(({ event }) => event.event.case)).toEqual(
      [...frames(usual.nextBlock())].map(({ event }) => event.event.case),
    );
  });

  it("never lets time stand still or go back", () => {
    const network = new Network(options);
    const times = [5n, 5n, 3n].map((timeNs) => {
      const [first] = frames(network.nextBlock(timeNs + 2_000_000_000_000_000_000n));
      return first?.event.event.case === "beginBlock" ? first.event.event.value.timestamp : 0n;
    });
    expect(times).toEqual([2_000_000_000_000_000_005n, 2_000_000_000_000_000_006n, 2_000_000_000_000_000_007n]);
  });
});

describe("frames", () => {
  it("count up without a gap, across blocks", () => {
    const sequences = recording.flat().map((frame) => frame.sequence);
    expect(sequences).toEqual(sequences.map((_, index) => BigInt(index + 1)));
  });

  it("have ids that count from 1 in each block, between its begin and its end; k expired orders take k ids", () => {
    let expiredTogether = 0;
    for (const [index, block] of recording.entries()) {
      const height = index + 1;
      let n = 1;
      const ids = block.map(({ event: { event } }) => {
        const id = `${height}-${n}`;
        const expired = event.case === "expiredOrders" ? event.value.orderIds.length : 1;
        expiredTogether = Math.max(expiredTogether, expired);
        n += expired;
        return id;
      });
      expect(block.map((frame) => frame.event.id)).toEqual(ids);
      expect(block[0]?.event.event).toMatchObject({ case: "beginBlock", value: { height: BigInt(height) } });
      expect(block.at(-1)?.event.event).toMatchObject({ case: "endBlock", value: { height: BigInt(height) } });
    }
    expect(expiredTogether).toBeGreaterThan(1);
  });

  it("have content, also those of kinds that feed no response", () => {
    const members = new Map<BusEventType, Set<number>>();
    for (const { type, event, $unknown = [] } of all) {
      expect(event.case === undefined ? 0 : 1).toBe(1 - $unknown.length);
      for (const { no, data } of $unknown) {
        members.set(type, (members.get(type) ?? new Set()).add(no));
        expect(data.length).toBeGreaterThan(1);
      }
    }
    expect([...members]).toEqual(
      expect.arrayContaining([
        [BusEventType.MARKET_TICK, new Set([118])],
        [BusEventType.EPOCH_UPDATE, new Set([131])],
      ]),
    );
    expect(members.size).toBe(2);
  });

  it("name their chain, block and transaction", () => {
    for (const event of all) {
      expect(event).toMatchObject({ chainId: "simulated-7", version: 1 });
      expect(event.block).toMatch(/^[0-9A-F]{64}$/);
      expect(event.txHash).toMatch(/^[0-9A-F]{64}$/);
    }
  });

  it("have times that grow, and are exact to the nanosecond", () => {
    const times = all.flatMap(({ event }) => (event.case === "beginBlock" ? [event.value.timestamp] : []));
    expect(times.every((time, index) => time > (times[index - 1] ?? 0n))).toBe(true);
    expect(times.filter((time) => time % 1_000n !== 0n).length).toBeGreaterThan(times.length / 2);
  });

  it("hold every kind that feeds a response, and others that feed none", () => {
    const counts = cases(all);
    const kinds = [
      "beginBlock",
      "endBlock",
      "timeUpdate",
      "marketCreated",
      "marketUpdated",
      "marketData",
      "order",
      "asset",
    ];
    kinds.push("expiredOrders", "trade", "ledgerMovements", "nodeSignature");
    kinds.push("erc20MultisigSignerAdded", "erc20MultisigSignerRemoved", "none");
    expect([...counts.keys()].sort()).toEqual(kinds.sort());
  });
});

describe("books", () => {
  it("have the best prices that market data states at its place, and never cross while trading is continuous", () => {
    const seen = readBooks(all, (book, data, isContinuous) => {
      expect(book.best(Side.BUY)).toEqual({ price: data.bestBidPrice, volume: data.bestBidVolume });
      expect(book.best(Side.SELL)).toEqual({ price: data.bestOfferPrice, volume: data.bestOfferVolume });
      if (isContinuous) expect(book.isCrossed).toBe(false);
    });
    expect(seen.marketData).toBeGreaterThan(1_000);
    expect([...seen.books.values()].filter((book) => book.size > 20).length).toBeGreaterThan(3);
  });

  it("only expire orders that are there", () => {
    expect(readBooks(all, () => {}).expiredInVain).toBe(0);
  });

  it("do not outgrow their limit", () => {
    const slack = 20;
    readBooks(all, (book) => expect(book.size).toBeLessThan(ordersPerMarketMax + slack));
  });

  it("cross in auctions, and their indicative price says so", () => {
    const crossed = marketData().filter((data) => data.indicativeVolume > 0n);
    expect(crossed.length).toBeGreaterThan(10);
    for (const data of crossed) expect(BigInt(data.bestBidPrice)).toBeGreaterThanOrEqual(BigInt(data.bestOfferPrice));
  });
});

describe("orders", () => {
  const orders = () => all.flatMap(({ event }) => (event.case === "order" ? [event.value] : []));

  it.each([
    ["status", Order_Status, "status"],
    ["time in force", Order_TimeInForce, "timeInForce"],
    ["type", Order_Type, "type"],
    ["side", Side, "side"],
  ] as const)("occur with every %s", (_, enumeration, field) => {
    expect(new Set(orders().map((order) => order[field]))).toEqual(new Set(numbers(enumeration)));
  });

  it("are amended in price and in size", () => {
    const amended = orders().filter((order) => order.version > 1n);
    expect(amended.length).toBeGreaterThan(50);
    const before = new Map(orders().map((order) => [order.id, order]));
    expect(amended.some((order) => before.get(order.id)?.version !== order.version)).toBe(true);
  });

  it("are rejected for many reasons", () => {
    const rejected = orders().filter((order) => order.status === Order_Status.REJECTED);
    expect(new Set(rejected.map((order) => order.reason)).size).toBeGreaterThan(7);
    expect(rejected.every((order) => order.reason !== undefined)).toBe(true);
  });

  it("follow a peg, are parked without one, and come back", () => {
    const statuses = orders().flatMap((order) => (order.peggedOrder === undefined ? [] : [order.status]));
    expect(new Set(statuses).has(Order_Status.ACTIVE)).toBe(true);
    expect(statuses.filter((status) => status === Order_Status.PARKED).length).toBeGreaterThan(20);
  });

  it("expire in the book by one event for many", () => {
    const expired = all.flatMap(({ event }) => (event.case === "expiredOrders" ? [event.value.orderIds.length] : []));
    expect(Math.max(...expired)).toBeGreaterThan(1);
  });

  it("have prices above 2^64 and volumes above 2^53", () => {
    expect(orders().some((order) => BigInt(order.price) > 1n << 64n)).toBe(true);
    expect(marketData().some((data) => data.bestBidVolume > 1n << 53n)).toBe(true);
  });
});

describe("trades", () => {
  it("state fees on the side of the aggressor, none in auctions, and the batch of the auction", () => {
    const [auction, continuous] = [
      trades().filter((trade) => trade.aggressor === Side.UNSPECIFIED),
      trades().filter((trade) => trade.aggressor !== Side.UNSPECIFIED),
    ];
    expect(auction.length).toBeGreaterThan(10);
    expect(continuous.length).toBeGreaterThan(100);
    expect(auction.every((trade) => trade.buyerFee === undefined && trade.buyerAuctionBatch > 0n)).toBe(true);
    const paid = continuous.filter((trade) => {
      const fee = trade.aggressor === Side.BUY ? trade.buyerFee : trade.sellerFee;
      return BigInt(fee?.liquidityFee ?? 0) > 0n;
    });
    expect(paid.length).toBeGreaterThan(100);
  });

  it("move the price", () => {
    const byMarket = new Map<string, Trade[]>();
    for (const trade of trades()) byMarket.set(trade.marketId, [...(byMarket.get(trade.marketId) ?? []), trade]);
    for (const list of byMarket.values()) {
      if (list.length > 20) expect(new Set(list.map((trade) => trade.price)).size).toBeGreaterThan(5);
    }
    expect(byMarket.size).toBeGreaterThan(4);
  });
});

describe("markets", () => {
  it("occur in every state and every trading mode", () => {
    expect(new Set(markets().map((market) => market.state))).toEqual(new Set(numbers(Market_State)));
    expect(new Set(markets().map((market) => market.tradingMode))).toEqual(new Set(numbers(Market_TradingMode)));
  });

  it("are announced once, one of them later, and some without orders or market data", () => {
    const created = recording.map((block) =>
      block.flatMap(({ event }) => (event.event.case === "marketCreated" ? [event.event.value.id] : [])),
    );
    expect(created[0]?.length).toBe(options.markets - 1);
    expect(created.flat().length).toBe(options.markets);
    const withData = new Set(marketData().map((data) => data.market));
    const withOrders = new Set(all.flatMap(({ event }) => (event.case === "order" ? [event.value.marketId] : [])));
    expect(withData.size).toBeLessThan(options.markets);
    expect(withOrders.size).toBeLessThan(withData.size);
  });

  it("have both risk models and both kinds of data sources, and no empty field", () => {
    const created = all.flatMap(({ event }) => (event.case === "marketCreated" ? [event.value] : []));
    const models = new Set(created.map((market) => market.tradableInstrument?.riskModel.case));
    expect(models).toEqual(new Set(["logNormalRiskModel", "simpleRiskModel"]));
    const sources = new Set(
      created.map(
        (market) =>
          market.tradableInstrument?.instrument?.product.value?.dataSourceSpecForTradingTermination?.data?.sourceType
            .case,
      ),
    );
    expect(sources).toEqual(new Set(["internal", "external"]));
    for (const market of created)
      expect(emptyFields(market)).toEqual(market.decimalPlaces === 0n ? ["decimalPlaces"] : []);
  });

  it("state everything in their market data", () => {
    const open = marketData().filter((data) => data.marketTradingMode === Market_TradingMode.CONTINUOUS);
    const full = open.filter(
      (data) => data.openInterest > 0n && data.bestBidVolume > 0n && data.lastTradedPrice !== "0",
    );
    expect(full.length).toBeGreaterThan(100);
    const auctionFields = ["auctionEnd", "auctionStart", "extensionTrigger", "indicativeVolume", "trigger"];
    for (const data of full) {
      expect(emptyFields(data).filter((name) => name.startsWith("best") || !auctionFields.includes(name))).toEqual([]);
    }
    const auctions = marketData().filter((data) => data.auctionStart > 0n);
    expect(new Set(auctions.map((data) => data.trigger)).size).toBeGreaterThan(3);
    expect(auctions.every((data) => data.auctionEnd > data.auctionStart)).toBe(true);
  });
});

/** Names of top-level fields that hold nothing, but those that 0 is an ordinary value of. */
function emptyFields(message: object): string[] {
  const ordinary = ["positionDecimalPlaces"];
  return Object.entries(message)
    .filter(([, value]) => value === "" || value === 0n || value === 0 || value === undefined || isEmptyList(value))
    .map(([name]) => name)
    .filter((name) => !ordinary.includes(name));
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

describe("the ledger", () => {
  it("has every type of transfer and of account", () => {
    expect(new Set(entries().map((entry) => entry.type))).toEqual(new Set(numbers(TransferType)));
    const types = entries().flatMap((entry) => [entry.fromAccount?.type, entry.toAccount?.type]);
    expect(new Set(types)).toEqual(new Set(numbers(AccountType)));
  });

  it("states the balances that follow from its amounts, none below zero", () => {
    const balances = new Map<string, bigint>();
    const check = (account: AccountDetails | undefined, change: bigint, stated: string): void => {
      if (account?.type === AccountType.EXTERNAL) {
        expect(stated).toBe("0");
        return;
      }
      const name = accountName(account);
      const balance = (balances.get(name) ?? 0n) + change;
      balances.set(name, balance);
      expect(`${name} ${stated}`).toBe(`${name} ${balance}`);
      expect(balance).toBeGreaterThanOrEqual(0n);
      expect(balance).toBeLessThan(1n << 256n);
    };
    for (const entry of entries()) {
      check(entry.fromAccount, -BigInt(entry.amount), entry.fromAccountBalance);
      check(entry.toAccount, BigInt(entry.amount), entry.toAccountBalance);
    }
    expect(balances.size).toBeGreaterThan(300);
  });

  it("has amounts of 0, above 2^64, and balances of 78 digits", () => {
    const amounts = entries().map((entry) => entry.amount);
    expect(amounts.filter((amount) => amount === "0").length).toBeGreaterThan(5);
    expect(amounts.filter((amount) => BigInt(amount) > 1n << 64n).length).toBeGreaterThan(100);
    expect(entries().some((entry) => entry.amount.length === 78 || entry.toAccountBalance.length === 78)).toBe(true);
  });

  it("has movements of one entry and of several, and states the balances they end with", () => {
    const movements = all.flatMap(({ event }) => (event.case === "ledgerMovements" ? event.value.ledgerMovements : []));
    expect(new Set(movements.map((movement) => movement.entries.length)).size).toBeGreaterThan(4);
  });

  it("uses several assets, and accounts without an owner", () => {
    expect(new Set(entries().map((entry) => entry.fromAccount?.assetId)).size).toBe(5);
    expect(entries().some((entry) => entry.fromAccount?.owner === undefined)).toBe(true);
  });
});

describe("signers", () => {
  it("are removed by several submitters, with signatures before and after", () => {
    const removals = all.flatMap(({ event }, index) =>
      event.case === "erc20MultisigSignerRemoved" ? [{ index, removal: event.value }] : [],
    );
    expect(removals.length).toBe(8);
    expect(removals.some(({ removal }) => removal.signatureSubmitters.length > 1)).toBe(true);
    const signatures = all.flatMap(({ event }, index) =>
      event.case === "nodeSignature" ? [{ index, signature: event.value }] : [],
    );
    const submitters = removals.flatMap(({ index, removal }) =>
      removal.signatureSubmitters.map(({ signatureId }) => ({ index, signatureId })),
    );
    for (const { index, signatureId } of submitters) {
      const own = signatures.filter(({ signature }) => signature.id === signatureId);
      expect(own.filter((each) => each.index < index).length).toBe(2);
      expect(own.filter((each) => each.index > index).length).toBe(3);
    }
    expect(new Set(signatures.map(({ signature }) => signature.kind)).has(NodeSignatureKind.ASSET_WITHDRAWAL)).toBe(
      true,
    );
  });
});

describe("odd sizes", () => {
  const least: NetworkOptions & { blocks: number } = {
    seed: 3,
    markets: 1,
    parties: 2,
    ordersPerBlock: 0,
    entriesPerBlock: 0,
    blocks: 30,
  };

  it.each([
    ["the least of everything", least],
    ["no orders", { ...least, markets: 12, entriesPerBlock: 5 }],
    ["two parties", { ...least, ordersPerBlock: 10, entriesPerBlock: 5 }],
    ["many markets", { ...least, markets: 300, ordersPerBlock: 10, blocks: 6 }],
    ["many entries", { ...least, parties: 5_000, entriesPerBlock: 5_000, blocks: 5 }],
  ])("%s make whole blocks", (_, sizes) => {
    const made = [...simulate(sizes)].map((block) => [...frames(block)]);
    expect(made.length).toBe(sizes.blocks);
    for (const block of made) expect(block.at(-1)?.event.event.case).toBe("endBlock");
  });
});
