import { type MessageInitShape, toJsonString } from "@bufbuild/protobuf";
import {
  type GetMarketDepthAtRequestSchema,
  GetMarketDepthAtResponseSchema,
  MarketHistoryService,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import { CallFailure } from "../chaos/call-failure.js";
import { HttpClient, type WholeResponse, wholeBody } from "../chaos/http-client.js";
import type { RandomSource } from "../chaos/random-source.js";
import { type RpcClient, rpcClient } from "../chaos/rpc-client.js";
import { blockText, depthAtText, type ListedChange, listedChanges } from "./expected.js";
import type { KeptPast, Standing } from "./kept-past.js";
import type { BlockEnd, MarketPast } from "./market-past.js";
import { codes, errorOf, errorText, type ServiceError } from "./service-error.js";
import { difference, type Tally } from "./tally.js";

const deadlineMs = 20_000;
/** Blocks that a list of changes is of, at most. */
const listedBlocksMax = 400;
/** Services know of a market that was announced so long ago. */
const noticedNsMax = 5_000_000_000n;
/** Pages of a list that are read. */
const pagesMax = 30;
/** Share of books that are asked for over other protocols than REST. */
const otherProtocolsShare = 0.25;
/** Blocks that may have the time of the one before. */
const sameTimeBlocksMax = 20n;
/** Share of refusals whose nearest place is asked for. */
const nearestShare = 0.3;
/** Right or honest where a market was not announced yet: at a replica that lags, too. */
const marketUnknown = `code ${codes.notFound} MARKET_UNKNOWN`;

/** Who is asked. */
export interface Asked {
  readonly name: string;
  readonly client: HttpClient;
  /** Clients of the other protocols. */
  readonly others: readonly RpcClient[];
  /** How much later than the harness it may know that the past is kept again. */
  readonly gapLagMs: number;
  /** Whether the service may not have a block yet that is committed. */
  mayLack(block: BlockEnd): boolean;
}

/** A client of each protocol. */
export function clientsOf(port: number): Pick<Asked, "client" | "others"> {
  const others = (["Connect", "gRPC-Web", "gRPC"] as const).map((protocol) => rpcClient(protocol, port));
  return { client: new HttpClient(port), others };
}

type Got = { readonly body: string; readonly headers: WholeResponse["headers"] } | { readonly error: ServiceError };

/** What is asked. */
interface Question {
  readonly asked: Asked;
  /** In a message of what went wrong. */
  readonly path: string;
  /** @throws CallFailure where there is neither a response nor an error of the service's */
  get(): Promise<Got>;
}

function pageOf(asked: Asked, path: string): Question {
  return { asked, path, get: over(asked.client, path) };
}

function over(client: HttpClient, path: string): Question["get"] {
  return async () => {
    const ask = () => client.exchange({ path, deadlineMs });
    // A server may close a kept connection just when it is used again.
    const response = await ask().catch((error: unknown) => {
      if (error instanceof CallFailure && error.kind === "broken" && error.reused) return ask();
      throw error;
    });
    if (response.status !== 200) return { error: errorOf(response) };
    return { body: response.body.toString(), headers: response.headers };
  };
}

function overRpc(client: RpcClient, request: MessageInitShape<typeof GetMarketDepthAtRequestSchema>): Question["get"] {
  return async () => {
    try {
      const { message } = await client.unary(MarketHistoryService.method.getMarketDepthAt, request, deadlineMs);
      const body = toJsonString(GetMarketDepthAtResponseSchema, message, { alwaysEmitImplicit: true });
      return { body, headers: {} };
    } catch (error) {
      if (!(error instanceof CallFailure) || error.kind !== "said") throw error;
      return { error: { code: error.code, message: error.message, reason: error.reason, metadata: {} } };
    }
  };
}

/** What a list of changes is of. */
interface ListedRange {
  /** Where it begins, which it depends on. */
  readonly anchor: BlockEnd;
  readonly first: BlockEnd;
  /** Exclusive. */
  readonly until: BlockEnd;
}

/** A block, as a request names it. */
interface Place {
  readonly block: BlockEnd;
  readonly name: (typeof placeNames)[number]["name"];
  readonly value: bigint;
}

const placeNames = [
  { name: "block_height", key: "height" },
  { name: "timestamp", key: "timeNs" },
  { name: "stream_sequence", key: "sequence" },
] as const;

function fieldOf(name: Place["name"]): "blockHeight" | "timestamp" | "streamSequence" {
  if (name === "timestamp") return name;
  return name === "block_height" ? "blockHeight" : "streamSequence";
}

/** Asks for past books and lists of changes, at random places, and compares them with the oracle byte for byte. */
export class PastQuestions {
  constructor(
    private readonly kept: KeptPast,
    private readonly random: RandomSource,
    private readonly tally: Tally,
    /** The newest block that is committed for certain. */
    private readonly committed: () => BlockEnd,
  ) {}

  /** A market that every service knows to be announced, where there is one. */
  market(): MarketPast {
    const { index, timeNs } = this.committed();
    const markets = [...this.kept.oracle.markets.values()];
    const announced = markets.filter(({ eras: [first] }) => first !== undefined && first.block.index <= index);
    const known = announced.filter(({ eras: [first] }) => (first?.block.timeNs ?? timeNs) < timeNs - noticedNsMax);
    return this.random.pick(known.length > 0 ? known : announced);
  }

  /** A block up to the newest committed one; often the newest ones, or one where a book begins anew. */
  block(past: MarketPast): BlockEnd {
    const { random } = this;
    const { blocks } = this.kept.oracle;
    const newest = this.committed().index;
    const dice = random.next();
    let index = random.below(newest + 1);
    if (dice < 0.15) index = Math.max(0, newest - random.below(20));
    else if (dice < 0.4 && past.eras.length > 0) {
      index = Math.min(newest, Math.max(0, random.pick(past.eras).block.index + random.below(4) - 2));
    }
    return this.kept.oracle.lastEnd(blocks[index] ?? this.kept.oracle.newest);
  }

  /** One book at one block. */
  async askDepth(asked: Asked): Promise<void> {
    const past = this.market();
    const place = this.#placeUpTo(this.block(past));
    const maxDepth = this.random.next() < 0.3 ? 1 + this.random.below(12) : 0;
    const path = `${pathOf(past)}/at?${place.name}=${place.value}${maxDepth > 0 ? `&max_depth=${maxDepth}` : ""}`;
    const { others } = asked;
    const other = others.length > 0 && this.random.next() < otherProtocolsShare ? this.random.pick(others) : undefined;
    const request = { marketId: past.id, maxDepth: BigInt(maxDepth), [fieldOf(place.name)]: place.value };
    const get = other === undefined ? over(asked.client, path) : overRpc(other, request);
    const what = { ...asked, name: `${asked.name} ${other?.protocol ?? "REST"}` };
    await this.#judge(
      "past book",
      { asked: what, path, get },
      past,
      [place.block, this.#neededFor(place)],
      (body, isImmutable) => {
        const expected = depthAtText(past, place.block, maxDepth);
        if (body === expected) return undefined;
        // The service may not have that end of the block yet, and may say so only by not calling the book immutable.
        const earlier = this.kept.oracle.blocks[place.block.index - 1];
        const isEarlier =
          earlier !== undefined && earlier.timeNs === place.block.timeNs && earlier.height === place.block.height;
        const mayBeEarlier = isEarlier && !isImmutable && asked.mayLack(place.block);
        return mayBeEarlier && body === depthAtText(past, earlier, maxDepth) ? undefined : difference(body, expected);
      },
    );
  }

  /** Beyond the newest block, or not a request. */
  async askNonsense(asked: Asked): Promise<void> {
    const { newest } = this.kept.oracle;
    const past = this.market();
    const at = `${pathOf(past)}/at`;
    const replay = "/api/v2/stream/markets/depth/replay";
    const beyond = [
      `${at}?block_height=${newest.height + 1_000n}`,
      `${at}?timestamp=${newest.timeNs + 3_600_000_000_000n}`,
      `${at}?stream_sequence=${newest.sequence + 1_000_000n}`,
      `${replay}?from_block_height=${newest.height + 1_000n}`,
      `${replay}?until_block_height=${newest.height + 1_000n}`,
    ];
    const malformed = [
      ...["", "?block_height=1&timestamp=1", "?max_depth=2", "?block_height=-1", "?timestamp=x"].map(
        (query) => at + query,
      ),
      ...["every_update=true", "resume_token=abc", "speed=0", "speed=1001", "from_block_height=1&from_timestamp=1"].map(
        (query) => `${replay}?${query}`,
      ),
    ];
    const isBeyond = this.random.next() < 0.5;
    const path = this.random.pick(isBeyond ? beyond : malformed);
    const kind = "request that cannot be served";
    const expected = isBeyond ? /^code 11 HISTORY_NOT_YET$/ : /^code 3\b/;
    const stop = new AbortController();
    try {
      const response = await asked.client.open({ path, deadlineMs }, stop.signal);
      const status = response.statusCode ?? 0;
      const body = status === 200 ? Buffer.alloc(0) : await wholeBody(response);
      const found = status === 200 ? "200" : errorText(errorOf({ status, headers: response.headers, body }));
      if (expected.test(found)) this.tally.right(kind);
      else if (isRefusal(found) || (found === marketUnknown && isNewTo(asked, past))) this.tally.honest(kind, found);
      else this.tally.wrong(kind, `${asked.name} ${path}`, `${found}, and not ${expected}`);
    } finally {
      stop.abort();
    }
  }

  /** All pages of the changes between two blocks. */
  async askChanges(asked: Asked): Promise<void> {
    const { random } = this;
    const past = this.market();
    const from = this.#placeFrom(this.block(past));
    const first = from.block;
    const last = Math.min(this.committed().index, first.index + random.below(listedBlocksMax));
    const to = this.#placeFrom(this.kept.oracle.blocks[last] ?? first);
    const until = to.block;
    const newestFirst = random.next() < 0.3;
    // Where the list begins is what it depends on.
    const anchor = newestFirst ? (this.kept.oracle.blocks[until.index - 1] ?? first) : first;
    if (until.index <= first.index || this.kept.standing(past, anchor).kind === "unknown") return;
    // A block that is repeated counts as it was at last.
    const end = this.kept.oracle.lastEnd(first);
    if (first !== end && (until.index <= end.index || !this.kept.isOneRun(past, first, end))) return;
    const size = random.next() < 0.3 ? 1_000 : 1 + random.below(60);
    const query = [`from_${from.name}=${from.value}`, `until_${to.name}=${to.value}`];
    const isBackwards = random.next() < 0.3;
    query.push(`pagination.${isBackwards ? "last" : "first"}=${size}`, `pagination.newest_first=${newestFirst}`);
    const path = `${pathOf(past)}/changes?${query.join("&")}`;
    const pages = new Pages(isBackwards, size);
    if (!(await this.#readPages({ asked, path }, past, { anchor, first, until }, newestFirst, pages))) return;
    const inOrder = newestFirst ? pages.texts.toReversed() : pages.texts;
    this.#compareChanges({ asked, path }, past, { anchor, first, until }, inOrder);
  }

  /** @returns whether all pages of a list were read, and each is right */
  async #readPages(
    { asked, path }: Pick<Question, "asked" | "path">,
    past: MarketPast,
    { anchor, first, until }: ListedRange,
    newestFirst: boolean,
    pages: Pages,
  ): Promise<boolean> {
    while (pages.count < pagesMax && !pages.isWhole) {
      const question = pageOf(asked, path + pages.cursor);
      // What is old may be removed at any time. A list from the newest on depends on it where it gets there.
      const oldest = newestFirst && (pages.count > 0 || pages.isBackwards) ? first : anchor;
      const isRight = await this.#judge("page of changes", question, past, [anchor, until, oldest], (body) =>
        pages.add(body, oldest !== anchor && this.kept.mayBePruned(oldest)),
      );
      if (!isRight) return false;
    }
    return pages.isWhole;
  }

  #compareChanges(
    { asked, path }: Pick<Question, "asked" | "path">,
    past: MarketPast,
    { anchor, first, until }: ListedRange,
    found: readonly string[],
  ): void {
    const kind = "list of changes";
    const run = this.kept.run(past, anchor);
    // What is old may be removed while it is listed.
    if (run === undefined || this.kept.mayBePruned(first)) return;
    const from = Math.max(first.index, run.beginnings[0].index);
    const end = Math.min(until.index, run.end?.index ?? until.index);
    const changes = listedChanges(past, run, from, end);
    const expected = changes.map(changeText);
    const index = Math.max(
      expected.findIndex((text, at) => text !== found[at]),
      found.findIndex((text, at) => text !== expected[at]),
    );
    const mayLackRest = changes
      .slice(found.length)
      .every(({ block }) => this.#isLaterEnd(block) && asked.mayLack(block));
    if (index < 0) this.tally.right(kind);
    else if (index === found.length && index < expected.length && mayLackRest) {
      this.tally.honest(kind, "a later end of a repeated height is not there yet");
    } else {
      const counts = `change ${index} of ${found.length} (${expected.length} expected)`;
      const place = `${asked.name} ${path}`;
      this.tally.wrong(kind, place, `${counts} ${difference(found[index] ?? "", expected[index] ?? "")}`);
    }
  }

  /** Whether its height was there already: a list up to the next height does not wait for a later end of it. */
  #isLaterEnd({ index, height }: BlockEnd): boolean {
    return this.kept.oracle.blocks[index - 1]?.height === height;
  }

  /** @param differs what is wrong with the body of a response that is 200. @returns whether that was so, and right */
  async #judge(
    kind: string,
    { asked, path, get }: Question,
    past: MarketPast,
    /** Where the standing of the market decides, and the newest and the oldest block that the response depends on. */
    [block, newest, oldest = block]: readonly [BlockEnd, BlockEnd, BlockEnd?],
    differs: (body: string, isImmutable: boolean) => string | undefined,
  ): Promise<boolean> {
    const before = this.kept.standing(past, block);
    const response = await get();
    const standings = [before, this.kept.standing(past, block)];
    const place = `${asked.name} ${path} (block ${block.index}, ${standings.map(({ kind }) => kind).join(", then ")})`;
    if ("error" in response) {
      await this.#judgeError(kind, asked, place, past, [block, newest, oldest], standings, response.error);
      return false;
    }
    // A service may know sooner than the harness that the past is kept again.
    const mayBeKept = standings.some(({ kind }) => kind === "whole") || this.kept.isLosing(0);
    const problem = mayBeKept
      ? (differs(response.body, /immutable/.test(response.headers["cache-control"] ?? "")) ??
        this.#cacheProblem(response.headers, block))
      : `it was served: ${response.body.slice(0, 200)}`;
    if (problem === undefined) this.tally.right(kind);
    else this.tally.wrong(kind, place, problem);
    return problem === undefined;
  }

  /** A past book is immutable once the service has a block of greater height and time: a few may have one time. */
  #cacheProblem(headers: WholeResponse["headers"], block: BlockEnd): string | undefined {
    const cache = headers["cache-control"] ?? "";
    const isPast = BigInt(String(headers["x-block-height"] ?? 0)) > block.height + sameTimeBlocksMax;
    if (isPast && !/immutable/.test(cache) && headers.etag !== undefined) return `Cache-Control: ${cache}`;
    return undefined;
  }

  async #judgeError(
    kind: string,
    asked: Asked,
    place: string,
    past: MarketPast,
    [block, newest, oldest]: readonly [BlockEnd, BlockEnd, BlockEnd],
    standings: readonly Standing[],
    error: ServiceError,
  ): Promise<void> {
    const text = errorText(error);
    const isTrue = standings.some((standing) => expectedErrors(standing, false).includes(text));
    const isExpected =
      standings.some((standing) => expectedErrors(standing, this.kept.mayBePruned(oldest)).includes(text)) ||
      (text === `code ${codes.outOfRange} HISTORY_NOT_YET` && asked.mayLack(newest)) ||
      (text === marketUnknown && isNewTo(asked, past)) ||
      // Of a market that was announced since, nothing is written at all.
      (text.endsWith("HISTORY_NOT_KEPT") && this.kept.isLosing(asked.gapLagMs));
    if (isExpected) {
      if (isTrue) this.tally.right(kind);
      else this.tally.honest(kind, text);
      if (text.endsWith("HISTORY_NOT_KEPT")) this.tally.fact("told that the past is not kept");
      if (text.endsWith("MARKET_WAS_STALE")) this.tally.fact("told that a market was stale");
      if (text.endsWith("MARKET_UNKNOWN")) this.tally.fact("told that a market was not announced");
      if (error.code === codes.failedPrecondition && this.random.next() < nearestShare) {
        const nearest = await this.#askNearest(asked, place, past, error, kind);
        if (nearest !== undefined && place.includes("newest_first=true")) {
          await this.#askBefore(asked, place, past, { anchor: block, nearest });
        }
      }
    } else if (isRefusal(text)) this.tally.honest(kind, text);
    else this.tally.wrong(kind, place, `${text}: ${error.message}`);
  }

  /** A list of the newest first that was refused goes on behind the place that the refusal names. */
  async #askBefore(
    asked: Asked,
    place: string,
    past: MarketPast,
    { anchor, nearest }: { readonly anchor: BlockEnd; readonly nearest: BlockEnd },
  ): Promise<void> {
    const kind = "list before the nearest place of a refusal";
    const { blocks } = this.kept.oracle;
    if (nearest.index > anchor.index) {
      // Then there is no earlier one.
      const earlier = blocks.slice(0, anchor.index).find((block) => {
        const isThere = this.kept.standing(past, block).kind === "whole" && !this.kept.mayBePruned(block);
        return isThere && this.kept.oracle.lastEnd(block) === block;
      });
      if (earlier === undefined) this.tally.right(kind);
      else if (this.kept.isLosing(asked.gapLagMs)) this.tally.honest(kind, "the past was not kept shortly before");
      else
        this.tally.wrong(kind, place, `it names block ${nearest.index} behind it, and not ${earlier.index} or later`);
      return;
    }
    const query = `until_stream_sequence=${nearest.sequence + 1n}&pagination.newest_first=true&pagination.first=1`;
    const path = `${pathOf(past)}/changes?${query}`;
    const response = await asked.client.exchange({ path, deadlineMs });
    const text = response.status === 200 ? "" : errorText(errorOf(response));
    if (response.status === 200) this.tally.right(kind);
    else if (isRefusal(text) || (text.endsWith("HISTORY_NOT_KEPT") && this.kept.mayBePruned(nearest))) {
      this.tally.honest(kind, text);
    } else if (this.kept.isLosing(asked.gapLagMs) || asked.mayLack(nearest)) this.tally.honest(kind, text);
    else this.tally.wrong(kind, `${place}, then ${path}`, text);
  }

  /** The place that a refusal names instead must be a block, and can be had. @returns the block; undefined: it names none */
  async #askNearest(
    asked: Asked,
    place: string,
    past: MarketPast,
    { metadata }: ServiceError,
    refused: string,
  ): Promise<BlockEnd | undefined> {
    const sequence = metadata["nearest_stream_sequence"];
    if (sequence === undefined) return undefined;
    const kind = "nearest place of a refusal";
    const end = this.kept.oracle.blockAt("sequence", BigInt(sequence));
    const told = `${metadata["nearest_height"]} ${metadata["nearest_timestamp"]} ${sequence}`;
    if (end === undefined || told !== `${end.height} ${end.timeNs} ${end.sequence}`) {
      this.tally.wrong(kind, place, `${told} is no block`);
      return undefined;
    }
    // Of a height that is repeated, a list may begin with an earlier end.
    const isOfList = refused === "page of changes";
    const block = isOfList ? this.kept.oracle.lastEnd(end) : end;
    const path = `${pathOf(past)}/at?stream_sequence=${block.sequence}`;
    const response = await asked.client.exchange({ path, deadlineMs });
    const text = response.status === 200 ? "" : errorText(errorOf(response));
    if (response.status === 200) {
      const expected = depthAtText(past, block, 0);
      const body = response.body.toString();
      if (body === expected) this.tally.right(kind);
      else this.tally.wrong(kind, `${asked.name} ${path}`, difference(body, expected));
    } else if (isRefusal(text) || (text.endsWith("HISTORY_NOT_KEPT") && this.kept.mayBePruned(block))) {
      this.tally.honest(kind, text);
    } else if (text.endsWith("HISTORY_NOT_YET") && asked.mayLack(block)) this.tally.honest(kind, text);
    // While the past is not kept, a refusal names the last block of all markets before that.
    else if (/_WAS_STALE$|_NOT_KEPT$/.test(text) && this.kept.isLosing(asked.gapLagMs)) this.tally.honest(kind, text);
    else this.tally.wrong(kind, `${place}, then ${path}`, text);
    return block;
  }

  /** Names a block so that it is the newest not beyond the value; of several with the value, the last. */
  #placeUpTo(near: BlockEnd): Place {
    const { oracle } = this.kept;
    const { name, key } = this.random.pick(placeNames);
    const next = oracle.blocks[near.index + 1] ?? near;
    const value = near[key] + (key === "height" || this.random.next() < 0.5 ? 0n : this.#below(next[key] - near[key]));
    return { name, value, block: oracle.blockAt(key, value) ?? near };
  }

  /** A place between two blocks is beyond the newest one as long as the second is not there. */
  #neededFor({ name, value, block }: Place): BlockEnd {
    const key = placeNames.find((each) => each.name === name)?.key ?? "height";
    return block[key] < value ? (this.kept.oracle.blocks[block.index + 1] ?? block) : block;
  }

  /** Names a block so that it is the first not before the value. */
  #placeFrom(near: BlockEnd): Place {
    const { oracle } = this.kept;
    const { name, key } = this.random.pick(placeNames);
    const before = oracle.blocks[near.index - 1] ?? near;
    const value =
      near[key] - (key === "height" || this.random.next() < 0.5 ? 0n : this.#below(near[key] - before[key]));
    const last = oracle.blockAt(key, value - 1n);
    return { name, value, block: oracle.blocks[(last?.index ?? -1) + 1] ?? near };
  }

  #below(end: bigint): bigint {
    return end <= 0n ? 0n : BigInt(Math.floor(this.random.next() * 1e9)) % end;
  }
}

