import type { Book, Level } from "../chaos/book.js";
import type { Run } from "./kept-past.js";
import type { BlockEnd, MarketPast, SidedLevel } from "./market-past.js";

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

/** A market's whole book at the end of a block, as an update in JSON. */
export function wholeBookText(past: MarketPast, block: BlockEnd): string {
  const sides = sidesOf(past.bookAt(block.index));
  return updateText(past, sides, past.updateAt(block.index)?.sequenceNumber ?? 0n, 0n);
}

function updateText(past: MarketPast, sides: readonly string[], sequenceNumber: bigint, previous: bigint): string {
  const numbers = [`"sequenceNumber":"${sequenceNumber}"`, `"previousSequenceNumber":"${previous}"`];
  return `{${[`"marketId":${JSON.stringify(past.id)}`, ...sides, ...numbers].join(",")}}`;
}

/** A block's change of a book as JSON. */
export interface ListedChange {
  readonly block: BlockEnd;
  readonly update: string;
}

/** What `ListMarketDepthChanges` lists of a run, oldest first: of the blocks from `first` on, up to that before `until`. */
export function listedChanges(past: MarketPast, { beginnings }: Run, first: number, until: number): ListedChange[] {
  const whole = beginnings.filter(({ index }) => first <= index && index < until);
  const isWhole = new Set(whole.map(({ index }) => index));
  const changed = past.updatesBetween(first - 1, until - 1).filter(({ block }) => !isWhole.has(block.index));
  const changes = changed.map(({ block, sequenceNumber, levels }) => {
    const previous = past.updateAt(block.index - 1)?.sequenceNumber ?? 0n;
    return { block, update: updateText(past, changedSides(levels), sequenceNumber, previous) };
  });
  const all = [...whole.map((block) => ({ block, update: wholeBookText(past, block) })), ...changes];
  return all.sort((a, b) => a.block.index - b.block.index);
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
