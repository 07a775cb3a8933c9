import { createServer } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import type { Writable } from "node:stream";
import type { MessageShape } from "@bufbuild/protobuf";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { Server as GrpcServer, ServerCredentials, type ServerWritableStream } from "@grpc/grpc-js";
import { pino } from "pino";
import {
  type ObserveMarketsDepthUpdatesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { observeMarketsDepthUpdates } from "../../src/api/observe-markets-depth-updates.js";
import type { EncodedResponse, Encoding } from "../../src/domain/encoded-response.js";
import { Hub } from "../../src/live/hub.js";
import { liveLimits } from "../../src/live/limits.js";
import type { Live } from "../../src/live/live.js";
import { LiveState } from "../../src/live/live-state.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { framingOf } from "../../src/transport/call/framing.js";
import { jsonLine } from "../../src/transport/http/encodings.js";
import { startListeningServer } from "../../test/support/listening.js";
import { streamPath } from "./light-reader.js";
import { moved, type SimulatedBlocks } from "./simulated-blocks.js";

/** A server that sends every block to every reader. */
export interface FanOut {
  readonly port: number;
  /** Sends the next block to all. Call it only when all have taken the one before: nothing is then merged. */
  publish(): void;
  /** Whether every reader has taken the last block. */
  settled(): boolean;
}

type Message = MessageShape<typeof ObserveMarketsDepthUpdatesResponseSchema>;

/** So that no block repeats a number when the blocks are gone through again. */
const roundNs = 1_000_000_000_000n;

/** The newest state and its readers, driven through the blocks again and again. */
class Driven {
  readonly state: LiveState;
  readonly hub: Hub;
  readonly #blocks: SimulatedBlocks["blocks"];
  #next = 0;

  constructor({ first, blocks }: SimulatedBlocks) {
    this.#blocks = blocks;
    this.state = new LiveState(first.progress, liveLimits);
    this.state.apply(first);
    this.hub = new Hub(this.state, pino({ level: "silent" }), { messages: 0 });
  }

  /** What the tail does with a snapshot. */
  block(): void {
    const changes = this.#blocks[this.#next % this.#blocks.length];
    if (changes === undefined) throw new Error("there are no blocks");
    const round = BigInt(Math.floor(this.#next / this.#blocks.length));
    this.#next++;
    this.hub.publish(this.state.apply(moved(changes, round * roundNs)));
  }
}

/** All messages of one round, the first of which is sent to new subscribers. */
function prebuilt<T>(blocks: SimulatedBlocks, make: (encoded: EncodedResponse) => T): readonly T[] {
  const driven = new Driven(blocks);
  const subscriber = driven.hub.open(undefined, { clientAddress: "" });
  const made = [0, ...blocks.blocks].map((_, index) => {
    if (index > 0) driven.block();
    const [encoded, ...more] = subscriber.take();
    if (encoded === undefined || more.length > 0) throw new Error("a block makes one message");
    return make(encoded);
  });
  subscriber.close();
  return made;
}

/** Goes through prebuilt messages, round after round, without the first. */
function* rounds<T>(messages: readonly T[]): Generator<T, never> {
  for (;;) yield* messages.slice(1);
}

function bytesIn(blocks: SimulatedBlocks, encoding: Encoding): readonly Buffer[] {
  return prebuilt(blocks, (encoded) => Buffer.from(encoded.encode(encoding)));
}

/** Writes prebuilt messages to streams of any kind. */
class Writers {
  readonly streams = new Set<Writable>();
  readonly #messages: readonly Buffer[];
  readonly #rounds: Generator<Buffer, never>;

  constructor(messages: readonly Buffer[]) {
    this.#messages = messages;
    this.#rounds = rounds(messages);
  }

  add(stream: Writable): void {
    this.streams.add(stream);
    stream.once("close", () => this.streams.delete(stream));
    stream.on("error", () => {});
    stream.write(this.#messages[0]);
  }

  publish(): void {
    const message = this.#rounds.next().value;
    for (const stream of this.streams) stream.write(message);
  }

  settled(): boolean {
    for (const stream of this.streams) if (stream.writableNeedDrain) return false;
    return true;
  }

  on(port: number): FanOut {
    return { port, publish: () => this.publish(), settled: () => this.settled() };
  }
}

/** A reader of the connect-node server: an endless iteration over what comes. */
class Queue {
  readonly #messages: Message[] = [];
  #wake: (() => void) | undefined;
  waiting = false;

  push(message: Message): void {
    this.#messages.push(message);
    this.waiting = false;
    this.#wake?.();
  }

  async *read(first: Message | undefined): AsyncGenerator<Message> {
    if (first !== undefined) yield first;
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined) {
        yield message;
        continue;
      }
      this.waiting = true;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

async function ours(blocks: SimulatedBlocks): Promise<FanOut> {
  const driven = new Driven(blocks);
  const live: Pick<Live, "state" | "observe"> = {
    state: () => driven.state,
    observe: (_ids, options) => driven.hub.open(undefined, options),
  };
  const server = await startListeningServer({
    api: [observeMarketsDepthUpdates({ live, history: { resume: async () => undefined } })],
    log: pino({ level: "warn" }, process.stderr),
    metrics: createMetrics(),
    readiness: () => "ready",
    staleness: () => 0,
    limits: { streamsPerAddressMax: 0 },
  });
  return {
    port: server.address.port,
    publish: () => driven.block(),
    settled: () => driven.hub.counts().lagging === 0,
  };
}

async function rawHttp2(blocks: SimulatedBlocks): Promise<FanOut> {
  const writers = new Writers(bytesIn(blocks, framingOf("proto").encoding));
  const server = createHttp2Server();
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.respond({ ":status": 200, "content-type": "application/grpc+proto" }, { waitForTrailers: true });
    stream.resume();
    writers.add(stream);
  });
  return writers.on(await listening(server));
}

async function grpcJs(blocks: SimulatedBlocks): Promise<FanOut> {
  const writers = new Writers(prebuilt(blocks, (encoded) => Buffer.from(encoded.binary())));
  const same = (bytes: Buffer): Buffer => bytes;
  const { name, parent } = TradingDataService.method.observeMarketsDepthUpdates;
  const definition = {
    path: `/${parent.typeName}/${name}`,
    requestStream: false,
    responseStream: true,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  } as const;
  const server = new GrpcServer();
  server.addService(
    { observe: definition },
    { observe: (call: ServerWritableStream<Buffer, Buffer>) => writers.add(call) },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
      if (error) reject(error);
      else resolve(bound);
    });
  });
  return writers.on(port);
}

