import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Order_Status } from "../../gen/vega/vega_pb.js";
import { pieceMs, Turns } from "../../src/history/turns.js";
import { type LoadOptions, load } from "../../src/loader/load.js";
import { readBytes, streamSource } from "../../src/loader/source.js";
import { openDatabase } from "../../src/store/database.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { startTestService, type TestService } from "../live/service.js";
import { ApiCaller } from "../support/api-caller.js";
import { newDatabaseUrl } from "../support/database.js";
import { loadRecording } from "../support/load-recording.js";
import { inChunks, RecordingBuilder } from "../support/recording.js";
import { level } from "../support/venue-recording.js";

const log = createLog("silent");
const { url } = newDatabaseUrl();
const recording = new RecordingBuilder();
/** The stream sequence number of each end of a block. */
const ends: bigint[] = [];
let service: TestService;

interface Place {
  readonly height: string;
  readonly streamSequence: string;
}

interface Message {
  readonly update: readonly object[];
  readonly block: Place;
  readonly resumeToken: string;
}

function block(height: number, fill: (recording: RecordingBuilder) => unknown): void {
  recording.block(height, BigInt(height) * 1_000_000_000n, fill);
  ends.push(recording.sequence - 1n);
}

function loadAll(options: Partial<LoadOptions> = {}): Promise<unknown> {
  const sources = [streamSource(inChunks(recording.bytes(), readBytes), "a recording")];
  return load({ database: url, sources, log, ...options });
}

async function get(path: string): Promise<string> {
  return (await fetch(`${service.url}/api/v2/${path}`)).text();
}

/** What an error says for programs. */
function infoOf(body: { details?: { reason?: string; metadata?: Record<string, string> }[] }) {
  const info = body.details?.find(({ reason }) => reason !== undefined);
  return { reason: info?.reason, metadata: info?.metadata };
}

async function at(marketId: string, place: string) {
  const body = JSON.parse(await get(`market/depth/${marketId}/at?${place}`));
  return { block: body.block as Place | undefined, ...infoOf(body) };
}

/** Where the changes of a market are, by their blocks. */
async function listed(marketId: string, range: string): Promise<string[]> {
  const { changes } = JSON.parse(await get(`market/depth/${marketId}/changes?${range}`));
  return changes.edges.map(({ block: { height, streamSequence } }: { block: Place }) => `${height} ${streamSequence}`);
}

async function replayed(request: string): Promise<Message[]> {
  const lines = (await get(`stream/markets/depth/replay?${request}`)).split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line).result);
}

const order = (id: string, status = Order_Status.ACTIVE) => ({ id, marketId: "m", price: `10${id}`, status });
const define = (marketId: string) => ({ case: "marketDefinition" as const, value: { marketId } });
const book = (marketId: string, sequenceNumber: bigint) => {
  return { marketId, sequenceNumber, bids: [level("1", `${sequenceNumber}`)] };
};
const snapshot = (number: bigint, id = "v") => ({ case: "bookSnapshot" as const, value: book(id, number) });
const delta = (number: bigint, id = "v") => ({ case: "bookDelta" as const, value: book(id, number) });

beforeAll(async () => {
  await migrate(url, log);
  // The first block is repeated, too. Its first end is not in the list of ends.
  const early = recording.begin(1, 1_000_000_000n);
  for (const id of ["x", "y"]) early.venue(define(id)).venue(snapshot(1n, id));
  early.end();
  block(1, (r) => r.market("m").venue(define("v")).venue(define("w")).venue(delta(9n, "y")));
  // Heights are repeated, as that of a genesis block is: both are applied.
  block(2, (r) => r.order(order("1")).venue(snapshot(1n)).venue(delta(9n, "x")));
  block(2, (r) => r.order(order("2")).venue(delta(9n))); // an update is missing
  block(2, (r) => r.order(order("2", Order_Status.CANCELLED)));
  // At the first end the book of w begins, and that of x, which is stale again at the second.
  block(3, (r) => r.order(order("3")).venue(snapshot(10n)).venue(snapshot(10n, "w")).venue(snapshot(10n, "x")));
  block(3, (r) => r.order(order("4")).venue(delta(19n)).venue(delta(19n, "x")));
  block(3, (r) => r.venue(snapshot(20n)));
  block(4, (r) => r.order(order("5")).venue(delta(11n, "w")));
  block(5, (r) => r.order(order("6")).venue(snapshot(10n, "y")));
  recording.event({ case: "protocolUpgradeStarted", value: {} });
  await loadAll();
  service = await startTestService(url);
});

