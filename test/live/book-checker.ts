import { expect } from "vitest";
import { DepthBook, type DepthUpdate } from "../../src/domain/depth-book.js";
import { bookText, type ModelNetwork } from "./model-network.js";

/** Folds a stream's updates, and holds each to the truth. */
export class BookChecker {
  readonly books = new Map<string, DepthBook>();
  readonly sent = new Map<string, bigint>();
  wholeBooks = 0;

  constructor(private readonly network: () => ModelNetwork) {}

  check(update: DepthUpdate): void {
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
