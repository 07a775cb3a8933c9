import { setTimeout as delay } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import { fromBinary, toJson } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { CallFailure, failureFromJson } from "./call-failure.js";
import { type ExportFile, exportProblem } from "./export-file.js";
import { type Fold, rowDigest } from "./fold.js";
import { HttpClient, wholeBody } from "./http-client.js";
import { countBelow, entryDigest, type Judge } from "./judge.js";
import { deadlineMs, type Finding, type Readers, repeat } from "./reader.js";
import { type Protocol, type RpcClient, rpcClient } from "./rpc-client.js";
import type { ClientState } from "./scoreboard.js";
import { filterOf, partyOf } from "./unary-readers.js";

const methods = TradingDataService.method;
const pauseMs = 250;
/** A whole export takes longer than a response. */
const exportMaxMs = 10_000;

/** Exports at once where a fault asks for many: enough that a pool of connections uses all of them. */
const burstSize = 10;

/** Exports in every format, and readers of all pages of a party's entries. */
export function startLedgerReaders(readers: Readers, isBurst: () => boolean): Promise<void>[] {
  const loops = (["REST", "Connect", "gRPC-Web", "gRPC"] as const).map((protocol) => {
    const client = rpcClient(protocol, readers.port);
    return repeat(readers, `${protocol} export`, "ledger", pauseMs, (startedAt) =>
      checkExport(readers, startedAt, (party, asset, signal) => exportOver(client, party, asset, signal)),
    );
  });
  const http = new HttpClient(readers.port);
  loops.push(
    repeat(readers, "CSV export", "ledger", pauseMs, (startedAt) =>
      checkExport(readers, startedAt, (party, asset, signal) => rawExport(http, party, asset, signal)),
    ),
  );
  for (let place = 1; place <= burstSize; place++) {
    const client = rpcClient("REST", readers.port);
    const call = (startedAt: number) =>
      checkExport(readers, startedAt, (party, asset, signal) => exportOver(client, party, asset, signal));
    loops.push(repeat(readers, `export ${place} of a burst`, "ledger", 0, call, isBurst));
  }
  for (const protocol of ["REST", "gRPC"] satisfies Protocol[]) {
    const client = rpcClient(protocol, readers.port);
    loops.push(
      repeat(readers, `${protocol} pages`, "ledger", pauseMs, (_, state) => readAllPages(readers, client, state)),
    );
  }
  return loops;
}

async function checkExport(
  { judge, random, signal }: Readers,
  startedAt: number,
  read: (party: string, asset: string, signal: AbortSignal) => Promise<ExportFile>,
): Promise<Finding> {
  // The network itself has a part in most entries.
  const party = random.next() < 0.4 ? "network" : partyOf(judge, random.next());
  const { fold } = judge.chain;
  const row = fold.rows[fold.rowsOfParty.get(party)?.at(-1) ?? -1];
  if (row === undefined) return undefined;
  const asset = row.from.asset;
  const late = AbortSignal.timeout(exportMaxMs);
  let file: ExportFile;
  try {
    file = await read(party, asset, AbortSignal.any([signal, late]));
  } catch (error) {
    throw late.aborted ? new CallFailure("late", `the export did not end within ${exportMaxMs} ms`) : error;
  }
  const newest = file.facts.get("newestBlock");
  if (newest === undefined) {
    const rows = file.csv.toString("latin1").split("\r\n").length - 2;
    // A database without any block has nothing to state.
    return judge.floor(startedAt) === 0 && rows === 0
      ? "right"
      : { wrong: `an export of ${rows} rows states no newest block` };
  }
  let problem: string | undefined;
  const verdict = judge.check(startedAt, Number(newest), (each, height) => {
    problem = exportProblem(file, party, asset, each, height);
    return problem === undefined;
  });
  if (verdict !== undefined) return verdict === "right" ? "right" : "old";
  return { wrong: `the export of ${party} up to block ${newest}: ${problem ?? "that block does not exist"}` };
}

async function exportOver(
  client: RpcClient,
  partyId: string,
  assetId: string,
  signal: AbortSignal,
): Promise<ExportFile> {
  const chunks: Uint8Array[] = [];
  const facts = new Map<string, string>();
  const request = { partyId, assetId };
  for await (const body of client.stream(methods.exportLedgerEntries, request, deadlineMs, signal)) {
    chunks.push(body.data);
    for (const extension of body.extensions) {
      const struct = toJson(StructSchema, fromBinary(StructSchema, extension.value)) as JsonObject;
      for (const [name, value] of Object.entries(struct)) facts.set(name, String(value));
    }
  }
  return { csv: Buffer.concat(chunks), facts };
}

/** The names of the facts in HTTP headers and trailers. */
const factNames = {
  "export-newest-block": "newestBlock",
  "export-rows": "rows",
  "export-sum-of-effects": "sumOfEffects",
  "export-sha256": "sha256",
} as const;

