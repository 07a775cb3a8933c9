import fc from "fast-check";
import { expect, test } from "vitest";
import { scaled } from "../../src/domain/decimal-text.js";
import { scaleDecimal } from "../../src/domain/scaled-decimal.js";

test.each([
  ["0.0250", 4, "250"],
  ["30243.5", 1, "302435"],
  ["30244", 1, "302440"],
  ["1.2300", 2, "123"],
  ["0.000", 0, "0"],
  ["007.5", 1, "75"],
  ["12345678901234567890123456789.5", 3, "12345678901234567890123456789500"],
  ["0.00001", 4, undefined],
  ["-1", 2, undefined],
  ["+1", 2, undefined],
  ["1e3", 2, undefined],
  ["1.", 2, undefined],
  [".5", 2, undefined],
  ["", 2, undefined],
  [" 1", 2, undefined],
  ["NaN", 2, undefined],
])("%j with %i decimals is %j", (text, decimals, scaled) => {
  expect(scaleDecimal(text, decimals)).toBe(scaled);
});

test("scaling is exact, and unscaling gives the number back with all its decimals", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 40n }), fc.integer({ min: 0, max: 30 }), (number, decimals) => {
      const text = scaled(number, decimals, "");
      expect(text).toMatch(/^\d+(\.\d+)?$/);
      expect(text.split(".")[1]?.length ?? 0).toBe(decimals);
      expect(scaleDecimal(text, decimals)).toBe(`${number}`);
      expect(scaleDecimal(text, decimals + 2)).toBe(`${number * 100n}`);
    }),
  );
});
