import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { MarketDepthUpdateSchema } from "../../gen/vega/vega_pb.js";
import { encodeBinary } from "../../src/encoding/binary-encoder.js";
import { encodeJson, jsonWriteOptions } from "../../src/encoding/json-encoder.js";
import { tries } from "../support/tries.js";

const uint64 = fc.oneof(
  fc.bigInt(0n, 300n),
  fc.bigInt(0n, 2n ** 64n - 1n),
  fc.constantFrom(0n, 2n ** 32n, 2n ** 49n - 1n, 2n ** 49n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n),
);
const price = fc.oneof(
  fc.bigInt(0n, 1000n).map(String),
  fc.bigInt(0n, 2n ** 256n).map(String),
  // Longer than any price is, so that lengths of more than a byte occur at each place.
  fc.integer({ min: 90, max: 40_000 }).map((digits) => "7".repeat(digits)),
);
const level = fc.record({ price, numberOfOrders: uint64, volume: uint64 });
const levels = fc.oneof(fc.array(level, { maxLength: 4 }), fc.array(level, { minLength: 20, maxLength: 200 }));
const update = fc.record({
  marketId: fc.oneof(fc.string({ maxLength: 128 }), fc.string({ unit: "grapheme", maxLength: 128 })),
  buy: levels,
  sell: levels,
  sequenceNumber: uint64,
  previousSequenceNumber: uint64,
});

test("updates are encoded as protobuf-es encodes them, whatever their numbers, texts and sizes", () => {
  fc.assert(
    fc.property(update, (one) => {
      const message = create(MarketDepthUpdateSchema, one);
      expect(
        Buffer.compare(encodeBinary(MarketDepthUpdateSchema, one), toBinary(MarketDepthUpdateSchema, message)),
      ).toBe(0);
      expect(encodeJson(MarketDepthUpdateSchema, one)).toBe(
        toJsonString(MarketDepthUpdateSchema, message, jsonWriteOptions),
      );
    }),
    { numRuns: tries(500) },
  );
});
