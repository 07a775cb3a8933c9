/** Where a store is: its name, and the stream sequence number of its newest block. */
export interface StorePlace {
  readonly storeId: string;
  readonly streamSequence: bigint;
}

/** A server lacks the block that a read depends on, or holds another store: another connection may lead to one that has it. */
export class ReadBehindError extends Error {
  /** How many connections may be tried; undefined: as many as time allows. */
  readonly attemptsMax: number | undefined;

  constructor(message: string, attemptsMax?: number) {
    super(message);
    this.name = "ReadBehindError";
    this.attemptsMax = attemptsMax;
  }
}

/** Whether what is at `found` holds all that depends on `needed`. */
export function reaches(found: StorePlace, needed: StorePlace): boolean {
  return found.storeId === needed.storeId && found.streamSequence >= needed.streamSequence;
}

/**
 * The newest place that this process has shown to anybody, whichever connection it was read on. No read is answered from a
 * server that is behind it. Which store is the right one, the tail says; without a tail, the last read does.
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

  /** Called with the place that a read has found. @throws ReadBehindError when what is known lies beyond it */
  found(place: StorePlace | undefined): void {
    const known = this.#place;
    const isOther = known !== undefined && place?.storeId !== known.storeId;
    if (known === undefined || (isOther && !this.#followed)) this.#place = place;
    else if (place !== undefined && reaches(place, known)) this.#place = place;
    else throw new ReadBehindError(isOther ? "the server holds another store" : "the server is behind");
  }
}
