import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { MarketHistoryState as State } from "../../gen/marketd/history/v1/market_history_pb.js";
import { createApi } from "../../src/api/api.js";
import type { PageRequest } from "../../src/domain/page.js";
import { selectionHash } from "../../src/domain/resume-token.js";
import type { Api, Call, ResponseStream } from "../../src/domain/service.js";
import { readChanges } from "../../src/history/changes-page.js";
import { History } from "../../src/history/history.js";
import { MarketCursor, type PastEvent } from "../../src/history/market-cursor.js";
import { withoutBooks } from "../../src/history/place.js";
import { PublishedNumbers } from "../../src/history/published-at.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { draining, Live } from "../../src/live/live.js";
import { Reader } from "../../src/store/connection/lease.js";
import { readBegin, readOldestBegins, readOldestBooks } from "../../src/store/history-reads.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { failureOf, PastFixture, type PastStep } from "./past-fixture.js";
import { ReplayReader } from "./replay-reader.js";

/* The past while segments of it are dropped, and while it is kept again. */

const log = createLog("silent");
const always = { from: undefined, until: undefined };
let past: PastFixture;
let live: Live;
let history: History;
let api: Api;
let volume = 0n;

/** Blocks that change the book of `a`; six of them are a segment. */
async function change(blocks: number, step: PastStep = {}): Promise<void> {
  for (let n = 0; n < blocks; n++) {
    await past.add({ ...step, levels: [{ marketId: "a", side: 1, price: "10", volume: ++volume }] });
  }
}

async function seen(): Promise<void> {
  const newest = past.network.progress.streamSequence;
  await vi.waitFor(() => expect(live.state().progress.streamSequence).toBe(newest), { timeout: 20_000, interval: 2 });
}

const call = (): Call => ({
  signal: new AbortController().signal,
  clientAddress: "10.0.0.1",
  requestHeaders: {},
  codec: "proto",
});

/** The places of a page of changes. */
async function page(request: Partial<PageRequest<bigint>>): Promise<bigint[]> {
  const whole = { newestFirst: false, size: 3, backwards: false, cursor: undefined, ...request };
  const { rows: changes } = await readChanges(history.past, "a", always, whole, call());
  return changes.map(({ block }) => block.streamSequence);
}

/** The places of all changes from a place on. */
const placesFrom = (from: bigint) =>
  past.blocks
    .filter(({ markets }) => markets.get("a")?.changed.length)
    .map((block) => block.streamSequence)
    .filter((place) => place >= from);

const newest = () => past.network.progress.streamSequence;

/** Where the oldest segment begins that is kept. */
async function oldest(): Promise<bigint> {
  const [begin] = await history.past.lease(undefined, (reader) => readOldestBegins(reader, ["a"]));
  return begin?.streamSequence ?? 0n;
}

beforeAll(async () => {
  past = await PastFixture.create();
  await past.add({ announce: ["a"] });
  await change(40);
  const { database } = past.fixture;
  live = await Live.start({
    database,
    log,
    metrics: createMetrics(),
    limits: { pollIntervalMs: 2, heartbeatMs: 60_000 },
  });
  history = new History({ database, live, log });
  api = createApi({ live, database, ledger: new LedgerReader(database), history, log });
  await seen();
});

afterAll(async () => {
  await live.stop();
  await past.fixture.drop();
});

test.each([
  ["the oldest first", { newestFirst: false, backwards: false }, 1],
  ["the newest first, from its end", { newestFirst: true, backwards: true }, 1],
  ["the newest first", { newestFirst: true, backwards: false }, 30],
])("a page behind a change that was dropped is an error: %s", async (_, order, size) => {
  await change(40);
  const cursor = (await page({ ...order, size })).at(order.backwards ? 0 : -1);
  await past.prune(newest() - 10n);
  const kept = await oldest();
  expect(cursor).toBeLessThan(kept);
  const failure = await failureOf(page({ ...order, cursor }));
  expect(failure).toMatchObject({ code: "failed_precondition", reason: "HISTORY_NOT_KEPT" });
  expect(failure.reasonMetadata["nearest_stream_sequence"]).toBe(String(kept));
  // What is kept is listed whole, also behind the change with which it begins.
  expect(await page({ size: 100, cursor: kept })).toEqual(placesFrom(kept + 1n));
});

