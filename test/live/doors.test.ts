import { once } from "node:events";
import { get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { fromBinary, fromJson, type JsonValue, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { Client, credentials } from "@grpc/grpc-js";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import {
  ObserveMarketsDepthUpdatesRequestSchema,
  ObserveMarketsDepthUpdatesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import type { Service } from "../../src/commands/service.js";
import { BookChecker } from "./book-checker.js";
import { MarketFixture } from "./market-fixture.js";
import type { LevelChange } from "./model-network.js";
import { startTestService } from "./service.js";

/** Of each door. A long run, of thousands, sets it. */
const cases = Number(process.env["MARKETD_DOOR_CASES"] ?? 50);

type Message = MessageShape<typeof ObserveMarketsDepthUpdatesResponseSchema>;

/** Reads a stream of these markets, waiting for `taken` after each message; stops when `signal` does. */
type Door = (marketIds: string[], taken: (message: Message) => Promise<void>, signal: AbortSignal) => Promise<void>;

const ids = ["market-a", "market-b", "market-c"];
const path = "/api/v2/stream/markets/depth/updates";
let fixture: MarketFixture;
let service: Service;

beforeAll(async () => {
  fixture = await MarketFixture.create();
  await fixture.add({ announce: ids, levels: [{ marketId: "market-a", side: 1, price: "10", volume: 1n }] });
  service = await startTestService(fixture.url);
});

afterAll(async () => {
  await service.drain();
  await fixture.drop();
});

function streamUrl(marketIds: string[]): string {
  return `${service.url}${path}?${marketIds.map((id) => `marketIds=${id}`).join("&")}`;
}

function fromResult(text: string): Message {
  const { result } = JSON.parse(text) as { result: JsonValue };
  return fromJson(ObserveMarketsDepthUpdatesResponseSchema, result);
}

function lines(accept: string, prefix: string): Door {
  return async (marketIds, taken, signal) => {
    const request = get(streamUrl(marketIds), { headers: { accept }, signal });
    request.on("error", () => {});
    const [response] = (await once(request, "response")) as [NodeJS.ReadableStream];
    let rest = "";
    try {
      for await (const chunk of response) {
        const parts = (rest + String(chunk)).split("\n");
        rest = parts.pop() ?? "";
        for (const line of parts) if (line.startsWith(prefix)) await taken(fromResult(line.slice(prefix.length)));
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  };
}

function connect(transport: () => Transport): Door {
  return async (marketIds, taken, signal) => {
    try {
      const client = createClient(TradingDataService, transport());
      for await (const message of client.observeMarketsDepthUpdates({ marketIds }, { signal })) await taken(message);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  };
}

const grpc: Door = async (marketIds, taken, signal) => {
  const client = new Client(new URL(service.url).host, credentials.createInsecure());
  const call = client.makeServerStreamRequest(
    "/datanode.api.v2.TradingDataService/ObserveMarketsDepthUpdates",
    (request: Uint8Array) => Buffer.from(request),
    (bytes: Buffer) => fromBinary(ObserveMarketsDepthUpdatesResponseSchema, bytes),
    toBinary(ObserveMarketsDepthUpdatesRequestSchema, fromJson(ObserveMarketsDepthUpdatesRequestSchema, { marketIds })),
  );
  signal.addEventListener("abort", () => call.cancel());
  try {
    for await (const message of call) await taken(message as Message);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    client.close();
  }
};

const webSocket: Door = async (marketIds, taken, signal) => {
  const socket = new WebSocket(streamUrl(marketIds).replace("http", "ws"));
  signal.addEventListener("abort", () => socket.terminate());
  let work = Promise.resolve();
  socket.on("message", (data) => {
    socket.pause();
    work = work.then(() => taken(fromResult(String(data)))).then(() => socket.resume());
    work.catch(() => socket.terminate());
  });
  await once(socket, "close");
  await work;
};

const doors: Record<string, Door> = {
  gRPC: grpc,
  "gRPC by connect-node": connect(() => createGrpcTransport({ baseUrl: service.url })),
  "gRPC-Web": connect(() => createGrpcWebTransport({ baseUrl: service.url, httpVersion: "1.1" })),
  "Connect with JSON": connect(() =>
    createConnectTransport({ baseUrl: service.url, httpVersion: "2", useBinaryFormat: false }),
  ),
  "JSON lines": lines("application/json", ""),
  "server-sent events": lines("text/event-stream", "data: "),
  WebSocket: webSocket,
};

const levelChange: fc.Arbitrary<LevelChange> = fc.record({
  marketId: fc.constantFrom(...ids),
  side: fc.constantFrom(1 as const, 2 as const),
  price: fc.constantFrom("9", "10", "100000000000000000000000000"),
  volume: fc.bigInt(0n, 2n),
});

const block = fc.uniqueArray(levelChange, {
  minLength: 1,
  maxLength: 4,
  selector: (l) => `${l.marketId}${l.side}${l.price}`,
});

const plan = fc.record({
  subscription: fc.uniqueArray(fc.constantFrom(...ids), { maxLength: 3 }),
  pausesMs: fc.array(fc.constantFrom(0, 0, 0, 1, 5, 25), { minLength: 1, maxLength: 8 }),
});

describe.each(Object.entries(doors))("through %s", (_, door) => {
  test(
    "whoever folds a stream holds the right book, at every message",
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(block, { maxLength: 12 }), fc.array(plan, { minLength: 1, maxLength: 3 }), run(door)),
        { numRuns: cases },
      );
    },
    60_000 + cases * 1_000,
  );
});

function run(door: Door) {
  return async (
    blocks: readonly (readonly LevelChange[])[],
    plans: readonly { subscription: string[]; pausesMs: readonly number[] }[],
  ): Promise<void> => {
    const end = new AbortController();
    const readers = plans.map(({ subscription, pausesMs }) => {
      const checker = new BookChecker(() => fixture.network);
      let n = 0;
      const done = door(
        subscription,
        async (message) => {
          for (const update of message.update) checker.check(update);
          const pauseMs = pausesMs[n++ % pausesMs.length] ?? 0;
          if (pauseMs > 0) await sleep(pauseMs);
        },
        end.signal,
      );
      let failure: unknown;
      done.catch((error: unknown) => {
        failure = error;
      });
      const wanted = subscription.length === 0 ? ids : subscription;
      return { checker, wanted, done, failed: () => failure };
    });
    for (const levels of blocks) await fixture.add({ levels });
    for (const { checker, wanted, failed } of readers) {
      await expect
        .poll(() => failed() ?? wanted.map((id) => checker.sent.get(id)), { timeout: 10_000, interval: 2 })
        .toEqual(wanted.map((id) => fixture.network.depth(id)?.publishedSequenceNumber ?? 0n));
      expect(checker.wholeBooks).toBe(wanted.length);
    }
    end.abort();
    await Promise.all(readers.map((reader) => reader.done));
  };
}
