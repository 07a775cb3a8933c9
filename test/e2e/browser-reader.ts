// Runs in a browser: reads the depth stream through every client that browsers have, and keeps the books.
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";
import {
  type ObserveMarketsDepthUpdatesResponse,
  ObserveMarketsDepthUpdatesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { DepthBook, type DepthLevel } from "../../src/domain/depth-book.js";
import type { BrowserClient, ClientReport, ReportedLevel } from "./browser-clients.js";

const streamPath = "/api/v2/stream/markets/depth/updates";

/** The books that one client made. */
class Reader {
  readonly #books = new Map<string, DepthBook>();
  #messages = 0;
  #problem = "";

  take(message: ObserveMarketsDepthUpdatesResponse): void {
    this.#messages += 1;
    for (const update of message.update) {
      const book = this.#books.get(update.marketId) ?? new DepthBook(update.marketId);
      this.#books.set(update.marketId, book);
      if (book.apply(update) === "gap") this.fail(`a gap before ${update.sequenceNumber} of ${update.marketId}`);
    }
  }

  fail(problem: string): void {
    this.#problem = problem;
  }

  report(): ClientReport {
    const books = [...this.#books].map(([marketId, book]) => ({
      marketId,
      sequenceNumber: String(book.sequenceNumber),
      buy: book.buy.map(reported),
      sell: book.sell.map(reported),
    }));
    return { messages: this.#messages, problem: this.#problem, books };
  }
}

function reported(level: DepthLevel): ReportedLevel {
  return { price: level.price, volume: String(level.volume), numberOfOrders: String(level.numberOfOrders) };
}

function takeJson(reader: Reader, text: string): void {
  const { result, error } = JSON.parse(text) as { result?: JsonValue; error?: { message: string } };
  if (error !== undefined) reader.fail(error.message);
  if (result !== undefined) reader.take(fromJson(ObserveMarketsDepthUpdatesResponseSchema, result));
}

async function readOver(transport: Transport, reader: Reader): Promise<void> {
  for await (const message of createClient(TradingDataService, transport).observeMarketsDepthUpdates({})) {
    reader.take(message);
  }
}

/** Some of what browsers have and the types of Node lack. */
declare const EventSource: new (
  url: string,
) => { addEventListener(type: "message" | "error", listener: (event: { readonly data?: string }) => void): void };

const clients: Readonly<Record<BrowserClient, (baseUrl: string, reader: Reader) => void>> = {
  connect: (baseUrl, reader) => {
    readOver(createConnectTransport({ baseUrl }), reader).catch((error) => reader.fail(String(error)));
  },
  "connect binary": (baseUrl, reader) => {
    const transport = createConnectTransport({ baseUrl, useBinaryFormat: true });
    readOver(transport, reader).catch((error) => reader.fail(String(error)));
  },
  "grpc-web": (baseUrl, reader) => {
    readOver(createGrpcWebTransport({ baseUrl }), reader).catch((error) => reader.fail(String(error)));
  },
  "event source": (baseUrl, reader) => {
    const source = new EventSource(`${baseUrl}${streamPath}?alt=sse`);
    source.addEventListener("message", ({ data = "" }) => takeJson(reader, data));
    source.addEventListener("error", ({ data }) => reader.fail(data ?? "connection lost"));
  },
  "web socket": (baseUrl, reader) => {
    const socket = new WebSocket(`${baseUrl.replace(/^http/, "ws")}${streamPath}`);
    socket.addEventListener("message", ({ data }) => takeJson(reader, String(data)));
    socket.addEventListener("close", ({ code }) => reader.fail(`closed with ${code}`));
  },
};

const readers = new Map<BrowserClient, Reader>();

/** What the test calls in the page. */
Object.assign(globalThis, {
  openClients(baseUrl: string): void {
    for (const [client, open] of Object.entries(clients)) {
      const reader = new Reader();
      readers.set(client as BrowserClient, reader);
      open(baseUrl, reader);
    }
  },
  reportOf(client: BrowserClient): ClientReport | undefined {
    return readers.get(client)?.report();
  },
});
