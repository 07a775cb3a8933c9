// Readers of the past, in a process of their own and in the background: as many replays as a service allows, each started
// again at its end, and callers of past books.
import { setMaxListeners } from "node:events";
import { Agent, get, type IncomingMessage } from "node:http";
import { setPriority } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { replaysMax, replaysPerAddressMax } from "../../src/history/history.js";
import { backgroundPriority, serveOrders } from "../stream/child.js";

/** What this process does. */
export type PastOrder =
  | {
      readonly kind: "begin";
      readonly port: number;
      readonly marketId: string;
      /** The newest block that they read. */
      readonly height: number;
    }
  | { readonly kind: "end" };

/** What was read since the beginning. */
export interface PastReply {
  readonly replays: number;
  readonly books: number;
  readonly bytes: number;
}

const bookCallers = 4;
/** Before a replay that was refused is tried again: its predecessor may count until its end has been sent. */
const refusedPauseMs = 50;

let read: { -readonly [K in keyof PastReply]: number } = { replays: 0, books: 0, bytes: 0 };
let stopping = new AbortController();
let readers: Promise<void>[] = [];

function open(url: string, agent: Agent): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    get(url, { agent, signal: stopping.signal }, resolve).on("error", reject);
  });
}

/** Whether the response was a 200, which is read to its end. */
async function readWhole(url: string, agent: Agent): Promise<boolean> {
  const response = await open(url, agent);
  for await (const chunk of response) read.bytes += (chunk as Buffer).length;
  return response.statusCode === 200;
}

async function again(agent: Agent, urlOf: () => string, count: "replays" | "books"): Promise<void> {
  const { signal } = stopping;
  try {
    while (!signal.aborted) {
      if (await readWhole(urlOf(), agent)) read[count]++;
      else await sleep(refusedPauseMs, undefined, { signal });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    agent.destroy();
  }
}

function begin({ port, marketId, height }: Extract<PastOrder, { kind: "begin" }>): void {
  read = { replays: 0, books: 0, bytes: 0 };
  stopping = new AbortController();
  setMaxListeners(0, stopping.signal);
  const base = `http://127.0.0.1:${port}/api/v2`;
  const agentOf = (address: number) => new Agent({ keepAlive: true, localAddress: `127.0.1.${1 + address}` });
  const replay = () => `${base}/stream/markets/depth/replay?from_block_height=1&until_block_height=${height}`;
  const book = () => `${base}/market/depth/${marketId}/at?block_height=${1 + Math.floor(Math.random() * height)}`;
  readers = Array.from({ length: replaysMax }, (_, n) => {
    return again(agentOf(Math.floor(n / replaysPerAddressMax)), replay, "replays");
  });
  for (let caller = 0; caller < bookCallers; caller++) readers.push(again(agentOf(caller), book, "books"));
  // An error is told when the readers end.
  for (const reader of readers) reader.catch(() => {});
}

setPriority(backgroundPriority);
serveOrders<PastOrder, PastReply>({}, async (order) => {
  if (order.kind === "begin") begin(order);
  else {
    stopping.abort();
    await Promise.all(readers);
  }
  return { ...read };
});
