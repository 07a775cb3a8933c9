// Keeps the order books of a depth stream. Needs nothing but Node 22.18 or later:
//   node keep-a-book.ts http://127.0.0.1:8080/api/v2/stream/markets/depth/updates

interface Level {
  readonly price: string;
  readonly volume: string;
  readonly numberOfOrders: string;
}

interface Update {
  readonly marketId: string;
  readonly buy: readonly Level[];
  readonly sell: readonly Level[];
  readonly sequenceNumber: string;
  readonly previousSequenceNumber: string;
}

export interface Book {
  readonly marketId: string;
  readonly sequenceNumber: bigint;
  readonly buy: Map<bigint, Level>;
  readonly sell: Map<bigint, Level>;
}

/** The book after an update. @throws Error when updates before it are missing */
function apply(book: Book | undefined, update: Update): Book {
  const { marketId } = update;
  const sequenceNumber = BigInt(update.sequenceNumber);
  const previous = BigInt(update.previousSequenceNumber);
  if (book !== undefined && sequenceNumber <= book.sequenceNumber) return book; // 1: known
  const start = previous === 0n ? { buy: new Map<bigint, Level>(), sell: new Map<bigint, Level>() } : book; // 2: the whole book, or 3: changes
  if (start === undefined || (book !== undefined && previous > book.sequenceNumber)) {
    throw new Error(`updates of market ${marketId} are missing`); // 4: a gap
  }
  for (const side of ["buy", "sell"] as const) {
    for (const level of update[side]) {
      if (level.volume === "0" && level.numberOfOrders === "0") start[side].delete(BigInt(level.price));
      else start[side].set(BigInt(level.price), level);
    }
  }
  return { marketId, sequenceNumber, buy: start.buy, sell: start.sell };
}

/** Calls back after each change of a book. Rejects when the stream ends: call it again, and start with new books. */
export async function keepBooks(url: string, onChange: (book: Book) => void, signal?: AbortSignal): Promise<never> {
  const books = new Map<string, Book>();
  const response = await fetch(url, { signal: signal ?? null });
  let rest = "";
  for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const { result, error } = JSON.parse(line) as { result?: { update: Update[] }; error?: { message: string } };
      for (const update of result?.update ?? []) {
        const book = apply(books.get(update.marketId), update);
        books.set(update.marketId, book);
        onChange(book);
      }
      if (error !== undefined) throw new Error(error.message);
    }
  }
  throw new Error("the stream ended");
}

const best = (prices: Iterable<bigint>, isBetter: (a: bigint, b: bigint) => boolean) =>
  [...prices].reduce<bigint | undefined>((a, b) => (a === undefined || isBetter(b, a) ? b : a), undefined);

const url = process.argv[2];
if (url?.startsWith("http")) {
  await keepBooks(url, ({ marketId, sequenceNumber, buy, sell }) => {
    const bid = best(buy.keys(), (a, b) => a > b);
    const offer = best(sell.keys(), (a, b) => a < b);
    console.log(`${marketId} ${sequenceNumber}: ${bid} / ${offer}`);
  });
}
