import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import type { Call } from "../../src/domain/service.js";
import { readAccountPage } from "../../src/ledger/account-pages.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { retain } from "../../src/ledger/retain.js";
import { readTradeStart, TradeFold } from "../../src/loader/trade-fold.js";
import { type Place, readChanges } from "../../src/store/changes.js";
import { ServerConnection } from "../../src/store/connection/connection.js";
import { ConnectionProbe } from "../../src/store/connection/connection-probe.js";
import { parseDatabaseUrl } from "../../src/store/connection/database-url.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { pruneTombstones } from "../../src/store/depth-table.js";
import {
  readBegin,
  readBeginsAfter,
  readBlockAt,
  readBlockTimes,
  readLastTrade,
  readOldestBegins,
  readOldestBooks,
  readSegment,
} from "../../src/store/history-reads.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { readProgress, readTurn } from "../../src/store/progress-table.js";
import { StatementGroup } from "../../src/store/statement-group.js";
import { writeTradeProgress } from "../../src/store/trade-table.js";
import { openWriter } from "../../src/store/writer.js";
import { createLog } from "../../src/telemetry/log.js";
import { renderFinding } from "../../src/verify/findings.js";
import { renewDigests } from "../../src/verify/renew-digests.js";
import { verify } from "../../src/verify/verify.js";
import { startTestService, type TestService } from "../live/service.js";
import { newDatabaseUrl } from "../support/database.js";
import { DatabaseServer, missingServer } from "../support/database-server.js";
import { digestOf, loadNetwork, networkResponses } from "../support/network-responses.js";
import { selectsWithout, statementsDuring } from "../support/result-columns.js";

/**
 * Of all responses over a network that is the same each time: the same bytes on every server. It changes with the
 * network or with what a response says; the ledger's and the streams' own tests say that they are right.
 */
const expected = {
  digest: "2662da07343120e009c20c201030ad9ac3556ca6090ff1cf469405563fd9191a",
  requests: 850,
  findings: [],
};

/** A slow machine may take this. */
const timeoutMs = 300_000;

const ends: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

async function withDatabase<T>(url: string, use: (database: Database) => Promise<T>): Promise<T> {
  const database = openDatabase(url, { connectionsMax: 3 });
  try {
    return await use(database);
  } finally {
    await database.close();
  }
}

const anybody: Call = { signal: new AbortController().signal, clientAddress: "10.0.0.1", requestHeaders: {} };

/** Loads, reads everything, and verifies. */
async function tryAll(url: string): Promise<{ digest: string; requests: number; findings: string[] }> {
  await migrate(url, createLog("silent"));
  await loadNetwork(url);
  const service: TestService = await startTestService(url);
  ends.push(() => service.drain());
  await expect.poll(async () => (await fetch(`${service.url}/readyz`)).status).toBe(200);
  const responses = await networkResponses(service.url);
  const { findings } = await withDatabase(url, verify);
  return { digest: digestOf(responses), requests: responses.size, findings: findings.listed.map(renderFinding) };
}

/** What each statement of the store gives, whatever the server: one line for the columns of a result. */
const columnsFile = fileURLToPath(new URL("result-columns.txt", import.meta.url));

/** What no response needs, nor a first `verify`: it makes each statement that is left. */
async function tryTheRest(url: string): Promise<void> {
  const address = parseDatabaseUrl(url);
  const server = await ServerConnection.open(address, { statementTimeoutMs: Number.POSITIVE_INFINITY });
  const probe = await ConnectionProbe.of(server, address);
  probe.start();
  // Long enough that another connection is asked about it.
  await server.run("DO SLEEP(3)");
  probe.stop();
  server.destroy();
  await withDatabase(url, async (database) => {
    await database.withConnection(readTurn);
    const [store] = await database.query<{ id: string }>("SELECT store_id AS id FROM progress");
    const place = { storeId: store?.id ?? "", streamSequence: 0n };
    await database.lease({ class: "ledger", call: undefined, place }, async () => {});
    await retain(database, { keepNs: 20_000_000_000n });
    const accounts = { newestFirst: false, size: 1, backwards: false, cursor: undefined };
    const dropped = readAccountPage(new LedgerReader(database), undefined, 0n, accounts, anybody);
    await expect(dropped).rejects.toMatchObject({ reason: "LEDGER_NOT_RETAINED" });
    expect((await verify(database)).findings.listed).toEqual([]);
    await database.withTransaction(async (connection) => {
      await connection.run("UPDATE market_depth SET sequence_number = sequence_number + 1 LIMIT 1");
    });
    expect((await verify(database)).findings.count).toBe(1);
    await renewDigests(database);
    expect((await verify(database)).findings.listed).toEqual([]);
    await readPast(database);
    await dropTrades(url);
    expect((await verify(database)).findings.listed).toEqual([]);
    await database.withTransaction(async (connection) => {
      // As after blocks of a release that keeps no trades.
      await connection.run("UPDATE trade_progress SET stream_sequence = 1");
      const { lost } = await readTradeStart(connection, await readProgress(connection));
      expect(lost.length).toBeGreaterThan(0);
    });
    await database.withTransaction((connection) => pruneTombstones(connection, 2_000n, 0n));
  });
}

/** As a load with `keepTrades`. */
async function dropTrades(url: string): Promise<void> {
  const writer = await openWriter(url);
  const dropped = await writer.transaction(async (connection) => {
    const progress = await readProgress(connection);
    const trades = new TradeFold(await readTradeStart(connection, progress), 10_000_000_000n);
    const batch = trades.take(progress?.streamSequence ?? 0n);
    const group = new StatementGroup(connection);
    await trades.prune(connection, group, batch, progress?.timeNs ?? 0n);
    await writeTradeProgress(group, batch);
    await group.send();
    return batch.dropped?.length;
  });
  expect(dropped).toBeGreaterThan(10);
  writer.close();
}

