import { stripVTControlCharacters } from "node:util";
import type { Trade } from "../../gen/vega/vega_pb.js";
import type { BlockHead } from "../domain/block-headers.js";
import { grouped, scaled } from "../domain/decimal-text.js";
import type { DepthBook, DepthUpdate } from "../domain/depth-book.js";
import { duration, timeOfDay } from "../domain/instant.js";
import { printable } from "../domain/printable.js";
import { quoteOf } from "../domain/quote.js";
import { type LadderBook, type LadderSide, ladderLines, ladderWidth, type Places } from "./ladder.js";
import type { Style } from "./style.js";
import { clipped } from "./text-width.js";
import { tradeList } from "./trade-list.js";

/** How long a changed level is highlighted. */
const flashMs = 400;

/** Lines besides the levels: title, facts, warning or keys, headings, spread. */
const otherLines = 5;

/** Columns between the ladder and the trades. */
const tradesGap = 4;

/** Columns of a name and of an id at most: ids have at most 128 characters, names of venues at most 1,024. */
const nameMaxColumns = 100;
const idMaxColumns = 128;

/** The data of a market's screen. */
export interface ShownMarket {
  readonly id: string;
  readonly name: string;
  readonly mode: string | undefined;
  readonly places: Places;
  readonly block: BlockHead | undefined;
  readonly book: DepthBook | undefined;
  /** The newest trades, newest first; undefined: they are not told. */
  readonly trades: readonly Trade[] | undefined;
  /** Why it is out of date, and since when by `performance.now()`; undefined: it is up to date. */
  readonly staleness: { readonly since: number; readonly reason: string } | undefined;
}

/** The size of a terminal, and whether it supports colours. */
export interface Terminal {
  readonly rows: number;
  readonly columns: number;
  readonly style: Style;
}

/** The levels that changed recently. */
export class Flashes {
  readonly #changedAt = new Map<string, number>();

  /** A whole book does not count as a change. */
  note(update: DepthUpdate): void {
    const now = performance.now();
    for (const [key, at] of this.#changedAt) if (now - at > flashMs) this.#changedAt.delete(key);
    if (update.previousSequenceNumber === 0n) return;
    for (const side of ["buy", "sell"] as const) {
      for (const { price } of update[side]) this.#changedAt.set(`${side} ${price}`, now);
    }
  }

  isFlashing(side: LadderSide, price: string): boolean {
    const at = this.#changedAt.get(`${side} ${price}`);
    return at !== undefined && performance.now() - at <= flashMs;
  }
}

/** The lines of a full screen: market, age of the data, and ladder. `levelsMax` 0: as many as fit. */
export function marketScreen(market: ShownMarket, flashes: Flashes, terminal: Terminal, levelsMax: number): string[] {
  const { columns, rows, style } = terminal;
  const fitting = Math.max(1, Math.floor((rows - otherLines) / 2));
  const levels = levelsMax === 0 ? fitting : Math.min(levelsMax, fitting);
  const { staleness, book, places } = market;
  const isFlashing = (side: LadderSide, price: string) => staleness === undefined && flashes.isFlashing(side, price);
  const ladder = { buy: book?.buy ?? [], sell: book?.sell ?? [], places, isFlashing };
  return [
    style(clipped(titleOf(market), columns), "bold"),
    clipped(factsOf(market), columns),
    staleness === undefined
      ? style(clipped(book === undefined ? "waiting for the book" : "q ends", columns), "dim")
      : style(clipped(stalenessText(staleness), columns), "bold", "yellow"),
    // Outdated data also has another colour.
    ...bookLines(
      ladder,
      levels,
      columns,
      market.trades,
      staleness === undefined ? style : (text) => style(text, "dim"),
    ),
  ];
}

/** The ladder, and the newest trades to the right of it, if they fit without taking a column of it. */
function bookLines(
  ladder: LadderBook,
  levels: number,
  columns: number,
  trades: readonly Trade[] | undefined,
  style: Style,
): string[] {
  const list = tradeList(trades ?? [], ladder.places, 2 * levels + 1, style);
  const left = columns - list.width - tradesGap;
  const isShown = list.lines.length > 1 && ladderWidth(ladder, levels) <= left;
  if (!isShown) return ladderLines(ladder, levels, columns, style);
  return ladderLines(ladder, levels, left, style).map((line, index) => {
    const trade = list.lines[index];
    if (trade === undefined) return line;
    return `${line}${" ".repeat(left - stripVTControlCharacters(line).length + tradesGap)}${trade}`;
  });
}

/** A book for standard output: title, facts and levels, without colours. `levelsMax` 0: all. */
export function marketText(market: ShownMarket, levelsMax: number): string[] {
  const { book, places } = market;
  const [buy, sell] = [book?.buy ?? [], book?.sell ?? []];
  const longest = Math.max(buy.length, sell.length);
  const levels = levelsMax === 0 ? longest : Math.min(levelsMax, longest);
  const ladder = { buy, sell, places, isFlashing: () => false };
  const lines = ladderLines(ladder, levels, Number.POSITIVE_INFINITY, (text) => text);
  return [titleOf(market), factsOf(market), ...lines.filter((line) => line !== "")];
}

/**
 * A book as one line for another program: time of reading (of a past book: of its block), sequence number, best prices
 * with sizes, spread, levels per side. Amounts are scaled and not grouped; missing values are `-`.
 */
export function bookLine({ book, places }: ShownMarket, at = new Date()): string {
  const [buy, sell] = [book?.buy ?? [], book?.sell ?? []];
  const { bid, ask, spread } = quoteOf(buy, sell);
  const text = (integer: string | bigint | undefined, decimals: number) =>
    integer === undefined ? "-" : scaled(integer, decimals, "");
  return [
    at.toISOString(),
    `sequence=${book?.sequenceNumber ?? 0n}`,
    `bid=${text(bid?.price, places.price)}`,
    `bidSize=${text(bid?.volume, places.size)}`,
    `ask=${text(ask?.price, places.price)}`,
    `askSize=${text(ask?.volume, places.size)}`,
    `spread=${text(spread, places.price)}`,
    `bids=${buy.length}`,
    `asks=${sell.length}`,
  ].join(" ");
}

/** Why data is out of date, and since when. */
export function stalenessText({ since, reason }: { readonly since: number; readonly reason: string }): string {
  const ageMs = performance.now() - since;
  const at = timeOfDay(Date.now() - ageMs);
  return printable(`stale since ${at} (${duration(ageMs / 1000)}): ${reason}; trying again`);
}

function titleOf({ id, name }: ShownMarket): string {
  const shownId = cutPrintable(id, idMaxColumns);
  return name === "" ? shownId : `${cutPrintable(name, nameMaxColumns)} (${shownId})`;
}

/** External text of any length, printable and cut. Only so much of it is looked at. */
function cutPrintable(text: string, columns: number): string {
  return clipped(printable(text.slice(0, 16 * columns)), columns);
}

function factsOf({ mode, block, book }: ShownMarket): string {
  const facts = mode === undefined ? [] : [mode];
  if (block !== undefined) {
    const ageSeconds = Date.now() / 1000 - Number(block.timeNs / 1_000_000n) / 1000;
    facts.push(`block ${grouped(String(block.height), ",")}`, `${duration(ageSeconds)} old`);
  }
  if (book?.sequenceNumber !== undefined) facts.push(`sequence ${book.sequenceNumber}`);
  return facts.join(" · ");
}
