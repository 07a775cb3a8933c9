import { appendFileSync, mkdtempSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { create } from "@bufbuild/protobuf";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ProtocolUpgradeStartedSchema } from "../../gen/vega/events/v1/events_pb.js";
import { Order_Status, Side } from "../../gen/vega/vega_pb.js";
import { OrderBooks } from "../../src/domain/order-book.js";
import { backlogBytes, inputIdleMs, type LoadOptions, load } from "../../src/loader/load.js";
import { type LoadSummary, renderSummary } from "../../src/loader/load-summary.js";
import { fileSource, streamSource } from "../../src/loader/source.js";
import { simulate } from "../../src/simulator/network.js";
import { ServerConnection } from "../../src/store/connection/connection.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { SecondWriterError } from "../../src/store/progress-table.js";
import { loadRows } from "../../src/store/table-rows.js";
import { idleTransactionSeconds, openWriter } from "../../src/store/writer.js";
import { createLog } from "../../src/telemetry/log.js";
import { verify } from "../../src/verify/verify.js";
import { DatabaseProxy } from "../e2e/database-proxy.js";
import { newDatabaseUrl } from "../support/database.js";
import { dump, emptyStore } from "../support/dump.js";
import { inChunks, RecordingBuilder } from "../support/recording.js";
import { tries } from "../support/tries.js";

const log = createLog("silent");
let url: string;
let store: Database;

beforeAll(async () => {
  url = newDatabaseUrl().url;
  await migrate(url, log);
  store = openDatabase(url, { connectionsMax: 3 });
});

beforeEach(() => emptyStore(store));

afterAll(async () => {
  await store.withConnection((connection) => connection.run(`DROP DATABASE ${new URL(url).pathname.slice(1)}`));
  await store.close();
});

function loadBytes(bytes: Uint8Array, options: Partial<LoadOptions> = {}): Promise<LoadSummary> {
  return load({ database: url, sources: [streamSource(inChunks(bytes), "test")], log, ...options });
}

