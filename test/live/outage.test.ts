import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type EmbeddedDatabase, openEmbedded } from "../../src/embedded/open-embedded.js";
import { createLog } from "../../src/telemetry/log.js";
import { makeDataDirectory } from "../support/database.js";
import { BookChecker } from "./book-checker.js";
import { MarketFixture } from "./market-fixture.js";
import { startTestService, type TestService } from "./service.js";
import { type Message, type ProtocolClient, streamClients } from "./stream-clients.js";

/** How long the database is away; a long run has it away for 10 seconds and more. */
const outageMs = Number(process.env["MARKETD_OUTAGE_MS"] ?? 3_000);
const heartbeatMs = 400;
const ids = ["market-a", "market-b"];

let dataDir: string;
let database: EmbeddedDatabase;
let fixture: MarketFixture;
let service: TestService;

function startDatabase(): Promise<EmbeddedDatabase> {
  return openEmbedded({ dataDir, log: createLog("silent"), database: "outage", onProgress: () => {} });
}

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "marketd-outage-"));
  makeDataDirectory(dataDir);
  database = await startDatabase();
  fixture = await MarketFixture.create(database.url);
  await fixture.add({ announce: ids, levels: [{ marketId: "market-a", side: 1, price: "10", volume: 1n }] });
  service = await startTestService(database.url, { heartbeatMs });
});

afterAll(async () => {
  await service?.drain();
  await fixture?.database.close();
  await database?.close();
  await rm(dataDir, { recursive: true, force: true });
});

/** A reader that goes on until the end of the test. */
class Reading {
  readonly checker = new BookChecker(() => fixture.network);
  readonly done: Promise<void>;
  messages = 0;
  heartbeats = 0;
  /** Why it broke. */
  problem: unknown;

  constructor(
    readonly name: string,
    client: ProtocolClient,
    signal: AbortSignal,
  ) {
    const ended = client([], async (message) => this.#take(message), signal);
    this.done = ended.then(
      () => {
        if (!signal.aborted) this.problem ??= "the stream has ended";
      },
      (error: unknown) => {
        this.problem ??= error;
      },
    );
  }

  #take(message: Message): void {
    this.messages++;
    if (message.update.length === 0) this.heartbeats++;
    for (const update of message.update) this.checker.check(update);
  }
}

async function status(path: string): Promise<{ status: number; code: number | undefined }> {
  const response = await fetch(service.url + path);
  const body = (await response.json()) as { code?: number };
  return { status: response.status, code: body.code };
}

test(
  "the database goes in the middle of streams and comes back: none breaks, nothing is missing, nothing twice",
  async () => {
    const end = new AbortController();
    const readings = Object.entries(streamClients).map(
      ([name, client]) => new Reading(name, client(service.url), end.signal),
    );
    let blocks = 0;
    let writing = true;
    const network = (async () => {
      while (writing) {
        const volume = BigInt(++blocks);
        const marketId = ids[blocks % 2] ?? "";
        const price = String(10 + (blocks % 5));
        await fixture.addAtLast({ levels: [{ marketId, side: 2, price, volume }] });
      }
    })();
    await expect.poll(() => readings.every((reading) => reading.messages > 20), { timeout: 10_000 }).toBe(true);

    await database.close();
    const wentAt = performance.now();
    const heartbeatsBefore = readings.map((reading) => reading.heartbeats);
    const unavailable = { status: 503, code: 14 };
    const bundles = "/api/v2/erc20/multisigcontrol/signer/removed/bundles";
    const ledger = ["/api/v2/ledgerentry/history", "/api/v2/ledgerentry/export?partyId=p&assetId=a", bundles];
    while (performance.now() - wentAt < outageMs) {
      for (const path of ledger) expect(await status(path), path).toEqual(unavailable);
      for (const path of ["/api/v2/market/market-a", "/api/v2/market/depth/market-a/latest"]) {
        expect(await status(path), path).toEqual({ status: 200, code: undefined });
      }
      await sleep(200);
    }
    const heartbeats = readings.map((reading, i) => reading.heartbeats - (heartbeatsBefore[i] ?? 0));
    expect(Math.min(...heartbeats)).toBeGreaterThanOrEqual(Math.floor(outageMs / heartbeatMs / 2));
    const blocksBefore = blocks;

    database = await startDatabase();
    await expect.poll(() => blocks - blocksBefore, { timeout: 10_000 }).toBeGreaterThan(50);
    writing = false;
    await network;
    const published = ids.map((id) => fixture.network.depth(id)?.publishedSequenceNumber);
    await expect
      .poll(() => readings.filter(({ checker }) => !ids.every((id, i) => checker.sent.get(id) === published[i])), {
        timeout: 10_000,
      })
      .toEqual([]);
    for (const reading of readings) {
      expect(reading.problem, reading.name).toBeUndefined();
      // Each began with whole books, and never needed one again.
      expect(reading.checker.wholeBooks, reading.name).toBe(ids.length);
    }
    expect(await status("/api/v2/ledgerentry/history")).toEqual({ status: 200, code: undefined });
    end.abort();
    await Promise.all(readings.map((reading) => reading.done));
  },
  60_000 + 2 * outageMs,
);
