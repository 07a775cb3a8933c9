import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { Turn } from "../../src/loader/standby.js";
import { ServerConnection } from "../../src/store/connection/connection.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { readTurn } from "../../src/store/progress-table.js";
import { openWriter, type Writer } from "../../src/store/writer.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { emptyStore } from "../support/dump.js";
import { inChunks, RecordingBuilder } from "../support/recording.js";

const log = createLog("silent");
const { url } = newDatabaseUrl();
let store: Database;
let writer: Writer;
let turn: Turn;

beforeAll(async () => {
  await migrate(url, log);
  store = openDatabase(url, { connectionsMax: 1 });
});
beforeEach(async () => {
  await emptyStore(store);
  const recording = new RecordingBuilder().block(1, 10n).bytes();
  await load({ database: url, sources: [streamSource(inChunks(recording), "test")], log });
  writer = await openWriter(url);
  turn = new Turn(writer, { log, signal: undefined, outageMsMax: 10_000 });
  await turn.untilFree();
});
afterEach(() => {
  vi.restoreAllMocks();
  writer.close();
});
afterAll(async () => {
  await store.close();
  await dropDatabase(url);
});

/** Whose turn the database says it is. */
async function owner(): Promise<string | undefined> {
  return (await writer.transaction(readTurn))?.loaderId;
}

/** Fails the next statement that begins so, before it is run or after, as if the server shut down. */
function failOnce(text: string, when: "before" | "after"): void {
  const { run } = ServerConnection.prototype;
  let failures = 0;
  vi.spyOn(ServerConnection.prototype, "run").mockImplementation(async function (this: ServerConnection, ...args) {
    const fails = args[0].startsWith(text) && failures++ === 0;
    const result = fails && when === "before" ? undefined : await run.apply(this, args);
    if (!fails && result !== undefined) return result;
    throw Object.assign(new Error("shutdown in progress"), { code: "ER_SERVER_SHUTDOWN" });
  });
}

test("a turn that was taken without a confirmation is the loader's own", async () => {
  failOnce("COMMIT", "after");
  await turn.take();
  expect(turn.isOurs).toBe(true);
  expect(await owner()).toBe(turn.id);
});

test("a turn that another loader took is not", async () => {
  await writer.transaction((connection) => connection.run("UPDATE progress SET loader_id = 'another'"));
  await expect(turn.take()).rejects.toThrow("another process is loading into this database");
  expect(turn.isOurs).toBe(false);
});

test.each([
  ["is refused", "UPDATE progress SET loader_id = ''", "before"],
  ["is rolled back", "COMMIT", "before"],
  ["is not confirmed", "COMMIT", "after"],
] as const)("a loader whose release %s keeps its turn until the next attempt", async (_name, statement, when) => {
  await turn.take();
  failOnce(statement, when);
  await turn.release();
  expect(turn.isOurs).toBe(true);
  await turn.release();
  expect(turn.isOurs).toBe(false);
  expect(await owner()).toBe("");
  await turn.show();
  await turn.take();
  expect(await owner()).toBe(turn.id);
});