/** Drops segments once while a list is read, before the statement `isNext`. */
async function dropping<T>(isNext: (sql: string) => boolean, read: () => Promise<T>): Promise<T> {
  const { lease } = history.past;
  let isDropped = false;
  const spy = vi.spyOn(history.past, "lease").mockImplementation((of, use, place) => {
    const between = async (reader: Reader) => {
      const query = reader.query.bind(reader);
      reader.query = async (sql, parameters) => {
        if (!isDropped && isNext(sql)) {
          isDropped = true;
          await past.prune(newest() - 10n);
        }
        return query(sql, parameters);
      };
      return use(reader);
    };
    return lease.call(history.past, of, between, place) as never;
  });
  const result = await read().finally(() => spy.mockRestore());
  expect(isDropped).toBe(true);
  return result;
}

/** The second statement that reads a segment: the first finds where the list begins. */
function secondOfSegments(): (sql: string) => boolean {
  let segmentsRead = 0;
  return (sql) => sql.includes("p.body") && ++segmentsRead === 2;
}

test("a page whose segments are dropped while it is read is an error, or begins with the oldest that is kept", async () => {
  await change(40);
  const [cursor = 0n] = await page({ size: 1 });
  const failure = await failureOf(dropping(secondOfSegments(), () => page({ cursor })));
  expect(failure).toMatchObject({ code: "failed_precondition", reason: "HISTORY_NOT_KEPT" });
  await change(40);
  const whole = await dropping(secondOfSegments(), () => page({ size: 100 }));
  expect(whole).toEqual(placesFrom((await oldest()) + 1n));
});

test("an error whose nearest block is dropped while it is found names a block", async () => {
  await change(40);
  const [cursor = 0n] = await page({ size: 1 });
  await change(20);
  await past.prune(newest() - 40n);
  expect(cursor).toBeLessThan(await oldest());
  let isFound = false;
  /** Asks where the part of the block begins that was found behind the cursor. */
  const isOfPart = (sql: string) => {
    const wasFound = isFound;
    isFound ||= sql.includes(`first_sequence > ${cursor}`);
    return wasFound && sql.includes("first_sequence <");
  };
  const failure = await failureOf(dropping(isOfPart, () => page({ cursor })));
  expect(failure.reason).toBe("HISTORY_NOT_KEPT");
  const [height, place] = ["nearest_height", "nearest_stream_sequence"].map((name) => failure.reasonMetadata[name]);
  expect(past.at(BigInt(place ?? 0))?.height).toBe(BigInt(height ?? 0));
});

test("numbers of which there is no time to read are not known, so that their books come whole", async () => {
  await change(5);
  const place = newest() - 3n;
  await seen();
  const numberOf = async (numbers: PublishedNumbers) =>
    (await numbers.of("a", call())(place, ["a"], ["a"])).numbers.get("a");
  expect(await numberOf(new PublishedNumbers(history.past))).toBeTypeOf("bigint");
  expect(await numberOf(new PublishedNumbers(history.past, 0))).toBeUndefined();
});

/** A service that has read the store, and reads it anew when `replace` is called. */
async function startReplaced() {
  const { database } = past.fixture;
  const startOne = () => Live.start({ database, log, metrics: createMetrics(), limits: { pollIntervalMs: 2 } });
  const [before, after] = [await startOne(), await startOne()];
  let current = before;
  const replaced = new Proxy(before, {
    get: (_, name) => {
      const value: unknown = Reflect.get(current, name, current);
      return typeof value === "function" ? value.bind(current) : value;
    },
  });
  return {
    history: new History({ database, live: replaced, log }),
    store: before.state().storeHash,
    reached: () => [before, after].map((each) => each.state().progress.streamSequence),
    replace: () => {
      current = after;
    },
    stop: () => Promise.all([before.stop(), after.stop()]),
  };
}

test("a stream that resumes while the same store is read anew fails, as open ones do", async () => {
  await change(3);
  const place = newest();
  await change(3);
  const { history: resumed, store, reached, replace, stop } = await startReplaced();
  const token = { kind: "live", selection: selectionHash(["a"]), store } as const;
  const resume = (streamSequence: bigint) => resumed.resume({ ...token, streamSequence }, ["a"], call());
  expect((await resume(place))?.held.size).toBe(1);
  const { lease } = resumed.past;
  const spy = vi.spyOn(resumed.past, "lease").mockImplementation((...parameters) => {
    replace();
    return lease.apply(resumed.past, parameters) as never;
  });
  await change(1);
  await vi.waitFor(() => expect(reached()).toEqual([newest(), newest()]), { timeout: 20_000 });
  // Not the same place: its numbers are remembered.
  const failure = await failureOf(resume(place - 1n));
  expect(spy).toHaveBeenCalled();
  expect(failure).toMatchObject({ code: "unavailable", reason: "CHAIN_CHANGED" });
  await stop();
});