/** What a service may say instead of a book. */
function expectedErrors(standing: Standing, mayBePruned: boolean): string[] {
  const notKept = `code ${codes.failedPrecondition} HISTORY_NOT_KEPT`;
  const pruned = mayBePruned ? [notKept] : [];
  switch (standing.kind) {
    case "unknown":
      return [marketUnknown, ...(standing.isLost ? [notKept] : pruned)];
    case "not kept":
      return [notKept];
    case "stale":
      return [`code ${codes.failedPrecondition} MARKET_WAS_STALE`, ...pruned];
    case "whole":
      return pruned;
  }
}

/** The service may not know yet that a market was announced. */
function isNewTo(asked: Asked, { eras: [first] }: MarketPast): boolean {
  return first !== undefined && asked.mayLack(first.block);
}

/** The service cannot do it now, and says so. */
export function isRefusal(text: string): boolean {
  return new RegExp(`^code (${codes.unavailable}|${codes.resourceExhausted})\\b`).test(text);
}

function pathOf(past: MarketPast): string {
  return `/api/v2/market/depth/${encodeURIComponent(past.id)}`;
}

function changeText({ block, update }: ListedChange): string {
  return `{"block":${blockText(block)},"update":${update}`;
}

/** The pages of a list, from one of its ends to the other. */
class Pages {
  texts: readonly string[] = [];
  count = 0;
  /** The parameter that asks for the next page; empty: for the first. */
  cursor = "";
  isWhole = false;

