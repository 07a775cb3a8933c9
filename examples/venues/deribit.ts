import { Side } from "../../gen/vega/vega_pb.js";
import type { Converter, ReceivedFrame, VenueEventInit } from "./recording.js";

type Level = readonly [action: "new" | "change" | "delete", price: string, size: string];

interface Book {
  readonly type: "snapshot" | "change";
  readonly instrument_name: string;
  readonly change_id: string;
  readonly prev_change_id?: string;
  readonly bids: readonly Level[];
  readonly asks: readonly Level[];
}

interface Trade {
  readonly trade_id: string;
  readonly instrument_name: string;
  readonly price: string;
  readonly amount: string;
  readonly direction: "buy" | "sell";
}

interface Notification {
  readonly params?: { readonly channel: string; readonly data: unknown };
}

/** Deribit's `book` and `trades` channels. Each update names the one before it. */
export class Deribit implements Converter {
  readonly #defined = new Set<string>();

  convert({ json }: ReceivedFrame): readonly VenueEventInit[] {
    const { params } = json as Notification;
    if (params?.channel.startsWith("book.") === true) return this.#book(params.data as Book);
    if (params?.channel.startsWith("trades.") !== true) return [];
    return (params.data as Trade[]).filter((trade) => this.#defined.has(trade.instrument_name)).map(tradeEvent);
  }

  #book(book: Book): VenueEventInit[] {
    const marketId = book.instrument_name;
    const update = {
      marketId,
      bids: levels(book.bids),
      asks: levels(book.asks),
      sequenceNumber: BigInt(book.change_id),
    };
    if (book.type === "snapshot") {
      this.#defined.add(marketId);
      return [definition(marketId), { case: "bookSnapshot", value: update }];
    }
    const previousSequenceNumber = BigInt(book.prev_change_id ?? book.change_id);
    return [{ case: "bookDelta", value: { ...update, previousSequenceNumber } }];
  }
}

/** Options (`BTC-24SEP21-8000-P`) have a tick of 0.0005 and a size of 0.1; others 0.5 and 10. */
function definition(marketId: string): VenueEventInit {
  const isOption = marketId.split("-").length === 4;
  return {
    case: "marketDefinition",
    value: {
      marketId,
      code: marketId,
      name: `Deribit ${marketId}`,
      tags: ["venue:deribit", `kind:${isOption ? "option" : "future"}`],
      priceDecimals: isOption ? 4 : 1,
      sizeDecimals: isOption ? 1 : 0,
    },
  };
}

/** The action says no more than the size, which is 0 where a level is gone. */
function levels(sent: readonly Level[]) {
  return sent.map(([, price, size]) => ({ price, size }));
}

function tradeEvent({ instrument_name: marketId, trade_id: id, price, amount, direction }: Trade): VenueEventInit {
  return {
    case: "trade",
    value: { marketId, id, price, size: amount, aggressor: direction === "buy" ? Side.BUY : Side.SELL },
  };
}
