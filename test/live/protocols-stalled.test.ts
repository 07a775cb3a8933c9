import { connect, constants } from "node:http2";
import { pino } from "pino";
import { expect, test } from "vitest";
import { MarketFixture } from "./market-fixture.js";
import { startTestService } from "./service.js";

const stalledReaderMs = 200;

/** A book of more bytes than the 64 KB that an HTTP/2 stream sends unasked, in either encoding. */
const levels = Array.from({ length: 900 }, (_, i) => ({
  marketId: "wide",
  side: 1 as const,
  price: `${10n ** 77n + BigInt(i)}`,
  volume: 1n,
}));

const requests: Record<string, { headers: Record<string, string>; body?: Buffer; code: number }> = {
  gRPC: {
    headers: {
      ":method": "POST",
      ":path": "/datanode.api.v2.TradingDataService/ObserveMarketsDepthUpdates",
      "content-type": "application/grpc+proto",
      te: "trailers",
    },
    body: Buffer.alloc(5),
    code: constants.NGHTTP2_ENHANCE_YOUR_CALM,
  },
  "JSON lines": {
    headers: { ":path": "/api/v2/stream/markets/depth/updates" },
    code: constants.NGHTTP2_INTERNAL_ERROR,
  },
};

test("a reader that takes nothing of what it was sent is ended and logged, and another goes on", async () => {
  const fixture = await MarketFixture.create();
  await fixture.add({ announce: ["wide"], levels });
  const lines: { msg: string; client: string; streams: number }[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => lines.push(JSON.parse(line)) });
  const service = await startTestService(fixture.url, { stalledReaderMs, heartbeatMs: 100 }, log);
  const open = ({ headers, body }: { headers: Record<string, string>; body?: Buffer }) => {
    const session = connect(service.url);
    const stream = session.request(headers);
    stream.end(body);
    stream.on("error", () => {});
    return { session, stream };
  };
  const stalled = Object.values(requests).map((request) => ({ ...open(request), code: request.code }));
  const ended = stalled.map(({ stream }) => new Promise((resolve) => stream.once("close", resolve)));
  const reading = Object.values(requests).map(open);
  let received = 0;
  for (const { stream } of reading) {
    stream.on("data", (chunk: Buffer) => {
      received += chunk.length;
    });
  }
  await Promise.all(ended);
  expect(stalled.map(({ stream }) => stream.rstCode)).toEqual(stalled.map(({ code }) => code));
  // One line for a client in each look, however many streams it has.
  const ofClient = { msg: "ended streams whose reader takes nothing", client: "127.0.0.1" };
  expect(lines).toEqual(lines.map(() => expect.objectContaining(ofClient)));
  expect(lines.reduce((sum, { streams }) => sum + streams, 0)).toBe(stalled.length);
  const before = received;
  await expect.poll(() => received).toBeGreaterThan(before);
  expect(reading.map(({ stream }) => stream.closed)).toEqual([false, false]);
  for (const { session } of [...stalled, ...reading]) session.destroy();
  await service.drain();
  await fixture.drop();
});
