import { firstIdOfBlock } from "../../domain/block-position.js";
import { asText } from "./column.js";
import type { Connection } from "./connection.js";

/** The place of a store: its id, and the stream sequence number of its newest block. */
export interface StorePlace {
  readonly storeId: string;
  readonly streamSequence: bigint;
}

/** A place, and its block. */
export interface BlockPlace extends StorePlace {
  readonly height: bigint;
  readonly timeNs: bigint;
}

/** The place of the newest block as one SQL value, for {@link parsePlace}. */
export const placeSql = asText(
  "(SELECT CONCAT_WS(' ', stream_sequence, height, block_time_ns, store_id) FROM progress WHERE id = 1)",
);

/** Parses the value of {@link placeSql}; undefined: nothing was loaded. */
export function parsePlace(text: string | null): BlockPlace | undefined {
  if (text === null) return undefined;
  const [streamSequence = "", height = "", timeNs = "", ...storeId] = text.split(" ");
  return {
    storeId: storeId.join(" "),
    streamSequence: BigInt(streamSequence),
    height: BigInt(height),
    timeNs: BigInt(timeNs),
  };
}

/** The place of the newest block; undefined: nothing was loaded. */
export async function readPlace(connection: Connection): Promise<BlockPlace | undefined> {
  const [row] = await connection.query<{ readonly place: string | null }>(`SELECT ${placeSql} AS place`);
  return parsePlace(row?.place ?? null);
}

/**
 * The server lacks the block that a read depends on, or holds another store. Another connection may reach a server that
 * has it.
 */
export class ReadBehindError extends Error {
  /** How many connections may be tried; undefined: as many as time allows. */
  readonly attemptsMax: number | undefined;

  constructor(message: string, attemptsMax?: number) {
    super(message);
    this.name = "ReadBehindError";
    this.attemptsMax = attemptsMax;
  }
}

/** Connections that are tried where a cursor lies beyond the newest block: another process may have read that. */
export const cursorAttemptsMax = 3;

/** @throws ReadBehindError for a cursor of a block that is not there; it is the id of an entry or a trade */
export function checkCursor(cursor: bigint | undefined, newest: BlockPlace | undefined): void {
  if (cursor === undefined || newest === undefined || cursor < firstIdOfBlock(newest.height + 1n)) return;
  throw new ReadBehindError("the cursor lies beyond the newest block", cursorAttemptsMax);
}

/** Whether `found` includes everything up to `needed`. */
export function reaches(found: StorePlace, needed: StorePlace): boolean {
  return found.storeId === needed.storeId && found.streamSequence >= needed.streamSequence;
}

/**
 * The newest place that this process has served, on any connection. Reads from servers behind it are discarded. The
 * tail decides which store is the current one; without a tail, the last read does.
 */
export class KnownPlace {
  #place: StorePlace | undefined;
  #followed = false;

  get current(): StorePlace | undefined {
    return this.#place;
  }

  /** Called by the tail when it has moved; undefined: the store is empty. */
  follow(place: StorePlace | undefined): void {
    this.#followed = true;
    if (place === undefined || this.#place === undefined || !reaches(this.#place, place)) this.#place = place;
  }

  /**
   * Called with the place of a read, and what was known before it: another one may have found a newer block meanwhile.
   * @throws ReadBehindError if it is behind what was known
   */
  found(place: StorePlace | undefined, before: StorePlace | undefined): void {
    const known = this.#place;
    const isOther = known !== undefined && place?.storeId !== known.storeId;
    if (known === undefined || (isOther && !this.#followed)) this.#place = place;
    else if (place === undefined || isOther) throw new ReadBehindError("the server holds another store");
    else if (reaches(place, known)) this.#place = place;
    else if (before?.storeId === place.storeId && !reaches(place, before)) {
      throw new ReadBehindError("the server is behind");
    }
  }
}
