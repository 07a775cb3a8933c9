import { expect, test } from "vitest";
import { ByteIndex } from "../../src/loader/byte-index.js";

test("keys are found as long as there was space for them, and others are not", () => {
  const index = new ByteIndex<number>(10);
  const keys = ["abcd", "efgh", "ijkl", "mn"].map((text) => Buffer.from(text));
  const find = (key: Buffer) => index.get(new DataView(key.buffer, key.byteOffset, key.byteLength), 0, key.length);
  for (const [value, key] of keys.entries()) {
    expect(find(key)).toBe(undefined);
    index.add(key, value);
  }
  expect(keys.map(find)).toEqual([0, 1, undefined, 3]);
});
