import { Side, type Trade } from "../../gen/vega/vega_pb.js";
import { scaled } from "../domain/decimal-text.js";
import { timeOfDay } from "../domain/instant.js";
import type { Places } from "./ladder.js";
import type { Style } from "./style.js";

const gap = "  ";
const headings = ["time (UTC)", "price", "size"];

/** Lines of one width: headings, and so many of the newest trades, which come first. Their colour is the aggressor's. */
export interface TradeList {
  readonly width: number;
  readonly lines: readonly string[];
}

/** The newest trades as a list of at most `count`. */
export function tradeList(trades: readonly Trade[], places: Places, count: number, style: Style): TradeList {
  const rows = trades.slice(0, count).map((trade) => ({ trade, texts: textsOf(trade, places) }));
  const widths = headings.map((heading, index) => {
    return rows.reduce((width, { texts }) => Math.max(width, texts[index]?.length ?? 0), heading.length);
  });
  const join = (texts: readonly string[]) =>
    widths.map((width, index) => (texts[index] ?? "").padStart(width)).join(gap);
  const lines = rows.map(({ trade, texts }) => {
    if (trade.aggressor === Side.BUY) return style(join(texts), "green");
    return trade.aggressor === Side.SELL ? style(join(texts), "red") : join(texts);
  });
  return { width: join([]).length, lines: [style(join(headings), "dim"), ...lines] };
}

function textsOf({ timestamp, price, size }: Trade, places: Places): string[] {
  const [time = ""] = timeOfDay(Number(timestamp / 1_000_000n)).split(" ");
  return [time, scaled(price, places.price, ","), scaled(size, places.size, ",")];
}
