import { RecordingWriter, type VenueEventInit } from "../../examples/venues/recording.js";

/** A venue's market with so many levels on each side, and how many blocks of its past there are. */
export const largeBook = { marketId: "large-book", sideLevels: 100_000, blocks: 40 } as const;

const firstBlockNs = 1_700_000_000_000_000_000n;
const blockNs = 500_000_000n;
const decimals = 2;
const middlePrice = 5_000_000;
/** Levels that each block changes on each side. */
const changesPerBlock = 5;

/** A recording of it, block by block. */
export function* largeBookBlocks(): Generator<Buffer> {
  const { marketId, sideLevels, blocks } = largeBook;
  const writer = new RecordingWriter("attack");
  const level = (sign: number, index: number, size: number) => {
    return { price: ((middlePrice + sign * (index + 1)) / 10 ** decimals).toFixed(decimals), size: size.toFixed(0) };
  };
  const side = (sign: number) => Array.from({ length: sideLevels }, (_, index) => level(sign, index, index + 1));
  const scale = { priceDecimals: decimals, sizeDecimals: decimals };
  const first: readonly VenueEventInit[] = [
    { case: "marketDefinition", value: { marketId, code: "LARGE", name: "a large book", ...scale } },
    { case: "bookSnapshot", value: { marketId, bids: side(-1), asks: side(1) } },
  ];
  yield writer.block(firstBlockNs, first);
  for (let block = 1; block < blocks; block++) {
    const changed = (sign: number) => {
      return Array.from({ length: changesPerBlock }, (_, n) => level(sign, (block * 97 + n) % sideLevels, block));
    };
    const delta = { marketId, bids: changed(-1), asks: changed(1) };
    yield writer.block(firstBlockNs + BigInt(block) * blockNs, [{ case: "bookDelta", value: delta }]);
  }
}
