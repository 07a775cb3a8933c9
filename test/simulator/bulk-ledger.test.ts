import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { BusEventSchema } from "../../gen/vega/events/v1/events_pb.js";
import { AccountType, type LedgerEntry } from "../../gen/vega/vega_pb.js";
import { BlockWriter } from "../../src/simulator/block-writer.js";
import { BulkLedger, hotPartiesMax, warmPartiesMax } from "../../src/simulator/bulk-ledger.js";
import { Random } from "../../src/simulator/random.js";
import { frames } from "./recording-frames.js";

const names = new Random(1, "names");
const marketIds = Array.from({ length: 3 }, () => names.identifier());

function blocksOf(parties: number, pastHeight: number, blocks: number, entriesPerBlock: number): LedgerEntry[][] {
  const bulk = new BulkLedger(new Random(5, "bulk"), { parties, marketIds, pastHeight });
  const writer = new BlockWriter("chain");
  return Array.from({ length: blocks }, (_, index) => {
    writer.begin(index + 1, 1_700_000_000_000_000_000n + BigInt(index), "ab".repeat(32));
    bulk.write(writer, index + 1, 1_700_000_000_000_000_000n + BigInt(index), entriesPerBlock);
    return [...frames(writer.end())].flatMap(({ event: { event } }) =>
      event.case === "ledgerMovements" ? event.value.ledgerMovements.flatMap((movement) => movement.entries) : [],
    );
  });
}

function ownerOf(entry: LedgerEntry): string {
  return entry.fromAccount?.owner ?? entry.toAccount?.owner ?? "";
}

describe("the bulk ledger", () => {
  it("writes as many entries as it is asked for, with the block's time", () => {
    const blocks = blocksOf(100, 1, 3, 1_234);
    expect(blocks.map((entries) => entries.length)).toEqual([1_234, 1_234, 1_234]);
    expect(new Set(blocks[2]?.map((entry) => entry.timestamp))).toEqual(new Set([1_700_000_000_000_000_002n]));
  });

  it("writes the bytes that the library would", () => {
    const writer = new BlockWriter("chain");
    const bulk = new BulkLedger(new Random(5, "bulk"), { parties: 100, marketIds, pastHeight: 1 });
    writer.begin(1, 1n, "ab".repeat(32));
    bulk.write(writer, 1, 1_700_000_000_000_000_000n, 2_000);
    const block = writer.end();
    const view = new DataView(block.buffer, block.byteOffset);
    for (let at = 0; at < block.length; at += 4 + view.getUint32(at)) {
      const bytes = block.subarray(at + 12, at + 4 + view.getUint32(at));
      expect(Buffer.from(toBinary(BusEventSchema, fromBinary(BusEventSchema, bytes))).equals(bytes)).toBe(true);
    }
  });

  it("states balances that follow from the amounts, none below zero", () => {
    const balances = new Map<string, bigint>();
    for (const entry of blocksOf(200, 2, 10, 2_000).flat()) {
      const sides = [
        { account: entry.fromAccount, change: -BigInt(entry.amount), stated: entry.fromAccountBalance },
        { account: entry.toAccount, change: BigInt(entry.amount), stated: entry.toAccountBalance },
      ];
      for (const { account, change, stated } of sides) {
        const { assetId, type, owner, marketId } = account ?? {};
        if (type === AccountType.EXTERNAL) continue;
        const name = `${assetId} ${type} ${owner} ${marketId}`;
        balances.set(name, (balances.get(name) ?? 0n) + change);
        expect(`${name} ${stated}`).toBe(`${name} ${balances.get(name)}`);
        expect(balances.get(name)).toBeGreaterThanOrEqual(0n);
      }
    }
  });

  it("is skewed: a few parties have most entries, and many have few", () => {
    const parties = 5_000;
    const counts = new Map<string, number>();
    const entries = blocksOf(parties, 1, 21, 5_000).slice(1).flat();
    for (const entry of entries) counts.set(ownerOf(entry), (counts.get(ownerOf(entry)) ?? 0) + 1);
    const sorted = [...counts.values()].sort((one, other) => other - one);
    const share = (from: number, to: number) => sorted.slice(from, to).reduce((sum, n) => sum + n, 0) / entries.length;
    expect(share(0, hotPartiesMax)).toBeCloseTo(0.45, 1);
    expect(share(hotPartiesMax, hotPartiesMax + warmPartiesMax)).toBeCloseTo(0.38, 1);
    expect(sorted[0]).toBeGreaterThan(3 * (sorted[hotPartiesMax - 1] ?? 0));
    expect(sorted.length).toBeGreaterThan(4_000);
  });

  it("has parties that were active only long ago, and often then", () => {
    const blocks = blocksOf(2_000, 2, 20, 2_000);
    const early = new Set(blocks.slice(0, 2).flat().map(ownerOf));
    const late = new Set(blocks.slice(2).flat().map(ownerOf));
    const past = [...early].filter((owner) => !late.has(owner));
    const ofPast = blocks
      .slice(0, 2)
      .flat()
      .filter((entry) => past.includes(ownerOf(entry)));
    expect(past.length).toBeGreaterThan(50);
    expect(ofPast.length).toBeGreaterThan(1_500);
  });

  it("has amounts that fit 64 bits in one asset and don't in the other", () => {
    const entries = blocksOf(100, 1, 2, 1_000).flat();
    const largest = new Map<string, bigint>();
    for (const entry of entries) {
      const asset = entry.fromAccount?.assetId ?? "";
      const amount = BigInt(entry.amount);
      if (amount > (largest.get(asset) ?? 0n)) largest.set(asset, amount);
    }
    const [small = 0n, large = 0n] = [...largest.values()].sort((one, other) => (one < other ? -1 : 1));
    expect(small).toBeLessThan(1n << 63n);
    expect(large).toBeGreaterThan(1n << 64n);
  });
});
