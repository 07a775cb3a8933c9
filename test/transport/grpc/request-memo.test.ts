import { create, toBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { GetMarketRequestSchema, TradingDataService } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { unary } from "../../../src/domain/service.js";
import {
  decodeBinary,
  rememberedRequestBytesMax,
  rememberedRequestsMax,
  rememberingRequests,
} from "../../../src/transport/call/framing.js";

const method = unary(TradingDataService.method.getMarket, () => {
  throw new Error("nothing is asked here");
});

function bytesOf(marketId: string): Buffer {
  return Buffer.from(toBinary(GetMarketRequestSchema, create(GetMarketRequestSchema, { marketId })));
}

function counted(): { decode: ReturnType<typeof rememberingRequests>; decoded: () => number } {
  let count = 0;
  const decode = rememberingRequests((of, bytes) => {
    count++;
    return decodeBinary(of, bytes);
  });
  return { decode, decoded: () => count };
}

describe("remembered requests", () => {
  test("decodes the same bytes once, and other bytes for themselves", () => {
    const { decode, decoded } = counted();
    expect(decode(method, bytesOf("a"))).toMatchObject({ marketId: "a" });
    expect(decode(method, bytesOf("b"))).toMatchObject({ marketId: "b" });
    expect(decode(method, bytesOf("a"))).toMatchObject({ marketId: "a" });
    expect(decoded()).toBe(2);
  });

  test("tells bytes apart that no text can hold", () => {
    const { decode } = counted();
    const strange = (last: number): Buffer => Buffer.concat([bytesOf("a"), Buffer.from([0xfa, 0x01, 0x01, last])]);
    const unknown = (bytes: Buffer): number[] => [...(decode(method, bytes).$unknown?.[0]?.data ?? [])];
    expect(unknown(strange(0xc0))).toEqual([1, 0xc0]);
    expect(unknown(strange(0xff))).toEqual([1, 0xff]);
  });

  test("keeps what it read when the socket's buffer is used again", () => {
    const { decode } = counted();
    const bytes = Buffer.concat([bytesOf("a"), Buffer.from([0xfa, 0x01, 0x01, 0x07])]);
    const again = Buffer.from(bytes);
    decode(method, bytes);
    bytes.fill(0);
    expect([...(decode(method, again).$unknown?.[0]?.data ?? [])]).toEqual([1, 7]);
  });

  test("lets nobody change a request", () => {
    const { decode } = counted();
    expect(Object.isFrozen(decode(method, bytesOf("a")))).toBe(true);
  });

  test("does not remember what is no message", () => {
    const { decode, decoded } = counted();
    for (let i = 0; i < 2; i++) expect(() => decode(method, Buffer.from([0xff]))).toThrow("parse binary:");
    expect(decoded()).toBe(2);
  });

  test("does not remember long requests", () => {
    const { decode, decoded } = counted();
    for (let i = 0; i < 2; i++) decode(method, bytesOf("m".repeat(rememberedRequestBytesMax)));
    expect(decoded()).toBe(2);
  });

  test("forgets when it is full", () => {
    const { decode, decoded } = counted();
    for (let i = 0; i <= rememberedRequestsMax; i++) decode(method, bytesOf(String(i)));
    decode(method, bytesOf(String(rememberedRequestsMax)));
    expect(decoded()).toBe(rememberedRequestsMax + 1);
    decode(method, bytesOf("0"));
    expect(decoded()).toBe(rememberedRequestsMax + 2);
  });
});
