// Light readers of depth streams, in a process of their own: `read.js [background]`.
import { setPriority } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { backgroundPriority, serveOrders } from "./child.js";
import { type LightReader, openReader, type ReaderProtocol } from "./light-reader.js";

/** What this process does. */
export type ReadOrder =
  | {
      readonly kind: "open";
      readonly protocol: ReaderProtocol;
      readonly port: number;
      readonly connections: number;
      readonly streamsPerConnection: number;
    }
  | { readonly kind: "bytes" }
  | { readonly kind: "mark" }
  | { readonly kind: "receipts" };

/** What it says. */
export interface ReadReply {
  /** Body bytes of the stream that has the fewest, and of the one that has the most. */
  readonly least: number;
  readonly most: number;
  /** Connections that have been lost. */
  readonly lost: number;
  /** When each stream last got something since the mark, by `nowMs`. */
  readonly receivedAt: readonly number[];
}

/** Connections that are opened at once; more would not fit the server's backlog. */
const burst = 100;
const beginMaxMs = 20_000;
/** Connections from one address of this machine: it has 28,000 ports. */
const connectionsPerAddress = 20_000;

const readers: LightReader[] = [];
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
    readers.push(openReader(order.protocol, order.port, address, order.streamsPerConnection));
    if (i % burst === burst - 1) await untilAllBegan();
  }
  await untilAllBegan();
  return reply();
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
      return reply();
    case "receipts":
      return reply(true);
  }
});
