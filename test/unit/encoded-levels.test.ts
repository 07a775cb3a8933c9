import { expect, test } from "vitest";
import { EncodedLevels } from "../../src/live/encoded-levels.js";

test("clients take turns where large books are encoded", async () => {
  const level = (_: unknown, index: number) => ({ price: `${100_000 - index}`, volume: 1n, numberOfOrders: 1n });
  const levels = { buy: Array.from({ length: 8_192 }, level), sell: [] };
  const done: string[] = [];
  const prepare = async (client: string): Promise<void> => {
    await new EncodedLevels(levels).prepare("json", Number.POSITIVE_INFINITY, client);
    done.push(client);
  };
  await Promise.all([...Array.from({ length: 8 }, () => "a"), "b"].map(prepare));
  expect(done.length).toBe(9);
  expect(done.indexOf("b")).toBeLessThan(3);
});
