import { setTimeout as delay } from "node:timers/promises";
import { CallFailure } from "../chaos/call-failure.js";
import type { RandomSource } from "../chaos/random-source.js";
import { type ListedChange, listedChanges, wholeBookText } from "./expected.js";
import type { KeptPast } from "./kept-past.js";
import type { BlockEnd, MarketPast } from "./market-past.js";
import type { PastQuestions } from "./past-questions.js";
import { isRefusal } from "./past-questions.js";
import { type ReplayRequest, replay, replayProtocols } from "./replay-client.js";
import { type DepthUpdate, ReplayedBooks, type ReplayMessage } from "./replayed-books.js";
import { codes, errorText } from "./service-error.js";
import { difference, type Tally } from "./tally.js";

/** Blocks of a replay that has an end. */
const replayedBlocksMax = 300;
/** A stream that says nothing for so long is dead: it has heartbeats every second. */
const silenceMaxMs = 15_000;
const retryMs = 150;
/** How long a service may not know yet that the past is kept again: over a replica, and otherwise. */
const gapLagMsMax = 10_000;
export const gapNoticedMsMax = 1_000;
/** How long one connection of a reader that goes on lasts at most. */
const connectionMaxMs = 6_000;
/** Breaks within which a resume has to be cheap on large books. */
export const cheapBreakBlocks = 50;
/** An update and a whole book of few levels differ by the digits of `previousSequenceNumber`. */
const updateOverheadBytes = 20;

/** A service that can be read. */
export interface ReadService {
  readonly name: string;
  readonly port: number;
  /** Whether connections to it may break, be refused, or find it behind. */
  mayFail(): boolean;
  /** Whether it may not have seen a block, with its markets, yet. */
  mayLack(block: BlockEnd): boolean;
}

/** What all readers share. */
export interface ReplayContext {
  readonly kept: KeptPast;
  readonly random: RandomSource;
  readonly tally: Tally;
  readonly questions: PastQuestions;
  readonly services: readonly ReadService[];
  readonly signal: AbortSignal;
  readonly wideMarkets: () => readonly string[];
  readonly committed: () => BlockEnd;
  /** Bytes of resumes as shares of those of whole books. */
  readonly resumeShares: number[];
}

/** A client address of its own. */
export function randomAddress(random: RandomSource): string {
  return `127.0.${1 + random.below(200)}.${1 + random.below(250)}`;
}

/** Ends when nothing comes for too long. */
export class Silence {
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout;
  isOver = false;

  constructor(private readonly maxMs = silenceMaxMs) {
    this.#timer = this.#start();
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  heard(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#start();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#stop.abort();
  }

  #start(): NodeJS.Timeout {
    return setTimeout(() => {
      this.isOver = true;
      this.#stop.abort();
    }, this.maxMs);
  }
}

/** Markets that a replay is of: one, some, or all. */
function someMarkets({ questions, random, wideMarkets }: ReplayContext): string[] {
  const dice = random.next();
  if (dice < 0.2) return [];
  if (dice < 0.5 && wideMarkets().length > 0) return [random.pick(wideMarkets())];
  const markets = Array.from({ length: 1 + random.below(4) }, () => questions.market().id);
  return [...new Set(markets)];
}

/** A replay from one block to another, which must come whole. */
export async function replayToEnd(context: ReplayContext): Promise<void> {
  const { kept, random, tally, questions } = context;
  const service = random.pick(context.services);
  const past = questions.market();
  const from = questions.block(past);
  const last = Math.min(context.committed().index, from.index + random.below(replayedBlocksMax));
  const end = kept.oracle.blocks[last] ?? from;
  const everyUpdate = random.next() < 0.6;
  const marketIds = everyUpdate ? [past.id] : someMarkets(context);
  const request: ReplayRequest = {
    ...{ marketIds, fromStreamSequence: from.sequence, untilStreamSequence: end.sequence + 1n, everyUpdate },
    ...(random.next() < 0.2 ? { speed: "1000" } : {}),
  };
  const protocol = random.pick(replayProtocols);
  const kind = everyUpdate ? "replay of every update" : "replay";
  const place = `${service.name} ${protocol} ${shown(request)} (blocks ${from.index} to ${last})`;
  const books = new ReplayedBooks(kept, marketIds);
  const updates: DepthUpdate[] = [];
  const silence = new Silence();
  try {
    const signal = AbortSignal.any([context.signal, silence.signal]);
    const where = { port: service.port, localAddress: randomAddress(random), signal };
    for await (const { message } of replay(protocol, request, where)) {
      silence.heard();
      const problem = books.apply(message);
      if (problem !== undefined) return tally.wrong(kind, place, problem);
      updates.push(...message.update);
    }
  } catch (error) {
    if (!context.signal.aborted) enterFailure(context, service, kind, place, error, silence, from, marketIds);
    return;
  } finally {
    silence.end();
  }
  // A response that is destroyed may just end.
  if (context.signal.aborted) return;
  const missing =
    books.first === undefined
      ? "it ended without a block"
      : (beginsElsewhere(kept, books, from) ?? books.differsAt(end));
  if (missing !== undefined) return tally.wrong(kind, place, missing);
  const changes = everyUpdate ? changesBetween(kept, past, from, last) : undefined;
  const problem = changes && differsFromChanges(updates, changes);
  if (problem !== undefined) return tally.wrong(kind, place, problem);
  tally.right(kind);
}