it("loads nothing of a compressed file with a wrong bit, wherever it is, and the right file afterwards", async () => {
  const folder = mkdtempSync(join(tmpdir(), "marketd-damaged-"));
  const shape = { seed: 3, markets: 2, parties: 6, ordersPerBlock: 4, entriesPerBlock: 30, blocks: 120 };
  const whole = gzipSync(Buffer.concat([...simulate(shape)]));
  const path = join(folder, "recording.gz");
  const loadFile = async () => load({ database: url, sources: [await fileSource(path)], log });
  writeFileSync(path, whole);
  await loadFile();
  const right = await dump(url);
  try {
    const times = tries(16);
    for (let number = 0; number < times; number++) {
      await emptyStore(store);
      const damaged = Buffer.from(whole);
      // Behind the header, whose bits do not all matter.
      const at = 10 + Math.floor(((number + Math.random()) / times) * (whole.length - 10));
      damaged[at] = (damaged[at] ?? 0) ^ (1 << (number % 8));
      writeFileSync(path, damaged);
      const place = `bit ${number % 8} of byte ${at}`;
      await expect(loadFile(), place).rejects.toThrow(/: the compressed file (is damaged|ends in the middle)/);
      writeFileSync(path, whole);
      await loadFile();
      expect(await dump(url), place).toEqual(right);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

describe("errors, each with its place", () => {
  const two = () => new RecordingBuilder().block(1, 10n).block(2, 20n);
  const skipTo = (sequence: bigint) => {
    const builder = two();
    builder.sequence = sequence;
    return builder.block(3, 30n);
  };
  const otherChain = () => {
    const builder = two();
    builder.chainId = "other";
    return builder.block(3, 30n);
  };
  const cases: [string, () => Uint8Array, string][] = [
    ["a gap", () => skipTo(7n).bytes(), "the stream has a gap: event 7 comes after event 4, where 5 is needed"],
    [
      "an event that was there before",
      () => {
        const three = two().begin(3, 30n);
        return Buffer.concat([three.bytes(), ...three.frames.slice(-1)]);
      },
      "the stream goes back: event 5 comes after event 5, where 6 is needed",
    ],
    ["another chain", () => otherChain().bytes(), 'event 5 is of chain "other", the database holds chain "test-chain"'],
    [
      "time that decreases",
      () => two().block(3, 19n).bytes(),
      "event 5 begins block 3 at time 19, before the time of block 2, 20; block time never decreases",
    ],
    [
      "heights that decrease",
      () => two().block(1, 30n).bytes(),
      "event 5 begins block 1 after block 2; heights never decrease",
    ],
    [
      "a height again at another time",
      () => two().block(2, 30n).bytes(),
      "event 5 begins block 2 once more, at another time than before",
    ],
    [
      "a block in a block",
      () => two().begin(3, 30n).begin(4, 40n).bytes(),
      "event 6 begins block 4 inside of block 3, which has not ended",
    ],
    ["the end of another block", () => two().begin(3, 30n).end(4).bytes(), "event 6 ends block 4, but block 3 is open"],
    [
      "half a frame",
      () => Buffer.concat([two().bytes(), Buffer.from([0, 0, 0])]),
      `test: ends in the middle of a frame: the one at byte ${two().bytes().length} has only 3 bytes of it there`,
    ],
    [
      "a length that cannot be",
      () => Buffer.concat([two().bytes(), Buffer.from([0xff, 0, 0, 0])]),
      `test: the frame at byte ${two().bytes().length} says it has 4278190080 bytes; a frame has 8 to 67108864`,
    ],
    [
      "no protobuf",
      () =>
        two()
          .frame(Buffer.from([0x0f]))
          .bytes(),
      "event 5 is not a protobuf message",
    ],
    [
      "a quantity that is none",
      () =>
        two()
          .block(3, 30n, (r) => r.transfer({ amount: "1.5" }))
          .bytes(),
      'event 6 has ledger_movements.entries.amount "1.5"; it takes decimal digits, at most 78, and a number below 2^256',
    ],
    [
      "an id without a number",
      () =>
        two()
          .begin(3, 30n)
          .event({ case: "expiredOrders", value: { marketId: "m", orderIds: [] } }, 57, { id: "x" })
          .bytes(),
      'event 6 has the id "x"; an id is <height>-<number in the block>',
    ],
    [
      "gzip that was cut",
      () => gzipSync(two().bytes()).subarray(0, -9),
      "test: the compressed file ends in the middle",
    ],
    [
      "gzip with frames behind it",
      () => Buffer.concat([gzipSync(two().bytes()), two().bytes()]),
      expect.stringMatching(/^test: the compressed file is damaged: after byte \d+ comes what is not compressed$/),
    ],
    [
      "gzip with zeros between two parts",
      () => Buffer.concat([gzipSync(two().bytes()), Buffer.alloc(9), gzipSync(two().bytes())]),
      expect.stringMatching(/^test: the compressed file is damaged: after byte \d+ comes what is not compressed$/),
    ],
  ];

  it.each(cases)("%s", async (name, bytes, message) => {
    await expect(loadBytes(bytes())).rejects.toThrow(expect.objectContaining({ message }));
    // What came before is kept.
    if (!name.startsWith("gzip")) {
      expect(await store.query("SELECT height FROM block")).toEqual([{ height: 1n }, { height: 2n }]);
    }
  });

  it("a piece that begins later than the store ends, also in the middle of a block", async () => {
    const all = two().begin(3, 30n).market("m").end();
    await loadBytes(Buffer.concat(all.frames.slice(0, 5)));
    await expect(loadBytes(Buffer.concat(all.frames.slice(5)))).rejects.toThrow(
      "the recording begins with event 6, but the database is at the end of block 2 and needs event 5",
    );
    await loadBytes(Buffer.concat(all.frames.slice(4)));
    expect(await store.query("SELECT height FROM block")).toHaveLength(3);
  });
});

it("ignores what comes before the first block, and keeps the open block back until its end arrives", async () => {
  const all = new RecordingBuilder()
    .market("early")
    .block(1, 10n, (r) => r.market("m"))
    .begin(2, 20n)
    .market("open");
  const first = await loadBytes(all.bytes());
  expect(first).toMatchObject({ blocks: 1, outsideBlocks: 1 });
  expect(await store.query("SELECT market_id FROM market")).toEqual([{ market_id: "m" }]);
  await loadBytes(all.end().bytes());
  expect(await store.query("SELECT market_id FROM market ORDER BY market_id")).toEqual([
    { market_id: "m" },
    { market_id: "open" },
  ]);
});

it("stores a replayed height once; positions of its rows go on, also over a restart", async () => {
  const all = new RecordingBuilder().block(0, 10n, (r) => r.transfer({}, {})).block(0, 10n, (r) => r.transfer({}));
  await loadBytes(Buffer.concat(all.frames.slice(0, 3)));
  await loadBytes(all.bytes());
  expect(await store.query("SELECT id FROM ledger_entry ORDER BY id")).toEqual([{ id: 0n }, { id: 1n }, { id: 2n }]);
  expect(await store.query("SELECT height, stream_sequence, ledger_entries FROM block")).toEqual([
    { height: 0n, stream_sequence: 6n, ledger_entries: 3 },
  ]);
});

it("ends at a protocol upgrade, discards the open block, and goes on after it", async () => {
  const all = new RecordingBuilder()
    .block(1, 10n)
    .begin(2, 20n)
    .market("discarded")
    .event({ case: "protocolUpgradeStarted", value: create(ProtocolUpgradeStartedSchema, { lastBlockHeight: 1n }) })
    .block(2, 20n, (r) => r.market("kept"));
  const upgrade = await loadBytes(all.bytes());
  expect(upgrade).toMatchObject({ protocolUpgrade: true, progress: { streamSequence: 5n, height: 1n } });
  await loadBytes(all.bytes());
  expect(await store.query("SELECT market_id FROM market")).toEqual([{ market_id: "kept" }]);
});

const upgradeStarted = { case: "protocolUpgradeStarted" as const, value: create(ProtocolUpgradeStartedSchema) };

it("ignores a protocol upgrade before the first block", async () => {
  const early = new RecordingBuilder().event(upgradeStarted).block(1, 10n, (r) => r.market("kept"));
  expect(await loadBytes(early.bytes())).toMatchObject({ protocolUpgrade: false, progress: { height: 1n } });
  expect(await store.query("SELECT market_id FROM market")).toEqual([{ market_id: "kept" }]);
});

it("refuses a protocol upgrade within the first block, after which nothing could be gone on from", async () => {
  const within = new RecordingBuilder().begin(1, 10n).event(upgradeStarted).block(1, 10n);
  await expect(loadBytes(within.bytes())).rejects.toThrow(/a protocol upgrade within block 1, the first one/);
});

it("keeps quantities of 78 digits, and ids above 2^53, digit for digit", async () => {
  const most = `${(1n << 256n) - 1n}`;
  const height = (1n << 39n) - 1n;
  const bytes = new RecordingBuilder()
    .block(height, 10n, (r) => r.transfer({ amount: most, fromBalance: `${(1n << 64n) + 1n}`, toBalance: most }, {}))
    .bytes();
  for (const localInfile of [true, false]) {
    await store.withConnection((c) => c.run("DELETE FROM progress"));
    for (const table of ["ledger_entry", "account", "entry_class", "block"]) {
      await store.withConnection((c) => c.run(`DELETE FROM ${table}`));
    }
    const many = new RecordingBuilder()
      .block(height, 10n, (r) => r.transfer(...Array.from({ length: 30 }, () => ({ amount: most }))))
      .bytes();
    await loadBytes(localInfile ? many : bytes, { localInfile });
    const rows = await store.query("SELECT id, quantity FROM ledger_entry ORDER BY id LIMIT 1");
    expect(rows).toEqual([{ id: height << 24n, quantity: most }]);
  }
  expect(await store.query("SELECT from_balance, to_balance FROM ledger_entry ORDER BY id LIMIT 1")).toEqual([
    { from_balance: "18446744073709551617", to_balance: most },
  ]);
});

it("fences a second writer off with the progress row", async () => {
  const all = new RecordingBuilder().block(1, 10n).block(2, 20n).block(3, 30n);
  const frame = (from: number, to?: number) => Buffer.concat(all.frames.slice(from, to));
  await loadBytes(frame(0, 2));
  let resume = () => {};
  const paused = new Promise<void>((resolve) => {
    resume = resolve;
  });
  async function* slow() {
    yield frame(2, 4);
    await paused;
    yield frame(4);
  }
  const first = load({ database: url, sources: [streamSource(slow(), "slow")], log });
  while ((await store.query("SELECT height FROM block")).length < 2) await sleep(5);
  await loadBytes(frame(4));
  resume();
  await expect(first).rejects.toThrow(
    "another process is loading into this database: only one may at a time; nothing of this block was written",
  );
  expect(await store.query("SELECT height FROM block")).toHaveLength(3);
});

describe("a server that holds less than what was committed, as a cluster's node that was cut off", () => {
  const all = new RecordingBuilder().block(1, 10n).block(2, 20n).block(3, 30n);
  const frame = (from: number, to?: number) => Buffer.concat(all.frames.slice(from, to));
  /** The progress that the server shows: that of block 1, or the true one of block 2. */
  const show = (behind: boolean) =>
    store.withConnection((c) => c.run(`UPDATE progress SET stream_sequence = ${behind ? 2 : 4} WHERE id = 1`));

  function loadWhileBehind(whileBehind: () => Promise<void>, options: Partial<LoadOptions> = {}): Promise<LoadSummary> {
    async function* chunks() {
      yield frame(0, 4);
      while ((await store.query("SELECT height FROM block")).length < 2) await sleep(5);
      await show(true);
      yield frame(4);
      await whileBehind();
    }
    return load({ database: url, sources: [streamSource(chunks(), "test")], log, ...options });
  }

  it("is waited for, until it has caught up", async () => {
    const summary = await loadWhileBehind(async () => {
      await sleep(300);
      await show(false);
    });
    expect(summary.blocks).toBe(3);
    expect(await store.query("SELECT stream_sequence FROM progress")).toEqual([{ stream_sequence: 6n }]);
  });

  it("has lost blocks if it does not catch up", async () => {
    await expect(loadWhileBehind(async () => {}, { outageMsMax: 300 })).rejects.toThrow(
      /^the database has lost blocks that were committed: it was at event 4 and is at 2 now/,
    );
    expect(await store.query("SELECT height FROM block")).toHaveLength(2);
  });
});

it("falls back to INSERT, and says so, where the server forbids LOAD DATA LOCAL", async () => {
  const bytes = new RecordingBuilder()
    .block(1, 10n, (r) => r.transfer(...Array.from({ length: 50 }, () => ({}))))
    .bytes();
  await store.withConnection((c) => c.run("SET GLOBAL local_infile = 0"));
  try {
    const summary = await loadBytes(bytes);
    expect(summary.localInfile).toBe(false);
    expect(renderSummary(summary)).toContain(
      "the server forbids LOAD DATA LOCAL: entries were inserted, which is slower",
    );
  } finally {
    await store.withConnection((c) => c.run("SET GLOBAL local_infile = 1"));
  }
  expect(await store.query("SELECT id FROM ledger_entry")).toHaveLength(50);
});

it("stores many new accounts as they are, in whichever way, and lets none go unnoticed", async () => {
  const owners = Array.from({ length: 60 }, (_, i) => `${"\\'\"`%,;: \\N~"[i % 11] ?? ""}owner\\N '${i}\\`);
  const recording = new RecordingBuilder().block(1, 10n, (r) =>
    r.transfer(...owners.map((owner) => ({ from: { owner, assetId: "\\t", type: -1 as number, marketId: "" } }))),
  );
  const accounts = "SELECT account_id, party_id, asset_id, market_id, type FROM account ORDER BY account_id";
  await loadBytes(recording.bytes());
  const loaded = await store.query(accounts);
  for (const table of ["progress", "ledger_entry", "account", "entry_class", "block"]) {
    await store.withConnection((c) => c.run(`DELETE FROM ${table}`));
  }
  await loadBytes(recording.bytes(), { localInfile: false });
  expect(await store.query(accounts)).toEqual(loaded);
  expect(loaded.filter(({ account_id }) => account_id !== 2)).toEqual(
    owners.map((owner, i) => {
      return { account_id: i === 0 ? 1 : i + 2, party_id: owner, asset_id: "\\t", market_id: "", type: -1 };
    }),
  );
  // One that is there already, of which the loader cannot know: LOAD DATA LOCAL would skip it.
  for (const table of ["progress", "ledger_entry", "account", "entry_class", "block"]) {
    await store.withConnection((c) => c.run(`DELETE FROM ${table}`));
  }
  const late = recordingThatWaits(recording.bytes());
  const loading = load({ database: url, sources: [streamSource(late.chunks, "late")], log });
  await late.started;
  await store.withConnection((c) => c.run("INSERT INTO account VALUES (7, 'x', 'y', 'z', 1)"));
  late.resume();
  await expect(loading).rejects.toThrow("the server stored 60 of 61 rows of account");
  expect(await store.query("SELECT id FROM ledger_entry")).toEqual([]);
  expect(await store.query("SELECT account_id FROM account")).toEqual([{ account_id: 7 }]);
});

it("leaves nothing on the connection of a LOAD DATA that the server ends with an error", async () => {
  await store.withConnection(async (c) => {
    await c.run("CREATE TABLE guarded (n INT PRIMARY KEY)");
    await c.run(
      "CREATE TRIGGER guard BEFORE INSERT ON guarded FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'",
    );
  });
  const writer = await openWriter(url);
  try {
    const { driver, socket } = await writer.connection();
    const listeners = () => ["drain", "pause", "error"].map((event) => socket.listenerCount(event));
    const before = listeners();
    for (let attempt = 0; attempt < 3; attempt++) {
      const loading = writer.transaction((c) => loadRows(c, "guarded", "n", { bytes: Buffer.from("1\n"), rows: 1 }));
      await expect(loading).rejects.toThrow();
      expect(listeners()).toEqual(before);
    }
    expect((await writer.connection()).driver).toBe(driver);
  } finally {
    writer.close();
    await store.withConnection((c) => c.run("DROP TABLE guarded"));
  }
});

/** The same bytes, once it has been told to go on. */
function recordingThatWaits(bytes: Uint8Array) {
  let resume = () => {};
  const paused = new Promise<void>((resolve) => {
    resume = resolve;
  });
  let begin = () => {};
  const started = new Promise<void>((resolve) => {
    begin = resolve;
  });
  async function* chunks() {
    begin();
    await paused;
    yield bytes;
  }
  return { chunks: chunks(), started, resume };
}

it("names the network where an account has no owner, and takes two encodings of an account for one", async () => {
  await loadBytes(
    new RecordingBuilder()
      .block(1, 10n, (r) =>
        r.transfer(
          { from: { assetId: "a", type: 4 }, to: { assetId: "a", type: 4, owner: "network", marketId: "" } },
          { from: { assetId: "a", type: 3, owner: "p", marketId: "m" } },
        ),
      )
      .bytes(),
  );
  expect(await store.query("SELECT account_id, party_id, market_id, type FROM account ORDER BY account_id")).toEqual([
    { account_id: 1, party_id: "network", market_id: "", type: 4 },
    { account_id: 2, party_id: "p", market_id: "m", type: 3 },
    { account_id: 3, party_id: "bob", market_id: "", type: 4 },
  ]);
});

it("stores trades, market data and bundles as the contract says", async () => {
  await loadBytes(
    new RecordingBuilder()
      .block(1, 1_234n, (r) =>
        r
          .trade({ id: "t1", marketId: "m", price: "1", size: 1n, timestamp: 5n })
          .trade({ id: "t2", marketId: "m", price: "2", size: 1n, timestamp: 5n, buyerFee: { makerFee: "7" } })
          .nodeSignature("s", Buffer.from([0, 255]))
          .nodeSignature("s", Buffer.from([0, 255]))
          .signerRemoved({
            signatureSubmitters: [
              { signatureId: "s", submitter: "0xABC" },
              { signatureId: "s", submitter: "0xdef" },
            ],
            validatorId: "V",
            oldSigner: "0xEE",
            nonce: "1",
            epochSeq: "3",
            timestamp: 77n,
          }),
      )
      .bytes(),
  );
  expect(await store.query("SELECT trade_id, time_ns, buyer_maker_fee, seller_maker_fee FROM last_trade")).toEqual([
    { trade_id: "t2", time_ns: 1_234n, buyer_maker_fee: "7", seller_maker_fee: "0" },
  ]);
  expect(await store.query("SELECT submitter, old_signer, node_id, time_ns FROM signer_removed_bundle")).toEqual([
    { submitter: "0xabc", old_signer: "0xee", node_id: "V", time_ns: 77n },
  ]);
  expect(await store.query("SELECT signature FROM node_signature")).toEqual([{ signature: "\u0000ÿ" }]);
});

it("prunes tombstones by the height reached alone, and gives the same rows for any batches and cuts", async () => {
  const all = new RecordingBuilder();
  let id = 0;
  for (let height = 1; height <= 2_300; height++) {
    all.block(height, BigInt(height) * 1_000n, (r) => {
      if (height % 7 === 0) {
        r.order({ id: `o${++id}`, marketId: "m", side: (id % 2) + 1, price: `${100 + (id % 40)}` });
        if (id > 5) r.order({ id: `o${id - 5}`, marketId: "m", remaining: 0n, status: Order_Status.FILLED });
      }
    });
  }
  const bytes = all.bytes();
  await loadBytes(bytes);
  const rows = await dump(url);
  expect(await store.query("SELECT pruned_sequence FROM progress")).not.toEqual([{ pruned_sequence: 0n }]);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: all.frames.length }), { maxLength: 3 }),
      fc.integer({ min: 1, max: 2_000 }),
      async (cuts, transactionRowsMax) => {
        await emptyStore(store);
        for (const cut of [...cuts, all.frames.length]) {
          const piece = Buffer.concat(all.frames.slice(0, cut));
          await loadBytes(piece, { transactionRowsMax });
        }
        expect(await dump(url)).toEqual(rows);
      },
    ),
    { numRuns: tries(4) },
  );
});

