import { setTimeout as delay } from "node:timers/promises";
import { type MessageInitShape, toJsonString } from "@bufbuild/protobuf";
import {
  AggregatedBalanceSchema,
  type PageInfo,
  type PaginationSchema,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { CallFailure } from "./call-failure.js";
import { digestOf } from "./digest.js";
import type { Fold } from "./fold.js";
import type { DigestedList } from "./growing-list.js";
import { entryDigest, type Judge, tradeDigest } from "./judge.js";
import { deadlineMs, type Finding, type Readers } from "./reader.js";
import type { RpcClient } from "./rpc-client.js";
import type { ClientState } from "./scoreboard.js";
import { filterOf, methods, nodesOf, partyOf } from "./unary-call.js";

/** A page, in brief. */
interface Page {
  readonly digests: string[];
  readonly pageInfo: PageInfo | undefined;
}

/** A list that has pages, of what a party has a part in. */
interface PagedList {
  readonly name: string;
  listOf(fold: Fold): DigestedList;
  page(client: RpcClient, party: string, pagination: MessageInitShape<typeof PaginationSchema>): Promise<Page>;
}

const pagedLists: readonly PagedList[] = [
  {
    name: "entries",
    listOf: (fold) => fold.rows,
    page: async (client, party, pagination) => {
      const request = { filter: filterOf(party), pagination };
      const { ledgerEntries: page } = (await client.unary(methods.listLedgerEntries, request, deadlineMs)).message;
      return { digests: nodesOf(page).map(entryDigest), pageInfo: page?.pageInfo };
    },
  },
  {
    name: "trades",
    listOf: (fold) => fold.trades,
    page: async (client, party, pagination) => {
      const request = { partyIds: [party], pagination };
      const { trades: page } = (await client.unary(methods.listTrades, request, deadlineMs)).message;
      return { digests: nodesOf(page).map(tradeDigest), pageInfo: page?.pageInfo };
    },
  },
  {
    name: "balance changes",
    listOf: (fold) => fold.balances.changes,
    page: async (client, party, pagination) => {
      const request = { filter: { partyIds: [party] }, pagination };
      const { balances: page } = (await client.unary(methods.listBalanceChanges, request, deadlineMs)).message;
      const digests = nodesOf(page).map((node) => digestOf(toJsonString(AggregatedBalanceSchema, node)));
      return { digests, pageInfo: page?.pageInfo };
    },
  },
];

type Direction = "newest first" | "oldest first" | "backwards";

/** Attempts for one page before the reader gives up. Cursors stay valid, so an outage is survived. */
const attemptsMax = 8;
const retryPauseMs = 250;

/**
 * Reads all pages of a list, in one of three directions with pages of a random size. Every row that was there at the
 * start must come exactly once, in order, also while blocks arrive.
 */
export async function readAllPages(readers: Readers, client: RpcClient, state: ClientState): Promise<Finding> {
  const { judge, random, signal } = readers;
  const { chain } = judge;
  // The first pages may come from the chain before, and the next ones from this one.
  const mayMix = judge.previousChain !== undefined;
  const list = random.pick(pagedLists);
  const party = partyOf(judge, random.next());
  const rows = list.listOf(chain.fold).count(party, chain.height);
  const direction = random.pick<Direction>(["newest first", "oldest first", "backwards"]);
  const size = Math.ceil(Math.max(20, rows / 4) * random.next()) + 5;
  const startedAt = performance.now();
  const floor = judge.floor(startedAt);
  const digests: string[] = [];
  let cursor: string | undefined;
  // The cursors of a chain that was replaced lead nowhere.
  const isOver = (): boolean => signal.aborted || judge.chain !== chain;
  for (let more = true; more && !isOver(); ) {
    const pagination = paginationOf(direction, size, cursor);
    const page = await withRetries(isOver, () => list.page(client, party, pagination));
    if (page === undefined) return undefined;
    const { pageInfo } = page;
    readers.scoreboard.step(state);
    digests.push(...(direction === "backwards" ? page.digests.reverse() : page.digests));
    more = (direction === "backwards" ? pageInfo?.hasPreviousPage : pageInfo?.hasNextPage) === true;
    const next = direction === "backwards" ? pageInfo?.startCursor : pageInfo?.endCursor;
    if (more && (next === undefined || next === "" || next === cursor))
      return { wrong: `pages of ${list.name} of ${party} do not end` };
    cursor = next;
  }
  // A chain that was replaced meanwhile has other rows at the same places.
  if (isOver()) return undefined;
  const oldestFirst = direction === "newest first" ? digests.reverse() : digests;
  const problemIn = (fold: Fold, least: number) => pagesProblem(list.listOf(fold), party, oldestFirst, least);
  const finding = judgePages(judge, problemIn, floor, mayMix);
  if (typeof finding !== "object") return finding;
  return { wrong: `all pages of ${list.name} of ${party}: ${finding.wrong} (${direction}, pages of ${size})` };
}

/** @param floor the block that was there when the reader began @param mayMix the pages may be of two chains: no verdict */
function judgePages(
  judge: Judge,
  problemIn: (fold: Fold, floor: number) => string | undefined,
  floor: number,
  mayMix: boolean,
): Finding {
  const problem = problemIn(judge.chain.fold, floor);
  if (problem === undefined) return "right";
  // A short list may be read before its database is dropped.
  const previous = judge.previousChain?.fold;
  if (previous !== undefined && problemIn(previous, 0) === undefined) return "old";
  return mayMix ? undefined : { wrong: problem };
}

/** @param oldestFirst digests of the rows @param floor the block that was there at the start */
function pagesProblem(list: DigestedList, party: string, oldestFirst: readonly string[], floor: number) {
  const least = list.count(party, floor);
  if (oldestFirst.length < least) return `${oldestFirst.length} rows, where ${least} were there at its start`;
  const index = oldestFirst.findIndex((digest, place) => list.digest(party, place) !== digest);
  return index < 0 ? undefined : `another row at place ${index} of ${oldestFirst.length}`;
}

/** Paging backwards begins at the end of the list, with the oldest rows: the order is that of "oldest first". */
function paginationOf(direction: Direction, size: number, cursor: string | undefined) {
  if (direction === "backwards")
    return { last: size, newestFirst: true, ...(cursor === undefined ? {} : { before: cursor }) };
  const newestFirst = direction === "newest first";
  return { first: size, newestFirst, ...(cursor === undefined ? {} : { after: cursor }) };
}

/** Undefined: the reader was stopped before the call succeeded. */
async function withRetries<T>(isOver: () => boolean, call: () => Promise<T>): Promise<T | undefined> {
  for (let attempt = 1; !isOver(); attempt++) {
    try {
      return await call();
    } catch (error) {
      if (attempt === attemptsMax || !(error instanceof CallFailure)) throw error;
      if (error.kind === "said" && !error.hasRetryInfo) throw error;
      await delay(retryPauseMs);
    }
  }
  return undefined;
}