/** A replay begins with the books of the block that was asked for. */
function beginsElsewhere(kept: KeptPast, { first }: ReplayedBooks, from: BlockEnd): string | undefined {
  if (first === undefined || first.index === from.index || kept.mayBePruned(from)) return undefined;
  return `it begins with block ${first.index} and not with ${from.index}`;
}

/** The changes that a replay of every update has for certain; undefined: there is a gap, or what is old may be removed. */
function changesBetween(kept: KeptPast, past: MarketPast, from: BlockEnd, last: number): ListedChange[] | undefined {
  const run = kept.run(past, from);
  if (run === undefined || (run.end !== undefined && run.end.index <= last) || kept.mayBePruned(from)) return undefined;
  return listedChanges(past, run, from.index + 1, last + 1);
}

/** The first update is the whole book; the others are those of the list of changes. */
function differsFromChanges(updates: readonly DepthUpdate[], changes: readonly ListedChange[]): string | undefined {
  const texts = updates.slice(1).map((update) => JSON.stringify(update));
  const expected = changes.map(({ update }) => update);
  const index = expected.findIndex((text, at) => text !== texts[at]);
  if (index >= 0) return `update ${index} ${difference(texts[index] ?? "", expected[index] ?? "")}`;
  return texts.length === expected.length
    ? undefined
    : `${texts.length} updates, where ${expected.length} are expected`;
}

/** A reader that begins in the past, becomes live, and goes on at another service whenever its connection breaks. */
export class JoiningReader {
  #books: ReplayedBooks | undefined;
  #from: BlockEnd | undefined;
  #hadCaughtUp = false;

  constructor(private readonly context: ReplayContext) {}

  async run(): Promise<void> {
    const { context } = this;
    while (!context.signal.aborted) {
      // A reader that has followed for a while begins somewhere else.
      if (this.#books === undefined || (this.#hadCaughtUp && context.random.next() < 0.1)) this.#begin();
      await this.#connect();
      await delay(context.random.next() * retryMs);
    }
  }

  #begin(): void {
    const { context } = this;
    this.#books = new ReplayedBooks(context.kept, someMarkets(context));
    this.#from = context.questions.block(context.questions.market());
    this.#hadCaughtUp = false;
  }

  async #connect(): Promise<void> {
    const { context } = this;
    const { random, tally } = context;
    const books = this.#books;
    const from = this.#from;
    if (books === undefined || from === undefined) return;
    const service = random.pick(context.services);
    const protocol = random.pick(replayProtocols);
    const resumed = books.token;
    const start = resumed === undefined ? { fromStreamSequence: from.sequence } : { resumeToken: resumed };
    const kind = resumed === undefined ? "replay joined to live" : "resumed replay";
    const request = { marketIds: [...books.marketIds], ...start };
    const place = `${service.name} ${protocol} ${shown(request)} (from block ${books.block?.index ?? from.index})`;
    const silence = new Silence();
    const cutAfterBytes = random.next() < 0.6 ? Math.floor(10 ** (2 + random.next() * 4)) : undefined;
    const timer = setTimeout(() => silence.end(), connectionMaxMs * random.next());
    const watch = new ResumeWatch(context, books);
    books.resume();
    try {
      const signal = AbortSignal.any([context.signal, silence.signal]);
      const where = { port: service.port, localAddress: randomAddress(random), signal, cutAfterBytes };
      for await (const { message } of replay(protocol, request, where)) {
        silence.heard();
        const problem =
          books.apply(message) ??
          (resumed === undefined ? beginsElsewhere(context.kept, books, from) : watch.see(message));
        if (problem !== undefined) {
          tally.wrong(kind, place, problem);
          this.#books = undefined;
          return;
        }
        if (message.block !== undefined) tally.right(kind);
        if (message.caughtUp) this.#caughtUp();
      }
      if (!signal.aborted) tally.wrong(kind, place, "it ended as if it had an end");
    } catch (error) {
      this.#failed(error, service, kind, place, silence, timer);
    } finally {
      clearTimeout(timer);
      silence.end();
    }
  }

  #caughtUp(): void {
    this.#hadCaughtUp = true;
    this.context.tally.fact("replays that became live");
  }

  #failed(error: unknown, service: ReadService, kind: string, place: string, silence: Silence, timer: NodeJS.Timeout) {
    const { context } = this;
    clearTimeout(timer);
    const isOurs = context.signal.aborted || (silence.signal.aborted && !silence.isOver);
    if (isOurs || (error instanceof CallFailure && error.message === "cut by the harness")) {
      context.tally.fact("connections that the harness broke");
      return;
    }
    const marketIds = this.#books?.marketIds;
    if (this.#books?.block === undefined && isSaid(error)) this.#books = undefined;
    enterFailure(context, service, kind, place, error, silence, this.#from, marketIds);
  }
}

