import { create, equals } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { MarketDepthUpdateSchema } from "../../gen/vega/vega_pb.js";
import { MessageResponse, ReadyResponse } from "../../src/encoding/message-response.js";

const update = create(MarketDepthUpdateSchema, {
  marketId: 'a "market" with ünusual letters',
  buy: [{ price: "12", volume: 18_446_744_073_709_551_615n, numberOfOrders: 1n }],
  sequenceNumber: 7n,
});

test.each(["json", "proto"] as const)("a response that is ready in %s is the same in each encoding", (codec) => {
  const response = new MessageResponse(MarketDepthUpdateSchema, update, { version: "v", eventId: () => "token" });
  const ready = new ReadyResponse(response, codec);
  expect(ready.schema).toBe(MarketDepthUpdateSchema);
  expect([ready.version, ready.eventId]).toEqual(["v", "token"]);
  expect(equals(MarketDepthUpdateSchema, ready.message(), update)).toBe(true);
  expect(ready.jsonText()).toBe(response.jsonText());
  expect(Buffer.from(ready.json())).toEqual(Buffer.from(response.json()));
  expect(Buffer.from(ready.binary())).toEqual(Buffer.from(response.binary()));
  expect(ready.binaryBehind(5).subarray(5)).toEqual(Buffer.from(response.binary()));
});