test("a replay ends with what ends the others while it is planned", async () => {
  await change(3);
  const { history: planned, replace, stop } = await startReplaced();
  const { lease } = planned.past;
  /** Opens a replay that goes on for ever; `happens` is called once it is planned. */
  const replayOf = (happens: () => void) => {
    vi.spyOn(planned.past, "lease").mockImplementationOnce(async (...parameters) => {
      const plan = await lease.apply(planned.past, parameters);
      happens();
      return plan as never;
    });
    const range = { from: { streamSequence: newest() }, until: undefined, resume: undefined };
    return planned.replay({ marketIds: ["a"], ...range, speed: 1, everyUpdate: false }, call());
  };
  const replaced = await replayOf(replace);
  await vi.waitFor(() => expect(replaced.failure?.reason).toBe("CHAIN_CHANGED"), { timeout: 20_000 });
  const failure = await failureOf(replayOf(() => planned.close(draining())));
  expect(failure.reason).toBe("DRAINING");
  await stop();
});

test("clients that resume at many places leave others a turn at the database", async () => {
  await change(10);
  await seen();
  const { lease } = history.past;
  let goOn: () => void = () => {};
  const blocked = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const spy = vi.spyOn(history.past, "lease").mockImplementation((of, use, place) => {
    const slowly = (reader: Reader) => blocked.then(() => use(reader));
    return lease.call(history.past, of, slowly, place) as never;
  });
  const numbers = new PublishedNumbers(history.past);
  const gone = new AbortController();
  const places = Array.from({ length: 6 }, (_, n) => newest() - BigInt(n));
  const reading = places.map((place) => numbers.of("a", { ...call(), signal: gone.signal })(place, ["a"], ["a"]));
  spy.mockRestore();
  // Others may wait for the same place.
  gone.abort();
  const order = { newestFirst: true, size: 3, backwards: false, cursor: undefined };
  const other = { ...call(), clientAddress: "10.0.0.2" };
  const { rows } = await readChanges(history.past, "a", always, order, other).finally(goOn);
  expect(rows.length).toBe(3);
  for (const read of reading) expect((await read).numbers.get("a")).toBeTypeOf("bigint");
});

test("a page on the other side of a gap is an error that names the cursor's own block", async () => {
  const cursor = newest();
  await past.add({ stale: ["a"] });
  await past.add({ healed: ["a"] });
  await change(3);
  await seen();
  const failure = await failureOf(page({ newestFirst: true, cursor }));
  expect(failure.reason).toBe("HISTORY_NOT_KEPT");
  expect(failure.reasonMetadata["nearest_stream_sequence"]).toBe(String(cursor));
  const { rows: changes } = await readChanges(
    history.past,
    "a",
    { from: undefined, until: { streamSequence: cursor } },
    { newestFirst: true, size: 2, backwards: false, cursor: undefined },
    call(),
  );
  expect(changes.map(({ block }) => block.streamSequence)).toEqual(
    placesFrom(0n)
      .filter((place) => place < cursor)
      .slice(-2)
      .reverse(),
  );
});

test("a list of the newest first ends before a part that is not kept, wherever its end is in between", async () => {
  await change(3);
  const kept = newest();
  await change(1, { unkept: true });
  const lost = newest();
  const listed = async (until: bigint) => {
    const range = { from: undefined, until: { streamSequence: until } };
    const order = { newestFirst: true, size: 3, backwards: false, cursor: undefined };
    const { rows: changes } = await readChanges(history.past, "a", range, order, call());
    return changes.map(({ block }) => block.streamSequence);
  };
  const before = placesFrom(0n).filter((place) => place <= kept);
  // While nothing is kept, and once it is again.
  for (const blocks of [0, 3]) {
    await change(blocks);
    for (const until of [kept + 1n, kept + 2n, lost]) expect(await listed(until)).toEqual(before.slice(-3).reverse());
    const { reason, reasonMetadata } = await failureOf(listed(lost + 1n));
    expect([reason, reasonMetadata["nearest_stream_sequence"]]).toEqual(["HISTORY_NOT_KEPT", String(kept)]);
  }
});