afterAll(async () => {
  await service.drain();
  await dropDatabase(url);
});

const place = (height: number, index: number) => `${height} ${ends[index]}`;

test("all ends of a repeated block are in a list from it, and none in one up to it", async () => {
  const [second, third] = [[1, 2, 3].map((n) => place(2, n)), [4, 5].map((n) => place(3, n))];
  expect(await listed("m", "fromBlockHeight=2&untilBlockHeight=4")).toEqual([...second, ...third]);
  expect(await listed("m", "fromBlockHeight=2&untilTimestamp=3000000000")).toEqual(second);
  expect(await listed("m", "fromTimestamp=3000000000&untilBlockHeight=4")).toEqual(third);
  expect(await listed("m", `fromStreamSequence=${ends[2]}&untilStreamSequence=${ends[3]}`)).toEqual([place(2, 2)]);
  expect(await listed("m", "untilBlockHeight=3&pagination.newestFirst=true")).toEqual([
    ...second.toReversed(),
    place(1, 0),
  ]);
  // Nothing bridges a gap in the block.
  expect(await listed("v", "fromBlockHeight=3&untilBlockHeight=4")).toEqual([place(3, 6)]);
  expect(await listed("v", `fromBlockHeight=3&untilStreamSequence=${ends[5]}`)).toEqual([place(3, 4)]);
});

test("from the place that the error of a list names, by each of its names, a list begins with the whole book", async () => {
  const refused = infoOf(JSON.parse(await get(`market/depth/w/changes?fromStreamSequence=${ends[0]}`)));
  const [nearest_height, nearest_timestamp, nearest_stream_sequence] = ["3", "3000000000", String(ends[4])];
  const metadata = { nearest_height, nearest_timestamp, nearest_stream_sequence };
  expect(refused).toEqual({ reason: "MARKET_WAS_STALE", metadata });
  for (const from of [
    `fromBlockHeight=${nearest_height}`,
    `fromTimestamp=${nearest_timestamp}`,
    `fromStreamSequence=${nearest_stream_sequence}`,
  ]) {
    const { changes } = JSON.parse(await get(`market/depth/w/changes?${from}`));
    expect(changes.edges, from).toMatchObject([
      { block: { streamSequence: nearest_stream_sequence }, update: { previousSequenceNumber: "0" } },
      { block: { height: "4" }, update: { previousSequenceNumber: changes.edges[0].update.sequenceNumber } },
    ]);
  }
  // A book and a replay begin with the last end, which has the book too.
  const last = await at("w", "blockHeight=2");
  expect(last.metadata).toEqual({ ...metadata, nearest_stream_sequence: String(ends[6]) });
  const [whole] = await replayed(`marketIds=w&fromStreamSequence=${ends[6]}&untilBlockHeight=4`);
  expect(whole).toMatchObject({
    block: { streamSequence: String(ends[6]) },
    update: [{ previousSequenceNumber: "0" }],
  });
});

