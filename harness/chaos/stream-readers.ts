import { setTimeout as delay } from "node:timers/promises";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { WebSocket } from "ws";
import {
  type ObserveMarketsDepthUpdatesResponse,
  ObserveMarketsDepthUpdatesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { CallFailure, failureFromJson, failureFromSocket } from "./call-failure.js";
import { HttpClient } from "./http-client.js";
import { StreamBooks } from "./judge.js";
import type { Readers } from "./reader.js";
import { linesOf, rpcClient } from "./rpc-client.js";
import type { ClientState } from "./scoreboard.js";

const path = "/api/v2/stream/markets/depth/updates";
const openMs = 2_500;
/** A stream says something every second; one that is silent for so long is dead. */
const silenceMaxMs = 4_000;
const reconnectMs = 100;
/** How long the slow reader thinks about a message. */
const slowMs = 400;
/** What it buffers may take a minute to read. */
export const slowStreamName = "REST stream, slow";
/** How often a reader is asked whether it holds all that was published. */
const checkMs = 150;

type Open = (signal: AbortSignal) => AsyncIterable<ObserveMarketsDepthUpdatesResponse>;

/** A reader of the depth stream in each of its forms, and one that is slow. */
export function startStreamReaders(readers: Readers): Promise<void>[] {
  const { port } = readers;
  const overRpc = (protocol: "REST" | "Connect" | "gRPC-Web" | "gRPC"): Open => {
    const client = rpcClient(protocol, port, false);
    return (signal) => client.stream(TradingDataService.method.observeMarketsDepthUpdates, {}, openMs, signal);
  };
  return [
    follow(readers, "REST stream", overRpc("REST"), 0),
    follow(readers, slowStreamName, overRpc("REST"), slowMs),
    follow(readers, "event source", (signal) => eventSource(port, signal), 0),
    follow(readers, "WebSocket", (signal) => webSocket(port, signal), 0),
    follow(readers, "Connect stream", overRpc("Connect"), 0),
    follow(readers, "gRPC-Web stream", overRpc("gRPC-Web"), 0),
    follow(readers, "gRPC stream", overRpc("gRPC"), 0),
  ];
}

/** Reads a stream as long as it lasts, opens it again when it ends, and holds every update against the judge. */
async function follow(readers: Readers, name: string, open: Open, slow: number): Promise<void> {
  const { signal, scoreboard, judge } = readers;
  const client = scoreboard.client(name, "stream");
  while (!signal.aborted) {
    const startedAt = performance.now();
    const stop = new AbortController();
    const watch = new SilenceWatch(stop);
    try {
      client.openSince = startedAt;
      await readToEnd(readers, client, open(AbortSignal.any([signal, stop.signal])), watch, slow);
    } catch (error) {
      const failure = watch.isSilent ? new CallFailure("late", "the stream is silent") : failureFromSocket(error);
      if (failure.saysRedefined) judge.toldOfDecimals.add(name);
      // A slow reader may hear long afterwards why its stream was ended.
      const since = slow > 0 ? startedAt : Math.max(startedAt, watch.heardAt);
      if (!signal.aborted) scoreboard.failure(client, since, failure);
    } finally {
      watch.end();
      stop.abort();
      client.openSince = undefined;
    }
    await delay(reconnectMs);
  }
}

async function readToEnd(
  { judge, scoreboard, signal }: Readers,
  client: ClientState,
  messages: AsyncIterable<ObserveMarketsDepthUpdatesResponse>,
  watch: SilenceWatch,
  slow: number,
): Promise<void> {
  const books = new StreamBooks(judge);
  const isFresh = (): void => {
    const lacking = books.lacks(judge.publishedBy(performance.now()));
    if (lacking === undefined) scoreboard.fresh(client);
    else scoreboard.behind(client, lacking);
  };
  // What a slow reader has not taken yet waits in the network, too: it may be far behind, but must be right.
  const freshness = slow > 0 ? undefined : setInterval(isFresh, checkMs);
  try {
    for await (const message of messages) {
      watch.heard();
      client.openSince = undefined;
      const problem = message.update.map((update) => books.apply(update)).find((text) => text !== undefined);
      if (problem !== undefined) {
        if (!signal.aborted) scoreboard.wrong(client, problem);
        return;
      }
      scoreboard.delivered();
      if (slow > 0) {
        scoreboard.fresh(client);
        await delay(slow);
      }
    }
  } finally {
    clearInterval(freshness);
  }
  throw new CallFailure("malformed", "the stream ended as if it had an end");
}

/** Hangs up on a stream that says nothing. */
export class SilenceWatch {
  isSilent = false;
  heardAt = 0;
  #timer: NodeJS.Timeout;

  constructor(private readonly stop: AbortController) {
    this.#timer = this.#start();
  }

  heard(): void {
    this.heardAt = performance.now();
    clearTimeout(this.#timer);
    this.#timer = this.#start();
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #start(): NodeJS.Timeout {
    return setTimeout(() => {
      this.isSilent = true;
      this.stop.abort();
    }, silenceMaxMs);
  }
}

async function* eventSource(port: number, signal: AbortSignal): AsyncGenerator<ObserveMarketsDepthUpdatesResponse> {
  const http = new HttpClient(port, false);
  const response = await http.open({ path, headers: { accept: "text/event-stream" }, deadlineMs: openMs }, signal);
  let isError = false;
  for await (const line of linesOf(response, response.statusCode ?? 0)) {
    if (line === "event: error") isError = true;
    if (!line.startsWith("data:")) continue;
    const { result, error } = JSON.parse(line.slice("data:".length)) as { result?: JsonValue; error?: unknown };
    if (isError || result === undefined) throw failureFromJson(error, "an error event");
    yield fromJson(ObserveMarketsDepthUpdatesResponseSchema, result);
  }
  throw new CallFailure("broken", "the event source ended without an error event");
}

async function* webSocket(port: number, signal: AbortSignal): AsyncGenerator<ObserveMarketsDepthUpdatesResponse> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { handshakeTimeout: openMs });
  const texts: string[] = [];
  let wake = (): void => {};
  let failure: CallFailure | undefined;
  socket.on("message", (data) => {
    texts.push(String(data));
    wake();
  });
  socket.on("error", (error) => {
    const isLate = /handshake has timed out/.test(error.message);
    failure ??= isLate ? new CallFailure("late", error.message) : failureFromSocket(error);
    wake();
  });
  socket.on("close", (code) => {
    failure ??= new CallFailure("broken", `closed with ${code}`);
    wake();
  });
  const hangUp = (): void => socket.terminate();
  signal.addEventListener("abort", hangUp, { once: true });
  try {
    while (true) {
      const text = texts.shift();
      if (text !== undefined) {
        const { result, error } = JSON.parse(text) as { result?: JsonValue; error?: unknown };
        if (result === undefined) throw failureFromJson(error, "an error message");
        yield fromJson(ObserveMarketsDepthUpdatesResponseSchema, result);
      } else if (failure !== undefined) throw failure;
      else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  } finally {
    signal.removeEventListener("abort", hangUp);
    socket.terminate();
  }
}
