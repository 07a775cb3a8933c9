import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  GetMarketRequestSchema,
  ObserveMarketsDepthUpdatesRequestSchema,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { Failure } from "../../../src/domain/failure.js";
import { type DepthStream, depthMessage } from "./fake-api.js";
import { envelope, splitEnvelopes } from "./raw-call.js";
import { type RpcServer, startRpcServer } from "./rpc-server.js";

const marketPath = "/datanode.api.v2.TradingDataService/GetMarket";
const path = "/datanode.api.v2.TradingDataService/ObserveMarketsDepthUpdates";

test.each(["application/grpc+proto", "application/grpc-web+proto", "application/proto"])(
  "a large response that nobody takes is cut: %s",
  async (type) => {
    const server = await startRpcServer({ stalledReaderMs: 100 });
    const session = connect(`http://127.0.0.1:${server.port}`);
    session.on("error", () => {});
    const message = toBinary(GetMarketRequestSchema, create(GetMarketRequestSchema, { marketId: "long 3000000" }));
    const headers = { "content-type": type, te: "trailers", "accept-encoding": "identity" };
    const call = session.request({ ":method": "POST", ":path": marketPath, ...headers });
    call.on("error", () => {});
    call.end(type === "application/proto" ? message : envelope(0, message));
    await new Promise((resolve) => call.once("response", resolve));
    // Three of the server's checks may pass before the cut; a busy machine may run each of them late.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    call.resume();
    await vi.waitFor(() => expect(call.destroyed).toBe(true), 3000);
    expect(call.rstCode).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    session.destroy();
    await server.close();
  },
);

/** Gives messages until one stays untaken: the reader's window is full. */
async function fill(stream: DepthStream): Promise<void> {
  await vi.waitFor(
    () => {
      const before = stream.taken;
      stream.give(depthMessage("some", 100_000));
      expect(stream.taken).toBe(before);
    },
    { interval: 30 },
  );
}

const stale = new Failure("unavailable", "market a is stale", { reason: "MARKET_STALE" });

describe.each([
  { type: "application/grpc+proto", unavailable: '"grpc-status":"14"', deadline: '"grpc-status":"4"' },
  { type: "application/grpc-web+proto", unavailable: "grpc-status: 14", deadline: "grpc-status: 4" },
  { type: "application/connect+proto", unavailable: '"code":"unavailable"', deadline: '"code":"deadline_exceeded"' },
])("a reader that reads on before it is cut: $type", ({ type, unavailable, deadline }) => {
  test.each([
    { why: "its stream failed meanwhile", fails: true, expected: unavailable },
    { why: "its deadline passed meanwhile", fails: false, expected: deadline },
  ])("gets the status if $why", async ({ fails, expected }) => {
    // Longer than the test may take: the status must come before the cut.
    const server = await startRpcServer({ breakOffMs: 60_000 });
    const session = connect(`http://127.0.0.1:${server.port}`);
    session.on("error", () => {});
    const timeout = fails ? {} : { "grpc-timeout": "1S", "connect-timeout-ms": "1000" };
    const call = session.request({
      ":method": "POST",
      ":path": path,
      "content-type": type,
      te: "trailers",
      ...timeout,
    });
    call.on("error", () => {});
    const request = create(ObserveMarketsDepthUpdatesRequestSchema, { marketIds: ["open"] });
    call.end(envelope(0, toBinary(ObserveMarketsDepthUpdatesRequestSchema, request)));
    const stream = await vi.waitFor(() => {
      const [opened] = server.streams;
      if (opened === undefined) throw new Error("no stream yet");
      return opened;
    });
    await fill(stream);
    if (fails) stream.fail(stale);
    else await vi.waitFor(() => expect(stream.closed).toBeGreaterThan(0), 3000);
    let trailers = "";
    call.on("trailers", (received) => {
      trailers = JSON.stringify(received);
    });
    const chunks: Buffer[] = [];
    call.on("data", (chunk: Buffer) => chunks.push(chunk));
    const received = () => trailers + Buffer.concat(chunks).subarray(-1_000).toString("latin1");
    await vi.waitFor(() => expect(received()).toContain(expected), 3000);
    await vi.waitFor(() => expect(call.destroyed).toBe(true), 3000);
    expect(call.rstCode).toBe(constants.NGHTTP2_NO_ERROR);
    session.destroy();
    await server.close();
  });
});

describe.each(["application/grpc+proto", "application/grpc-web+proto", "application/connect+proto"])(
  "a reader that takes nothing: %s",
  (type) => {
    let server: RpcServer;
    let session: ClientHttp2Session;
    let call: ClientHttp2Stream;
    let stream: DepthStream;

    beforeEach(async () => {
      server = await startRpcServer({ breakOffMs: 100 });
      session = connect(`http://127.0.0.1:${server.port}`);
      session.on("error", () => {});
      call = session.request({ ":method": "POST", ":path": path, "content-type": type, te: "trailers" });
      call.on("error", () => {});
      const request = create(ObserveMarketsDepthUpdatesRequestSchema, { marketIds: ["open"] });
      call.end(envelope(0, toBinary(ObserveMarketsDepthUpdatesRequestSchema, request)));
      stream = await vi.waitFor(() => {
        const [opened] = server.streams;
        if (opened === undefined) throw new Error("no stream yet");
        return opened;
      });
      await fill(stream);
    });

    afterEach(async () => {
      session.destroy();
      await server.close();
    });

    test("is asked for nothing more, and reads on where it stopped", async () => {
      const { taken } = stream;
      stream.give(depthMessage("last"));
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(stream.taken).toBe(taken);
      expect(taken).toBeLessThan(10);
      const chunks: Buffer[] = [];
      call.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.end();
      await new Promise((resolve) => call.once("end", resolve));
      const last = Buffer.from(depthMessage("last").binary());
      const messages = splitEnvelopes(Buffer.concat(chunks));
      expect(messages.findIndex((message) => message.equals(last))).toBe(stream.taken - 1);
    });

    test("is cut when the stream fails", async () => {
      stream.fail(new Failure("resource_exhausted", "the reader took nothing for 5 minutes", { reason: "STALLED" }));
      await vi.waitFor(() => expect(stream.closed).toBeGreaterThan(0), 3000);
      // The session learns of the reset although the stream's window is full; its own reader sees it once it reads.
      call.resume();
      await vi.waitFor(() => expect(call.destroyed).toBe(true), 3000);
      expect(call.rstCode).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    });

    test("frees the stream when it leaves", async () => {
      session.destroy();
      await vi.waitFor(() => expect(stream.closed).toBeGreaterThan(0), 3000);
    });
  },
);
