import { setTimeout as delay } from "node:timers/promises";
import { depthAtText } from "../history/expected.js";
import { type ReplayProtocol, replay, replayProtocols } from "../history/replay-client.js";
import { ReplayedBooks, type ReplayMessage } from "../history/replayed-books.js";
import { codes, errorOf } from "../history/service-error.js";
import { CallFailure, failureFromJson, failureFromSocket } from "./call-failure.js";
import type { Chain } from "./chain.js";
import { HttpClient, type WholeResponse } from "./http-client.js";
import type { Store } from "./judge.js";
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
/** Reasons of errors: a block that is not there yet, and a stream or token of another store. */
const notYet = "HISTORY_NOT_YET";
const chainChanged = "CHAIN_CHANGED";

/** Readers of past books, and of replays that become live and go on by their token whenever the connection breaks. */
export function startPastReaders(readers: Readers): Promise<void>[] {
  const client = new HttpClient(readers.port);
  return [
    repeat(readers, "past book", "ledger", pauseMs, (startedAt) => pastBook(readers, client, startedAt)),
    ...replayProtocols.map((protocol) => new ReplayReader(readers, protocol).run()),
  ];
}

/** A book at some block that is in the database. */
async function pastBook({ judge, random }: Readers, client: HttpClient, startedAt: number): Promise<Finding> {
  const newest = judge.committed;
  if (newest < 1) return undefined;
  const atStart = judge.stores(startedAt);
  const question = {
    marketId: random.pick([...judge.chain.past.oracle.markets.keys()]),
    height: 1 + random.below(newest),
  };
  const { marketId, height } = question;
  const path = `/api/v2/market/depth/${marketId}/at?block_height=${height}`;
  const response = await client.exchange({ path, deadlineMs });
  const store = [...judge.stores(startedAt), ...atStart].find((each) => fits(each, question, response));
  const text = response.body.toString();
  if (store !== undefined) return store.chain === judge.chain && !isNotYet(response) ? "right" : "old";
  if (response.status !== 200) throw failureFromJson(JSON.parse(text), `status ${response.status}`);
  return { wrong: `book of ${marketId} at block ${height}: ${text.slice(0, 120)}` };
}

interface Question {
  readonly marketId: string;
  readonly height: number;
}

/** Whether it is the response to a question about the past of a service over `store`. */
function fits({ chain, certain }: Store, { marketId, height }: Question, response: WholeResponse): boolean {
  if (isNotYet(response)) return height > certain;
  const { oracle } = chain.past;
  const block = oracle.blockAt("height", BigInt(height));
  if (block?.height !== BigInt(height)) return false;
  const past = oracle.markets.get(marketId);
  const isKnown = chain.past.standing(past, block).kind !== "unknown";
  if (response.status !== 200) return !isKnown && errorOf(response).code === codes.notFound;
  return isKnown && past !== undefined && response.body.toString() === depthAtText(past, block, 0);
}

function isNotYet(response: WholeResponse): boolean {
  return response.status !== 200 && errorOf(response).reason === notYet;
}

/** What a replay's reader holds. */
interface Held {
  /** By each chain that the messages until now can be of. */
  readonly books: Map<Chain, ReplayedBooks>;
  /** Where it began. */
  readonly height: number;
}

/** Reads a replay from somewhere in the past on, and goes on by its token for as long as the chain is the same. */
class ReplayReader {
  readonly #client: ClientState;
  #held: Held | undefined;

  constructor(
    private readonly readers: Readers,
    private readonly protocol: ReplayProtocol,
  ) {
    this.#client = readers.scoreboard.client(`${protocol} replay`, "replay");
  }

