import { OrderBooks } from "../../src/domain/order-book.js";
import { BlockFold } from "../../src/loader/block-fold.js";
import { FrameSplitter } from "../../src/loader/frames.js";
import { LedgerTextWriter } from "../../src/loader/ledger-text.js";
import { Network, type NetworkOptions } from "../../src/simulator/network.js";
import type { Changes } from "../../src/store/changes.js";

/** A network whose blocks make messages of some 600 bytes: the smaller they are, the more our own work shows. */
export const networkOptions: NetworkOptions = {
  seed: 3,
  markets: 6,
  parties: 30,
  ordersPerBlock: 4,
  entriesPerBlock: 0,
};

/** Blocks before the first reader comes, so that the books are full. */
const warmUpBlocks = 200;

/** Blocks before they repeat. Rounds of as many send the same bytes, from every server. */
export const blockCount = 400;

/** What a tail would read: the state at first, and then block by block. */
export interface SimulatedBlocks {
  readonly first: Changes;
  /** Each publishes at least one update. */
  readonly blocks: readonly Changes[];
}

/** Folds the simulated network's blocks as the loader does, without a database. */
export function simulatedBlocks(): SimulatedBlocks {
  const network = new Network(networkOptions);
  const ledger = new LedgerTextWriter([], []);
  const books = OrderBooks.restore([], []);
  const fold = new BlockFold({ progress: undefined, position: 0, books, ledger });
  const splitter = new FrameSplitter("the simulated network");
  const addBlock = (): void => {
    for (const frame of splitter.frames(network.nextBlock())) fold.apply(frame);
  };
  for (let block = 0; block < warmUpBlocks; block++) addBlock();
  const first = takeChanges(fold, true);
  const blocks: Changes[] = [];
  while (blocks.length < blockCount) {
    addBlock();
    const changes = takeChanges(fold, false);
    if (changes.levels.length > 0) blocks.push(changes);
  }
  return { first, blocks };
}

/** The same block again, later: every number moved on by `by`. */
export function moved(changes: Changes, by: bigint): Changes {
  if (by === 0n) return changes;
  const depths = changes.depths.map((row) => ({
    ...row,
    sequenceNumber: row.sequenceNumber + by,
    publishedSequenceNumber: row.publishedSequenceNumber + by,
  }));
  return { ...changes, depths };
}

function takeChanges(fold: BlockFold, wholeBooks: boolean): Changes {
  const batch = fold.take();
  const levels = [...batch.levels.values()];
  return {
    progress: { ...batch.reached, timeNs: batch.reached.blockTimeNs, storeId: "bench", prunedSequence: 0n },
    markets: [...batch.markets.values()],
    marketData: [...batch.marketData.values()],
    depths: [...batch.depths.values()],
    levels: wholeBooks ? levels.filter((level) => level.volume > 0n) : levels,
    trades: [],
    wholeBooks,
  };
}
