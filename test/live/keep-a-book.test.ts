import { readFileSync } from "node:fs";
import { fromJson, type JsonValue, toJson } from "@bufbuild/protobuf";
import { expect, test, vi } from "vitest";
import { type Book, keepBooks } from "../../examples/typescript/keep-a-book.js";
import { ObserveMarketsDepthUpdatesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { DepthBook } from "../../src/domain/depth-book.js";
import { jsonWriteOptions } from "../../src/encoding/json-encoder.js";
import { MarketFixture } from "./market-fixture.js";
import { keptBookText } from "./model-network.js";
import { startTestService } from "./service.js";

const page = readFileSync(new URL("../../docs/depth-stream.md", import.meta.url), "utf8");

test.each([
  ["typescript/keep-a-book.ts", "ts"],
  ["python/keep_a_book.py", "python"],
])("the documented example is examples/%s", (path, language) => {
  const example = readFileSync(new URL(`../../examples/${path}`, import.meta.url), "utf8");
  expect(page).toContain(`\`\`\`${language}\n${example}\`\`\``);
});

test("the documented messages are complete, a whole book and a change of it", () => {
  const book = new DepthBook("dabdf441bc3be1b8873d6db6cd4aba868add69a8b24879c51415455f657c8ae5");
  const outcomes = [...page.matchAll(/^```json\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => {
    const { result }: { result: JsonValue } = JSON.parse(text);
    const message = fromJson(ObserveMarketsDepthUpdatesResponseSchema, result);
    expect(toJson(ObserveMarketsDepthUpdatesResponseSchema, message, jsonWriteOptions)).toEqual(result);
    return message.update.map((update) => book.apply(update));
  });
  expect(outcomes).toEqual([["applied"], ["applied"]]);
});

test("the documented example keeps right books, and is told when the service goes", async () => {
  const fixture = await MarketFixture.create();
  const levels = (n: number) =>
    ["a", "b"].map((marketId, i) => ({
      marketId,
      side: 1 as const,
      price: String(n % 4),
      volume: BigInt((n + i) % 3),
    }));
  await fixture.add({ announce: ["a", "b"], levels: levels(1) });
  const service = await startTestService(fixture.url);
  const books = new Map<string, Book>();
  const wrong: unknown[] = [];
  const kept = keepBooks(
    `${service.url}/api/v2/stream/markets/depth/updates`,
    (book) => {
      books.set(book.marketId, book);
      const truth = fixture.network.at(book.marketId, book.sequenceNumber);
      if (JSON.stringify(keptBookText(book)) !== JSON.stringify(truth))
        wrong.push([book.sequenceNumber, keptBookText(book), truth]);
    },
    new AbortController().signal,
  );
  const ended = expect(kept).rejects.toThrow(/shutting down/);
  for (let n = 2; n < 40; n++) await fixture.add({ levels: levels(n) });
  await vi.waitFor(() => {
    for (const id of ["a", "b"]) {
      expect(books.get(id)?.sequenceNumber).toBe(fixture.network.depth(id)?.publishedSequenceNumber);
    }
  });
  expect(wrong).toEqual([]);
  await service.drain();
  await ended;
  await fixture.drop();
});
