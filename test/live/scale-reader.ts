import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { fromBinary, fromJsonString, type MessageShape } from "@bufbuild/protobuf";
import { ObserveMarketsDepthUpdatesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { DepthBook } from "../../src/domain/depth-book.js";

type Message = MessageShape<typeof ObserveMarketsDepthUpdatesResponseSchema>;

/** What readers of the same bytes make of them, once. */
const decoded = new Map<string, Message>();
const decodedMax = 2_000;

function decode(bytes: Buffer, make: (bytes: Buffer) => Message): Message {
  const key = bytes.toString("latin1");
  let message = decoded.get(key);
  if (message === undefined) {
    message = make(bytes);
    if (decoded.size >= decodedMax) decoded.clear();
    decoded.set(key, message);
  }
  return message;
}

/** Where a stream is, and how its messages are cut. */
interface ProtocolClient {
  readonly headers: Record<string, string>;
  readonly body: Buffer | undefined;
  /** The length of the message that the bytes begin with, with what is around it; 0: it is not all there. */
  messageLength(bytes: Buffer): number;
  message(bytes: Buffer): Message;
}

const grpcHeadBytes = 5;

const clients = {
  grpc: {
    headers: {
      ":method": "POST",
      ":path": "/datanode.api.v2.TradingDataService/ObserveMarketsDepthUpdates",
      "content-type": "application/grpc+proto",
      te: "trailers",
    },
    body: Buffer.alloc(grpcHeadBytes),
    messageLength: (bytes) => {
      const length = bytes.length < grpcHeadBytes ? 0 : grpcHeadBytes + bytes.readUInt32BE(1);
      return bytes.length < length ? 0 : length;
    },
    message: (bytes) => fromBinary(ObserveMarketsDepthUpdatesResponseSchema, bytes.subarray(grpcHeadBytes)),
  },
  lines: {
    headers: { ":path": "/api/v2/stream/markets/depth/updates" },
    body: undefined,
    messageLength: (bytes) => bytes.indexOf("\n") + 1,
    message: (bytes) =>
      fromJsonString(
        ObserveMarketsDepthUpdatesResponseSchema,
        JSON.stringify((JSON.parse(bytes.toString()) as { result: object }).result),
      ),
  },
} satisfies Record<string, ProtocolClient>;

/** How a stream is read. */
export type ScaleClient = keyof typeof clients;

/** One of many readers of the depth stream, on an HTTP/2 connection of its own with windows of 64 KB, which can stall. */
export class ScaleReader {
  readonly books = new Map<string, DepthBook>();
  messages = 0;
  /** Undefined: none. */
  problem: string | undefined;
  readonly #client: ProtocolClient;
  readonly #session: ClientHttp2Session;
  readonly #stream: ClientHttp2Stream;
  #rest: Buffer = Buffer.alloc(0);

  constructor(url: string, client: ScaleClient) {
    this.#client = clients[client];
    this.#session = connect(url);
    this.#session.on("error", (error) => this.#fail(error.message));
    this.#stream = this.#session.request(this.#client.headers);
    this.#stream.on("data", (chunk: Buffer) => this.#take(chunk));
    this.#stream.on("error", (error) => this.#fail(error.message));
    this.#stream.on("close", () => this.#fail("the stream has ended"));
    this.#stream.end(this.#client.body);
  }

  /** Stops reading: the windows fill, and nothing more is taken. */
  stall(): void {
    this.#stream.pause();
  }

  goOn(): void {
    this.#stream.resume();
  }

  /** The sequence number of the newest update of any market. */
  get newest(): bigint {
    let newest = 0n;
    for (const { sequenceNumber = 0n } of this.books.values()) if (sequenceNumber > newest) newest = sequenceNumber;
    return newest;
  }

  leave(): void {
    this.#stream.removeAllListeners("close");
    this.#session.destroy();
  }

  #fail(problem: string): void {
    this.problem ??= problem;
  }

  #take(chunk: Buffer): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    for (;;) {
      const length = this.#client.messageLength(this.#rest);
      if (length === 0) return;
      const bytes = this.#rest.subarray(0, length);
      this.#rest = this.#rest.subarray(length);
      this.messages++;
      this.#fold(decode(bytes, (whole) => this.#client.message(whole)));
    }
  }

  #fold(message: Message): void {
    for (const update of message.update) {
      const { marketId, previousSequenceNumber } = update;
      const book = this.books.get(marketId) ?? new DepthBook(marketId);
      this.books.set(marketId, book);
      const held = book.sequenceNumber ?? 0n;
      // 0: a whole book again, where more levels vanished meanwhile than the service remembers.
      if (previousSequenceNumber !== held && previousSequenceNumber !== 0n)
        this.#fail(`${marketId}: previous ${previousSequenceNumber}, held ${held}`);
      const outcome = book.apply(update);
      if (outcome !== "applied") this.#fail(`${marketId}: ${outcome} at ${update.sequenceNumber}`);
    }
  }
}
