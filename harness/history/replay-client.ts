import { create, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import {
  MarketHistoryService,
  ReplayMarketsDepthRequestSchema,
  ReplayMarketsDepthResponseSchema,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import { CallFailure, failureFromJson } from "../chaos/call-failure.js";
import { HttpClient } from "../chaos/http-client.js";
import { urlOf } from "../chaos/rest-paths.js";
import { linesOf, type Protocol, rpcClient } from "../chaos/rpc-client.js";
import type { ReplayMessage } from "./replayed-books.js";

const openMs = 15_000;

export type ReplayRequest = MessageInitShape<typeof ReplayMarketsDepthRequestSchema>;

/** How a replay is read. */
export const replayProtocols = ["REST", "event source", "Connect", "gRPC-Web", "gRPC"] as const;
export type ReplayProtocol = (typeof replayProtocols)[number];

/** A message, and the bytes that it took where that is known. */
export interface Received<Message> {
  readonly message: Message;
  readonly bytes: number;
}

/** Where and how to read. */
export interface StreamPlace {
  readonly port: number;
  /** An address of 127.0.0.0/8: limits count by address. */
  readonly localAddress: string;
  readonly signal: AbortSignal;
  /** The connection breaks after so many bytes of the response; undefined: it does not. */
  readonly cutAfterBytes?: number | undefined;
  /** Called for an event with an empty `id:`, with which a browser does not come back. */
  readonly forgetId?: () => void;
}

/** The messages of a replay. @throws CallFailure */
export async function* replay(
  protocol: ReplayProtocol,
  request: ReplayRequest,
  place: StreamPlace,
): AsyncGenerator<Received<ReplayMessage>> {
  const method = MarketHistoryService.method.replayMarketsDepth;
  if (protocol === "REST" || protocol === "event source") {
    const path = urlOf(method, create(ReplayMarketsDepthRequestSchema, request));
    if (protocol === "REST") yield* jsonLines<ReplayMessage>(path, place);
    else for await (const { message, bytes } of events<ReplayMessage>(path, place)) yield { message, bytes };
    return;
  }
  const client = rpcClient(protocol satisfies Protocol, place.port, false, place.localAddress);
  try {
    for await (const message of client.stream(method, request, openMs, place.signal)) {
      const json = toJson(ReplayMarketsDepthResponseSchema, message, { alwaysEmitImplicit: true });
      yield { message: json as unknown as ReplayMessage, bytes: 0 };
    }
  } finally {
    client.close();
  }
}

/** The results of a stream of JSON lines. */
async function* jsonLines<Message>(path: string, place: StreamPlace): AsyncGenerator<Received<Message>> {
  const { status, chunks } = await open(path, place, {});
  for await (const line of linesOf(chunks, status)) {
    const { result, error } = JSON.parse(line) as { result?: Message; error?: unknown };
    if (result === undefined) throw failureFromJson(error, "the last line of a stream");
    yield { message: result, bytes: line.length + 1 };
  }
}

/** An event of server-sent events, with the `id:` that a browser would come back with. */
export interface ReceivedEvent<Message> extends Received<Message> {
  readonly id: string | undefined;
}

/** The events of a stream until its end. @param lastEventId of an earlier connection */
export async function* events<Message>(
  path: string,
  place: StreamPlace,
  lastEventId?: string,
): AsyncGenerator<ReceivedEvent<Message>> {
  const resumed = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
  const { status, chunks } = await open(path, place, { accept: "text/event-stream", ...resumed });
  // It throws what the body says.
  if (status !== 200) for await (const _ of linesOf(chunks, status));
  let id: string | undefined;
  let name = "";
  let data = "";
  let bytes = 0;
  for await (const line of everyLine(chunks)) {
    bytes += line.length + 1;
    if (line.startsWith("id:")) id = idIn(line, place);
    else if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data += line.slice(5);
    else if (line === "" && data !== "") {
      const { result, error } = JSON.parse(data) as { result?: Message; error?: unknown };
      if (name === "error" || result === undefined) throw failureFromJson(error, "an error event");
      yield { message: result, id, bytes };
      [id, name, data, bytes] = [undefined, "", "", 0];
    }
  }
}

function idIn(line: string, { forgetId }: StreamPlace): string {
  const id = line.slice(3).trim();
  if (id === "") forgetId?.();
  return id;
}

async function open(path: string, place: StreamPlace, headers: Record<string, string>) {
  const client = new HttpClient(place.port, false, place.localAddress);
  const stop = new AbortController();
  const signal = AbortSignal.any([place.signal, stop.signal]);
  const response = await client.open({ path, headers, deadlineMs: openMs }, signal);
  const chunks = cut(response, place.cutAfterBytes ?? Number.POSITIVE_INFINITY, () => stop.abort());
  return { status: response.statusCode ?? 0, chunks };
}

/** Chunks up to so many bytes. */
async function* cut(chunks: AsyncIterable<Buffer>, bytesMax: number, hangUp: () => void): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of chunks) {
    if (bytes + chunk.length > bytesMax) {
      yield chunk.subarray(0, bytesMax - bytes);
      hangUp();
      throw new CallFailure("broken", "cut by the harness");
    }
    bytes += chunk.length;
    yield chunk;
  }
}

async function* everyLine(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let held = "";
  for await (const chunk of chunks) {
    const lines = (held + chunk.toString("latin1")).split("\n");
    held = lines.pop() ?? "";
    yield* lines;
  }
}
