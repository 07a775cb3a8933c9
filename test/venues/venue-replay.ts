import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import {
  type Converter,
  type ReceivedFrame,
  RecordingWriter,
  receivedFrame,
  type VenueEventInit,
} from "../../examples/venues/recording.js";
import { DepthBook } from "../../src/domain/depth-book.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { startTestService, type TestService } from "../live/service.js";
import { newDatabaseUrl } from "../support/database.js";

const log = createLog("silent");
const responseMaxMs = 10_000;

/** A level as clients get it. */
export interface Level {
  readonly price: string;
  readonly volume: string;
  readonly numberOfOrders: string;
}

interface Levels {
  readonly buy: readonly Level[];
  readonly sell: readonly Level[];
}

interface Update extends Levels {
  readonly marketId: string;
  readonly sequenceNumber: string;
  readonly previousSequenceNumber: string;
}

interface Depth extends Levels {
  readonly sequenceNumber: string;
  readonly lastTrade?: { readonly price: string; readonly size: string };
}

/** What clients are told of a market after a frame. */
export interface MarketView {
  readonly priceDecimals: number;
  readonly sizeDecimals: number;
  /** The depth response, and the book of a depth stream. */
  readonly books: readonly Levels[];
  readonly lastTrade: Depth["lastTrade"];
}

/** Frames of files that a venue sent, in the order in which they came. */
export function readFrames(folder: string, ...files: string[]): ReceivedFrame[] {
  const lines = files.flatMap((file) =>
    gunzipSync(readFileSync(join(folder, `${file}.txt.gz`)))
      .toString()
      .split("\n"),
  );
  const frames = lines.flatMap((line) => receivedFrame(line) ?? []);
  return frames.sort((a, b) => (a.timeNs < b.timeNs ? -1 : a.timeNs > b.timeNs ? 1 : 0));
}

/** The books of a depth stream of all markets. */
class StreamedBooks {
  readonly books = new Map<string, DepthBook>();
  readonly #changed = new EventTarget();
  readonly #stopped = new AbortController();
  #failure: unknown;

  constructor(url: string) {
    this.#read(`${url}/api/v2/stream/markets/depth/updates`).catch((error: unknown) => {
      this.#failure = error;
      this.#changed.dispatchEvent(new Event("change"));
    });
  }

  /** Waits for a book to be these levels. @throws when it is not soon */
  async until(marketId: string, wanted: string): Promise<Levels> {
    const signal = AbortSignal.timeout(responseMaxMs);
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      const book = this.books.get(marketId);
      const levels = { buy: (book?.buy ?? []).map(levelText), sell: (book?.sell ?? []).map(levelText) };
      if (JSON.stringify(levels) === wanted) return levels;
      await once(this.#changed, "change", { signal });
    }
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #read(url: string): Promise<void> {
    const response = await fetch(url, { signal: this.#stopped.signal });
    let rest = "";
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#apply(line);
      this.#changed.dispatchEvent(new Event("change"));
    }
  }

  #apply(line: string): void {
    const { result, error } = JSON.parse(line) as { result?: { update: Update[] }; error?: { message: string } };
    if (error !== undefined) throw new Error(error.message);
    for (const { marketId, buy, sell, sequenceNumber, previousSequenceNumber } of result?.update ?? []) {
      const book = this.books.get(marketId) ?? new DepthBook(marketId);
      this.books.set(marketId, book);
      const outcome = book.apply({
        ...{ marketId, buy: buy.map(asNumbers), sell: sell.map(asNumbers) },
        sequenceNumber: BigInt(sequenceNumber),
        previousSequenceNumber: BigInt(previousSequenceNumber),
      });
      if (outcome === "gap") throw new Error(`updates of ${marketId} are missing`);
    }
  }
}

function asNumbers({ price, volume, numberOfOrders }: Level) {
  return { price, volume: BigInt(volume), numberOfOrders: BigInt(numberOfOrders) };
}

/** Levels of responses and books alike. */
function levelText({ price, volume, numberOfOrders }: Level | ReturnType<typeof asNumbers>): Level {
  return { price, volume: `${volume}`, numberOfOrders: `${numberOfOrders}` };
}

/** A database that a venue's frames are loaded into, one block each, and a service with readers over it. */
export class VenueReplay {
  readonly #converter: Converter;
  readonly #writer: RecordingWriter;
  readonly #input = new PassThrough();
  readonly #loading: Promise<unknown>;
  readonly #service: TestService;
  readonly #streamed: StreamedBooks;
  readonly #decimals = new Map<string, readonly [price: number, size: number]>();
  #height = 0;
  #timeNs = 0n;