/** What the first messages after a resume cost, against the whole books of the same block. */
class ResumeWatch {
  readonly #from: BlockEnd | undefined;
  #updates: DepthUpdate[] = [];
  #isOver = false;

  constructor(
    private readonly context: ReplayContext,
    private readonly books: ReplayedBooks,
  ) {
    this.#from = books.block;
  }

  /** @returns what is wrong */
  see(message: ReplayMessage): string | undefined {
    if (this.#isOver) return undefined;
    this.#updates.push(...message.update);
    const { block } = this.books;
    if (message.block === undefined || block === undefined) return undefined;
    this.#isOver = true;
    if (this.#updates.length === 0) return undefined;
    const { oracle } = this.context.kept;
    const bytes = this.#updates.reduce((sum, update) => sum + JSON.stringify(update).length, 0);
    let whole = 0;
    for (const marketId of this.books.marketIds.length === 0 ? oracle.markets.keys() : this.books.marketIds) {
      const past = oracle.markets.get(marketId);
      if (past !== undefined) whole += wholeBookText(past, block).length;
    }
    this.context.tally.fact("resumes");
    const breakBlocks = block.index - (this.#from?.index ?? 0);
    const isWide =
      this.books.marketIds.length === 1 && this.context.wideMarkets().includes(this.books.marketIds[0] ?? "");
    if (isWide && breakBlocks <= cheapBreakBlocks) this.context.resumeShares.push(bytes / whole);
    const most = whole + updateOverheadBytes * (1 + this.#updates.length);
    return bytes > most ? `a resume over ${breakBlocks} blocks takes ${bytes} bytes, whole books ${whole}` : undefined;
  }
}

/** A failed call: wrong, unless the service says what is true or may fail. */
export function enterFailure(
  { tally, kept }: ReplayContext,
  service: ReadService,
  kind: string,
  place: string,
  error: unknown,
  silence: Silence,
  from: BlockEnd | undefined,
  marketIds: Iterable<string> = [],
): void {
  const text = silence.isOver ? "it is silent" : failureText(error);
  const announced = [...marketIds].flatMap((id) => kept.oracle.markets.get(id)?.eras[0]?.block ?? []);
  const needed = from === undefined ? announced : [from, ...announced];
  const isHonest = isSaid(error) ? mayBeSaid(kept, service, text, from, needed) : service.mayFail();
  if (isHonest && !silence.isOver) tally.honest(kind, isSaid(error) ? text : "the connection broke or was refused");
  else tally.wrong(kind, place, text);
}

/** @param needed the blocks of which the service must know: that of the beginning, and those that announced its markets */
function mayBeSaid(
  kept: KeptPast,
  service: ReadService,
  text: string,
  from: BlockEnd | undefined,
  needed: readonly BlockEnd[],
): boolean {
  if (isRefusal(text)) return true;
  // A service that is behind knows neither the newest blocks nor the newest markets.
  if (new RegExp(`^code (${codes.outOfRange}|${codes.notFound})\\b`).test(text)) {
    return service.mayFail() || needed.some((block) => service.mayLack(block));
  }
  const lagMs = service.mayFail() ? gapLagMsMax : gapNoticedMsMax;
  return from !== undefined && isNotKept(kept, text, from, kept.isLosing(lagMs));
}

/** The service said why. */
export function isSaid(error: unknown): error is CallFailure {
  return error instanceof CallFailure && error.kind === "said";
}

function failureText(error: unknown): string {
  if (isSaid(error)) return `${errorText(error)}: ${error.message}`.slice(0, 160);
  return error instanceof Error ? `${error.name} ${error.message}` : String(error);
}

/** Whether nothing of the past need be known at a block. */
function isNotKept(kept: KeptPast, text: string, from: BlockEnd, isLosing: boolean): boolean {
  const isGone = text.startsWith(`code ${codes.failedPrecondition}`);
  const markets = [...kept.oracle.markets.values()];
  return (
    isGone && (isLosing || kept.mayBePruned(from) || markets.some((past) => kept.standing(past, from).kind !== "whole"))
  );
}

export function shown(request: ReplayRequest): string {
  return JSON.stringify(request, (_, value: unknown) => (typeof value === "bigint" ? `${value}` : value));
}
