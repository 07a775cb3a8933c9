import { setTimeout as delay } from "node:timers/promises";
import {
  type DescMessage,
  type DescMethodServerStreaming,
  fromJson,
  type JsonValue,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { WebSocket } from "ws";
import {
  type ObserveCandleDataResponse,
  type ObserveMarketsDataResponse,
  ObserveMarketsDataResponseSchema,
  type ObserveMarketsDepthUpdatesResponse,
  ObserveMarketsDepthUpdatesResponseSchema,
  type ObserveTradesResponse,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { slowness } from "../support/slowness.js";
import { CallFailure, codes, failureFromJson, failureFromSocket } from "./call-failure.js";
import { HttpClient } from "./http-client.js";
import { type Store, StreamBooks } from "./judge.js";
import { candleIdOf, candlesOf } from "./ledger-calls.js";
import type { Readers } from "./reader.js";
import { heightOf, linesOf, type Protocol, rpcClient } from "./rpc-client.js";
import type { ClientState } from "./scoreboard.js";
import { CandleStreamJudge, DataStreamJudge, type StreamJudge, TradeStreamJudge } from "./stream-judges.js";
import { marketOf, methods, partyOf } from "./unary-call.js";

const depthPath = "/api/v2/stream/markets/depth/updates";
const dataPath = "/api/v2/stream/markets/data";
/** Until a stream has its headers. A service that was killed starts meanwhile. */
const openMs = Math.round(2_500 * slowness);
/** A stream says something every second; one that is silent for so long is dead. */
const silenceMaxMs = 4_000;
const reconnectMs = 100;
/** How long the slow reader thinks about a message. */
const slowMs = 400;
/** Readers of depth that are not slow: what is buffered for a slow one may take a minute to read. */
export const promptDepthStreams = [
  "REST stream",
  "event source",
  "WebSocket",
  "Connect stream",
  "gRPC-Web stream",
  "gRPC stream",
] as const;
/** How often a reader is asked whether it holds all that was published. */
const checkMs = 150;

/** Opens a stream. `opened` hears of the block that its headers name. */
type Open<Message> = (signal: AbortSignal, opened: (height: number | undefined) => void) => AsyncIterable<Message>;

/** One stream, as a reader opens it. */
interface StreamCall<Message> {
  readonly open: Open<Message>;
  readonly judge: StreamJudge<Message>;
  /** The market that it is of, if it names one. */
  readonly marketId?: string | undefined;
}

/** Readers of the stream of depth in each of its forms, and of the other streams in some; and some that are slow. */
export function startStreamReaders(readers: Readers): Promise<void>[] {
  const start = [startDepthReaders, startTradeReaders, startCandleReaders, startDataReaders];
  return start.flatMap((each) => each(readers));
}

function overRpc<I extends DescMessage, O extends DescMessage>(
  { port }: Readers,
  protocol: Protocol,
  method: DescMethodServerStreaming<I, O>,
) {
  const client = rpcClient(protocol, port, false);
  return (request: MessageInitShape<I>): Open<MessageShape<O>> =>
    (signal, opened) =>
      client.stream(method, request, openMs, signal, opened);
}

function startDepthReaders(readers: Readers): Promise<void>[] {
  const { port, judge } = readers;
  const overAny = (protocol: Protocol) => overRpc(readers, protocol, methods.observeMarketsDepthUpdates)({});
  const schema = ObserveMarketsDepthUpdatesResponseSchema;
  const ways: Record<(typeof promptDepthStreams)[number], Open<ObserveMarketsDepthUpdatesResponse>> = {
    "REST stream": overAny("REST"),
    "event source": (signal, opened) => eventSource(port, depthPath, schema, signal, opened),
    WebSocket: (signal) => webSocket(port, signal),
    "Connect stream": overAny("Connect"),
    "gRPC-Web stream": overAny("gRPC-Web"),
    "gRPC stream": overAny("gRPC"),
  };
  const start = (name: string, open: Open<ObserveMarketsDepthUpdatesResponse>, slow: number) =>
    follow(readers, name, () => ({ open, judge: new StreamBooks(judge) }), slow);
  const prompt = promptDepthStreams.map((name) => start(name, ways[name], 0));
  return [...prompt, start("REST stream, slow", overAny("REST"), slowMs)];
}

/** Of all trades, of a market or of a party. */
function startTradeReaders(readers: Readers): Promise<void>[] {
  const { judge, random } = readers;
  const ways: readonly [string, Protocol, number][] = [
    ["REST trades", "REST", 0],
    ["REST trades, slow", "REST", slowMs],
    ["gRPC-Web trades", "gRPC-Web", 0],
    ["gRPC trades", "gRPC", 0],
  ];
  return ways.map(([name, protocol, slow]) => {
    const open = overRpc(readers, protocol, methods.observeTrades);
    const call = (): StreamCall<ObserveTradesResponse> => {
      const way = random.next();
      if (way < 0.5) return { open: open({}), judge: new TradeStreamJudge(judge, undefined) };
      const party = partyOf(judge, random.next());
      if (way < 0.75) return { open: open({ partyIds: [party] }), judge: new TradeStreamJudge(judge, party) };
      const marketId = marketOf(readers);
      return { open: open({ marketIds: [marketId] }), judge: new TradeStreamJudge(judge, marketId), marketId };
    };
    return follow(readers, name, call, slow);
  });
}

function startCandleReaders(readers: Readers): Promise<void>[] {
  const ways: readonly [string, Protocol, number][] = [
    ["Connect candles", "Connect", 0],
    ["REST candles, slow", "REST", slowMs],
    ["gRPC candles", "gRPC", 0],
  ];
  return ways.map(([name, protocol, slow]) => {
    const open = overRpc(readers, protocol, methods.observeCandleData);
    const call = (): StreamCall<ObserveCandleDataResponse> => {
      const { marketId, interval } = candlesOf(readers);
      const judge = new CandleStreamJudge(readers.judge, marketId, interval);
      return { open: open({ candleId: candleIdOf(marketId, interval) }), judge, marketId };
    };
    return follow(readers, name, call, slow);
  });
}

function startDataReaders(readers: Readers): Promise<void>[] {
  const { port, judge } = readers;
  const schema = ObserveMarketsDataResponseSchema;
  const ways: readonly [string, Open<ObserveMarketsDataResponse>, number][] = [
    ["market data event source", (signal, opened) => eventSource(port, dataPath, schema, signal, opened), 0],
    ["gRPC market data", overRpc(readers, "gRPC", methods.observeMarketsData)({}), 0],
    ["Connect market data, slow", overRpc(readers, "Connect", methods.observeMarketsData)({}), slowMs],
  ];
  return ways.map(([name, open, slow]) =>
    follow(readers, name, () => ({ open, judge: new DataStreamJudge(judge) }), slow),
  );
}

/** Reads a stream as long as it lasts, opens it again when it ends, and holds every message against the judge. */
async function follow<Message>(
  readers: Readers,
  name: string,
  callOf: () => StreamCall<Message>,
  slow: number,
): Promise<void> {
  const { signal, scoreboard, judge } = readers;
  const client = scoreboard.client(name, "stream");
  while (!signal.aborted) {
    const startedAt = performance.now();
    const stop = new AbortController();
    const watch = new SilenceWatch(stop);
    const stores = judge.stores(startedAt);
    const call = callOf();
    try {
      client.openSince = startedAt;
      await readToEnd(readers, client, call, AbortSignal.any([signal, stop.signal]), watch, slow);
    } catch (error) {
      const failure = watch.isSilent ? new CallFailure("late", "the stream is silent") : failureFromSocket(error);
      if (failure.saysRedefined) judge.toldOfDecimals.add(name);
      // A slow reader may hear long afterwards why its stream was ended.
      const since = slow > 0 ? startedAt : Math.max(startedAt, watch.heardAt);
      const isUnknown = isOfUnknownMarket(failure, call.marketId, [...stores, ...judge.stores(startedAt)]);
      if (!signal.aborted && !isUnknown) scoreboard.failure(client, since, failure);
    } finally {
      watch.end();
      stop.abort();
      client.openSince = undefined;
    }
    await delay(reconnectMs);
  }
}

/** NOT_FOUND, of a market that the store may not have had yet. */
function isOfUnknownMarket(failure: CallFailure, marketId: string | undefined, stores: readonly Store[]): boolean {
  if (failure.kind !== "said" || failure.code !== codes.notFound || marketId === undefined) return false;
  return stores.some(({ chain, certain }) => chain.fold.markets.get(marketId)?.definition.at(certain) === undefined);
}

async function readToEnd<Message>(
  { scoreboard, signal }: Readers,
  client: ClientState,
  { open, judge }: StreamCall<Message>,
  streamSignal: AbortSignal,
  watch: SilenceWatch,
  slow: number,
): Promise<void> {
  const isFresh = (): void => {
    const lacking = judge.lacks(performance.now());
    if (lacking === undefined) scoreboard.fresh(client);
    else scoreboard.behind(client, lacking);
  };
  // What a slow reader has not taken yet waits in the network, too: it may be far behind, but must be right.
  const freshness = slow > 0 ? undefined : setInterval(isFresh, checkMs);
  try {
    for await (const message of open(streamSignal, (height) => judge.opened?.(height))) {
      watch.heard();
      client.openSince = undefined;
      const problem = judge.apply(message);
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

async function* eventSource<Desc extends DescMessage>(
  port: number,
  path: string,
  schema: Desc,
  signal: AbortSignal,
  opened: (height: number | undefined) => void,
): AsyncGenerator<MessageShape<Desc>> {
  const http = new HttpClient(port, false);
  const response = await http.open({ path, headers: { accept: "text/event-stream" }, deadlineMs: openMs }, signal);
  opened(heightOf(response.headers));
  let isError = false;
  for await (const line of linesOf(response, response.statusCode ?? 0)) {
    if (line === "event: error") isError = true;
    if (!line.startsWith("data:")) continue;
    const { result, error } = JSON.parse(line.slice("data:".length)) as { result?: JsonValue; error?: unknown };
    if (isError || result === undefined) throw failureFromJson(error, "an error event");
    yield fromJson(schema, result);
  }
  throw new CallFailure("broken", "the event source ended without an error event");
}

async function* webSocket(port: number, signal: AbortSignal): AsyncGenerator<ObserveMarketsDepthUpdatesResponse> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${depthPath}`, { handshakeTimeout: openMs });
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
