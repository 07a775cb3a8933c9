import { setTimeout as delay } from "node:timers/promises";
import { depthAtText } from "../history/expected.js";
import { type ReplayProtocol, replay, replayProtocols } from "../history/replay-client.js";
import { ReplayedBooks } from "../history/replayed-books.js";
import { errorOf } from "../history/service-error.js";
import { CallFailure, codes, failureFromJson, failureFromSocket } from "./call-failure.js";
import type { Chain } from "./chain.js";
import { HttpClient } from "./http-client.js";
import { deadlineMs, type Finding, type Readers, repeat } from "./reader.js";
import type { ClientState } from "./scoreboard.js";
import { SilenceWatch } from "./stream-readers.js";

const pauseMs = 200;
const reconnectMs = 100;
/** A connection of a resuming reader lasts at most so long. */
const connectionMsMax = 5_000;
/** A reader hears of the newest block with the next heartbeat. */
const behindMsMax = 2_500;
/** One that has just connected is not behind yet: it may still read the past. */
const catchUpMsMax = 3_000;
const checkMs = 150;

/** Readers of past books, and of replays that become live and go on by their token whenever the connection breaks. */
export function startPastReaders(readers: Readers): Promise<void>[] {
  const client = new HttpClient(readers.port);
  return [
    repeat(readers, "past book", "ledger", pauseMs, () => pastBook(readers, client)),
    ...replayProtocols.map((protocol) => resume(readers, protocol)),
  ];
}

/** A book at some block that is certainly committed. */
async function pastBook({ judge, random }: Readers, client: HttpClient): Promise<Finding> {
  const { chain } = judge;
  const newest = judge.floor(performance.now());
  if (newest < 1) return undefined;
  const { oracle } = chain.past;
  const past = random.pick([...oracle.markets.values()]);
  const height = 1 + random.below(newest);
  const block = oracle.blockAt("height", BigInt(height));
  const path = `/api/v2/market/depth/${past.id}/at?block_height=${height}`;
  const response = await client.exchange({ path, deadlineMs });
  // The database may still hold, or already hold, another chain.
  if (judge.chain !== chain || judge.previousChain !== undefined || block === undefined) return undefined;
  const text = response.body.toString();
  const isKnown = chain.past.standing(past, block).kind !== "unknown";
  if (response.status !== 200) {
    if (!isKnown && errorOf(response).code === codes.notFound) return "right";
    throw failureFromJson(JSON.parse(text), `status ${response.status}`);
  }
  if (isKnown && text === depthAtText(past, block, 0)) return "right";
  return { wrong: `book of ${past.id} at block ${height}: ${text.slice(0, 120)}` };
}

interface Held {
  readonly chain: Chain;
  readonly books: ReplayedBooks;
  /** Where it began. */
  readonly height: number;
}

/** Begins somewhere in the past, and goes on for as long as the chain is the same. */
async function resume(readers: Readers, protocol: ReplayProtocol): Promise<void> {
  const { judge, random, scoreboard, signal } = readers;
  const client = scoreboard.client(`${protocol} replay`, "replay");
  let held: Held | undefined;
  while (!signal.aborted) {
    if (held === undefined || held.chain !== judge.chain) held = begin(readers);
    if (held !== undefined) {
      const startedAt = performance.now();
      client.openSince = startedAt;
      const isWhole = await readOn(readers, client, protocol, held, startedAt);
      client.openSince = undefined;
      if (!isWhole) held = undefined;
    }
    await delay(reconnectMs * (0.5 + random.next()));
  }
}

function begin({ judge, random }: Readers): Held | undefined {
  const newest = judge.floor(performance.now());
  if (newest < 1) return undefined;
  const { chain } = judge;
  return { chain, books: new ReplayedBooks(chain.past, []), height: 1 + random.below(newest) };
}

/** One connection. @returns whether the next one can go on from it */
async function readOn(
  { judge, random, scoreboard, signal, port }: Readers,
  client: ClientState,
  protocol: ReplayProtocol,
  { chain, books, height }: Held,
  startedAt: number,
): Promise<boolean> {
  const stop = new AbortController();
  const watch = new SilenceWatch(stop);
  const hangUp = setTimeout(() => stop.abort(), connectionMsMax * (0.2 + random.next()));
  const check = setInterval(() => checkFresh(), checkMs);
  const start = books.token === undefined ? { fromBlockHeight: BigInt(height) } : { resumeToken: books.token };
  const isOurs = () => judge.chain === chain && judge.previousChain === undefined;
  const checkFresh = (): void => {
    const newest = judge.floor(performance.now() - behindMsMax);
    if (books.hasCaughtUp && Number(books.block?.height ?? 0n) >= newest) scoreboard.fresh(client);
    else if (performance.now() > startedAt + catchUpMsMax) {
      scoreboard.behind(client, `at block ${books.block?.height}, ${newest} is committed`);
    }
  };
  books.resume();
  try {
    const place = { port, localAddress: "127.0.0.1", signal: AbortSignal.any([signal, stop.signal]) };
    for await (const { message } of replay(protocol, start, place)) {
      watch.heard();
      client.openSince = undefined;
      const problem = books.apply(message);
      if (problem === undefined) scoreboard.delivered();
      else {
        if (isOurs() && !signal.aborted) scoreboard.wrong(client, problem);
        return false;
      }
    }
    throw new CallFailure("malformed", "the stream ended as if it had an end");
  } catch (error) {
    const failure = watch.isSilent ? new CallFailure("late", "the stream is silent") : failureFromSocket(error);
    const isCut = stop.signal.aborted && !watch.isSilent;
    if (signal.aborted || isCut) return true;
    const isOther = failure.reason === "CHAIN_CHANGED";
    // A token of a chain that was replaced is refused for good.
    if (!(isOther && !isOurs())) scoreboard.failure(client, Math.max(startedAt, watch.heardAt), failure);
    return !isOther;
  } finally {
    clearInterval(check);
    clearTimeout(hangUp);
    watch.end();
    stop.abort();
  }
}