test("a market whose segment was dropped since a replay was planned is not kept at first, and then whole", async () => {
  await change(20);
  const [begins] = await history.past.lease(undefined, (reader) => readOldestBegins(reader, ["a"]));
  const block = past.at(begins?.streamSequence ?? 0n);
  if (block === undefined || begins === undefined) throw new Error("there is a block");
  await past.prune(newest() - 5n);
  const kept = await oldest();
  expect(kept).toBeGreaterThan(begins.streamSequence);
  const reads = {
    lease: <T>(use: (reader: Reader) => Promise<T>) => history.past.lease(undefined, use),
    signal: undefined,
    client: "",
    aheadLeft: 0,
  };
  const cursor = new MarketCursor(history.past, reads, "a", block.streamSequence, begins);
  expect(await cursor.begin(block, true, newest())).toMatchObject({ kind: "stale", isNotKept: true });
  const events: PastEvent[] = [];
  for (await cursor.fill(newest()); cursor.head !== undefined; await cursor.fill(newest())) {
    events.push(cursor.head);
    cursor.shift();
  }
  cursor.close();
  expect(events.map(({ kind }) => kind)).toEqual(["whole", ...placesFrom(kept + 1n).map(() => "update")]);
  expect(events[0]?.place).toBe(kept);
});

test("what is computed for a call that is over ends with a failure, whatever its server aborted it with", async () => {
  const work = (function* (): Generator<void, void> {
    for (;;) yield;
  })();
  const signal = AbortSignal.abort(new Error("the client of another server left"));
  expect((await failureOf(history.past.inTurns(work, { signal, client: "" }))).code).toBe("cancelled");
});

function delayed(request: object): Promise<ResponseStream> {
  const method = api.find(({ desc }) => desc.name === "ReplayMarketsDepth");
  if (method?.kind !== "server_streaming") throw new Error("no replays are served");
  return Promise.resolve(method.open({ marketIds: [], speed: "1", ...request } as never, call()));
}

/** What a read of the past finds, and how many rows the server reads for it one after the other. */
function rowsReadBy<T>(find: (reader: Reader) => Promise<T>): Promise<{ readonly found: T; readonly rows: number }> {
  const { database } = past.fixture;
  return database.withConnection(async (connection) => {
    const rowsRead = async (): Promise<number> => {
      const rows = await connection.query<{ Variable_name: string; Value: string }>(
        "SHOW SESSION STATUS WHERE Variable_name IN ('Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd_next')",
      );
      return rows.reduce((sum, { Value }) => sum + Number(Value), 0);
    };
    const [before, empty] = [await rowsRead(), await rowsRead()];
    const found = await find(new Reader(connection, database.knownPlace, { class: "history", call: undefined }));
    return { found, rows: (await rowsRead()) - empty - (empty - before) };
  });
}

test("segments are found without a look at all others", async () => {
  await change(240);
  const [segments] = await past.fixture.database.query<{ n: bigint }>("SELECT COUNT(*) AS n FROM book_segment");
  expect(Number(segments?.n)).toBeGreaterThan(40);
  const books = await rowsReadBy((reader) => readOldestBooks(reader, []));
  expect(books.rows).toBeLessThan(20);
  expect(books.found[0]?.streamSequence).toBeGreaterThanOrEqual(await oldest());
  for (const range of [{}, { last: true }, { before: newest(), last: true }, { after: await oldest() }]) {
    const { found, rows } = await rowsReadBy((reader) => readBegin(reader, "a", range, withoutBooks));
    expect({ range, found, isLong: rows >= 20 }).toEqual({ range, found: undefined, isLong: false });
  }
});

test("a delayed replay shows a market that was announced while the past was not kept, once it is", async () => {
  await seen();
  const reader = new ReplayReader(past, []);
  const reading = reader.read(await delayed({ fromStreamSequence: newest() }), () => reader.books.has("late"));
  await past.add({ unkept: true });
  await past.add({ announce: ["late"], unkept: true });
  await seen();
  await past.add({ levels: [{ marketId: "late", side: 1, price: "7", volume: 1n }] });
  await change(2);
  await reading;
  expect(reader.states.get("late")).toBe(State.WHOLE);
});

test("a delayed replay of quiet markets does not ask the database before there is a block", async () => {
  await seen();
  const stream = await delayed({ fromStreamSequence: newest() });
  const reader = new ReplayReader(past, []);
  const reading = reader.read(stream, () => reader.blocks > 1);
  await vi.waitFor(() => expect(reader.blocks).toBe(1));
  const lease = vi.spyOn(past.fixture.database, "lease");
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect(lease.mock.calls.length).toBeLessThan(3);
  lease.mockRestore();
  await change(1);
  await reading;
});