it("compares its book with the network's own best prices", async () => {
  const summary = await loadBytes(
    new RecordingBuilder()
      .block(1, 10n, (r) =>
        r
          .marketData({ market: "m", bestBidPrice: "0", bestOfferPrice: "" })
          .order({ id: "a", marketId: "m", price: "0100", side: Side.BUY, remaining: 3n })
          .marketData({ market: "m", bestBidPrice: "100", bestBidVolume: 3n, bestOfferPrice: "0" })
          .marketData({ market: "m", bestBidPrice: "101", bestBidVolume: 3n, bestOfferPrice: "0" }),
      )
      .bytes(),
  );
  expect(summary).toMatchObject({ bestPricesCompared: 3, bestPricesDiffering: 1 });
  expect(summary.differences).toEqual([
    "block 1, market m: the network has bid 3 at 101 and offer 0 at 0, the book has bid 3 at 100 and offer 0 at 0",
  ]);
});

it("shows each block as soon as it ends when the input is made as it is read, and ends by its signal", async () => {
  const all = new RecordingBuilder().block(1, 10n).block(2, 20n);
  const stop = new AbortController();
  async function* live() {
    yield Buffer.concat(all.frames.slice(0, 3));
    await new Promise(() => {});
  }
  const loading = load({ database: url, sources: [streamSource(live(), "live")], log, signal: stop.signal });
  while ((await store.query("SELECT height FROM block")).length === 0) await sleep(5);
  stop.abort();
  expect(await loading).toMatchObject({ blocks: 1 });
});