test("right behind the place that the error of a list names, by each of its names, the newest first goes on", async () => {
  const refused = async (marketId: string, until: string) => {
    const changes = `market/depth/${marketId}/changes?pagination.newestFirst=true&${until}`;
    return infoOf(JSON.parse(await get(changes)));
  };
  const { reason, metadata = {} } = await refused("x", "untilBlockHeight=4");
  expect([reason, metadata["nearest_height"]]).toEqual(["MARKET_WAS_STALE", "1"]);
  const behind = (name: string) => BigInt(metadata[`nearest_${name}`] ?? 0) + 1n;
  const before = await listed("x", "untilBlockHeight=2");
  expect(before).toHaveLength(1);
  for (const until of [
    `untilBlockHeight=${behind("height")}`,
    `untilTimestamp=${behind("timestamp")}`,
    `untilStreamSequence=${behind("stream_sequence")}`,
  ]) {
    expect(await listed("x", `pagination.newestFirst=true&${until}`), until).toEqual(before);
  }
  // Where no book precedes, it is the next one.
  expect(await refused("w", "untilBlockHeight=3")).toMatchObject({ metadata: { nearest_height: "3" } });
});

test("a place in the middle of a repeated block is the block before, and its changes can be listed", async () => {
  for (const end of [ends[4], ends[5]]) {
    expect(await at("m", `streamSequence=${end}`)).toMatchObject({ block: { streamSequence: String(ends[3]) } });
    expect((await at("w", `streamSequence=${end}`)).reason).toBe("MARKET_WAS_STALE");
  }
  // The book of x was there at the first end only.
  const from = `fromStreamSequence=${ends[4]}`;
  for (const until of ["", `&untilStreamSequence=${ends[5]}`, `&untilStreamSequence=${ends[6]}`]) {
    expect(await listed("x", from + until), until).toEqual([place(3, 4)]);
  }
  expect(infoOf(JSON.parse(await get("market/depth/x/changes?fromBlockHeight=3"))).reason).toBe("MARKET_WAS_STALE");
  const replay = await replayed(`marketIds=x&${from}&untilBlockHeight=4&everyUpdate=true`);
  expect(replay.map(({ block }) => Number(block.streamSequence))).toEqual([3, 4, 5].map((n) => Number(ends[n])));
  for (const height of [2, 3]) {
    const refused = await at("x", `blockHeight=${height}`);
    expect(refused).toMatchObject({ reason: "MARKET_WAS_STALE", metadata: { nearest_height: "1" } });
  }
});

test("a replay is resumed behind each end of a repeated block", async () => {
  const messages = await replayed("untilBlockHeight=5&everyUpdate=true");
  expect(messages.map(({ block: { height } }) => Number(height))).toEqual([1, 1, 2, 2, 2, 3, 3, 3, 4]);
  for (const [n, { resumeToken }] of messages.entries()) {
    const [empty, ...rest] = await replayed(`resumeToken=${resumeToken}&untilBlockHeight=5&everyUpdate=true`);
    expect(empty).toMatchObject({ update: [], block: messages[n]?.block });
    expect(rest).toEqual(messages.slice(n + 1));
  }
  expect((await replayed("untilBlockHeight=3&everyUpdate=true")).at(-1)?.block.streamSequence).toBe(String(ends[3]));
});

test("a replay that would begin before what is kept names a block with a book at its end", async () => {
  const [{ block: first }] = (await replayed("untilBlockHeight=2&everyUpdate=true")) as [Message];
  expect(first.height).toBe("1");
  const refused = (ids: string) => get(`stream/markets/depth/replay?fromStreamSequence=${first.streamSequence}${ids}`);
  for (const [ids, nearest_height] of [
    ["", "1"],
    ["&marketIds=y", "5"],
  ] as const) {
    const { reason, metadata } = infoOf(JSON.parse(await refused(ids)));
    expect([reason, metadata]).toEqual(["HISTORY_NOT_KEPT", expect.objectContaining({ nearest_height })]);
  }
});

