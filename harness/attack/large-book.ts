import { create, toBinary } from "@bufbuild/protobuf";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import { openDatabase } from "../../src/store/database.js";
import { depthRows, levelRows } from "../../src/store/depth-table.js";
import { marketRows } from "../../src/store/market-table.js";
import { writeRows } from "../../src/store/table-rows.js";

/** A market with so many levels on each side. */
export const largeBook = { marketId: "large-book", sideLevels: 100_000 } as const;

const rowsAtOnce = 10_000;

/** Adds it to the last block of a store that nobody serves yet. */
export async function addLargeBook(databaseUrl: string): Promise<void> {
  const { marketId, sideLevels } = largeBook;
  const database = openDatabase(databaseUrl);
  try {
    await database.withTransaction(async (connection) => {
      const [progress] = await connection.query<{ stream_sequence: bigint }>("SELECT stream_sequence FROM progress");
      if (progress === undefined) throw new Error("the store is empty");
      const changedSequence = progress.stream_sequence;
      const body = toBinary(MarketSchema, create(MarketSchema, { id: marketId }));
      await writeRows(connection, marketRows, [{ marketId, changedSequence, body }]);
      await writeRows(connection, depthRows, [
        { marketId, sequenceNumber: 1n, publishedSequenceNumber: 1n, changedSequence },
      ]);
      const levels = Array.from({ length: 2 * sideLevels }, (_, n) => ({
        marketId,
        changedSequence,
        side: n < sideLevels ? (1 as const) : (2 as const),
        price: String(5_000_000 + (n < sideLevels ? -n : n)),
        volume: BigInt(n + 1),
        numberOfOrders: 1n,
      }));
      for (let at = 0; at < levels.length; at += rowsAtOnce) {
        await writeRows(connection, levelRows, levels.slice(at, at + rowsAtOnce));
      }
    });
  } finally {
    await database.close();
  }
}