it("writes a backlog of what it follows in few transactions, also after it had caught up", async () => {
  const [blocks, ordersPerBlock] = [100, 200];
  const all = new RecordingBuilder();
  const ends: number[] = [];
  for (let height = 1; height <= blocks + 3; height++) {
    all.block(height, BigInt(height) * 10n, (r) => {
      for (let n = 0; n < ordersPerBlock; n++) r.order({ id: `${height}-${n}`, marketId: "m", price: "1" });
    });
    ends.push(all.frames.length);
  }
  const part = (from: number, to: number) => Buffer.concat(all.frames.slice(ends[from - 1] ?? 0, ends[to - 1]));
  const written = async (height: number) => {
    const beatOf = "SELECT CAST(height AS SIGNED) AS height, loader_beat AS beat FROM progress";
    for (;;) {
      const [row] = await store.query<{ height: bigint; beat: bigint }>(beatOf);
      if (row !== undefined && row.height >= BigInt(height)) return Number(row.beat);
      await sleep(5);
    }
  };
  const beats: number[] = [];
  const parts: [number, number][] = [
    [0, 1],
    [1, blocks + 1],
    [blocks + 1, blocks + 2],
    [blocks + 2, blocks + 3],
  ];
  async function* live() {
    for (const [from, to] of parts) {
      yield part(from, to);
      beats.push(await written(to));
    }
  }
  expect(part(1, blocks + 1).length).toBeGreaterThan(backlogBytes);
  await load({ database: url, sources: [{ ...streamSource(live(), "live"), followed: true }], log });
  const [first = 0, caughtUp = 0, ...others] = beats;
  // 20,000 orders, of which a transaction holds 10,000.
  expect(caughtUp - first).toBeLessThanOrEqual(4);
  expect(others).toEqual([caughtUp + 1, caughtUp + 2]);
});

