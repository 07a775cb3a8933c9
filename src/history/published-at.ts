import { type Call, sharedCall } from "../domain/service.js";
import type { Reader } from "../store/connection/lease.js";
import { readBeginsAfter, readSegment } from "../store/history-reads.js";
import { segmentStates } from "../store/history-table.js";
import { type Past, readsOn } from "./past.js";
import { foldTo } from "./past-book.js";
import { withBooks } from "./place.js";
import type { PublishedAt } from "./resume.js";

/** How long the numbers at a place are remembered: readers of a process that ended come back together. */
export const numbersKeptMs = 5_000;

/** Places whose numbers are remembered. */
export const numbersPlacesMax = 64;

/** How long numbers are read at a place; those of further markets count as not known. A lease ends after twice that. */
export const numbersReadMsMax = 10_000;

/** Reads the numbers that markets had published at a place from their past, for readers that resume there. */
export class PublishedNumbers {
  readonly #known = new Map<string, ReturnType<PublishedAt>>();

  constructor(
    private readonly past: Past,
    private readonly readMsMax = numbersReadMsMax,
  ) {}

  /** For readers of one selection, which `key` names. They are read in the turns of the client that asks first. */
  of(key: string, { clientAddress }: Call): PublishedAt {
    return (streamSequence, all, changed) => {
      const place = `${key} ${streamSequence}`;
      const known = this.#known.get(place);
      if (known !== undefined) return known;
      const { storeId, streamSequence: asOf } = this.past.live.state().progress;
      const asker = sharedCall(clientAddress);
      const read = (reader: Reader) => this.#numbers(reader, asker, streamSequence, all, changed);
      // With a place it is never refused, which all that wait would be told.
      const reading = this.past
        .lease(asker, read, { storeId, streamSequence: asOf })
        .then((numbers) => ({ numbers, asOf }));
      if (this.#known.size >= numbersPlacesMax) this.#known.clear();
      this.#known.set(place, reading);
      const forget = () => {
        if (this.#known.get(place) === reading) this.#known.delete(place);
      };
      reading.then(() => setTimeout(forget, numbersKeptMs).unref(), forget);
      return reading;
    };
  }

  async #numbers(
    reader: Reader,
    asker: Call,
    streamSequence: bigint,
    all: readonly string[],
    changed: readonly string[],
  ): Promise<ReadonlyMap<string, bigint | undefined>> {
    const numbers = new Map<string, bigint | undefined>();
    const { reach, begins } = await readBeginsAfter(reader, all, streamSequence);
    if (reach.newest === undefined || reach.historySequence < reach.newest.streamSequence) {
      // The past is not written, so nobody knows what led here.
      for (const id of all) numbers.set(id, undefined);
      return numbers;
    }
    for (const { marketId, state } of begins) if (state !== segmentStates.continued) numbers.set(marketId, undefined);
    const endsAt = performance.now() + this.readMsMax;
    for (const marketId of changed) {
      if (numbers.has(marketId)) continue;
      // Whole books take their readers longer than an update, but an error would come again with each attempt.
      const isLate = performance.now() >= endsAt;
      numbers.set(marketId, isLate ? undefined : await this.#numberOf(reader, asker, marketId, streamSequence));
    }
    return numbers;
  }

  async #numberOf(reader: Reader, asker: Call, marketId: string, streamSequence: bigint): Promise<bigint | undefined> {
    const request = { marketId, streamSequence, keyframe: false, changesAfter: 0n, changesUpTo: streamSequence };
    const segment = await readSegment(reader, request);
    if (segment === undefined || !withBooks.includes(segment.state)) return undefined;
    return (await foldTo(this.past, readsOn(reader, asker), segment, { streamSequence })).sequenceNumber;
  }
}
