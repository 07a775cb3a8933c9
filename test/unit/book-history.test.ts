import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type BookUpdate,
  decodeKeyframe,
  decodeSegment,
  decodeUpdate,
  encodeKeyframe,
  encodeUpdate,
  MalformedHistoryError,
  SegmentEncoder,
} from "../../src/domain/book-history.js";
import type { ChangedLevel } from "../../src/domain/order-book.js";
import { sortLevels } from "../../src/domain/price-ladder.js";

const uint64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const price = fc.oneof(
  fc.bigInt({ min: 1n, max: 2n ** 256n - 1n }),
  fc.bigInt({ min: 2n ** 53n - 3n, max: 2n ** 53n + 3n }),
  fc.bigInt({ min: 1n, max: 200n }),
  fc.constant(2n ** 256n - 1n),
);

const level: fc.Arbitrary<ChangedLevel> = fc
  .record({ side: fc.constantFrom(1 as const, 2 as const), price, volume: uint64, numberOfOrders: uint64 })
  .map((made) => ({ ...made, price: String(made.price) }));

const levels = (minLength: number) =>
  fc
    .uniqueArray(level, { minLength, maxLength: 30, selector: (made) => `${made.side} ${made.price}` })
    .map((made) => sortLevels(made));

const start = { firstSequence: 70n, height: 5n };

const updates: fc.Arbitrary<BookUpdate[]> = fc
  .array(
    fc.record({
      step: fc.oneof(fc.bigInt({ min: 1n, max: 400n }), fc.bigInt({ min: 1n, max: 2n ** 58n })),
      rise: fc.oneof(fc.bigInt({ min: 0n, max: 2n }), fc.bigInt({ min: 0n, max: 2n ** 32n })),
      numberOffset: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n }),
      levels: levels(1),
    }),
    { maxLength: 20 },
  )
  .map((made) => {
    let { firstSequence: streamSequence, height } = start;
    return made.map(({ step, rise, ...rest }) => {
      streamSequence += step;
      height += rise;
      return { streamSequence, height, ...rest };
    });
  });

function encodeSegment(made: readonly BookUpdate[]): Uint8Array {
  const encoder = new SegmentEncoder(start);
  for (const update of made) encoder.append(update);
  expect(encoder.changedLevels).toBe(made.reduce((sum, update) => sum + update.levels.length, 0));
  return encoder.content();
}

describe("what is encoded is decoded", () => {
  test("updates", () => {
    fc.assert(
      fc.property(updates, (made) => {
        for (const update of made) {
          expect(decodeUpdate(update.streamSequence, encodeUpdate(update))).toStrictEqual(update);
        }
      }),
    );
  });

  test("keyframes", () => {
    fc.assert(
      fc.property(levels(0), (made) => {
        expect(decodeKeyframe(encodeKeyframe(made))).toStrictEqual(made);
      }),
    );
  });

  test("segments", () => {
    fc.assert(
      fc.property(updates, (made) => {
        expect([...decodeSegment(start, encodeSegment(made))]).toStrictEqual(made);
      }),
    );
  });
});

/** Decodes bytes that may be anything. @returns the bytes of what was decoded; undefined: it was refused */
function recode(encode: () => Uint8Array): Uint8Array | undefined {
  try {
    return encode();
  } catch (error) {
    expect(error).toBeInstanceOf(MalformedHistoryError);
    return undefined;
  }
}

describe("malformed bytes are refused, and what is not refused has one encoding", () => {
  const decoders = {
    update: (bytes: Uint8Array) => encodeUpdate(decodeUpdate(9n, bytes)),
    keyframe: (bytes: Uint8Array) => encodeKeyframe(decodeKeyframe(bytes)),
    segment: (bytes: Uint8Array) => encodeSegment([...decodeSegment(start, bytes)]),
  };

  test.each(Object.entries(decoders))("%s of any bytes", (_name, decoder) => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        const again = recode(() => decoder(bytes));
        if (again !== undefined) expect(Buffer.from(again)).toEqual(Buffer.from(bytes));
      }),
      { numRuns: 2_000 },
    );
  });

  test.each(Object.entries(decoders))("%s with one byte changed, missing or added", (name, decoder) => {
    const fault = fc.record({
      at: fc.nat(),
      byte: fc.integer({ min: 0, max: 255 }),
      remove: fc.nat(1),
      add: fc.nat(1),
    });
    fc.assert(
      fc.property(updates, fault, (made, { at, byte, remove, add }) => {
        const [first] = made;
        if (first === undefined) return;
        const bytes = {
          update: encodeUpdate(first),
          keyframe: encodeKeyframe(first.levels),
          segment: encodeSegment(made),
        };
        const right = [...bytes[name as keyof typeof bytes]];
        const wrong = right.toSpliced(at % right.length, remove, ...Array<number>(add).fill(byte));
        const again = recode(() => decoder(Uint8Array.from(wrong)));
        if (again !== undefined) expect([...again]).toEqual(wrong);
      }),
      { numRuns: 1_000 },
    );
  });

  test.each([
    ["an integer that is cut", [0x80]],
    ["an integer that is longer than needed", [0x81, 0x00]],
    ["an integer of too many bytes", [...Array<number>(40).fill(0x81), 1]],
    ["a count beyond the bytes", [0xff, 0xff, 0xff, 0xff, 0x03, 0, 2]],
    ["a price of 0", [1, 0, 0, 1, 1]],
    ["a price twice", [2, 0, 4, 0, 1, 1, 1, 1]],
    ["bytes left over", [0, 0, 0]],
  ])("a keyframe with %s", (_what, bytes) => {
    expect(() => decodeKeyframe(Uint8Array.from(bytes))).toThrow(MalformedHistoryError);
  });
});