test("a replay has no book of a block that is not before its end", async () => {
  expect(await replayed("untilTimestamp=1")).toEqual([]);
  expect(await replayed("untilBlockHeight=1&everyUpdate=true")).toEqual([]);
  expect(await replayed("marketIds=v&untilTimestamp=2000000000")).toEqual([]);
  expect(await replayed("marketIds=v&untilTimestamp=2000000001")).toMatchObject([{ block: { height: "2" } }, {}]);
  expect(await replayed("fromBlockHeight=4&untilTimestamp=3000000000")).toEqual([]);
  const last = (await replayed("untilBlockHeight=5&everyUpdate=true")).at(-1);
  expect(await replayed(`resumeToken=${last?.resumeToken}&untilBlockHeight=2`)).toEqual([]);
});

test("a network that stopped to be upgraded has nothing behind its last block", async () => {
  const stop = ends
    .slice(-1)
    .map((end) => end + 1n)
    .join();
  expect(await listed("m", `fromStreamSequence=${stop}`)).toEqual([]);
  const response = await fetch(`${service.url}/api/v2/stream/markets/depth/replay?resumeToken=live`);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const token = JSON.parse((await reader?.read())?.value ?? "").result.resumeToken;
  await reader?.cancel();
  block(6, (r) => r.market("late").venue(delta(29n)));
  await loadAll();
  const untilNow = `resumeToken=${token}&untilStreamSequence=${recording.sequence}`;
  await expect.poll(() => replayed(untilNow)).toHaveLength(2);
  const [empty, next] = await replayed(untilNow);
  expect([empty?.block, next?.block]).toMatchObject([{ height: "5", streamSequence: stop }, { height: "6" }]);
});

test("the nearest place of an error is one that can be answered", async () => {
  block(7, (r) => r.market("later").order(order("7")));
  await loadAll({ keepBooks: "off" });
  await expect.poll(async () => (await at("later", "blockHeight=7")).reason).toBe("HISTORY_NOT_KEPT");
  const stale = await at("v", "blockHeight=2");
  expect(stale).toMatchObject({ reason: "MARKET_WAS_STALE", metadata: { nearest_height: "3" } });
  const end = `streamSequence=${stale.metadata?.["nearest_stream_sequence"]}`;
  expect(await at("v", end)).toMatchObject({ block: { height: "3", streamSequence: String(ends[6]) } });
  const lost = await at("v", "blockHeight=7");
  // It was stale again.
  expect(lost).toMatchObject({ reason: "HISTORY_NOT_KEPT", metadata: { nearest_height: "5" } });
  expect(await at("v", `streamSequence=${lost.metadata?.["nearest_stream_sequence"]}`)).toHaveProperty(
    "block.height",
    "5",
  );
  // It was announced while the past was not kept.
  expect(await at("later", "blockHeight=7")).toMatchObject({ reason: "HISTORY_NOT_KEPT", metadata: {} });
  expect(await at("m", "timestamp=0")).toMatchObject({ metadata: { nearest_height: "1" } });
  expect(await at("v", "timestamp=0")).toMatchObject({ metadata: { nearest_height: "3" } });
});

test("who was told that books are not known has them whole after a break, also where that is not known yet", async () => {
  block(8, (r) => r.order(order("8")));
  await loadAll();
  const untilNow = `untilStreamSequence=${recording.sequence}`;
  await expect.poll(() => replayed(`fromBlockHeight=8&${untilNow}`)).toMatchObject([{ block: { height: "8" } }]);
  const [before, lost, ...rest] = await replayed(`marketIds=m&fromBlockHeight=6&${untilNow}`);
  const state = (name: string) => [{ marketId: "m", state: `MARKET_HISTORY_STATE_${name}` }];
  expect(before).toMatchObject({ block: { height: "6" }, status: state("WHOLE") });
  expect(lost).toMatchObject({ block: { height: "6" }, status: state("STALE"), update: [] });
  expect(rest).toMatchObject([
    { block: { height: "7" }, status: state("WHOLE"), update: [{ previousSequenceNumber: "0" }] },
    { block: { height: "8" }, status: [] },
  ]);
  // A process over a replica that lags joins the live stream here: only what changed would come.
  const resumed = (token = "") => replayed(`marketIds=m&resumeToken=${token}&${untilNow}`);
  expect(await resumed(lost?.resumeToken)).toEqual([before, lost, ...rest]);
  expect(await resumed(before?.resumeToken)).toEqual([{ ...before, status: [], update: [] }, lost, ...rest]);
  expect(await resumed(rest[0]?.resumeToken)).toEqual([{ ...rest[0], status: [], update: [] }, rest[1]]);
});

