import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { VenueBusEventSchema, type VenueEventSchema } from "../../gen/marketd/events/v1/venue_pb.js";

/** What a venue tells: one of the kinds of `marketd.events.v1.VenueEvent`. */
export type VenueEventInit = NonNullable<MessageInitShape<typeof VenueEventSchema>["event"]>;

type BusEventInit = NonNullable<MessageInitShape<typeof VenueBusEventSchema>["event"]>;

/** A recorded line: what was received, and when. */
export interface ReceivedFrame {
  readonly timeNs: bigint;
  /** Of a REST response; otherwise empty. */
  readonly url: string;
  /** The JSON in it, each number as the text that it was: what has passed through a double may have other digits. */
  readonly json: unknown;
}

/** Turns frames of a venue into events. */
export interface Converter {
  /** None for a frame that tells nothing of books or trades. */
  convert(frame: ReceivedFrame): readonly VenueEventInit[];
}

/** Reads `seconds: JSON` and, for a REST response, `URL -> seconds: JSON`; undefined for any other line. */
export function receivedFrame(line: string): ReceivedFrame | undefined {
  const [, url = "", seconds, fraction = "", text] = /^(?:(\S+) -> )?(\d+)(?:\.(\d{1,9}))?: ([[{].*)$/.exec(line) ?? [];
  if (seconds === undefined || text === undefined) return undefined;
  return { timeNs: BigInt(seconds + fraction.padEnd(9, "0")), url, json: exactJson(text) };
}

/** JSON whose numbers become text. */
function exactJson(text: string): unknown {
  const token = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  return JSON.parse(text.replace(token, (found) => (found.startsWith('"') ? found : `"${found}"`)));
}

/** How many decimals a decimal text has. */
export function decimalsOf(text: string): number {
  return text.split(".")[1]?.length ?? 0;
}

/** A checksum that is told as signed decimal text, as its 32 bits. */
export function checksumBits(text: string): number {
  return Number(BigInt.asUintN(32, BigInt(text)));
}

/** Makes the frames of a recording: a block for each group of events, at times that never decrease. */
export class RecordingWriter {
  readonly #chainId: string;
  #sequence = 0n;
  #height = 0n;
  #timeNs = 0n;

  constructor(chainId: string) {
    this.#chainId = chainId;
  }

  block(timeNs: bigint, events: readonly VenueEventInit[]): Buffer {
    this.#height++;
    if (timeNs > this.#timeNs) this.#timeNs = timeNs;
    const height = this.#height;
    const block: BusEventInit[] = [
      { case: "beginBlock", value: { height, timestamp: this.#timeNs } },
      ...events.map((event) => ({ case: "venueEvent" as const, value: { event } })),
      { case: "endBlock", value: { height } },
    ];
    return Buffer.concat(block.map((event, index) => this.#frame(`${height}-${index + 1}`, event)));
  }

  #frame(id: string, event: BusEventInit): Buffer {
    const body = toBinary(VenueBusEventSchema, create(VenueBusEventSchema, { id, chainId: this.#chainId, event }));
    const head = Buffer.alloc(12);
    head.writeUInt32BE(8 + body.length);
    head.writeBigUInt64BE(++this.#sequence, 4);
    return Buffer.concat([head, body]);
  }
}
