import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  GetMarketRequestSchema,
  ObserveMarketsDepthUpdatesRequestSchema,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { depthMessage, hotResponse } from "./fake-api.js";
import { envelope, grpcOutcome, pieces, type RawCall, rawCall } from "./raw-call.js";
import { type RpcServer, startRpcServer } from "./rpc-server.js";

const service = "/datanode.api.v2.TradingDataService";
const requestBytesMax = 1000;

function market(marketId: string): Buffer {
  return envelope(0, toBinary(GetMarketRequestSchema, create(GetMarketRequestSchema, { marketId })));
}

function depth(...marketIds: string[]): Buffer {
  const request = create(ObserveMarketsDepthUpdatesRequestSchema, { marketIds });
  return envelope(0, toBinary(ObserveMarketsDepthUpdatesRequestSchema, request));
}

interface Case extends Partial<RawCall> {
  readonly name: string;
  readonly method?: "GetMarket" | "ObserveMarketsDepthUpdates" | "Nothing";
  readonly expected: Partial<ReturnType<typeof grpcOutcome>>;
}

const hot = { status: "0", message: "", messages: [Buffer.from(hotResponse.binary()).toString("hex")] };
const three = ["a", "b", "c"].map((id) => Buffer.from(depthMessage(id).binary()).toString("hex"));
const errorInfo = "type.googleapis.com/google.rpc.ErrorInfo";
const badRequest = "type.googleapis.com/google.rpc.BadRequest";
const retryInfo = "type.googleapis.com/google.rpc.RetryInfo";

const cases: Case[] = [
  {
    name: "a cached response",
    body: [market("hot")],
    expected: { ...hot, http: 200, contentType: "application/grpc+proto" },
  },
  {
    name: "a cached response, content type without format",
    headers: { "content-type": "application/grpc" },
    body: [market("hot")],
    expected: hot,
  },
  { name: "a response that takes a moment", body: [market("later")], expected: hot },
  { name: "a request in pieces of one byte", body: pieces(market("hot"), 1), expected: hot },
  { name: "a request in pieces of four bytes", body: pieces(market("hot"), 4), expected: hot },
  { name: "an empty request message", body: [envelope(0, new Uint8Array(0))], expected: hot },
  { name: "identity encoding", headers: { "grpc-encoding": "identity" }, body: [market("hot")], expected: hot },
  {
    name: "a client that reads gzip",
    headers: { "grpc-accept-encoding": "gzip" },
    body: [market("hot")],
    expected: hot,
  },
  { name: "custom metadata", headers: { "x-any": "1", "y-bin": "AAEC" }, body: [market("hot")], expected: hot },
  { name: "a field that is not known", body: [envelope(0, Buffer.from("7a0161", "hex"))], expected: hot },
  {
    name: "not found",
    body: [market("missing")],
    expected: {
      http: 200,
      status: "5",
      message: 'no market has the id "missing"',
      details: [errorInfo],
      statusCode: 5,
      messages: [],
    },
  },
  {
    name: "not found, from a promise",
    body: [market("rejects missing")],
    expected: { status: "5", statusMessage: 'no market has the id "missing"' },
  },
  {
    name: "a message that needs escapes",
    body: [market("invalid")],
    expected: { status: "3", message: 'marketId: got "ü 100%\n€"', details: [badRequest, errorInfo] },
  },
  {
    name: "unavailable",
    body: [market("away")],
    expected: { status: "14", message: "the database cannot be reached", details: [errorInfo, retryInfo] },
  },
  {
    name: "an error that echoes a lot is cut",
    body: [market("huge")],
    expected: { status: "3", message: `marketId: got "${"z".repeat(512 - 'marketId: got "'.length)}…` },
  },
  {
    name: "an error that is no Unicode",
    body: [market("malformed")],
    expected: {
      status: "3",
      message: "marketId: got half a pair: \ufffd",
      statusMessage: "marketId: got half a pair: \ufffd",
    },
  },
  {
    name: "no request message",
    body: [],
    expected: { status: "12", message: "protocol error: missing input message for unary method", details: undefined },
  },
  {
    name: "two request messages",
    body: [market("hot"), market("hot")],
    expected: { status: "12", message: "protocol error: received extra input message for unary method" },
  },
  {
    name: "half an envelope head",
    body: [Buffer.from([0, 0, 0])],
    expected: { status: "3", message: "protocol error: incomplete envelope" },
  },
  {
    name: "half a message",
    body: [market("hot").subarray(0, 8)],
    expected: { status: "3", message: "protocol error: incomplete envelope" },
  },
  {
    name: "a compressed flag without an encoding",
    body: [envelope(1, Buffer.from("0a03686f74", "hex"))],
    expected: { status: "13", message: "received compressed envelope, but do not know how to decompress" },
  },
  {
    name: "the flag of the end of a stream",
    body: [envelope(2, Buffer.from("0a03686f74", "hex"))],
    expected: { status: "3", message: "protocol error: a request's envelope has the flags 2" },
  },
  {
    name: "a request that is too large",
    body: [envelope(0, Buffer.alloc(requestBytesMax + 1))],
    expected: { status: "8", message: "message size 1001 is larger than configured readMaxBytes 1000" },
  },
  { name: "bytes that are no message", body: [envelope(0, Buffer.from("0aff", "hex"))], expected: { status: "3" } },
  {
    name: "a timeout that is none",
    headers: { "grpc-timeout": "10x" },
    body: [market("hot")],
    expected: { status: "3", message: "protocol error: invalid grpc timeout value: 10x" },
  },
  {
    name: "an empty timeout",
    headers: { "grpc-timeout": "" },
    body: [market("hot")],
    expected: { status: "3", message: "protocol error: invalid grpc timeout value: " },
  },
  {
    name: "a timeout of nine digits",
    headers: { "grpc-timeout": "123456789S" },
    body: [market("hot")],
    expected: { status: "3", message: "protocol error: invalid grpc timeout value: 123456789S" },
  },
  {
    name: "a timeout of zero",
    headers: { "grpc-timeout": "0n" },
    body: [market("hot")],
    expected: {
      status: "4",
      message: "the deadline of the call passed before its response was complete",
      details: undefined,
    },
  },
  {
    name: "a timeout beyond all timers",
    headers: { "grpc-timeout": "99999999H" },
    body: [market("later")],
    expected: hot,
  },
  {
    name: "a deadline that passes",
    headers: { "grpc-timeout": "30m" },
    body: [market("hanging")],
    expected: { status: "4", message: "the deadline of the call passed before its response was complete" },
  },
  {
    name: "the server's own time limit",
    body: [market("hanging")],
    expected: {
      status: "4",
      message: "the deadline of the call passed before its response was complete",
      details: [errorInfo],
    },
  },
  {
    name: "a method that is not there",
    method: "Nothing",
    body: [market("hot")],
    expected: { http: 200, status: "12", message: `no method is served at ${service}/Nothing`, details: undefined },
  },
  {
    name: "a wrong content type",
    headers: { "content-type": "application/xml" },
    body: [market("hot")],
    expected: { http: 415, contentType: "application/json; charset=utf-8", status: undefined },
  },
  {
    name: "a stream of three",
    method: "ObserveMarketsDepthUpdates",
    body: [depth("three")],
    expected: { status: "0", messages: three, metadata: "one", trailer: "two" },
  },
  {
    name: "a stream that opens later",
    method: "ObserveMarketsDepthUpdates",
    body: [depth("later three")],
    expected: { status: "0", messages: three, metadata: "one", trailer: "two" },
  },
  {
    name: "an empty stream",
    method: "ObserveMarketsDepthUpdates",
    body: [depth("empty")],
    expected: { status: "0", messages: [], metadata: "one", trailer: "two" },
  },
  {
    name: "a stream that is refused",
    method: "ObserveMarketsDepthUpdates",
    body: [depth("missing")],
    expected: { status: "5", message: 'no market has the id "missing"', details: [errorInfo], messages: [] },
  },
  {
    name: "a stream that fails before its first message",
    method: "ObserveMarketsDepthUpdates",
    body: [depth("fails at once")],
    expected: { status: "14", message: "the server is draining", details: [errorInfo, retryInfo], messages: [] },
  },
  {
    name: "a stream that fails later",
    method: "ObserveMarketsDepthUpdates",
    body: [depth("fails later")],
    expected: { status: "14", message: "the server is draining", messages: three.slice(0, 1) },
  },
  {
    name: "a stream's deadline",
    method: "ObserveMarketsDepthUpdates",
    headers: { "grpc-timeout": "50m" },
    body: [depth("silent")],
    expected: {
      status: "4",
      message: "the deadline of the call passed before its response was complete",
      messages: [],
    },
  },
  {
    name: "a stream without a request",
    method: "ObserveMarketsDepthUpdates",
    body: [],
    expected: { status: "12", message: "protocol error: missing input message for server-streaming method" },
  },
];

