import { create, type DescMessage } from "@bufbuild/protobuf";
import {
  ExportLedgerEntriesRequestSchema,
  GetMarketResponseSchema,
  ObserveMarketsDepthUpdatesResponseSchema,
  TradingDataService,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { HttpBodySchema } from "../../../gen/google/api/httpbody_pb.js";
import type { EncodedResponse } from "../../../src/domain/encoded-response.js";
import { Failure, invalidArgument, unavailable } from "../../../src/domain/failure.js";
import { type Api, type Call, type ResponseStream, serverStreaming, unary } from "../../../src/domain/service.js";
import { MessageResponse } from "../../../src/encoding/message-response.js";

/** A response stream whose messages a test hands out. */
export class FakeStream<O extends DescMessage = DescMessage> implements ResponseStream<O> {
  readonly headers = new Map<string, string>();
  readonly trailers = new Map<string, string>();
  ended = false;
  failure: Failure | undefined;
  closed = 0;
  taken = 0;
  #waiting: EncodedResponse<O>[] = [];
  #listener: () => void = () => {};

  take(): readonly EncodedResponse<O>[] {
    const responses = this.#waiting;
    this.#waiting = [];
    this.taken += responses.length;
    return responses;
  }

  onReady(listener: () => void): void {
    this.#listener = listener;
  }

  close(): void {
    this.closed++;
  }

  give(...responses: EncodedResponse<O>[]): void {
    this.#waiting.push(...responses);
    this.#listener();
  }

  end(): void {
    this.ended = true;
    this.#listener();
  }

  fail(failure: Failure): void {
    this.failure = failure;
    this.#listener();
  }
}

/** A stream of depth updates. */
export type DepthStream = FakeStream<typeof ObserveMarketsDepthUpdatesResponseSchema>;

/** A depth message that names its market, with `padding` further characters. */
export function depthMessage(
  marketId: string,
  padding = 0,
): EncodedResponse<typeof ObserveMarketsDepthUpdatesResponseSchema> {
  const update = [{ marketId: marketId + "x".repeat(padding), sequenceNumber: 18446744073709551615n }];
  return new MessageResponse(
    ObserveMarketsDepthUpdatesResponseSchema,
    create(ObserveMarketsDepthUpdatesResponseSchema, { update }),
  );
}

/** The cached response: one object, as `live` holds one. */
export const hotResponse = new MessageResponse(
  GetMarketResponseSchema,
  create(GetMarketResponseSchema, { market: { id: "hot", decimalPlaces: 5n, lpPriceRange: "0.5" } }),
  { version: "v1" },
);

/** What the fake was asked. */
export interface FakeApi {
  readonly api: Api;
  /** Streams in the order of their opening. */
  readonly streams: DepthStream[];
  /** Calls that were left hanging, in order. */
  readonly hanging: Call[];
}

/** An api whose responses are chosen by the market's id. */
export function fakeApi(): FakeApi {
  const streams: DepthStream[] = [];
  const hanging: Call[] = [];
  const service = TradingDataService.method;
  const api = [
    unary(service.getMarket, (request, call) => {
      if (request.marketId === "later") return new Promise((resolve) => setTimeout(() => resolve(hotResponse), 5));
      if (request.marketId === "hanging") {
        hanging.push(call);
        void call.signal;
        return new Promise(() => {});
      }
      if (request.marketId.startsWith("rejects ")) return Promise.reject(failureOf(request.marketId.slice(8)));
      if (request.marketId === "hot" || request.marketId === "") return hotResponse;
      if (request.marketId === "address") return marketResponse(call.clientAddress);
      if (request.marketId.startsWith("long ")) return marketResponse("y".repeat(Number(request.marketId.slice(5))));
      throw failureOf(request.marketId);
    }),
    serverStreaming(service.observeMarketsDepthUpdates, (request) => {
      const script = request.marketIds[0] ?? "";
      const stream: DepthStream = new FakeStream();
      stream.headers.set("x-first", "one");
      stream.trailers.set("x-last", "two");
      streams.push(stream);
      runScript(stream, script);
      return script.startsWith("later") ? new Promise((resolve) => setTimeout(() => resolve(stream), 5)) : stream;
    }),
    serverStreaming(service.exportLedgerEntries, (request) => {
      const stream = new FakeStream<typeof HttpBodySchema>();
      const data = Buffer.from(`${request.partyId},${request.assetId},${ExportLedgerEntriesRequestSchema.typeName}`);
      stream.give(new MessageResponse(HttpBodySchema, create(HttpBodySchema, { contentType: "text/csv", data })));
      stream.end();
      return stream;
    }),
  ];
  return { api, streams, hanging };
}

function marketResponse(id: string): MessageResponse<typeof GetMarketResponseSchema> {
  return new MessageResponse(GetMarketResponseSchema, create(GetMarketResponseSchema, { market: { id } }));
}

function failureOf(id: string): Error {
  switch (id) {
    case "missing":
      return new Failure("not_found", 'no market has the id "missing"', { reason: "MARKET_NOT_FOUND" });
    case "invalid":
      return invalidArgument("marketId", 'got "ü 100%\n€"');
    case "away":
      return unavailable("the database cannot be reached", "DATABASE_AWAY", 1500);
    case "huge":
      return invalidArgument("marketId", `got "${"z".repeat(100_000)}"`);
    case "malformed":
      return invalidArgument("marketId", "got half a pair: \ud800");
    default:
      return new TypeError("secret internals");
  }
}

function runScript(stream: DepthStream, script: string): void {
  if (script === "invalid" || script === "missing" || script === "broken") throw failureOf(script);
  if (script.includes("three")) {
    stream.give(depthMessage("a"), depthMessage("b"));
    stream.give(depthMessage("c"));
    stream.end();
  }
  if (script === "empty") stream.end();
  if (script === "fails at once") stream.fail(unavailable("the server is draining", "DRAINING", 1000));
  if (script === "fails later") {
    stream.give(depthMessage("a"));
    stream.fail(unavailable("the server is draining", "DRAINING", 1000));
  }
  if (script === "breaks") {
    stream.take = () => {
      throw new TypeError("secret internals");
    };
  }
}