it("follows a file that grows, and refuses to follow a compressed one", async () => {
  const directory = mkdtempSync(join(tmpdir(), "marketd-follow-"));
  const path = join(directory, "recording.evts");
  const all = new RecordingBuilder().block(1, 10n).block(2, 20n).begin(3, 30n);
  const stop = new AbortController();
  try {
    writeFileSync(path, gzipSync(all.bytes()));
    await expect(load({ database: url, sources: [await fileSource(path, { follow: true })], log })).rejects.toThrow(
      `${path}: is compressed; only a plain recording can be followed`,
    );
    writeFileSync(path, Buffer.concat(all.frames.slice(0, 3)).subarray(0, -3));
    const source = await fileSource(path, { follow: true, signal: stop.signal });
    const loading = load({ database: url, sources: [source], log, signal: stop.signal });
    while ((await store.query("SELECT height FROM block")).length < 1) await sleep(5);
    appendFileSync(path, all.bytes().subarray(Buffer.concat(all.frames.slice(0, 3)).length - 3));
    while ((await store.query("SELECT height FROM block")).length < 2) await sleep(5);
    stop.abort();
    expect(await loading).toMatchObject({ blocks: 2 });
  } finally {
    rmSync(directory, { recursive: true });
  }
});

it.each<[string, (path: string) => void]>([
  ["was removed", (path) => rmSync(path)],
  ["was replaced", (path) => renameSync(path, `${path}.1`)],
  ["became shorter", (path) => truncateSync(path, 5)],
])("ends when a file that it follows %s, with what was in it", async (what, change) => {
  const directory = mkdtempSync(join(tmpdir(), "marketd-follow-"));
  const path = join(directory, "recording.evts");
  const bytes = new RecordingBuilder().block(1, 10n).bytes();
  try {
    writeFileSync(path, bytes);
    const loading = load({ database: url, sources: [await fileSource(path, { follow: true })], log });
    const refused = expect(loading).rejects.toThrow(
      `${path}: ${what} while it was followed, after byte ${bytes.length}; load again from what goes on`,
    );
    while ((await store.query("SELECT height FROM block")).length < 1) await sleep(5);
    change(path);
    if (what === "was replaced") writeFileSync(path, bytes);
    await refused;
  } finally {
    rmSync(directory, { recursive: true });
  }
});

