import { once } from "node:events";
import { get } from "node:http";
import { fromBinary, fromJson, type JsonValue, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { Client, credentials } from "@grpc/grpc-js";
import { WebSocket } from "ws";
import {
  ObserveMarketsDepthUpdatesRequestSchema,
  ObserveMarketsDepthUpdatesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";

/** A message of the depth stream. */
export type Message = MessageShape<typeof ObserveMarketsDepthUpdatesResponseSchema>;

/** Reads a stream of these markets, waiting for `taken` after each message; stops when `signal` does. */
export type ProtocolClient = (
  marketIds: string[],
  taken: (message: Message) => Promise<void>,
  signal: AbortSignal,
) => Promise<void>;

const path = "/api/v2/stream/markets/depth/updates";

function streamUrl(url: string, marketIds: string[]): string {
  return `${url}${path}?${marketIds.map((id) => `marketIds=${id}`).join("&")}`;
}

function fromResult(text: string): Message {
  const { result } = JSON.parse(text) as { result: JsonValue };
  return fromJson(ObserveMarketsDepthUpdatesResponseSchema, result);
}

function lines(url: string, accept: string, prefix: string): ProtocolClient {
  return async (marketIds, taken, signal) => {
    const request = get(streamUrl(url, marketIds), { headers: { accept }, signal });
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

function connect(transport: Transport): ProtocolClient {
  return async (marketIds, taken, signal) => {
    try {
      const client = createClient(TradingDataService, transport);
      for await (const message of client.observeMarketsDepthUpdates({ marketIds }, { signal })) await taken(message);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  };
}

const grpc =
  (url: string): ProtocolClient =>
  async (marketIds, taken, signal) => {
    const client = new Client(new URL(url).host, credentials.createInsecure());
    const call = client.makeServerStreamRequest(
      "/datanode.api.v2.TradingDataService/ObserveMarketsDepthUpdates",
      (request: Uint8Array) => Buffer.from(request),
      (bytes: Buffer) => fromBinary(ObserveMarketsDepthUpdatesResponseSchema, bytes),
      toBinary(
        ObserveMarketsDepthUpdatesRequestSchema,
        fromJson(ObserveMarketsDepthUpdatesRequestSchema, { marketIds }),
      ),
    );
    // The iteration tells of the first one; a cancelled call may have more to say when it is over.
    call.on("error", () => {});
    signal.addEventListener("abort", () => call.cancel());
    try {
      for await (const message of call) await taken(message as Message);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      client.close();
    }
  };

const webSocket =
  (url: string): ProtocolClient =>
  async (marketIds, taken, signal) => {
    const socket = new WebSocket(streamUrl(url, marketIds).replace("http", "ws"));
    signal.addEventListener("abort", () => socket.terminate());
    let problem: Error | undefined;
    socket.on("error", (error) => {
      problem ??= error;
    });
    let work = Promise.resolve();
    socket.on("message", (data) => {
      socket.pause();
      work = work.then(() => taken(fromResult(String(data)))).then(() => socket.resume());
      work.catch(() => socket.terminate());
    });
    await new Promise((resolve) => socket.once("close", resolve));
    await work;
    if (problem !== undefined && !signal.aborted) throw problem;
  };

/** Every way to read the depth stream, by name, to the service at this URL. */
export const streamClients: Readonly<Record<string, (url: string) => ProtocolClient>> = {
  gRPC: grpc,
  "gRPC by connect-node": (baseUrl) => connect(createGrpcTransport({ baseUrl })),
  "gRPC-Web": (baseUrl) => connect(createGrpcWebTransport({ baseUrl, httpVersion: "1.1" })),
  "Connect with JSON": (baseUrl) =>
    connect(createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: false })),
  "JSON lines": (url) => lines(url, "application/json", ""),
  "server-sent events": (url) => lines(url, "text/event-stream", "data: "),
  WebSocket: webSocket,
};
