import { setTimeout as sleep } from "node:timers/promises";
import { Child } from "./child.js";
import { nowMs, type ReaderProtocol } from "./light-reader.js";
import type { ReadOrder, ReadReply } from "./read.js";
import type { Usage } from "./service.js";

/** How often the service looks for new blocks: what `marketd serve` has by default. */
export const pollIntervalMs = 25;

/** Where blocks come from. */
export interface BlockSource {
  /** Of the database that the service follows. */
  readonly url: string;
  /** Sends blocks up to one that changes a book. Gives when the delay of that one begins, by `nowMs`. */
  block(): Promise<number>;
  /** What the last of so many streams may take at most. */
  aimMs(streams: number): number;
}

/** Readers of one service. */
export interface ReaderGroup {
  readonly protocol: ReaderProtocol;
  readonly connections: number;
  readonly streamsPerConnection: number;
}

/** What a group of readers measured. Times in milliseconds. */
export interface Delays extends ReaderGroup {
  readonly streams: number;
  /** From the beginning of the delay to the receipt, over all blocks and streams. */
  readonly median: number;
  readonly p99: number;
  /** Until the last stream had it, over the blocks. */
  readonly lastMedian: number;
  readonly lastP99: number;
  readonly lastWorst: number;
  readonly aim: number;
  /** Blocks of which the last stream had it within the aim. */
  readonly within: number;
  readonly blocks: number;
  /** What the service's process grew by for each stream, garbage collected. */
  readonly residentBytesPerStream: number;
  readonly heapBytesPerStream: number;
}

const restMs = 120;
const arrivalMaxMs = 10_000;

/** Starts the service and a group of readers, and times a number of blocks. */
export async function measureDelays(network: BlockSource, group: ReaderGroup, blocks: number): Promise<Delays> {
  const [service, { port }] = await Child.start<object, Usage, { port: number }>("service", [network.url], undefined, [
    "--expose-gc",
  ]);
  const [readers] = await Child.start<ReadOrder, ReadReply, object>("read", [], undefined);
  try {
    await network.block();
    const before = await service.ask({});
    await readers.ask({ kind: "open", port, ...group });
    await sleep(1_000);
    const after = await service.ask({});
    const streams = group.connections * group.streamsPerConnection;
    const all: number[] = [];
    const lasts: number[] = [];
    for (let block = 0; block < blocks; block++) {
      const delays = await timeBlock(network, readers, streams);
      for (const delay of delays) all.push(delay);
      lasts.push(delays.reduce((a, b) => Math.max(a, b), 0));
    }
    const aim = network.aimMs(streams);
    return {
      ...group,
      streams,
      median: quantile(all, 0.5),
      p99: quantile(all, 0.99),
      lastMedian: quantile(lasts, 0.5),
      lastP99: quantile(lasts, 0.99),
      lastWorst: quantile(lasts, 1),
      aim,
      within: lasts.filter((last) => last <= aim).length,
      blocks,
      residentBytesPerStream: (after.residentBytes - before.residentBytes) / streams,
      heapBytesPerStream: (after.heapBytes - before.heapBytes) / streams,
    };
  } finally {
    readers.stop();
    service.stop();
  }
}

async function timeBlock(
  network: BlockSource,
  readers: Child<ReadOrder, ReadReply>,
  streams: number,
): Promise<number[]> {
  // At any point of the service's interval.
  await sleep(restMs + Math.random() * 2 * pollIntervalMs);
  await readers.ask({ kind: "mark" });
  const startedAt = await network.block();
  const until = nowMs() + arrivalMaxMs;
  // Asked while the block is on its way, the readers would be slower.
  await sleep(pollIntervalMs + streams / 40 + 20);
  for (;;) {
    const { receivedAt, lost } = await readers.ask({ kind: "receipts" });
    if (lost > 0) throw new Error(`${lost} connections were lost`);
    if (receivedAt.length === streams) return receivedAt.map((at) => at - startedAt);
    if (nowMs() > until) throw new Error(`${streams - receivedAt.length} of ${streams} streams did not get a block`);
    await sleep(20);
  }
}

function quantile(numbers: readonly number[], part: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}