it("loses nothing of a block when the input pauses inside of it", async () => {
  const network = { seed: 5, markets: 3, parties: 12, ordersPerBlock: 10, entriesPerBlock: 40, blocks: 12 };
  const blocks = [...simulate(network)];
  await loadBytes(Buffer.concat(blocks));
  const expected = await dump(url);
  await emptyStore(store);
  async function* halting(): AsyncGenerator<Uint8Array> {
    for (const [index, block] of blocks.entries()) {
      // Somewhere else in each block, from its first bytes to its last.
      const place = Math.floor((block.length * (index + 1)) / (blocks.length + 1));
      yield block.subarray(0, place);
      await sleep(2 * inputIdleMs);
      yield block.subarray(place);
    }
  }
  await load({ database: url, sources: [streamSource(halting(), "halting")], log });
  expect(await dump(url)).toEqual(expected);
});

it("takes files that overlap inside of a block, in one load, for one stream of events", async () => {
  const all = new RecordingBuilder()
    .block(1, 10n, (r) => r.market("a"))
    .begin(2, 20n)
    .market("b")
    .market("c")
    .end();
  const piece = (from: number, to?: number) => Buffer.concat(all.frames.slice(from, to));
  const sources = [piece(0, 5), piece(2, 6), piece(4)].map((bytes, n) => streamSource(inChunks(bytes), `piece ${n}`));
  const summary = await load({ database: url, sources, log });
  expect(summary).toMatchObject({ blocks: 2, events: all.frames.length });
  const rows = await dump(url);
  await emptyStore(store);
  await loadBytes(all.bytes());
  expect(rows).toEqual(await dump(url));
});