  private constructor(converter: Converter, venue: string, url: string, service: TestService) {
    this.#converter = converter;
    this.#writer = new RecordingWriter(venue);
    this.#service = service;
    const sources = [streamSource(this.#input, venue)];
    this.#loading = load({ database: url, sources, log, blockByBlock: true });
    this.#loading.catch((error: unknown) => this.#input.destroy(error as Error));
    this.#streamed = new StreamedBooks(service.url);
  }

  static async start(converter: Converter, venue: string): Promise<VenueReplay> {
    const { url } = newDatabaseUrl();
    await migrate(url, log);
    const first = new RecordingWriter(venue).block(0n, []);
    await load({ database: url, sources: [streamSource(streamOf(first), venue)], log });
    const service = await startTestService(url, { pollIntervalMs: 1 });
    const replay = new VenueReplay(converter, venue, url, service);
    await replay.#load(0n, []);
    return replay;
  }

  /** Loads a frame's block; gives the markets of its events as clients see them once they have the block. */
  async feed(frame: ReceivedFrame): Promise<ReadonlyMap<string, MarketView>> {
    const events = this.#converter.convert(frame);
    const views = new Map<string, MarketView>();
    if (events.length === 0) return views;
    await this.#load(frame.timeNs, events);
    const numbers = new Map<string, bigint | undefined>();
    for (const [index, event] of events.entries()) {
      const marketId = event.value?.marketId ?? "";
      if (event.case === "trade") numbers.set(marketId, numbers.get(marketId));
      else numbers.set(marketId, this.#timeNs - (this.#timeNs % 1_000n) + BigInt(index + 2));
    }
    for (const [marketId, number] of numbers) views.set(marketId, await this.#view(marketId, number));
    return views;
  }

  /** Ends everything. @throws what went wrong with the loader */
  async stop(): Promise<void> {
    this.#streamed.stop();
    this.#input.end();
    await this.#loading;
    await this.#service.drain();
  }

  async #load(timeNs: bigint, events: readonly VenueEventInit[]): Promise<void> {
    if (timeNs > this.#timeNs) this.#timeNs = timeNs;
    this.#height++;
    this.#input.write(this.#writer.block(timeNs, events));
  }

  /** `number`: the depth sequence number that the market has to have now. */
  async #view(marketId: string, number: bigint | undefined): Promise<MarketView> {
    const { buy, sell, sequenceNumber, lastTrade } = await this.#depth(marketId);
    if (number !== undefined && sequenceNumber !== `${number}`) {
      throw new Error(`${marketId} has sequence number ${sequenceNumber}, not ${number}`);
    }
    const served = { buy: buy.map(levelText), sell: sell.map(levelText) };
    const streamed = await this.#streamed.until(marketId, JSON.stringify(served));
    const [priceDecimals, sizeDecimals] = await this.#decimalsOf(marketId);
    return { priceDecimals, sizeDecimals, books: [served, streamed], lastTrade };
  }

  /** The depth response once the service has the newest block. */
  async #depth(marketId: string): Promise<Depth> {
    const url = `${this.#service.url}/api/v2/market/depth/${encodeURIComponent(marketId)}/latest`;
    const until = performance.now() + responseMaxMs;
    for (;;) {
      const response = await fetch(url);
      const text = await response.text();
      if (response.headers.get("x-block-height") === `${this.#height}`) {
        if (response.status !== 200) throw new Error(`${marketId}: ${text}`);
        return JSON.parse(text) as Depth;
      }
      if (performance.now() > until) throw new Error(`block ${this.#height} does not arrive: ${text}`);
      await sleep(1);
    }
  }

  async #decimalsOf(marketId: string): Promise<readonly [price: number, size: number]> {
    const known = this.#decimals.get(marketId);
    if (known !== undefined) return known;
    const response = await fetch(`${this.#service.url}/api/v2/market/${encodeURIComponent(marketId)}`);
    const { market } = (await response.json()) as { market: { decimalPlaces: string; positionDecimalPlaces: string } };
    const decimals = [Number(market.decimalPlaces), Number(market.positionDecimalPlaces)] as const;
    this.#decimals.set(marketId, decimals);
    return decimals;
  }
}

async function* streamOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
