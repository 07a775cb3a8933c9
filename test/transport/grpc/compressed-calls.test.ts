import { connect } from "node:http2";
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  GetMarketRequestSchema,
  ObserveMarketsDepthUpdatesRequestSchema,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { compressedBytesMin, compressedInlineBytesMax } from "../../../src/transport/call/content-coding.js";
import { envelope } from "./raw-call.js";
import { type RpcServer, startRpcServer } from "./rpc-server.js";

/* Compressed messages, byte by byte: the response is compressed when the request was, if that is worth it. */

const service = "/datanode.api.v2.TradingDataService";
const codings = [
  ["gzip", gzipSync, gunzipSync],
  ["br", brotliCompressSync, brotliDecompressSync],
] as const;

let server: RpcServer;
beforeAll(async () => {
  server = await startRpcServer();
});
afterAll(() => server.close());

function market(marketId: string): Uint8Array {
  return toBinary(GetMarketRequestSchema, create(GetMarketRequestSchema, { marketId }));
}

interface Frame {
  readonly flags: number;
  readonly data: Buffer;
}

async function call(method: string, body: Buffer, headers: Record<string, string>) {
  const session = connect(`http://127.0.0.1:${server.port}`);
  try {
    const stream = session.request({ ":method": "POST", ":path": `${service}/${method}`, te: "trailers", ...headers });
    stream.end(body);
    const response = new Promise<Record<string, unknown>>((resolve) => stream.once("response", resolve));
    const trailers = new Promise<Record<string, unknown>>((resolve) => stream.once("trailers", resolve));
    const chunks: Buffer[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    return { headers: await response, trailers: await trailers, frames: frames(Buffer.concat(chunks)) };
  } finally {
    session.destroy();
  }
}

function frames(bytes: Buffer): Frame[] {
  const found: Frame[] = [];
  for (let at = 0; at + 5 <= bytes.length; ) {
    const end = at + 5 + bytes.readUInt32BE(at + 1);
    found.push({ flags: bytes[at] ?? 0, data: bytes.subarray(at + 5, end) });
    at = end;
  }
  return found;
}

const grpc = { "content-type": "application/grpc" };

describe.each(codings)("%s", (coding, compress, decompress) => {
  const asking = (id: string): Buffer => envelope(1, compress(market(id)));

  test.each([
    ["a long response", 5_000],
    ["a response that is compressed beside the event loop", compressedInlineBytesMax * 4],
  ])("%s leaves compressed", async (_what, length) => {
    const { headers, trailers, frames } = await call("GetMarket", asking(`long ${length}`), {
      ...grpc,
      "grpc-encoding": coding,
    });
    expect(headers).toMatchObject({ ":status": 200, "grpc-encoding": coding });
    expect(trailers).toMatchObject({ "grpc-status": "0" });
    expect(frames.map(({ flags }) => flags)).toEqual([1]);
    expect(frames[0]?.data.length).toBeLessThan(compressedBytesMin);
    expect(decompress(frames[0]?.data ?? "").toString("latin1")).toContain("y".repeat(length));
  });

  test("a short one does not", async () => {
    const { frames } = await call("GetMarket", asking("hot"), { ...grpc, "grpc-encoding": coding });
    expect(frames.map(({ flags }) => flags)).toEqual([0]);
  });

  test("a client that reads no compression gets none", async () => {
    const more = { "grpc-encoding": coding, "grpc-accept-encoding": "identity" };
    const { headers, frames } = await call("GetMarket", asking("long 5000"), { ...grpc, ...more });
    expect(headers["grpc-encoding"]).toBeUndefined();
    expect(frames.map(({ flags }) => flags)).toEqual([0]);
  });

  test("of a stream, whose messages are too short for it", async () => {
    const request = create(ObserveMarketsDepthUpdatesRequestSchema, { marketIds: ["three"] });
    const body = envelope(1, compress(toBinary(ObserveMarketsDepthUpdatesRequestSchema, request)));
    const { trailers, frames } = await call("ObserveMarketsDepthUpdates", body, { ...grpc, "grpc-encoding": coding });
    expect(trailers).toMatchObject({ "grpc-status": "0" });
    expect(frames.map(({ flags }) => flags)).toEqual([0, 0, 0]);
  });
});

test("a compression that is not known is UNIMPLEMENTED, and those that are, are named", async () => {
  const { headers, trailers } = await call("GetMarket", envelope(1, market("hot")), {
    ...grpc,
    "grpc-encoding": "rot13",
  });
  expect(headers).toMatchObject({ "grpc-accept-encoding": "br,gzip" });
  expect(trailers).toMatchObject({ "grpc-status": "12" });
});

test("gRPC with messages in JSON", async () => {
  const headers = { "content-type": "application/grpc+json" };
  const reply = await call("GetMarket", envelope(0, Buffer.from('{"marketId":"hot"}')), headers);
  expect(reply.headers).toMatchObject({ "content-type": "application/grpc+json" });
  expect(JSON.parse(reply.frames[0]?.data.toString() ?? "")).toMatchObject({ market: { id: "hot" } });
});

test("gRPC needs HTTP/2", async () => {
  const init = { method: "POST", headers: grpc, body: envelope(0, market("hot")) };
  const response = await fetch(`http://127.0.0.1:${server.port}${service}/GetMarket`, init);
  expect(response.status).toBe(505);
});