it("a server does not end the transaction of a start that takes long to go on from what it read", async () => {
  await loadBytes(new RecordingBuilder().block(1, 10n).bytes());
  const { restore } = OrderBooks;
  const restored = vi.spyOn(OrderBooks, "restore").mockImplementationOnce((...args) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, (idleTransactionSeconds + 2) * 1_000);
    return restore.apply(OrderBooks, args);
  });
  try {
    const recording = new RecordingBuilder().block(1, 10n).block(2, 20n).bytes();
    expect(await loadBytes(recording)).toMatchObject({ blocks: 1 });
    expect(restored).toHaveBeenCalledTimes(1);
  } finally {
    vi.restoreAllMocks();
  }
});

it("finds a gap between files although no block has ended yet", async () => {
  const all = new RecordingBuilder().begin(1, 10n).market("a").market("b").end();
  const piece = (from: number, to?: number) => Buffer.concat(all.frames.slice(from, to));
  const sources = [piece(0, 2), piece(0, 1), piece(3)].map((bytes, n) => streamSource(inChunks(bytes), `piece ${n}`));
  await expect(load({ database: url, sources, log })).rejects.toThrow(
    "the stream has a gap: event 4 comes after event 2, where 3 is needed",
  );
  expect(await store.query("SELECT height FROM block")).toEqual([]);
});

