import { crc32 } from "node:zlib";
import { describe, expect, test } from "vitest";
import { Binance } from "../../examples/venues/binance.js";
import { Bitget } from "../../examples/venues/bitget.js";
import { Deribit } from "../../examples/venues/deribit.js";
import { Kraken } from "../../examples/venues/kraken.js";
import { Okx } from "../../examples/venues/okx.js";
import type { Converter, ReceivedFrame } from "../../examples/venues/recording.js";
import { venueFramesPath } from "../support/partners.js";
import { type Level, type MarketView, readFrames, VenueReplay } from "./venue-replay.js";

/*
 * Frames as five venues sent them, through converter, loader, database, API and stream. After each frame the venue's own
 * check is computed again from what clients are told: by what the venue documents, and with nothing of the loader's.
 */

/** Frames of a venue that are tried at most; MARKETD_VENUE_FRAMES makes a shorter run. */
const framesMax = Number(process.env["MARKETD_VENUE_FRAMES"] || Number.POSITIVE_INFINITY);
const folder = venueFramesPath() ?? "";
const testMaxMs = 600_000;

/** What a venue says about a market after a frame: the text that clients can compute of it, and what that should be. */
interface Check {
  readonly marketId: string;
  readonly expected: string;
  readonly found: (view: MarketView) => readonly string[];
}

interface Venue {
  readonly name: string;
  readonly files: readonly string[];
  readonly converter: () => Converter;
  /** Checks in these files; at least so many have to be made. */
  readonly checksMin: number;
  /** Remembers what the frames before told. */
  readonly checks: () => (frame: ReceivedFrame) => readonly Check[];
}

