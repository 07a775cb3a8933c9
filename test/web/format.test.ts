import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { duration, instant, nanoseconds } from "../../src/domain/instant.js";
import { quoteOf } from "../../src/domain/quote.js";
import { midPrice } from "../../web/books/quote.js";
import { axisNumbers } from "../../web/format/axis-text.js";
import { percentage, scaled, shortened } from "../../web/format/decimal.js";
import { withLabels } from "../../web/format/names.js";
import { accountTypes, transferTypes } from "../../web/service/enum-values.js";

const space = "\u202f";
const amount = fc.bigInt({ min: -(10n ** 78n), max: 10n ** 78n });

describe("a scaled amount", () => {
  it.each([
    ["12345", 2, "123.45"],
    ["1234567", 0, `1${space}234${space}567`],
    ["5", 4, "0.0005"],
    ["-1234567", 3, `-1${space}234.567`],
    ["12", -3, `12${space}000`],
    ["0", -3, "0"],
    ["", 2, "–"],
  ])("%s with %d decimals is %s", (integer, places, text) => {
    expect(scaled(integer, places)).toBe(text);
  });

  it("has the digits of its integer, whatever that is", () => {
    fc.assert(
      fc.property(amount, fc.integer({ min: 0, max: 30 }), (integer, places) => {
        const digits = scaled(integer, places).replaceAll(space, "").replace(".", "");
        expect(BigInt(digits)).toBe(integer);
      }),
    );
  });

  it.each([
    ["104231.1234567891", 19, `104${space}231.1234567891`],
    ["1234567.12345678", 16, `1${space}234${space}567.12345…`],
    ["123456789.12345678", 16, `123${space}456${space}789.123…`],
    ["12345678901.2567", 16, `12${space}345${space}678${space}901.2…`],
    ["1234567890123.25", 16, "1.23456…e12"],
    ["123456789012345", 16, `123${space}456${space}789${space}012${space}345`],
    ["0.00000000001234567890", 19, "0.0000000000123456…"],
    ["0.00000000000123456789", 19, "1.23456…e-12"],
    ["-0.000000000000000000000001234567", 19, "-1.23456…e-24"],
    ["0.000000000000000000000000000012", 19, "1.2e-29"],
    ["0.000000000000000000000000000001", 16, "1e-30"],
    ["0.000000000000000000000000000000", 19, "0"],
  ])("%s in %d characters is %s", (exact, lengthMax, text) => {
    const [integer = "", fraction = ""] = exact.split(".");
    expect(shortened(scaled(integer + fraction, fraction.length), lengthMax)).toBe(text);
  });

  it("is short on demand, and says only what is true", () => {
    fc.assert(
      fc.property(amount, fc.integer({ min: 0, max: 30 }), (integer, places) => {
        const exact = scaled(integer, places);
        const short = shortened(exact);
        expect(short.length).toBeLessThanOrEqual(19);
        const plain = exact.replaceAll(space, "");
        const [, shown = "", exponent] = /^([^…e]*)…?(?:e(.*))?$/.exec(short.replaceAll(space, "")) ?? [];
        const whole = plain.replace(/^-|\..*$/g, "");
        const zeros = /\.(0*)/.exec(plain)?.[1]?.length ?? 0;
        const isCut = short.endsWith("…") || integer === 0n;
        if (exponent === undefined) expect(isCut ? plain.slice(0, shown.length) : plain).toBe(shown);
        else
          expect(plain.replace(/^-|\./g, "").replace(/^0+/, "")).toMatch(new RegExp(`^${shown.replace(/[-.]/g, "")}`));
        if (exponent !== undefined) expect(Number(exponent)).toBe(whole === "0" ? -zeros - 1 : whole.length - 1);
        expect(shown.startsWith("-")).toBe(integer < 0n);
      }),
    );
  });
});

describe("the numbers of an axis", () => {
  it.each([
    [
      [0, 1e16, 2e16],
      ["0", "1.00e+16", "2.00e+16"],
    ],
    [
      [2.9659e16, 2.966e16, 2.9661e16],
      ["2.9659e+16", "2.9660e+16", "2.9661e+16"],
    ],
    [
      [1.25, 1.5],
      ["1.25", "1.50"],
    ],
    [
      [1_000_001, 1_000_002],
      ["1\u202f000\u202f001", "1\u202f000\u202f002"],
    ],
  ])("%j are told apart", (values, texts) => {
    expect(axisNumbers(values)).toEqual(texts);
  });
});

describe("a quote", () => {
  const level = (price: string) => ({ price, volume: 1n, numberOfOrders: 1n });

  it("has the exact mid price, with a decimal more where it needs one", () => {
    expect(midPrice(quoteOf([level("100")], [level("104")]), 2)).toBe("1.02");
    expect(midPrice(quoteOf([level("100")], [level("105")]), 2)).toBe("1.025");
    expect(midPrice(quoteOf([level("7")], [level("8")]), 0)).toBe("7.5");
    expect(midPrice(quoteOf([], [level("8")]), 0)).toBe("–");
  });

  it("has a negative spread where orders cross in an auction", () => {
    expect(quoteOf([level("105")], [level("100")]).spread).toBe(-5n);
  });

  it("changes by a percentage", () => {
    expect(percentage(5n, 400n)).toBe(`+1.25${space}%`);
    expect(percentage(-5n, 400n)).toBe(`−1.25${space}%`);
    expect(percentage(0n, 400n)).toBe(`0.00${space}%`);
  });
});

describe("an instant", () => {
  it("has all its nanoseconds, there and back", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 10n ** 15n, max: 9n * 10n ** 18n }), (value) => {
        expect(nanoseconds(instant(String(value)))).toBe(String(value));
      }),
    );
  });

  it.each([
    ["2024-01-01", "1704067200000000000"],
    ["2024-01-01 00:00:01.5Z", "1704067201500000000"],
    ["1704067200000000001", "1704067200000000001"],
    ["2024-01-01T01:30:00.000000001+01:30", "1704067200000000001"],
    ["2024-01-01T01:30:00 01:30", "1704067200000000000"],
    ["2023-12-31 19:00-05:00", "1704067200000000000"],
    ["2024-01-01T00:00:00+24:00", undefined],
    ["2024-01-01T00:00:00+01", undefined],
    ["yesterday", undefined],
    ["2024-13-01", undefined],
    ["2024-02-29", "1709164800000000000"],
    ["2023-02-29", undefined],
    ["2024-02-30 12:00", undefined],
  ])("%s is %s", (text, value) => {
    expect(nanoseconds(text)).toBe(value);
  });

  it("is some time ago", () => {
    expect([0, 119, 120, 7_200, 200_000].map(duration)).toEqual(["0 s", "119 s", "2 min", "2 h", "2 d"]);
  });
});

it("the filters offer every account and transfer type of the definitions", () => {
  const names = (enumeration: Record<string, string | number>, prefix: string) =>
    Object.keys(enumeration)
      .filter((name) => Number.isNaN(Number(name)) && name !== "UNSPECIFIED")
      .map((name) => `${prefix}${name}`);
  expect(accountTypes).toEqual(names(AccountType, "ACCOUNT_TYPE_"));
  expect(transferTypes).toEqual(names(TransferType, "TRANSFER_TYPE_"));
});

it("markets are told apart by their names, and by identifiers where these are equal or not to be seen", () => {
  const named = ["one", "one", "two", " "].map((name, n) => ({ id: `id-${n}`, name }));
  expect(withLabels(named).map(({ label }) => label)).toEqual(["one · id-0", "one · id-1", "two", "id-3"]);
});
