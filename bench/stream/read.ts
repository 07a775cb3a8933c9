// Light readers of depth streams, in a process of their own: `read.js [background]`.
import { setPriority } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { subscribe } from "../scale/update-reader.js";
import { heightOf } from "../scale/venue-blocks.js";
import { backgroundPriority, serveOrders } from "./child.js";
import { type LightReader, openReader, type ReaderProtocol, type Subscription } from "./light-reader.js";

/** What this process does. */
export type ReadOrder =
  | {
      readonly kind: "open";
      readonly protocol: ReaderProtocol;
      readonly port: number;
      readonly connections: number;
      readonly streamsPerConnection: number;
      /** Each stream is of one of these, in turn, and reads its updates. Absent: of all, and only counts bytes. */
      readonly markets?: readonly string[];
    }
  | { readonly kind: "bytes" }
  | { readonly kind: "mark" }
  | { readonly kind: "receipts" }
  | {
      readonly kind: "ages";
      /** When each block was written, by `nowMs` and height; 0: before the mark. Every block changes every market. */
      readonly writtenAt: readonly number[];
    };

/** What it says. */
export interface ReadReply {
  /** Body bytes of the stream that has the fewest, and of the one that has the most. */
  readonly least: number;
  readonly most: number;
  /** Connections that have been lost. */
  readonly lost: number;
  /** When each stream last got something since the mark, by `nowMs`. */
  readonly receivedAt: readonly number[];
  readonly ages?: Ages;
}

/** How old updates were when they came, in milliseconds from the write of the oldest block in them. */
export interface Ages {
  readonly median: number;
  readonly p99: number;
  readonly max: number;
  readonly updates: number;
  /** Updates that hold several blocks. */
  readonly merged: number;
}

/** Connections that are opened at once; more would not fit the server's backlog. */
const burst = 100;
const beginMaxMs = 20_000;
/** Connections from one address of this machine. A service takes half of what its descriptors allow from one address. */
const connectionsPerAddress = 5_000;

const readers: LightReader[] = [];
/** Updates since the mark: the blocks that they start after and reach, and when they came. */
const updates = { from: [] as number[], to: [] as number[], at: [] as number[] };
if (process.argv[2] === "background") setPriority(backgroundPriority);

function reply(withReceipts = false): ReadReply {
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  let lost = 0;
  const receivedAt: number[] = [];
  for (const reader of readers) {
    if (!reader.open) lost++;
    for (const bytes of reader.bytes) {
      least = Math.min(least, bytes);
      most = Math.max(most, bytes);
    }
    if (withReceipts) for (const at of reader.receivedAt) if (at > 0) receivedAt.push(at);
  }
  return { least, most, lost, receivedAt };
}

async function open(order: Extract<ReadOrder, { kind: "open" }>): Promise<ReadReply> {
  for (let i = 0; i < order.connections; i++) {
    const address = `127.0.0.${2 + Math.floor(i / connectionsPerAddress)}`;
    readers.push(openReader(order.protocol, order.port, address, order.streamsPerConnection, subscription(order, i)));
    if (i % burst === burst - 1) await untilAllBegan();
  }
  await untilAllBegan();
  return reply();
}

/** That of a connection: its streams are of the next markets. */
function subscription(order: Extract<ReadOrder, { kind: "open" }>, connection: number): Subscription | undefined {
  const { markets, streamsPerConnection: streams } = order;
  if (markets === undefined) return undefined;
  const own = Array.from({ length: streams }, (_, i) => markets[(connection * streams + i) % markets.length] ?? "");
  return subscribe(own, (sequenceNumber, previousSequenceNumber, receivedAt) => {
    // A whole book is no update.
    if (previousSequenceNumber === 0n) return;
    updates.from.push(heightOf(previousSequenceNumber));
    updates.to.push(heightOf(sequenceNumber));
    updates.at.push(receivedAt);
  });
}

function ages(writtenAt: readonly number[]): Ages {
  const found: number[] = [];
  let merged = 0;
  for (const [i, at] of updates.at.entries()) {
    const from = updates.from[i] ?? 0;
    const oldestAt = writtenAt[from + 1] ?? 0;
    if (oldestAt === 0) continue;
    found.push(at - oldestAt);
    if ((updates.to[i] ?? 0) > from + 1) merged++;
  }
  found.sort((a, b) => a - b);
  const quantile = (part: number) => found[Math.min(found.length - 1, Math.floor(found.length * part))] ?? Number.NaN;
  return { median: quantile(0.5), p99: quantile(0.99), max: quantile(1), updates: found.length, merged };
}

async function untilAllBegan(): Promise<void> {
  const until = performance.now() + beginMaxMs;
  for (;;) {
    const { least, lost } = reply();
    if (lost > 0) throw new Error(`${lost} connections were refused`);
    if (least > 0) return;
    if (performance.now() > until) throw new Error("not every stream began");
    await sleep(5);
  }
}

serveOrders<ReadOrder, ReadReply>({}, (order) => {
  switch (order.kind) {
    case "open":
      return open(order);
    case "bytes":
      return reply();
    case "mark":
      for (const reader of readers) reader.receivedAt.fill(0);
      for (const list of Object.values(updates)) list.length = 0;
      return reply();
    case "receipts":
      return reply(true);
    case "ages":
      return { ...reply(), ages: ages(order.writtenAt) };
  }
});
