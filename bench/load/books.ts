import { createWriteStream, readFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { gunzipSync } from "node:zlib";
import { Binance } from "../../examples/venues/binance.js";
import { Bitget } from "../../examples/venues/bitget.js";
import { Deribit } from "../../examples/venues/deribit.js";
import { Kraken } from "../../examples/venues/kraken.js";
import { Okx } from "../../examples/venues/okx.js";
import {
  type Converter,
  type ReceivedFrame,
  RecordingWriter,
  receivedFrame,
  type VenueEventInit,
} from "../../examples/venues/recording.js";
import { decodeSegment, decodeUpdate } from "../../src/domain/book-history.js";
import { simulate } from "../../src/simulator/network.js";
import type { Connection } from "../../src/store/connection/connection.js";
import {
  firstChangesPart,
  fromParts,
  readBookChanges,
  readBookHistories,
  readSegmentParts,
  readSegments,
} from "../../src/store/history-table.js";

interface Venue {
  readonly files: readonly string[];
  readonly converter: () => Converter;
}

/** The venues whose recorded frames are loaded, by their names. */
export const venues: Readonly<Record<string, Venue>> = {
  kraken: { files: ["kraken-books", "kraken-trades"], converter: () => new Kraken() },
  okx: { files: ["okx"], converter: () => new Okx() },
  bitget: { files: ["bitget-spot"], converter: () => new Bitget() },
  binance: { files: ["binance-snapshots", "binance-stream"], converter: () => new Binance() },
  deribit: { files: ["deribit"], converter: () => new Deribit() },
};

/** Writes a recording of a simulated network that trades a lot and moves little money. */
export async function writeTrading(path: string, blocks: number): Promise<void> {
  const options = { seed: 1, markets: 8, parties: 200, ordersPerBlock: 200, entriesPerBlock: 5, blocks };
  await pipeline(Readable.from(simulate(options), { objectMode: false }), createWriteStream(path));
}

/** Writes the frames of a venue one after the other, again and again, until its markets have so many changes each. */
export async function writeVenue(
  path: string,
  folder: string,
  { files, converter }: Venue,
  changes: number,
): Promise<void> {
  const lines = files.flatMap((file) =>
    gunzipSync(readFileSync(join(folder, `${file}.txt.gz`)))
      .toString()
      .split("\n"),
  );
  const frames = lines.flatMap((line) => receivedFrame(line) ?? []);
  frames.sort((a, b) => (a.timeNs < b.timeNs ? -1 : a.timeNs > b.timeNs ? 1 : 0));
  await pipeline(Readable.from(repeated(frames, converter, changes), { objectMode: false }), createWriteStream(path));
}

function* repeated(frames: readonly ReceivedFrame[], converter: () => Converter, changes: number): Generator<Buffer> {
  const first = converter();
  const round = frames.map((frame) => ({ timeNs: frame.timeNs, events: first.convert(frame) }));
  const length = (frames.at(-1)?.timeNs ?? 0n) - (frames[0]?.timeNs ?? 0n) + 1_000_000_000n;
  const told = round.flatMap(({ events }) => events);
  const markets = new Set(told.map(({ value }) => value?.marketId)).size;
  const levels = told.reduce((sum, event) => sum + levelsIn(event), 0);
  const writer = new RecordingWriter("bench");
  for (let n = 0; n * levels < changes * markets; n++) {
    const shift = BigInt(n) * length;
    for (const { timeNs, events } of round) if (events.length > 0) yield writer.block(timeNs + shift, events);
  }
}

function levelsIn({ case: kind, value }: VenueEventInit): number {
  return kind === "bookDelta" ? (value?.bids?.length ?? 0) + (value?.asks?.length ?? 0) : 0;
}

/** What the past of the books takes. */
export interface PastSize {
  /** Changed levels in sealed segments, and in the updates that are not sealed yet. */
  readonly sealed: number;
  readonly unsealed: number;
  readonly updates: number;
  /** Bytes of the tables with their indexes: of segments, and of unsealed updates. */
  readonly sealedBytes: number;
  readonly unsealedBytes: number;
  /** Of the bodies alone. */
  readonly bodyBytes: number;
}

/** Counts the changes in the past of all markets, and asks the server for the size of its tables. */
export async function measurePast(connection: Connection): Promise<PastSize> {
  let [sealed, unsealed, updates, bodyBytes] = [0, 0, 0, 0];
  for (const { marketId, oldestSequence } of await readBookHistories(connection)) {
    for (const row of await readSegments(connection, marketId, oldestSequence, 10_000_000)) {
      const parts = await readSegmentParts(connection, row, row.firstSequence + 1n);
      for (const { body } of parts) bodyBytes += body.length;
      const changes = parts.filter(({ part }) => part >= firstChangesPart).map(({ body }) => body);
      if (changes.length === 0) continue;
      for (const { levels } of decodeSegment(row, fromParts(changes))) {
        sealed += levels.length;
        updates++;
      }
    }
  }
  for (const { streamSequence, body } of await readBookChanges(connection)) {
    unsealed += decodeUpdate(streamSequence, body).levels.length;
    updates++;
  }
  const bytesOf = async (...tables: string[]) => {
    await connection.query(`ANALYZE TABLE ${tables.join(", ")}`).catch(() => undefined);
    const [row] = await connection.query<{ bytes: bigint | null }>(
      `SELECT CAST(SUM(data_length + index_length) AS UNSIGNED) AS bytes FROM information_schema.tables
       WHERE table_schema = DATABASE() AND table_name IN (?)`,
      [tables],
    );
    return Number(row?.bytes ?? 0n);
  };
  const sealedBytes = await bytesOf("book_segment", "book_segment_part", "book_history");
  return { sealed, unsealed, updates, bodyBytes, sealedBytes, unsealedBytes: await bytesOf("book_change") };
}
