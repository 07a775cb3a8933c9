import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { ObserveMarketsDepthUpdatesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { DepthBook } from "../../src/domain/depth-book.js";

/** Keeps the books that a stream is about, and tells of each change. Rejects when the stream ends: open it again. */
export async function keepBooks(url: string, onChange: (book: DepthBook) => void, signal: AbortSignal): Promise<void> {
  const books = new Map<string, DepthBook>();
  const response = await fetch(url, { signal });
  let rest = "";
  for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const { result, error } = JSON.parse(line) as { result?: JsonValue; error?: { message: string } };
      if (result === undefined) throw new Error(error?.message);
      for (const update of fromJson(ObserveMarketsDepthUpdatesResponseSchema, result).update) {
        const book = books.get(update.marketId) ?? new DepthBook(update.marketId);
        books.set(update.marketId, book);
        if (book.apply(update) === "gap") throw new Error(`something is missing before ${update.sequenceNumber}`);
        onChange(book);
      }
    }
  }
  throw new Error("the stream ended");
}