test("a book is not made of changes alone where the one before them was damaged", async () => {
  expect(await at("v", "blockHeight=3")).toHaveProperty("block.height", "3");
  const database = openDatabase(url);
  await database.withConnection((connection) => connection.run("DELETE FROM book_segment_part WHERE part = 0"));
  await database.close();
  expect(JSON.parse(await get("market/depth/v/at?blockHeight=3"))).toMatchObject({ code: Code.Internal });
});

test("a replay of many books begins with parts of few levels, which do not block the process for long", async () => {
  const [books, marketIds] = [new RecordingBuilder(), ["a", "b", "c", "d"]];
  const levels = 3_000;
  books.block(1, 1_000_000_000n, (r) => {
    for (const marketId of marketIds) {
      r.market(marketId);
      for (let n = 1; n <= levels; n++) r.order({ id: `${marketId} ${n}`, marketId, price: `${n}` });
    }
  });
  books.block(2, 2_000_000_000n);
  const { url: other } = newDatabaseUrl();
  await loadRecording(other, books.bytes());
  const api = await ApiCaller.open(other);
  const stream = await api.stream("ReplayMarketsDepth", { fromBlockHeight: "1", untilBlockHeight: "2" });
  const parts: { update: { marketId: string; buy: object[] }[]; block?: Place }[] = [];
  await vi.waitFor(() => {
    for (const message of stream.take()) parts.push(JSON.parse(message.jsonText()));
    expect(stream.ended).toBe(true);
  });
  expect(parts.flatMap(({ update }) => update.map(({ marketId }) => marketId)).sort()).toEqual(marketIds);
  for (const { update } of parts) {
    for (const { buy } of update) expect(buy.length).toBe(levels);
    expect(update.length).toBeLessThanOrEqual(2);
  }
  expect(parts.map(({ block }) => block?.height)).toEqual([...parts.slice(1).map(() => undefined), "1"]);
  stream.close();
  await api.opened.close();
});

test("a page of many changed levels is read in turns", async () => {
  const book = new RecordingBuilder();
  const [levels, blocks] = [1_000, 40];
  for (let height = 1; height <= blocks; height++) {
    book.block(height, BigInt(height) * 1_000_000_000n, (r) => {
      if (height === 1) r.market("m");
      for (let n = 1; n <= levels; n += height === 1 ? 1 : 4) {
        r.order({ id: `${n}`, marketId: "m", price: `${n}`, size: BigInt(height), remaining: BigInt(height) });
      }
    });
  }
  const { url: other } = newDatabaseUrl();
  await loadRecording(other, book.bytes());
  const api = await ApiCaller.open(other);
  const turns = vi.spyOn(Turns.prototype, "next");
  // However fast this machine is, two changes take the time of a piece.
  const now = performance.now.bind(performance);
  let more = 0;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => {
    more += pieceMs / 2;
    return now() + more;
  });
  const { edges } = await api.page("ListMarketDepthChanges", { marketId: "m", fromBlockHeight: "2" });
  clock.mockRestore();
  expect(edges.length).toBeGreaterThan(30);
  // Few are of the book before them.
  expect(turns.mock.calls.length).toBeGreaterThan(10);
  turns.mockRestore();
  await api.opened.close();
});
