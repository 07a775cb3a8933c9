import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, constants, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { load } from "../../src/loader/load.js";
import { fileSource } from "../../src/loader/source.js";
import { beatIntervalMs, beatSilenceMsMax } from "../../src/loader/standby.js";
import { simulate } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { DatabaseServer, missingServer } from "../support/database-server.js";
import { dump } from "../support/dump.js";
import { freePort } from "../support/free-port.js";
import { HalfOpenProxy } from "../support/half-open-proxy.js";
import { framesOf, hasKafka, KafkaBroker } from "../support/kafka-broker.js";
import { TcpBalancer } from "../support/tcp-balancer.js";

/** From the death of the loader that loads to the next block: 3 s are promised, and a busy machine takes longer. */
const takeOverMsMax = 10_000;
const log = createLog("silent");
const program = fileURLToPath(new URL("../../bin/marketd", import.meta.url));

/** One of several loaders that take turns. */
class Standby {
  readonly #child;
  printed = "";

  constructor(url: string, ...paths: string[]) {
    const args = [program, "load", "--database-url", url, "--follow", "--standby", "--log-level", "info", ...paths];
    const env = { ...process.env, MARKETD_ADMIN_LISTEN: "127.0.0.1:0" };
    this.#child = spawn(process.execPath, args, { env, stdio: ["ignore", "ignore", "pipe"] });
    this.#child.stderr.on("data", (text) => {
      this.printed += String(text);
    });
  }

  /** What its listener for operators answers. */
  async asks(path: string): Promise<{ status: number; text: string }> {
    const [, url = ""] = /health and metrics on ([^\s"]+)/.exec(this.printed) ?? [];
    const response = await fetch(`${url}${path}`);
    return { status: response.status, text: await response.text() };
  }

  /** A metric, by its name and labels; undefined: it has no value. */
  async measures(name: string): Promise<number | undefined> {
    const { text } = await this.asks("/metrics");
    const line = text.split("\n").find((each) => each.startsWith(`${name} `));
    return line === undefined ? undefined : Number(line.slice(name.length));
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return this.#child.exitCode;
    const ended = once(this.#child, "exit");
    this.#child.kill(signal);
    await ended;
    return this.#child.exitCode;
  }
}

async function reached(store: Database): Promise<bigint> {
  const [row] = await store.query<{ s: bigint }>("SELECT stream_sequence AS s FROM progress");
  return row?.s ?? 0n;
}

async function loaderId(store: Database): Promise<string> {
  const [row] = await store.query<{ id: string }>("SELECT CAST(loader_id AS CHAR) AS id FROM progress");
  return row?.id ?? "";
}

/** A recording in a file that grows, and the store that it is loaded into. */
class Feed {
  readonly recording = Buffer.concat([
    ...simulate({ seed: 5, markets: 2, parties: 10, ordersPerBlock: 4, entriesPerBlock: 6, blocks: 60 }),
  ]);
  readonly folder = mkdtempSync(join(tmpdir(), "marketd-standby-"));
  readonly path = join(this.folder, "feed.evts");
  readonly store: Database;
  #written = 0;

  private constructor(readonly url: string) {
    this.store = openDatabase(url, { connectionsMax: 2 });
    this.write(0.5);
  }

  static async start(url: string): Promise<Feed> {
    await migrate(url, log);
    return new Feed(url);
  }

  write(part: number): void {
    const until = Math.floor(this.recording.length * part);
    appendFileSync(this.path, this.recording.subarray(this.#written, until));
    this.#written = until;
  }

  async end(...loaders: Standby[]): Promise<void> {
    for (const loader of loaders) await loader.end("SIGKILL");
    await this.store.close();
    rmSync(this.folder, { recursive: true });
  }
}

test("nobody takes the turn before it can load, and then one does", async () => {
  const feed = await Feed.start(newDatabaseUrl().url);
  const loaders = [new Standby(feed.url, feed.path)] as const;
  const others: Standby[] = [];
  try {
    await expect.poll(() => reached(feed.store)).not.toBe(0n);
    others.push(new Standby(feed.url, feed.path), new Standby(feed.url, feed.path));
    await expect.poll(() => others.filter(({ printed }) => printed.includes("standing by")).length).toBe(2);
    const firstId = await loaderId(feed.store);
    await feed.store.withConnection(async (connection) => {
      // Every loader reads it at its start.
      await connection.run("LOCK TABLES live_order WRITE");
      await loaders[0].end("SIGKILL");
      await sleep(2 * beatSilenceMsMax);
      expect(await loaderId(feed.store)).toBe(firstId);
      await connection.run("UNLOCK TABLES");
    });
    await expect.poll(() => loaderId(feed.store)).not.toBe(firstId);
    const secondId = await loaderId(feed.store);
    await sleep(2 * beatSilenceMsMax);
    expect(await loaderId(feed.store)).toBe(secondId);
    feed.write(1);
    await expect.poll(() => reached(feed.store)).toBe(lastSequence(feed.recording));
    expect(others.filter(({ printed }) => printed.includes("this one's turn")).length).toBe(1);
  } finally {
    await feed.end(...loaders, ...others);
  }
});

test("loaders tell their health, and what they load", async () => {
  const feed = await Feed.start(newDatabaseUrl().url);
  const loaders = [new Standby(feed.url, feed.path)] as const;
  const others: Standby[] = [];
  const well = (status: string) => ({ status: 200, text: JSON.stringify({ status }) });
  try {
    await expect.poll(() => reached(feed.store)).not.toBe(0n);
    expect(await loaders[0].asks("/healthz")).toEqual(well("alive"));
    expect(await loaders[0].asks("/readyz")).toEqual(well("ready"));
    others.push(new Standby(feed.url, feed.path));
    await expect.poll(() => others[0]?.printed).toContain("standing by");
    expect(await others[0]?.asks("/readyz")).toEqual(well("standby"));
    expect(await others[0]?.measures("marketd_loader_turn")).toBe(0);
    feed.write(1);
    await expect.poll(() => reached(feed.store)).toBe(lastSequence(feed.recording));
    await expect.poll(() => loaders[0].measures("marketd_loader_blocks_total")).toBe(60);
    expect(await loaders[0].measures("marketd_loader_events_total")).toBe(framesOf(feed.recording).length);
    expect(await loaders[0].measures("marketd_loader_turn")).toBe(1);
    expect(await loaders[0].measures("marketd_loader_block_height")).toBe(60);
    expect(await loaders[0].measures("marketd_loader_block_age_seconds")).toBeGreaterThan(1);
    expect(await loaders[0].measures('marketd_loader_retries_total{part="source"}')).toBe(0);
    const { text } = await loaders[0].asks("/metrics");
    expect(text).toContain("marketd_nodejs_active_handles{");
    const totals = [...text.matchAll(/^# TYPE (\S+_total) (\S+)$/gm)].map(([, name, type]) => [name, type]);
    expect(totals.filter(([, type]) => type !== "counter")).toEqual([]);
    expect(await loaders[0].measures("marketd_loader_source_messages_behind")).toBe(undefined);
  } finally {
    await feed.end(...loaders, ...others);
  }
});

test.each([
  ["SIGTERM", 0],
  ["SIGINT", 130],
] as const)("a loader that stands by ends at %s with exit code %i", async (signal, code) => {
  const feed = await Feed.start(newDatabaseUrl().url);
  const loaders = [new Standby(feed.url, feed.path)];
  try {
    await expect.poll(() => reached(feed.store)).not.toBe(0n);
    const waiting = new Standby(feed.url, feed.path);
    loaders.push(waiting);
    await expect.poll(() => waiting.printed).toContain("standing by");
    expect(await waiting.end(signal)).toBe(code);
    const lines = waiting.printed.trim().split("\n");
    const message = signal === "SIGINT" ? "interrupted; what was committed stays" : "stopped while it stood by";
    const info = { level: 30, msg: expect.stringContaining(message) };
    expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject(info);
  } finally {
    await feed.end(...loaders);
  }
});

test("an idle loader whose connection is dead goes on over another", async () => {
  const { url } = newDatabaseUrl();
  const feed = await Feed.start(url);
  const proxy = await HalfOpenProxy.before(url);
  const loader = new Standby(proxy.url, feed.path);
  try {
    await expect.poll(() => reached(feed.store)).not.toBe(0n);
    await settle(feed.store);
    proxy.die();
    await sleep(2 * beatIntervalMs);
    proxy.revive();
    feed.write(1);
    await expect.poll(() => reached(feed.store)).toBe(lastSequence(feed.recording));
  } finally {
    await feed.end(loader);
    await proxy.close();
  }
});

test("a loader keeps its turn while it skips what is known", async () => {
  const feed = await Feed.start(newDatabaseUrl().url);
  const pipe = join(feed.folder, "pipe");
  execFileSync("mkfifo", [pipe]);
  const frames = framesOf(feed.recording);
  const known = Buffer.concat(frames.slice(0, frames.length / 2));
  writeFileSync(feed.path, known);
  const loader = new Standby(feed.url, feed.path, pipe);
  // Without it, the pipe could not be opened before the loader does.
  const input = await open(pipe, constants.O_RDWR);
  const others: Standby[] = [];
  try {
    await expect.poll(() => reached(feed.store)).not.toBe(0n);
    const first = await loaderId(feed.store);
    others.push(new Standby(feed.url, feed.path));
    await expect.poll(() => others[0]?.printed).toContain("standing by");
    // In small pieces, so that there is always one to read, and for longer than a loader may be silent.
    const pieces = 600;
    for (let piece = 0; piece < pieces; piece++) {
      const [from, to] = [piece, piece + 1].map((n) => Math.floor((known.length * n) / pieces));
      await input.write(known.subarray(from, to));
      await sleep((2 * beatSilenceMsMax) / pieces);
    }
    expect(await loaderId(feed.store)).toBe(first);
    expect(others[0]?.printed).not.toContain("this one's turn");
  } finally {
    await input.close();
    await feed.end(loader, ...others);
  }
});

test.runIf(hasKafka())("a loader that has lost its source gives its turn to one that can read", async () => {
  const port = await freePort();
  const proxy = await TcpBalancer.before(port);
  const broker = await KafkaBroker.start(false, { port, proxyPort: proxy.port });
  const shape = { seed: 7, markets: 2, parties: 10, ordersPerBlock: 4, entriesPerBlock: 6, blocks: 40 };
  const blocks = [...simulate(shape)].map((block) => framesOf(Buffer.from(block)));
  const last = blocks.at(-1)?.at(-1)?.readBigUInt64BE(4);
  const { url } = newDatabaseUrl();
  await migrate(url, log);
  const store = openDatabase(url, { connectionsMax: 1 });
  await broker.createTopic("lost");
  await broker.produce("lost", blocks.slice(0, 20).flat());
  const loaders = [new Standby(url, `kafka://127.0.0.1:${proxy.port}/lost`)];
  try {
    await expect.poll(() => reached(store), { timeout: 30_000 }).not.toBe(0n);
    const first = await loaderId(store);
    loaders.push(new Standby(url, `kafka://${broker.address}/lost`));
    await expect.poll(() => loaders[1]?.printed).toContain("standing by");
    // An idle source is not a lost one.
    await sleep(2 * beatSilenceMsMax);
    expect(await loaderId(store)).toBe(first);
    proxy.leadTo(await freePort());
    await expect.poll(() => loaderId(store), { timeout: 30_000 }).toBe("");
    expect(await loaders[0]?.asks("/readyz")).toEqual({ status: 503, text: '{"status":"source_lost"}' });
    expect(await loaders[0]?.measures('marketd_loader_lost{part="source"}')).toBe(1);
    expect(await loaders[0]?.measures('marketd_loader_retries_total{part="source"}')).toBeGreaterThan(0);
    // Nobody takes the turn for nothing.
    await sleep(beatSilenceMsMax);
    expect(await loaderId(store)).toBe("");
    await broker.produce("lost", blocks.slice(20, 30).flat());
    await expect.poll(() => loaderId(store), { timeout: 30_000 }).toMatch(/^[0-9a-f]{24}$/);
    expect(await loaderId(store)).not.toBe(first);
    await expect.poll(() => loaders[1]?.printed).toContain("this one's turn");
    await expect.poll(() => loaders[1]?.measures("marketd_loader_source_messages_behind")).toBe(0);
    proxy.leadTo(port);
    await loaders[1]?.end("SIGTERM");
    await broker.produce("lost", blocks.slice(30).flat());
    await expect.poll(() => reached(store), { timeout: 30_000 }).toBe(last);
    expect(loaders[0]?.printed.match(/lost its source/g)?.length).toBe(1);
  } finally {
    for (const loader of loaders) await loader.end("SIGKILL");
    await store.close();
    await broker.remove();
    await proxy.close();
  }
});

const serverMissing = await missingServer();

test.runIf(serverMissing === undefined)("a loader keeps its turn while the database is away", async () => {
  const server = await DatabaseServer.start(["--innodb-flush-log-at-trx-commit=2"]);
  const feed = await Feed.start(server.url("away"));
  const loaders = [new Standby(feed.url, feed.path)];
  try {
    await expect.poll(() => reached(feed.store)).not.toBe(0n);
    const firstId = await loaderId(feed.store);
    loaders.push(new Standby(feed.url, feed.path), new Standby(feed.url, feed.path));
    await expect.poll(() => loaders.filter(({ printed }) => printed.includes("standing by")).length).toBe(2);
    for (let times = 0; times < 2; times++) {
      await server.kill();
      await sleep(2 * beatSilenceMsMax);
      await server.restart();
      await sleep(2 * beatSilenceMsMax);
      expect(await loaderId(feed.store)).toBe(firstId);
    }
    feed.write(1);
    await expect.poll(() => reached(feed.store)).toBe(lastSequence(feed.recording));
  } finally {
    await feed.end(...loaders);
    await server.stop();
  }
});

test("one of several loaders loads; when it is killed, stopped or ended, another takes over", async () => {
  const folder = mkdtempSync(join(tmpdir(), "marketd-standby-"));
  const path = join(folder, "feed.evts");
  const shape = { seed: 5, markets: 2, parties: 10, ordersPerBlock: 4, entriesPerBlock: 6 };
  const recording = Buffer.concat([...simulate({ ...shape, blocks: 200 })]);
  let written = 0;
  const write = (part: number): void => {
    const until = Math.floor(recording.length * part);
    appendFileSync(path, recording.subarray(written, until));
    written = until;
  };
  writeFileSync(path, "");
  const [url, whole] = [newDatabaseUrl().url, newDatabaseUrl().url];
  await migrate(url, log);
  await migrate(whole, log);
  const store = openDatabase(url, { connectionsMax: 1 });
  /** Resolves when more blocks are there; gives how long that took, in milliseconds. */
  const moved = async (before: bigint): Promise<number> => {
    const startedMs = performance.now();
    while ((await reached(store)) === before) {
      if (performance.now() - startedMs > 30_000) throw new Error("nobody loads");
      await sleep(10);
    }
    return performance.now() - startedMs;
  };
  write(0.2);
  const first = new Standby(url, path);
  await moved(0n);
  const firstId = await loaderId(store);
  expect(firstId).toMatch(/^[0-9a-f]{24}$/);
  const others = [new Standby(url, path), new Standby(url, path)];
  try {
    while (!others.every(({ printed }) => printed.includes("standing by"))) await sleep(20);
    const before = await reached(store);
    // The file ends in the middle of a block: what is written while nobody loads belongs to the next loader.
    const ended = first.end("SIGKILL");
    write(0.5);
    await ended;
    // What the first one had read before it was killed may still have been written.
    const took = await moved(before);
    const secondId = await loaderId(store);
    if (secondId !== firstId) expect(took).toBeLessThan(takeOverMsMax);
    const settled = await settle(store);
    write(0.7);
    expect(await moved(settled)).toBeLessThan(takeOverMsMax);
    expect(await loaderId(store)).not.toBe(firstId);
    const active = others.findIndex(({ printed }) => printed.includes("this one's turn"));
    expect(active).not.toBe(-1);
    // One that is told to end gives its turn up at once.
    expect(await others[active]?.end("SIGTERM")).toBe(0);
    const atEnd = await settle(store);
    write(1);
    expect(await moved(atEnd)).toBeLessThan(takeOverMsMax);
    const last = lastSequence(recording);
    while ((await reached(store)) !== last) await sleep(20);
  } finally {
    for (const other of others) await other.end("SIGKILL").catch(() => {});
    await store.close();
  }
  writeFileSync(path, recording);
  await load({ database: whole, sources: [await fileSource(path)], log });
  expect(await dump(url)).toEqual(await dump(whole));
  rmSync(folder, { recursive: true });
});

/** The progress once it has stood still for half a second. */
async function settle(store: Database): Promise<bigint> {
  for (let before = await reached(store); ; ) {
    await sleep(500);
    const now = await reached(store);
    if (now === before) return now;
    before = now;
  }
}

/** The stream sequence number of a recording's last event. */
function lastSequence(recording: Buffer): bigint {
  let sequence = 0n;
  for (let at = 0; at < recording.length; at += 4 + recording.readUInt32BE(at))
    sequence = recording.readBigUInt64BE(at + 4);
  return sequence;
}