  constructor(
    readonly isBackwards: boolean,
    private readonly size: number,
  ) {}

  /** Adds the next page; `mayBeGone`: what is older than it may be removed. @returns what is wrong with it */
  add(body: string, mayBeGone: boolean): string | undefined {
    const { edges, pageInfo } = readPage(body);
    const { hasNextPage, hasPreviousPage, startCursor, endCursor } = pageInfo;
    const { isBackwards, size, count } = this;
    this.count++;
    this.texts = isBackwards ? [...edges, ...this.texts] : [...this.texts, ...edges];
    const [goesOn, wasBefore] = isBackwards ? [hasPreviousPage, hasNextPage] : [hasNextPage, hasPreviousPage];
    const cursor = encodeURIComponent(isBackwards ? startCursor : endCursor);
    this.cursor = `&pagination.${isBackwards ? "before" : "after"}=${cursor}`;
    this.isWhole = !goesOn;
    const mayBeFirst = count === 0 || (isBackwards && mayBeGone);
    if (wasBefore ? count === 0 : !mayBeFirst)
      return `page ${count} says that ${wasBefore ? "a" : "no"} page is before it`;
    return edges.length > size || (edges.length === 0 && goesOn) ? `${edges.length} edges` : undefined;
  }
}

interface PageInfo {
  readonly hasNextPage: boolean;
  readonly hasPreviousPage: boolean;
  readonly startCursor: string;
  readonly endCursor: string;
}

/** The edges of a page as they are in its text, without their cursors. */
function readPage(body: string): { readonly edges: string[]; readonly pageInfo: PageInfo } {
  const { changes } = JSON.parse(body) as {
    changes: { edges: { block: unknown; update: unknown }[]; pageInfo: PageInfo };
  };
  const edges = changes.edges.map(({ block, update }) => {
    return `{"block":${JSON.stringify(block)},"update":${JSON.stringify(update)}`;
  });
  return { edges, pageInfo: changes.pageInfo };
}
