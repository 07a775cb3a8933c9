import { appendFileSync, closeSync, openSync, readSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { BusEventSchema } from "../../gen/vega/events/v1/events_pb.js";
import { Network, type NetworkOptions } from "../../src/simulator/network.js";
import { KeptPast } from "../history/kept-past.js";
import { Oracle } from "../history/oracle.js";
import { framesOf, recordingOf } from "../support/frames.js";
import { Fold } from "./fold.js";

/** Small enough for two busy cores, and with everything in it that the service answers for. */
const networkSize = { markets: 8, parties: 30, ordersPerBlock: 8, entriesPerBlock: 5 } as const;

/** Ids that trades have, those of one time all the same: venues use theirs again. */
const tradeIds = 3;

/** Every block of so many has the time of the block before it. */
const sameTimeEvery = 4;

/** A simulated network: its recording so far, and the judge's fold of it. */
export class Chain {
  readonly fold = new Fold();
  /** The books of every block. */
  readonly past = new KeptPast(new Oracle());
  readonly id: string;
  readonly recording: string;
  readonly #seed: number;
  readonly #network: Network;
  /** Where in the recording each block ends. */
  readonly #ends: number[] = [];
  /** Heights of blocks that were to change a market's decimals. */
  readonly #redefined = new Set<number>();
  #bytes = 0;
  #reader: ((block: Uint8Array) => void) | undefined;

  /** @param directory where the recording goes, as `name` */
  constructor(directory: string, name: string, seed: number) {
    this.#seed = seed;
    const options: NetworkOptions = { ...networkSize, seed };
    this.#network = new Network(options);
    this.id = this.#network.chainId;
    this.recording = join(directory, `${name}.recording`);
    writeFileSync(this.recording, "");
  }

  /** Of the newest block made. */
  get height(): number {
    return this.fold.height;
  }

  /** Makes a block, tells the judge, and gives it to who reads along. */
  advance(timeNs = BigInt(Date.now()) * 1_000_000n + 123_456n): void {
    const height = this.height + 1;
    const before = height % sameTimeEvery === 0 ? this.fold.block(height - 1)?.timeNs : undefined;
    const tradeId = `trade-${Math.floor((height + 1) / sameTimeEvery) % tradeIds}`;
    const block = withTradeId(this.#network.nextBlock(before ?? timeNs), tradeId);
    this.fold.apply(block);
    this.past.oracle.apply(block);
    appendFileSync(this.recording, block);
    this.#bytes += block.length;
    this.#ends.push(this.#bytes);
    this.#reader?.(block);
  }

  /** Has the next block change a market's decimals. */
  redefine(): void {
    this.#redefined.add(this.height + 1);
    this.#network.redefine();
  }

  /** The same network made again up to `height`, in the same bytes; what follows will differ in its times. */
  againUpTo(height: number, directory: string, name: string): Chain {
    const again = new Chain(directory, name, this.#seed);
    while (again.height < height) {
      if (this.#redefined.has(again.height + 1)) again.redefine();
      again.advance(this.fold.block(again.height + 1)?.timeNs);
    }
    return again;
  }

  /** The recording's bytes from the start of the block after `height` to where it ends now, or at the end of `last`. */
  bytesAfter(height: number, last = this.height): Buffer {
    const from = this.#ends[height - 1] ?? 0;
    const to = this.#ends[last - 1] ?? 0;
    const bytes = Buffer.alloc(to - from);
    const file = openSync(this.recording, "r");
    readSync(file, bytes, 0, bytes.length, from);
    closeSync(file);
    return bytes;
  }

  /** Each further block goes to `reader`, in place of the reader before; undefined: to none. */
  readAlong(reader: ((block: Uint8Array) => void) | undefined): void {
    this.#reader = reader;
  }
}

function withTradeId(block: Uint8Array, tradeId: string): Buffer {
  const frames = framesOf(block).map((frame) => {
    const busEvent = fromBinary(BusEventSchema, frame.body);
    if (busEvent.event.case !== "trade") return frame;
    busEvent.event.value.id = tradeId;
    return { ...frame, body: toBinary(BusEventSchema, busEvent) };
  });
  return recordingOf(frames);
}