/** Reads of the past that no request makes here, and one of what followers have not read yet. */
async function readPast(database: Database): Promise<void> {
  const changesSince = async (since: Place | undefined) =>
    await database.withOwnConnection((connection) => readChanges(connection, since));
  const place = (await changesSince(undefined))?.progress;
  if (place === undefined) throw new Error("nothing was loaded");
  const streamSequence = place.streamSequence - 1n;
  expect((await changesSince({ ...place, streamSequence }))?.levels).not.toEqual([]);
  await database.lease({ class: "history", call: undefined }, async (reader) => {
    for (const moment of [{ height: 70n }, { timeNs: place.timeNs }, { streamSequence }]) {
      for (const from of [false, true]) expect((await readBlockAt(reader, moment, from)).block).toBeDefined();
    }
    const [{ marketId } = { marketId: "" }] = await readOldestBegins(reader, []);
    expect(await readOldestBooks(reader, [marketId])).toHaveLength(1);
    expect((await readBeginsAfter(reader, [marketId], 0n)).begins).not.toEqual([]);
    expect(await readBegin(reader, marketId, { before: place.streamSequence, last: true }, [0, 1])).toBeDefined();
    const unsealed = { changesAfter: 0n, changesUpTo: place.streamSequence, keyframe: true };
    expect(await readSegment(reader, { marketId, streamSequence, ...unsealed })).toBeDefined();
    expect((await readBlockTimes(reader, [70n, 100n])).size).toBe(2);
    await readLastTrade(reader, marketId, place.height);
  });
}

test(
  "every response has the same bytes, and every column the same type, on every database server",
  async () => {
    const { url } = newDatabaseUrl();
    ends.push(() => dropDatabase(url));
    const { texts, columns } = await statementsDuring(async () => {
      expect(await tryAll(url)).toEqual(expected);
      await tryTheRest(url);
    });
    expect(selectsWithout(texts)).toEqual([]);
    const lines = [...columns].sort().map((line) => `${line}\n`);
    if (process.env["MARKETD_RENEW_GOLDEN"] === "1") writeFileSync(columnsFile, lines.join(""));
    expect(lines).toEqual(readFileSync(columnsFile, "utf8").split(/(?<=\n)/));
  },
  timeoutMs,
);

/** What operators may have set, for each server and for both: each of these changes rows, types or transactions. */
const hostile = {
  /** Of which some servers let only administrators change them in a session. */
  globals: [
    "innodb_strict_mode = 0",
    "low_priority_updates = 1",
    "max_error_count = 0",
    "innodb_default_row_format = COMPACT",
  ],
  both: [
    "autocommit = 0",
    "completion_type = 1",
    "sql_select_limit = 100",
    "max_join_size = 50",
    "sql_safe_updates = 1",
    "group_concat_max_len = 1000",
    "max_sort_length = 64",
    "sql_auto_is_null = 1",
    "sql_buffer_result = 1",
    "time_zone = '-07:00'",
    "unique_checks = 0",
    "character_set_client = latin1",
    "character_set_connection = latin1",
    "character_set_results = utf8mb3",
    "collation_server = latin1_general_cs",
    "default_storage_engine = MEMORY",
    "auto_increment_increment = 7",
    "big_tables = 1",
    "div_precision_increment = 0",
    "lc_messages = 'de_DE'",
    "lc_time_names = 'de_DE'",
    "net_write_timeout = 1",
    "net_read_timeout = 1",
    "session_track_schema = 1",
    "session_track_state_change = 1",
    "sql_notes = 0",
  ],
  mariadb: [
    "sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
    "tx_isolation = 'READ-UNCOMMITTED'",
    "tx_read_only = 1",
    "max_statement_time = 0.001",
    "idle_transaction_timeout = 1",
    "innodb_snapshot_isolation = 1",
    "old_mode = 'NO_DUP_KEY_WARNINGS_WITH_IGNORE'",
  ],
  mysql: [
    "sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
    "transaction_isolation = 'READ-UNCOMMITTED'",
    "transaction_read_only = 1",
    "max_execution_time = 1",
    "optimizer_switch = 'subquery_to_derived=on'",
    "range_optimizer_max_mem_size = 1000",
  ],
} as const;

const missing = await missingServer();

test.skipIf(missing !== undefined).each([
  [
    "global settings",
    (settings: readonly string[]) => [...hostile.globals, ...settings].map((setting) => `SET GLOBAL ${setting}`),
  ],
  [
    "init_connect, which begins a transaction, too",
    (settings: readonly string[]) => {
      const statements = [...settings.map((setting) => `SET SESSION ${setting}`), "START TRANSACTION READ ONLY"];
      return [`SET GLOBAL init_connect = "${statements.join("; ")}"`];
    },
  ],
])(
  "a server's settings change nothing: %s",
  async (_, statements) => {
    const server = await DatabaseServer.start();
    ends.push(() => server.stop());
    await server.run(
      "CREATE USER plain IDENTIFIED BY 'plain'",
      "GRANT ALL ON hostile.* TO plain",
      ...statements([...hostile.both, ...hostile[server.kind]]),
    );
    // One that may do everything is spared by init_connect.
    const url = server.url("hostile").replace("root@", "plain:plain@");
    expect(await tryAll(url)).toEqual(expected);
  },
  timeoutMs,
);
