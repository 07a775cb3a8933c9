import { fromBinary, fromJsonString, toBinary } from "@bufbuild/protobuf";
import { expect } from "vitest";
import { ObserveMarketsDepthUpdatesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { DepthBook } from "../../src/domain/depth-book.js";
import type { Subscriber } from "../../src/live/subscriber.js";
import { bookText, type ModelNetwork } from "./model-network.js";

/** A reader that holds every message it takes to the truth. */
export class StreamReader {
  readonly books = new Map<string, DepthBook>();
  readonly sent = new Map<string, bigint>();
  messages = 0;
  wholeBooks = 0;
  heartbeats = 0;
  calls = 0;

  constructor(
    readonly stream: Subscriber,
    private readonly network: () => ModelNetwork,
  ) {
    stream.onReady(() => {
      this.calls++;
    });
  }

  /** Takes once, and checks all it got. */
  take(): number {
    const answers = this.stream.take();
    for (const answer of answers) {
      this.messages++;
      const message = fromBinary(ObserveMarketsDepthUpdatesResponseSchema, answer.binary());
      const json = fromJsonString(ObserveMarketsDepthUpdatesResponseSchema, Buffer.from(answer.json()).toString());
      expect(toBinary(ObserveMarketsDepthUpdatesResponseSchema, json)).toEqual(
        toBinary(ObserveMarketsDepthUpdatesResponseSchema, message),
      );
      if (message.update.length === 0) this.heartbeats++;
      for (const update of message.update) this.#check(update);
    }
    return answers.length;
  }

  /** Takes until there is nothing. */
  drain(): void {
    while (this.take() > 0) {}
  }

  #check(update: Parameters<DepthBook["apply"]>[0]): void {
    const { marketId } = update;
    let book = this.books.get(marketId);
    const isFirst = book === undefined;
    if (book === undefined) {
      book = new DepthBook(marketId);
      this.books.set(marketId, book);
    }
    const last = this.sent.get(marketId);
    if (update.previousSequenceNumber === 0n) {
      if (last !== 0n) this.wholeBooks++;
    } else {
      expect(update.previousSequenceNumber, `previous of ${marketId}`).toBe(last);
    }
    if (isFirst) expect(update.previousSequenceNumber).toBe(0n);
    const outcome = book.apply(update);
    expect(outcome).toBe("applied");
    expect(book.sequenceNumber).toBe(update.sequenceNumber);
    expect(bookText(book), `${marketId} at ${update.sequenceNumber}`).toEqual(
      this.network().at(marketId, update.sequenceNumber),
    );
    this.sent.set(marketId, update.sequenceNumber);
  }
}