async function connectNode(blocks: SimulatedBlocks): Promise<FanOut> {
  const messages = prebuilt(blocks, (encoded) => encoded.message() as Message);
  const next = rounds(messages);
  const queues = new Set<Queue>();
  const adapter = connectNodeAdapter({
    routes: (router) => {
      router.rpc(TradingDataService.method.observeMarketsDepthUpdates, (_request, context) => {
        const queue = new Queue();
        queues.add(queue);
        context.signal.addEventListener("abort", () => queues.delete(queue));
        return queue.read(messages[0]);
      });
    },
  });
  const port = await listening(createHttp2Server(adapter));
  return {
    port,
    publish: () => {
      const message = next.next().value;
      for (const queue of queues) queue.push(message);
    },
    settled: () => [...queues].every((queue) => queue.waiting),
  };
}

async function rawHttp(blocks: SimulatedBlocks): Promise<FanOut> {
  const writers = new Writers(bytesIn(blocks, jsonLine));
  const server = createServer((request, response) => {
    if (request.url !== streamPath) throw new Error(`asked for ${request.url}`);
    response.writeHead(200, { "content-type": "application/json", "cache-control": "no-store" });
    writers.add(response);
  });
  return writers.on(await listening(server));
}

/** Every server that is compared. */
export const fanOuts: Readonly<Record<string, (blocks: SimulatedBlocks) => Promise<FanOut>>> = {
  ours,
  rawHttp2,
  grpcJs,
  connectNode,
  rawHttp,
};

function listening(server: {
  listen(port: number, host: string, then: () => void): unknown;
  address(): unknown;
}): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
}
