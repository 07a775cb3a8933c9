import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  GetLatestMarketDepthResponseSchema,
  GetMarketResponseSchema,
  ListLatestMarketDataResponseSchema,
  ListLedgerEntriesResponseSchema,
  ObserveMarketsDepthUpdatesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { HttpBodySchema } from "../../gen/google/api/httpbody_pb.js";
import type { EncodedResponse } from "../../src/domain/encoded-response.js";
import { Failure } from "../../src/domain/failure.js";
import { type Api, type Call, type ResponseStream, serverStreaming, unary } from "../../src/domain/service.js";
import { MessageResponse } from "../../src/encoding/message-response.js";

/** A stream that a test fills by hand. */
export class TestStream implements ResponseStream {
  readonly headers = new Map<string, string>();
  readonly trailers = new Map<string, string>();
  trailerNames: readonly string[] = [];
  ended = false;
  failure: Failure | undefined;
  closed = false;
  takes = 0;
  #pending: EncodedResponse[] = [];
  #listener: () => void = () => {};

  take(): readonly EncodedResponse[] {
    this.takes++;
    const taken = this.#pending;
    this.#pending = [];
    return taken;
  }

  onReady(listener: () => void): void {
    this.#listener = listener;
  }

  close(): void {
    this.closed = true;
  }

  give(...responses: EncodedResponse[]): void {
    this.#pending.push(...responses);
    this.#listener();
  }

  end(): void {
    this.ended = true;
    this.#listener();
  }

  fail(failure: Failure): void {
    this.failure = failure;
    this.ended = true;
    this.#listener();
  }
}

/** A response of the depth stream. */
export function depthUpdate(sequenceNumber: bigint, height = sequenceNumber): EncodedResponse {
  const update = [{ marketId: "m", sequenceNumber }];
  const message = create(ObserveMarketsDepthUpdatesResponseSchema, { update });
  return new MessageResponse(ObserveMarketsDepthUpdatesResponseSchema, message, { eventId: String(height) });
}

/** A piece of a file. */
export function piece(init: MessageInitShape<typeof HttpBodySchema>): EncodedResponse {
  return new MessageResponse(HttpBodySchema, create(HttpBodySchema, init));
}

/** The details of one `google.rpc` type in an error body. */
export function rpcErrorDetails(body: { readonly details: readonly { "@type": string }[] }, type: string): unknown[] {
  return body.details.filter((detail) => detail["@type"] === `type.googleapis.com/google.rpc.${type}`);
}

/** What a test looks into: the requests that arrived, and the streams that were opened. */
export interface FakeService {
  readonly api: Api;
  readonly requests: unknown[];
  readonly calls: Call[];
  readonly streams: TestStream[];
  /** Called by each stream as it opens, before its reader gets it. */
  onOpen: (stream: TestStream) => void;
  /** Thrown instead of opening a stream. */
  refusal: Failure | undefined;
}

const market = create(GetMarketResponseSchema, { market: { id: "m" } });
const depth = create(GetLatestMarketDepthResponseSchema, {
  marketId: "m",
  sequenceNumber: 18446744073709551615n,
  buy: Array.from({ length: 40 }, (_, i) => ({ price: String(1000 - i), numberOfOrders: 1n, volume: 5n })),
});

const large = new MessageResponse(
  GetMarketResponseSchema,
  create(GetMarketResponseSchema, { market: { id: "x".repeat(20_000_000) } }),
);

/** Methods without a market behind them. Market ids choose what happens. */
export function fakeService(): FakeService {
  const depthResponse = new MessageResponse(GetLatestMarketDepthResponseSchema, depth, { version: "7-depth" });
  const marketResponse = new MessageResponse(GetMarketResponseSchema, market, { version: "7" });
  const service: FakeService = { api: [], requests: [], calls: [], streams: [], onOpen: () => {}, refusal: undefined };
  const methods = TradingDataService.method;
  const open = (request: unknown, call: Call): TestStream => {
    service.requests.push(request);
    service.calls.push(call);
    if (service.refusal !== undefined) throw service.refusal;
    const stream = new TestStream();
    service.streams.push(stream);
    service.onOpen(stream);
    return stream;
  };
  const api: Api = [
    unary(methods.getMarket, (request, call) => {
      service.requests.push(request);
      service.calls.push(call);
      return byMarketId(request.marketId, marketResponse);
    }),
    unary(methods.getLatestMarketDepth, (request) => {
      service.requests.push(request);
      return depthResponse;
    }),
    unary(methods.listLatestMarketData, (request) => {
      service.requests.push(request);
      return new MessageResponse(ListLatestMarketDataResponseSchema, create(ListLatestMarketDataResponseSchema));
    }),
    unary(methods.listLedgerEntries, async (request) => {
      service.requests.push(request);
      const parties = request.filter?.toAccountFilter?.partyIds ?? [];
      const edges = parties.map((toAccountPartyId) => ({ node: { toAccountPartyId } }));
      return new MessageResponse(
        ListLedgerEntriesResponseSchema,
        create(ListLedgerEntriesResponseSchema, { ledgerEntries: { edges } }),
      );
    }),
    serverStreaming(methods.observeMarketsDepthUpdates, open),
    serverStreaming(methods.exportLedgerEntries, open),
  ];
  return Object.assign(service, { api });
}

function byMarketId<T>(id: string, response: T): T | Promise<T> {
  switch (id) {
    case "unknown":
      throw new Failure("not_found", "market unknown", { reason: "UNKNOWN_MARKET" });
    case "broken":
      throw new TypeError("SELECT secret FROM mysql.user");
    case "broken later":
      return Promise.reject(new TypeError("SELECT secret FROM mysql.user"));
    case "later":
      return Promise.resolve(response);
    case "never":
      return new Promise<T>(() => {});
    case "large":
      return large as T;
    case "limited":
      throw new Failure("resource_exhausted", "too fast", { reason: "RATE", retryAfterMs: 1500 });
    case "away":
      throw new Failure("unavailable", "database away", { reason: "DATABASE_UNAVAILABLE", retryAfterMs: 2000 });
    default:
      return response;
  }
}
