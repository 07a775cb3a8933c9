import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import type { DepthBook } from "../../src/domain/depth-book.js";
import { keepBooks } from "./keep-a-book.js";
import { MarketFixture } from "./market-fixture.js";
import { bookText } from "./model-network.js";
import { startTestService } from "./service.js";

test("the documented example is the one that runs here", () => {
  const example = readFileSync(new URL("keep-a-book.ts", import.meta.url), "utf8");
  const page = readFileSync(new URL("../../docs/depth-stream.md", import.meta.url), "utf8");
  expect(page).toContain(`\`\`\`ts\n${example}\`\`\``);
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
  const books = new Map<string, DepthBook>();
  const wrong: unknown[] = [];
  const kept = keepBooks(
    `${service.url}/api/v2/stream/markets/depth/updates`,
    (book) => {
      books.set(book.marketId, book);
      const truth = fixture.network.at(book.marketId, book.sequenceNumber ?? -1n);
      if (JSON.stringify(bookText(book)) !== JSON.stringify(truth))
        wrong.push([book.sequenceNumber, bookText(book), truth]);
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
