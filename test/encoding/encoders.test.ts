import {
  create,
  type DescField,
  type DescMessage,
  type Message,
  ScalarType,
  toBinary,
  toJsonString,
} from "@bufbuild/protobuf";
import { anyPack, StructSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  AggregatedLedgerEntrySchema,
  GetMarketResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { HttpBodySchema } from "../../gen/google/api/httpbody_pb.js";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";
import { ServerReflectionResponseSchema } from "../../gen/grpc/reflection/v1/reflection_pb.js";
import { PriceLevelSchema } from "../../gen/vega/vega_pb.js";
import { encodeBinary } from "../../src/encoding/binary-encoder.js";
import { encodeJson, jsonWriteOptions } from "../../src/encoding/json-encoder.js";
import { tries } from "../support/tries.js";

/* The library's own encodings are the judge. */

const text = fc.oneof(
  fc.string(),
  fc.string({ unit: "grapheme", maxLength: 200 }),
  fc.constantFrom("", '"\\\n\u007f\u2028', "\ud800lone", "x".repeat(127), "é".repeat(64), "y".repeat(20_000)),
);

/** Messages within messages, of which the deepest are left out. */
const depthMax = 4;

function someValue(field: DescField, depth: number): fc.Arbitrary<unknown> {
  if (field.message !== undefined) return someMessage(field.message, depth + 1);
  if (field.enum !== undefined) {
    return fc.oneof(fc.constantFrom(...field.enum.values.map(({ number }) => number)), fc.nat(1_000_000));
  }
  switch (field.scalar) {
    case ScalarType.DOUBLE:
      return fc.double();
    case ScalarType.INT64:
      return fc.oneof(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), fc.bigInt(-200n, 200n));
    case ScalarType.UINT64:
      return fc.oneof(fc.bigInt(0n, 2n ** 64n - 1n), fc.bigInt(0n, 200n), fc.constant(2n ** 53n));
    case ScalarType.INT32:
      return fc.integer();
    case ScalarType.BOOL:
      return fc.boolean();
    case ScalarType.STRING:
      return text;
    case ScalarType.BYTES:
      return fc.uint8Array({ maxLength: 300 });
    default:
      throw new Error(`${field}: the test has no values of this type`);
  }
}

function someMessage(schema: DescMessage, depth = 0): fc.Arbitrary<Message> {
  if (schema.typeName === "google.protobuf.Any") {
    return fc.dictionary(fc.string(), fc.string()).map((pairs) => {
      const fields = Object.fromEntries(
        Object.entries(pairs).map(([key, value]) => [key, { kind: { case: "stringValue" as const, value } }]),
      );
      return anyPack(StructSchema, create(StructSchema, { fields } as never));
    });
  }
  const members = schema.fields.filter((field) => depth < depthMax || field.message === undefined);
  const plain = members.filter(({ oneof }) => oneof === undefined);
  const fields = plain.map((field): [string, fc.Arbitrary<unknown>] => {
    const value = someValue(field, depth);
    if (field.fieldKind === "list") return [field.localName, fc.array(value, { maxLength: 3 })];
    return [field.localName, fc.option(value, { nil: undefined })];
  });
  const oneofs = schema.oneofs.map((oneof): [string, fc.Arbitrary<unknown>] => {
    const cases = oneof.fields.filter((field) => members.includes(field));
    const chosen = cases.map((field) =>
      fc.record({ case: fc.constant(field.localName), value: someValue(field, depth) }),
    );
    return [oneof.localName, fc.oneof(fc.constant({ case: undefined }), ...chosen)];
  });
  return fc.record(Object.fromEntries([...fields, ...oneofs])).map((init) => create(schema, init as never));
}

const served = [...TradingDataService.methods.map(({ output }) => output), StatusSchema, HttpBodySchema];

describe.each(served.map((schema) => [schema.typeName, schema] as const))("%s", (_name, schema) => {
  it("is encoded as the library does it", () => {
    fc.assert(
      fc.property(someMessage(schema), (message) => {
        expect(encodeJson(schema, message)).toBe(toJsonString(schema, message, jsonWriteOptions));
        expect(Buffer.from(encodeBinary(schema, message)).equals(toBinary(schema, message))).toBe(true);
      }),
      { numRuns: tries(200) },
    );
  });
});

describe("a plain object", () => {
  it("is encoded as the message with the same fields; 64-bit numbers may be decimal text", () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 2n ** 64n - 1n), fc.bigInt(0n, 2n ** 64n - 1n), (volume, numberOfOrders) => {
        const message = create(PriceLevelSchema, { price: "7", volume, numberOfOrders });
        const plain = { price: "7", volume: String(volume), numberOfOrders: String(numberOfOrders) };
        expect(encodeJson(PriceLevelSchema, plain)).toBe(toJsonString(PriceLevelSchema, message, jsonWriteOptions));
        expect(encodeBinary(PriceLevelSchema, plain)).toEqual(Buffer.from(toBinary(PriceLevelSchema, message)));
      }),
    );
    const entry = { timestamp: "-9223372036854775808", quantity: "1" };
    const message = create(AggregatedLedgerEntrySchema, { timestamp: -(2n ** 63n), quantity: "1" });
    expect(encodeJson(AggregatedLedgerEntrySchema, entry)).toBe(
      toJsonString(AggregatedLedgerEntrySchema, message, jsonWriteOptions),
    );
    expect(encodeBinary(AggregatedLedgerEntrySchema, entry)).toEqual(
      Buffer.from(toBinary(AggregatedLedgerEntrySchema, message)),
    );
  });
});

it("fields that the definitions do not know are kept in protobuf", () => {
  const message = create(GetMarketResponseSchema, { market: { id: "a" } });
  message.$unknown = [{ no: 4_000, wireType: 2, data: Uint8Array.from([1, 7]) }];
  expect(encodeBinary(GetMarketResponseSchema, message)).toEqual(
    Buffer.from(toBinary(GetMarketResponseSchema, message)),
  );
});

it("a type with fields that only the library encodes is left to it", () => {
  const message = create(ServerReflectionResponseSchema, {
    messageResponse: { case: "errorResponse", value: { errorCode: -5, errorMessage: "none" } },
  });
  expect(encodeJson(ServerReflectionResponseSchema, message)).toBe(
    toJsonString(ServerReflectionResponseSchema, message, jsonWriteOptions),
  );
  expect(encodeBinary(ServerReflectionResponseSchema, message)).toEqual(
    Buffer.from(toBinary(ServerReflectionResponseSchema, message)),
  );
});
