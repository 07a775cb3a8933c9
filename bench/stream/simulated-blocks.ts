import { OrderBooks } from "../../src/domain/order-book.js";
import type { WholeBatch } from "../../src/loader/batch.js";
import { BlockFold } from "../../src/loader/block-fold.js";
import { FrameSplitter } from "../../src/loader/frames.js";
import { LedgerTextWriter } from "../../src/loader/ledger-text.js";
import { Network, type NetworkOptions } from "../../src/simulator/network.js";
import type { Changes } from "../../src/store/changes.js";

/** A network whose blocks make messages of some 600 bytes: the smaller they are, the more our own work shows. */
const networkOptions: NetworkOptions = {
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

/** A simulated network whose blocks are folded as the loader does, without a database. */
export class FoldedNetwork {
  readonly #network = new Network(networkOptions);
  readonly #splitter = new FrameSplitter("the simulated network");
  readonly #fold = new BlockFold({
    progress: undefined,
    position: 0,
    books: OrderBooks.restore([], []),
    ledger: new LedgerTextWriter([], []),
  });

  /** The newest block. */
  get height(): number {
    return this.#network.height;
  }

  /** Makes and folds a block. @returns its frames */
  nextBlock(): Buffer {
    const bytes = Buffer.from(this.#network.nextBlock());
    for (const frame of this.#splitter.frames(bytes)) this.#fold.apply(frame);
    return bytes;
  }

  /** The changes of all blocks since the last call. */
  take(): WholeBatch {
    return this.#fold.take();
  }
}

/** The blocks of a {@link FoldedNetwork}, as a tail would read them. */
export function simulatedBlocks(): SimulatedBlocks {
  const network = new FoldedNetwork();
  for (let block = 0; block < warmUpBlocks; block++) network.nextBlock();
  const first = changesOf(network.take(), true);
  const blocks: Changes[] = [];
  while (blocks.length < blockCount) {
    network.nextBlock();
    const changes = changesOf(network.take(), false);
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

function changesOf(batch: WholeBatch, wholeBooks: boolean): Changes {
  const levels = [...batch.levels.values()];
  return {
    progress: { ...batch.reached, storeId: "bench", prunedSequence: 0n },
    markets: [...batch.markets.values()],
    marketData: [...batch.marketData.values()],
    assets: [],
    depths: [...batch.depths.values()],
    levels: wholeBooks ? levels.filter((level) => level.volume > 0n) : levels,
    trades: [],
    lastTradeId: 0n,
    wholeBooks,
  };
}
