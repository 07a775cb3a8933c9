import type { Book, Level } from "../chaos/book.js";
import type { BlockEnd, MarketPast, PublishedUpdate, SidedLevel } from "./market-past.js";

/** The JSON of `GetMarketDepthAt`. @param maxDepth 0: all levels */
export function depthAtText(past: MarketPast, block: BlockEnd, maxDepth: number): string {
  const decimals = past.decimals.at(block.index);
  const trade = past.lastTrade.at(block.index);
  const members = [
    `"marketId":${JSON.stringify(past.id)}`,
    ...sidesOf(past.bookAt(block.index), maxDepth === 0 ? Number.POSITIVE_INFINITY : maxDepth),
    ...(trade === undefined ? [] : [`"lastTrade":${trade}`]),
    `"sequenceNumber":"${past.updateAt(block.index)?.sequenceNumber ?? 0n}"`,
    `"block":${blockText(block)}`,
    `"decimalPlaces":"${decimals?.price}"`,
    `"positionDecimalPlaces":"${decimals?.size}"`,
  ];
  return `{${members.join(",")}}`;
}

export function blockText({ height, timeNs, sequence }: BlockEnd): string {
  return `{"height":"${height}","timestamp":"${timeNs}","streamSequence":"${sequence}"}`;
}

/** A market's update as JSON: what a block changed, or with `previous` 0 the whole book after it. */
export function updateText(past: MarketPast, update: PublishedUpdate, previous: bigint): string {
  const sides = previous === 0n ? sidesOf(past.bookAt(update.block.index)) : changedSides(update.levels);
  const numbers = [`"sequenceNumber":"${update.sequenceNumber}"`, `"previousSequenceNumber":"${previous}"`];
  return `{${[`"marketId":${JSON.stringify(past.id)}`, ...sides, ...numbers].join(",")}}`;
}

/**
 * The edges of `ListMarketDepthChanges` without their cursors, oldest first: of the blocks from `first` on, up to the one
 * before `until`, which nothing is missing between. @param since where the market's book began anew before them
 */
export function changeTexts(past: MarketPast, since: BlockEnd, first: number, until: number): string[] {
  let previous = past.updatesBetween(since.index - 1, first - 1).at(-1)?.sequenceNumber ?? 0n;
  return past.updatesBetween(first - 1, until - 1).map((update) => {
    const text = `{"block":${blockText(update.block)},"update":${updateText(past, update, previous)}`;
    previous = update.sequenceNumber;
    return text;
  });
}

function sidesOf(book: Book, count = Number.POSITIVE_INFINITY): [string, string] {
  const { buy, sell } = book.best(count);
  return [`"buy":${levelsText(buy)}`, `"sell":${levelsText(sell)}`];
}

function changedSides(levels: readonly SidedLevel[]): [string, string] {
  const ascending = [...levels].sort((a, b) => (BigInt(a.price) < BigInt(b.price) ? -1 : 1));
  const buy = ascending.filter(({ side }) => side === 1).reverse();
  const sell = ascending.filter(({ side }) => side === 2);
  return [`"buy":${levelsText(buy)}`, `"sell":${levelsText(sell)}`];
}

function levelsText(levels: readonly Level[]): string {
  const texts = levels.map(({ price, orders, volume }) => {
    return `{"price":"${price}","numberOfOrders":"${orders}","volume":"${volume}"}`;
  });
  return `[${texts.join(",")}]`;
}