describe("another loader writes the same block while the connection is away", () => {
  /** Loads two blocks, the second one only after `between`, by way of a proxy that is away meanwhile. */
  async function loadAround(between: () => Promise<unknown>, options: Partial<LoadOptions>): Promise<LoadSummary> {
    const proxy = await DatabaseProxy.before(url);
    const frames = new RecordingBuilder().block(1, 10n).block(2, 20n).frames;
    async function* blocks() {
      yield Buffer.concat(frames.slice(0, 2));
      while ((await store.query("SELECT height FROM block")).length === 0) await sleep(5);
      proxy.cut();
      // Whether or not the loader asks for more: a cut before its commit's response lets it ask for nothing.
      const restored = sleep(10 * inputIdleMs)
        .then(between)
        .finally(() => proxy.restore());
      restored.catch(() => {});
      yield Buffer.concat(frames.slice(2));
      await restored;
    }
    try {
      return await load({ database: proxy.url, sources: [streamSource(blocks(), "around")], log, ...options });
    } finally {
      await proxy.close();
    }
  }

  const both = () => new RecordingBuilder().block(1, 10n).block(2, 20n).bytes();

  it.each([
    ["that takes turns", true],
    ["that takes none", false],
  ])("a loader %s stops", async (_name, standby) => {
    const loading = loadAround(() => loadBytes(both()), { standby });
    await expect(loading).rejects.toThrow(SecondWriterError);
    expect(await store.query("SELECT height FROM block")).toHaveLength(2);
  });

  it("nobody does: the loader writes the block", async () => {
    expect(await loadAround(async () => {}, {})).toMatchObject({ blocks: 2 });
    expect((await verify(store)).findings.listed).toEqual([]);
  });

  it("a block whose commit was not confirmed is the loader's own, unless another has taken the turn since", async () => {
    for (const taken of [false, true]) {
      await emptyStore(store);
      const { run } = ServerConnection.prototype;
      let commits = 0;
      vi.spyOn(ServerConnection.prototype, "run").mockImplementation(async function (this: ServerConnection, ...args) {
        const result = await run.apply(this, args);
        if (args[0] !== "COMMIT" || (await store.query("SELECT height FROM block")).length < 2) return result;
        if (commits++ > 0) return result;
        if (taken) await store.query("UPDATE progress SET loader_id = 'another'");
        throw Object.assign(new Error("shutdown in progress"), { code: "ER_SERVER_SHUTDOWN" });
      });
      try {
        const loading = loadBytes(both(), { standby: true, blockByBlock: true });
        if (taken) await expect(loading).rejects.toThrow(SecondWriterError);
        else expect(await loading).toMatchObject({ blocks: 2 });
        expect(commits).toBeGreaterThan(0);
      } finally {
        vi.restoreAllMocks();
      }
    }
    await loadBytes(new RecordingBuilder().block(1, 10n).block(2, 20n).block(3, 30n).bytes());
    expect((await verify(store)).findings.listed).toEqual([]);
  });
});