describe("gRPC calls come to their outcomes", () => {
  let server: RpcServer;
  beforeAll(async () => {
    server = await startRpcServer({ requestBodyBytesMax: requestBytesMax, requestTimeoutMs: 200 });
  });
  afterAll(() => server.close());

  test.each(cases)("$name", async ({ method = "GetMarket", expected, name: _name, ...call }) => {
    const outcome = await rawCall(server.port, { path: `${service}/${method}`, ...call });
    expect(grpcOutcome(outcome)).toMatchObject(expected);
  });

  test("every response says how old the data is", async () => {
    for (const staleness of [undefined, 3.7, 4.1]) {
      server.staleness = staleness;
      for (const marketId of ["hot", "missing"]) {
        const outcome = await rawCall(server.port, { path: `${service}/GetMarket`, body: [market(marketId)] });
        const expected = staleness === undefined ? undefined : String(Math.floor(staleness));
        expect(outcome.headers["marketd-staleness"]).toBe(expected);
      }
    }
  });

  test("what is thrown and is no Failure tells an id and nothing else", async () => {
    for (const path of ["GetMarket", "ObserveMarketsDepthUpdates"]) {
      const body = path === "GetMarket" ? market("broken") : depth("breaks");
      const outcome = grpcOutcome(await rawCall(server.port, { path: `${service}/${path}`, body: [body] }));
      expect(outcome).toMatchObject({ status: "13", details: [errorInfo] });
      const id = /^internal error; report it with id ([0-9a-f-]{36})$/.exec(outcome.message)?.[1];
      const told = server.logged.filter((line) => line.includes(`"id":"${id}"`) && line.includes("secret"));
      expect(told).toHaveLength(1);
    }
  });
});