/** A scaled integer as the decimal number that it stands for. */
function decimal(scaled: string, decimals: number): string {
  const digits = scaled.padStart(decimals + 1, "0");
  return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

/** Price and size of a level as the venue sends them, all decimals written. */
function sent(view: MarketView, { price, volume }: Level): [price: string, size: string] {
  return [decimal(price, view.priceDecimals), decimal(volume, view.sizeDecimals)];
}

const withoutZeros = (text: string) => (text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text);

/** Kraken: 10 asks, then 10 bids, without points and leading zeros. */
function krakenChecks({ json }: ReceivedFrame): Check[] {
  if (!Array.isArray(json) || !/^book-/.test(String(json.at(-2)))) return [];
  const { c } = Object.assign({}, ...json.slice(1, -2)) as { c?: string };
  if (c === undefined) return [];
  const found = (view: MarketView) =>
    view.books.map(({ buy, sell }) => {
      const best = [...sell.slice(0, 10), ...buy.slice(0, 10)].flatMap((level) => sent(view, level));
      return `${crc32(best.map((text) => text.replace(".", "").replace(/^0+/, "")).join(""))}`;
    });
  return [{ marketId: String(json.at(-1)), expected: c, found }];
}

/** OKX and Bitget: 25 bids and asks in turn. */
function interleavedChecks(format: (text: string) => string) {
  return ({ json }: ReceivedFrame): Check[] => {
    const { arg, data } = json as { arg?: { channel: string; instId: string }; data?: { checksum: string }[] };
    if (arg?.channel !== "books" || data === undefined) return [];
    const found = (view: MarketView) =>
      view.books.map(({ buy, sell }) => {
        const turns = Array.from({ length: 25 }, (_, index) => [buy[index], sell[index]]).flat();
        const texts = turns.flatMap((level) => (level === undefined ? [] : sent(view, level).map(format)));
        return `${crc32(texts.join(":")) | 0}`;
      });
    return data.map(({ checksum }) => ({ marketId: arg.instId, expected: checksum, found }));
  };
}

type Side = readonly (readonly [price: string, size: string])[];

/** A book that a chain of numbered updates makes, kept without any of marketd's code. */
class ChainedBook {
  readonly #sides = { bids: new Map<string, string>(), asks: new Map<string, string>() };
  #number = 0n;

  reset(number: string): void {
    this.#sides.bids.clear();
    this.#sides.asks.clear();
    this.#number = BigInt(number);
  }

  /** @throws when an update is missing before this one; false: the book has it */
  follow(first: bigint, last: bigint): boolean {
    if (last <= this.#number) return false;
    if (first > this.#number + 1n) throw new Error(`updates are missing before ${first}`);
    this.#number = last;
    return true;
  }

  /** @throws unless the update before this one is the last */
  followLast(previous: string, last: string): void {
    if (BigInt(previous) !== this.#number) throw new Error(`updates are missing before ${last}`);
    this.#number = BigInt(last);
  }

  set(bids: Side, asks: Side): void {
    for (const [side, levels] of [["bids", bids] as const, ["asks", asks] as const]) {
      for (const [price, size] of levels) {
        if (/^[0.]+$/.test(size)) this.#sides[side].delete(withoutZeros(price));
        else this.#sides[side].set(withoutZeros(price), withoutZeros(size));
      }
    }
  }

  check(marketId: string): Check {
    const lines = (levels: Iterable<readonly [string, string]>) => [...levels].map((level) => level.join(" ")).sort();
    const expected = JSON.stringify([lines(this.#sides.bids), lines(this.#sides.asks)]);
    const found = (view: MarketView) =>
      view.books.map(({ buy, sell }) =>
        JSON.stringify(
          [buy, sell].map((side) =>
            lines(side.map((level) => sent(view, level).map(withoutZeros) as [string, string])),
          ),
        ),
      );
    return { marketId, expected, found };
  }
}

function bookOf(books: Map<string, ChainedBook>, marketId: string): ChainedBook {
  const book = books.get(marketId) ?? new ChainedBook();
  books.set(marketId, book);
  return book;
}

/** Binance: a snapshot's `lastUpdateId`, then each update from U to u. */
function binanceChecks(): (frame: ReceivedFrame) => Check[] {
  const books = new Map<string, ChainedBook>();
  const waiting = new Map<string, Update[]>();
  interface Update {
    readonly e?: string;
    readonly s: string;
    readonly U: string;
    readonly u: string;
    readonly b: Side;
    readonly a: Side;
  }
  const apply = (book: ChainedBook, { U, u, b, a }: Update) => {
    if (book.follow(BigInt(U), BigInt(u))) book.set(b, a);
  };
  return ({ url, json }) => {
    if (url !== "") {
      const { lastUpdateId, bids, asks } = json as { lastUpdateId: string; bids: Side; asks: Side };
      const marketId = /symbol=(\w+)/.exec(url)?.[1] ?? "";
      const book = bookOf(books, marketId);
      book.reset(lastUpdateId);
      book.set(bids, asks);
      for (const update of waiting.get(marketId) ?? []) apply(book, update);
      return [book.check(marketId)];
    }
    const { data } = json as { data?: Update };
    if (data?.e !== "depthUpdate") return [];
    const book = books.get(data.s);
    if (book === undefined) {
      waiting.set(data.s, [...(waiting.get(data.s) ?? []), data]);
      return [];
    }
    apply(book, data);
    return [book.check(data.s)];
  };
}

/** Deribit: each change names the one before it. */
function deribitChecks(): (frame: ReceivedFrame) => Check[] {
  const books = new Map<string, ChainedBook>();
  interface Book {
    readonly type: string;
    readonly instrument_name: string;
    readonly change_id: string;
    readonly prev_change_id: string;
    readonly bids: readonly (readonly [action: string, price: string, size: string])[];
    readonly asks: readonly (readonly [action: string, price: string, size: string])[];
  }
  return ({ json }) => {
    const { params } = json as { params?: { channel: string; data: Book } };
    if (params?.channel.startsWith("book.") !== true) return [];
    const { data } = params;
    const book = bookOf(books, data.instrument_name);
    if (data.type === "snapshot") book.reset(data.change_id);
    else book.followLast(data.prev_change_id, data.change_id);
    const side = (levels: Book["bids"]): Side =>
      levels.map(([action, price, size]) => [price, action === "delete" ? "0" : size]);
    book.set(side(data.bids), side(data.asks));
    return [book.check(data.instrument_name)];
  };
}

const venues: readonly Venue[] = [
  {
    name: "kraken",
    files: ["kraken-books", "kraken-trades"],
    converter: () => new Kraken(),
    checksMin: 4_269,
    checks: () => krakenChecks,
  },
  {
    name: "okx",
    files: ["okx"],
    converter: () => new Okx(),
    checksMin: 290,
    checks: () => interleavedChecks(withoutZeros),
  },
  {
    name: "bitget",
    files: ["bitget-spot"],
    converter: () => new Bitget(),
    checksMin: 443,
    checks: () => interleavedChecks((text) => text),
  },
  {
    name: "binance",
    files: ["binance-stream", "binance-snapshots"],
    converter: () => new Binance(),
    checksMin: 177,
    checks: binanceChecks,
  },
  { name: "deribit", files: ["deribit"], converter: () => new Deribit(), checksMin: 46, checks: deribitChecks },
];

/** Price and size of the last trade in a frame, without zeros at the end. */
function lastTrade(frame: ReceivedFrame, converter: Converter): string | undefined {
  const trade = converter.convert(frame).findLast((event) => event.case === "trade")?.value;
  return trade === undefined ? undefined : `${withoutZeros(trade.price ?? "")} ${withoutZeros(trade.size ?? "")}`;
}

/** What was found over a venue's frames. */
class Findings {
  readonly differences: string[] = [];
  frames = 0;
  checks = 0;
  trades = 0;

  check(views: ReadonlyMap<string, MarketView>, { marketId, expected, found }: Check): void {
    const view = views.get(marketId);
    if (view === undefined) throw new Error(`a frame of ${marketId} became no event`);
    this.checks++;
    for (const [index, text] of found(view).entries()) {
      if (text === expected) continue;
      this.differences.push(`${marketId}, ${["depth", "stream"][index]}: ${text}, not ${expected}`);
    }
  }

  checkTrade(marketId: string, view: MarketView, expected: string): void {
    this.trades++;
    const { price = "", size = "" } = view.lastTrade ?? {};
    const told = [decimal(price, view.priceDecimals), decimal(size, view.sizeDecimals)].map(withoutZeros).join(" ");
    if (told !== expected) this.differences.push(`${marketId}, last trade: ${told}, not ${expected}`);
  }
}

async function replayed({ name, files, converter, checks }: Venue): Promise<Findings> {
  const replay = await VenueReplay.start(converter(), name);
  const checksOf = checks();
  const trades = converter();
  const findings = new Findings();
  for (const frame of readFrames(folder, ...files)) {
    if (findings.frames >= framesMax) break;
    const views = await replay.feed(frame);
    if (views.size > 0) findings.frames++;
    for (const check of checksOf(frame)) findings.check(views, check);
    const trade = lastTrade(frame, trades);
    if (trade === undefined) continue;
    for (const [marketId, view] of views) findings.checkTrade(marketId, view, trade);
  }
  await replay.stop();
  return findings;
}

describe.skipIf(venueFramesPath() === undefined)("frames of real venues", () => {
  test.each(venues)("$name", { timeout: testMaxMs }, async (venue) => {
    const { frames, checks, trades, differences } = await replayed(venue);
    process.stdout.write(
      `${venue.name}: ${frames} frames; ${checks} checks of depth response and stream, ${trades} of the last trade, ${differences.length} differences\n`,
    );
    expect(differences).toEqual([]);
    expect(checks).toBeGreaterThanOrEqual(Math.min(venue.checksMin, Math.floor(framesMax / 4)));
  });
});