async function rawExport(http: HttpClient, party: string, asset: string, signal: AbortSignal): Promise<ExportFile> {
  const path = `/api/v2/ledgerentry/export?partyId=${party}&assetId=${asset}&alt=media`;
  const response = await http.open({ path, deadlineMs }, signal);
  const csv = await wholeBody(response).catch((error: unknown) => {
    throw error instanceof CallFailure ? new CallFailure("cut off", error.message) : error;
  });
  if (response.statusCode !== 200) {
    throw failureFromJson(parsed(csv), `status ${response.statusCode}`);
  }
  const facts = new Map<string, string>();
  for (const [field, name] of Object.entries(factNames)) {
    const value = response.headers[field] ?? response.trailers[field];
    if (typeof value === "string") facts.set(name, value);
  }
  return { csv, facts };
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return body.toString().slice(0, 200);
  }
}

type Direction = "newest first" | "oldest first" | "backwards";

/** Attempts for one page before the reader gives up. Cursors stay valid, so an outage is survived. */
const attemptsMax = 8;
const retryPauseMs = 250;

/**
 * Reads all pages of a party's entries, in one of three directions with pages of a random size. Every entry that was
 * there at the start must come exactly once, in order, also while blocks arrive.
 */
async function readAllPages(readers: Readers, client: RpcClient, state: ClientState): Promise<Finding> {
  const { judge, random, signal } = readers;
  const { chain } = judge;
  // The first pages may come from the chain before, and the next ones from this one.
  const mayMix = judge.previousChain !== undefined;
  const party = partyOf(judge, random.next());
  const places = chain.fold.rowsOfParty.get(party) ?? [];
  const direction = random.pick<Direction>(["newest first", "oldest first", "backwards"]);
  const size = Math.ceil(Math.max(20, places.length / 4) * random.next()) + 5;
  const startedAt = performance.now();
  const floor = judge.floor(startedAt);
  const digests: string[] = [];
  let cursor: string | undefined;
  // The cursors of a chain that was replaced lead nowhere.
  const isOver = (): boolean => signal.aborted || judge.chain !== chain;
  for (let more = true; more && !isOver(); ) {
    const pagination = paginationOf(direction, size, cursor);
    const request = { filter: filterOf(party), pagination };
    const reply = await withRetries(isOver, () => client.unary(methods.listLedgerEntries, request, deadlineMs));
    if (reply === undefined) return undefined;
    const page = reply.message.ledgerEntries;
    readers.scoreboard.step(state);
    const nodes = (page?.edges ?? []).flatMap(({ node }) => (node === undefined ? [] : [entryDigest(node)]));
    digests.push(...(direction === "backwards" ? nodes.reverse() : nodes));
    more = (direction === "backwards" ? page?.pageInfo?.hasPreviousPage : page?.pageInfo?.hasNextPage) === true;
    const next = direction === "backwards" ? page?.pageInfo?.startCursor : page?.pageInfo?.endCursor;
    if (more && (next === undefined || next === "" || next === cursor))
      return { wrong: `pages of ${party} do not end` };
    cursor = next;
  }
  // A chain that was replaced meanwhile has other entries at the same places.
  if (isOver()) return undefined;
  const oldestFirst = direction === "newest first" ? digests.reverse() : digests;
  const finding = judgePages(judge, party, oldestFirst, floor, mayMix);
  return typeof finding === "object" ? { wrong: `${finding.wrong} (${direction}, pages of ${size})` } : finding;
}

/** @param floor the block that was there when the reader began @param mayMix the pages may be of two chains: no verdict */
function judgePages(judge: Judge, party: string, oldestFirst: readonly string[], floor: number, mayMix: boolean) {
  const problem = pagesProblem(judge.chain.fold, party, oldestFirst, floor);
  if (problem === undefined) return "right";
  // A short list may be read before its database is dropped.
  const previous = judge.previousChain?.fold;
  if (previous !== undefined && pagesProblem(previous, party, oldestFirst, 0) === undefined) return "old";
  return mayMix ? undefined : { wrong: `all pages of ${party}: ${problem}` };
}

/** @param oldestFirst digests of the entries @param floor the block that was there at the start */
function pagesProblem(fold: Fold, party: string, oldestFirst: readonly string[], floor: number): string | undefined {
  const places = fold.rowsOfParty.get(party) ?? [];
  const least = countBelow(places, fold.block(floor)?.rows ?? 0);
  if (oldestFirst.length < least) return `${oldestFirst.length} entries, where ${least} were there at its start`;
  const index = oldestFirst.findIndex((digest, place) => {
    const row = fold.rows[places[place] ?? -1];
    return row === undefined || rowDigest(row) !== digest;
  });
  return index < 0 ? undefined : `another entry at place ${index} of ${oldestFirst.length}`;
}

/** Paging backwards begins at the end of the list, with the oldest entries: the order is that of "oldest first". */
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
