import { scaled } from "../domain/decimal-text.js";
import type { DepthLevel } from "../domain/depth-book.js";
import { midPriceOf, quoteOf } from "../domain/quote.js";
import type { Emphasis, Style } from "./style.js";

const separator = ",";
const gap = "  ";
/** Narrower bars are not shown. */
const barMin = 4;
const barMax = 40;

/** A side of the book, and its style. */
export type LadderSide = "buy" | "sell";

/** Decimal places of a market's prices and sizes. */
export interface Places {
  readonly price: number;
  readonly size: number;
}

/** The displayed book. */
export interface LadderBook {
  /** Both sides, best first. */
  readonly buy: readonly DepthLevel[];
  readonly sell: readonly DepthLevel[];
  readonly places: Places;
  /** Whether a level changed recently. */
  isFlashing(side: LadderSide, price: string): boolean;
}

interface Row {
  readonly level: DepthLevel;
  /** Cumulative volume from the best level. */
  readonly sum: bigint;
}

function rowsOf(levels: readonly DepthLevel[], count: number): Row[] {
  let sum = 0n;
  return levels.slice(0, count).map((level) => {
    sum += level.volume;
    return { level, sum };
  });
}

/** The texts of a row, the most important first: what does not fit is left out from the end. */
function textsOf({ level, sum }: Row, { price, size }: Places): string[] {
  return [
    scaled(level.price, price, separator),
    scaled(level.volume, size, separator),
    scaled(sum, size, separator),
    scaled(level.numberOfOrders, 0, separator),
  ];
}

const headings = ["price", "size", "total", "orders"];

/**
 * The lines of a ladder: headings, asks from the highest to the best, spread, bids from the best. Each side has
 * `levels` lines, padded with empty ones, so that the spread stays in place. If `columns` is unlimited, nothing is
 * omitted, and there are no bars.
 */
export function ladderLines(book: LadderBook, levels: number, columns: number, style: Style): string[] {
  const [bids, asks] = [rowsOf(book.buy, levels), rowsOf(book.sell, levels)];
  const table = new Table([...asks, ...bids], book.places, columns);
  const empty = (count: number) => Array.from({ length: levels - count }, () => "");
  const line = (side: LadderSide, row: Row) => {
    const emphases: Emphasis[] = [side === "buy" ? "green" : "red"];
    if (book.isFlashing(side, row.level.price)) emphases.push("bold", "inverse");
    const { columns: text, bar } = table.line(row);
    return style(text, ...emphases) + style(bar, side === "buy" ? "green" : "red", "dim");
  };
  return [
    style(table.headings, "dim"),
    ...empty(asks.length),
    ...asks.toReversed().map((row) => line("sell", row)),
    style(spreadLine(book, table.width), "bold"),
    ...bids.map((row) => line("buy", row)),
    ...empty(bids.length),
  ];
}

/** The columns that nothing of a ladder needs more than, without bars. */
export function ladderWidth(book: Pick<LadderBook, "buy" | "sell" | "places">, levels: number): number {
  const rows = [...rowsOf(book.sell, levels), ...rowsOf(book.buy, levels)];
  return new Table(rows, book.places, Number.POSITIVE_INFINITY).width;
}

/** Columns of right-aligned texts, with a bar if it fits. */
class Table {
  readonly headings: string;
  readonly width: number;
  readonly #places: Places;
  readonly #widths: readonly number[];
  readonly #barWidth: number;
  readonly #largest: bigint;

  constructor(rows: readonly Row[], places: Places, columns: number) {
    this.#places = places;
    let largest = 1n;
    for (const { sum } of rows) if (sum > largest) largest = sum;
    this.#largest = largest;
    const texts = [headings, ...rows.map((row) => textsOf(row, places))];
    // Not with Math.max of all: a call takes only so many arguments, and a book has any number of levels.
    const widths = headings.map((_, index) =>
      texts.reduce((width, row) => Math.max(width, row[index]?.length ?? 0), 0),
    );
    while (widths.length > 1 && widthOf(widths) > columns) widths.pop();
    this.#widths = widths;
    this.headings = this.#join(headings);
    this.width = Math.min(columns, widthOf(widths));
    const free = Number.isFinite(columns) ? Math.min(barMax, columns - this.width - gap.length) : 0;
    this.#barWidth = free < barMin ? 0 : free;
  }

  line(row: Row): { readonly columns: string; readonly bar: string } {
    const length = Number((row.sum * BigInt(this.#barWidth)) / this.#largest);
    return {
      columns: this.#join(textsOf(row, this.#places)),
      bar: length === 0 ? "" : gap + "█".repeat(length),
    };
  }

  #join(texts: readonly string[]): string {
    return this.#widths.map((width, index) => (texts[index] ?? "").padStart(width)).join(gap);
  }
}

function widthOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + gap.length * (widths.length - 1);
}

function spreadLine(book: LadderBook, width: number): string {
  const { midTwice, spread } = quoteOf(book.buy, book.sell);
  if (midTwice === undefined || spread === undefined) {
    const missing =
      book.buy.length === 0 && book.sell.length === 0 ? "orders" : book.buy.length === 0 ? "bids" : "asks";
    return ` no ${missing} `.padStart(width, "─");
  }
  const mid = midPriceOf(midTwice, book.places.price);
  const text = ` mid ${scaled(mid.price, mid.places, separator)} · spread ${scaled(spread, book.places.price, separator)} `;
  return text.padStart(width, "─");
}