  /** Until the harness ends. */
  async run(): Promise<void> {
    const { judge, random, signal } = this.readers;
    while (!signal.aborted) {
      if (this.#held?.books.has(judge.chain) !== true) this.#held = this.#begin();
      if (this.#held !== undefined) await this.#connect(this.#held);
      await delay(reconnectMs * (0.5 + random.next()));
    }
  }

  #begin(): Held | undefined {
    const { judge, random } = this.readers;
    const newest = judge.committed;
    if (newest < 1) return undefined;
    const books = judge.stores(0).map(({ chain }) => [chain, new ReplayedBooks(chain.past, [])] as const);
    return { books: new Map(books), height: 1 + random.below(newest) };
  }

  /** One connection, which breaks after some seconds. */
  async #connect(held: Held): Promise<void> {
    const { judge, random, signal } = this.readers;
    const startedAt = performance.now();
    const stores = judge.stores(startedAt);
    const stop = new AbortController();
    const watch = new SilenceWatch(stop);
    const hangUpAt = startedAt + connectionMsMax * (0.2 + random.next());
    const check = setInterval(() => {
      this.#checkFresh(held, startedAt);
      if (performance.now() > hangUpAt && this.#mayHangUp(held)) stop.abort();
    }, checkMs);
    this.#client.openSince = startedAt;
    try {
      await this.#read(held, AbortSignal.any([signal, stop.signal]), watch);
    } catch (error) {
      const isCut = stop.signal.aborted && !watch.isSilent;
      if (signal.aborted || isCut) return;
      const failure = watch.isSilent ? new CallFailure("late", "the stream is silent") : failureFromSocket(error);
      this.#failed(held, failure, [...judge.stores(startedAt), ...stores], Math.max(startedAt, watch.heardAt));
    } finally {
      this.#client.openSince = undefined;
      clearInterval(check);
      watch.end();
      stop.abort();
    }
  }

  async #read({ books, height }: Held, signal: AbortSignal, watch: SilenceWatch): Promise<void> {
    const { port, scoreboard } = this.readers;
    const token = tokenOf(books);
    const start = token === undefined ? { fromBlockHeight: BigInt(height) } : { resumeToken: token };
    for (const each of books.values()) each.resume();
    for await (const { message } of replay(this.protocol, start, { port, localAddress: "127.0.0.1", signal })) {
      watch.heard();
      this.#client.openSince = undefined;
      const problems = apply(books, message);
      if (books.size === 0) {
        if (!signal.aborted) scoreboard.wrong(this.#client, problems.join("; or of the chain before: "));
        return;
      }
      scoreboard.delivered();
    }
    throw new CallFailure("malformed", "the stream ended as if it had an end");
  }

  /** @param stores that the process which refused may have been over */
  #failed({ books, height }: Held, failure: CallFailure, stores: readonly Store[], since: number): void {
    const { judge, scoreboard } = this.readers;
    const { code, reason } = failure;
    if (reason === notYet || reason === chainChanged) this.#held = undefined;
    const isNotYet = reason === notYet && tokenOf(books) === undefined && stores.some((each) => height > each.certain);
    const mayBeOther = books.size > 1 || stores.some(({ chain }) => chain !== judge.chain);
    const isOther = reason === chainChanged && code === codes.failedPrecondition && mayBeOther;
    if (!isNotYet && !isOther) scoreboard.failure(this.#client, since, failure);
  }

  /** While a recovery is awaited, a reader that has not caught up must not be what delays it. */
  #mayHangUp({ books }: Held): boolean {
    const { judge, scoreboard } = this.readers;
    return scoreboard.unsettledSince === undefined || books.get(judge.chain)?.hasCaughtUp === true;
  }

  #checkFresh({ books }: Held, startedAt: number): void {
    const { judge, scoreboard } = this.readers;
    const newest = judge.floor(performance.now() - behindMsMax);
    const present = books.get(judge.chain);
    if (present?.hasCaughtUp === true && Number(present.block?.height ?? 0n) >= newest) scoreboard.fresh(this.#client);
    else if (performance.now() > startedAt + catchUpMsMax) {
      scoreboard.behind(this.#client, `at block ${present?.block?.height}, ${newest} is committed`);
    }
  }
}

function tokenOf(books: Held["books"]): string | undefined {
  const [any] = books.values();
  return any?.token;
}

/** Folds a message in each chain that it can be of, and forgets the others. @returns why it cannot be of those */
function apply(books: Held["books"], message: ReplayMessage): string[] {
  const problems: string[] = [];
  for (const [chain, each] of books) {
    const problem = each.apply(message);
    if (problem === undefined) continue;
    problems.push(problem);
    books.delete(chain);
  }
  return problems;
}
