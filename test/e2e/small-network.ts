import { AccountType, Side, TransferType } from "../../gen/vega/vega_pb.js";
import { RecordingBuilder } from "../support/recording.js";

/** The time of the first block of {@link smallNetwork}, in nanoseconds; not a whole microsecond, nor a whole second. */
export const firstBlockNs = 1_674_004_005_123_456_789n;

/** What lies between two of its blocks: less than a microsecond, so that only exact times tell them apart. */
export const blockIntervalNs = 1n;

/** How many blocks it has after the first. */
export const laterBlocks = 3;

/** The network's times of its blocks with ledger entries, oldest first. */
export const entryTimes = Array.from({ length: laterBlocks }, (_, n) => firstBlockNs + BigInt(n + 1) * blockIntervalNs);

/**
 * A network with one of each: an asset; a market with a book, a trade and data; one whose id needs escapes; one with orders and
 * data but no book any more; one with nothing yet. Alice pays Bob in each later block, and the last pays into a margin
 * account of Alice's own.
 */
export function smallNetwork(): RecordingBuilder {
  const general = (owner: string) => ({ assetId: "usd", type: AccountType.GENERAL, owner });
  const recording = new RecordingBuilder().block(1, firstBlockNs, (r) => {
    for (const id of ["busy", "a/b +%", "emptied", "quiet"]) r.market(id);
    for (const [id, price] of [
      ["b1", "100"],
      ["b2", "90"],
      ["b3", "80"],
    ] as const) {
      r.order({ id, marketId: "busy", price, remaining: 5n, size: 5n });
    }
    r.order({ id: "s1", marketId: "busy", price: "110", side: Side.SELL });
    r.order({ id: "s2", marketId: "busy", price: "120", side: Side.SELL });
    r.trade({ id: "t", marketId: "busy", price: "105", size: 1n, buyer: "alice", seller: "bob" });
    r.order({ id: "e", marketId: "emptied" }).order({ id: "e", marketId: "emptied", remaining: 0n });
    for (const market of ["busy", "a/b +%", "emptied"]) r.marketData({ market, markPrice: "105" });
    r.asset("usd", { details: { name: "US dollar", symbol: "USD", decimals: 2n, quantum: "1" } });
  });
  for (const [n, time] of entryTimes.entries()) {
    recording.block(n + 2, time, (r) => {
      r.transfer({ from: general("alice"), to: general("bob"), amount: String(n) });
      if (n + 1 < laterBlocks) return;
      const margin = { assetId: "usd", type: AccountType.MARGIN, owner: "alice", marketId: "a/b +%" };
      r.transfer({ from: general("alice"), to: margin, amount: "7", type: TransferType.MARGIN_LOW });
      r.transfer({ from: general('q"u, ote'), to: general("bob"), amount: "1" });
      r.signerRemoved({
        signatureSubmitters: [{ signatureId: "sig", submitter: "0xAbC1" }],
        validatorId: "node",
        timestamp: time,
        nonce: "1",
        oldSigner: "0xDeF2",
        epochSeq: "7",
      });
    });
  }
  return recording;
}
