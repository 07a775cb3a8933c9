// What two workers and their database use at rest, and beside a loader that writes ten blocks a second to one reader.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openEmbedded } from "../../src/embedded/open-embedded.js";
import { openDatabase } from "../../src/store/database.js";
import { createLog } from "../../src/telemetry/log.js";
import { cpuMicrosOf, databasePidOf } from "../unary/process-usage.js";
import { ServiceProcess } from "../unary/service-process.js";
import { Child } from "./child.js";
import type { ReadOrder, ReadReply } from "./read.js";

/** Cores that each part uses, and statements and blocks a second. */
export interface Following {
  readonly database: number;
  readonly service: number;
  readonly loader: number;
  readonly all: number;
  readonly statements: number;
  readonly blocks: number;
}

const workers = 2;
const blocksPerSecond = 10;
const historyBlocks = 200;
/** Until the database has done what a start leaves to it, and a loader has compiled its code. */
const settleMs = 5_000;

/** Measures the program of a checkout, at rest and then live, for some seconds each. */
export async function measureFollowing(
  seconds: number,
  checkout = fileURLToPath(new URL("../../../", import.meta.url)),
): Promise<{ idle: Following; live: Following }> {
  const directory = mkdtempSync(join(tmpdir(), "marketd-bench-"));
  const database = await openEmbedded({ dataDir: join(directory, "database"), log: createLog("silent") });
  const marketd = (...args: string[]): [string, string[]] => [
    process.execPath,
    [join(checkout, "dist", "src", "main.js"), ...args],
  ];
  const run = (...args: string[]): void => {
    const { status, stderr } = spawnSync(...marketd(...args), { encoding: "utf8" });
    if (status !== 0) throw new Error(`marketd ${args[0]} ended with ${status}: ${stderr}`);
  };
  const simulated = (blocks: number): string => {
    const file = join(directory, `${blocks}.events`);
    run("simulate", "--blocks", String(blocks), "--out", file);
    return file;
  };
  const target = ["--database-url", database.url, "--log-level", "warn"];
  let loader: ChildProcess | undefined;
  let readers: Child<ReadOrder, ReadReply> | undefined;
  let service: ServiceProcess | undefined;
  try {
    run("load", ...target, simulated(historyBlocks));
    service = await ServiceProcess.start("ours", database.url, workers, { checkout, everyCore: true });
    [readers] = await Child.start<ReadOrder, ReadReply, object>("read", [], undefined);
    await readers.ask({ kind: "open", protocol: "grpc", port: service.port, connections: 1, streamsPerConnection: 1 });
    const databasePid = await databasePidOf(database.url);
    await sleep(settleMs);
    const idle = await use(database.url, databasePid, service, undefined, seconds);
    const paced = simulated(historyBlocks + blocksPerSecond * (seconds + 4 * (settleMs / 1_000)));
    loader = spawn(...marketd("load", ...target, "--pace", String(blocksPerSecond), paced), { stdio: "inherit" });
    await sleep(settleMs);
    const before = await readers.ask({ kind: "bytes" });
    const live = await use(database.url, databasePid, service, loader.pid, seconds);
    const after = await readers.ask({ kind: "bytes" });
    if (after.lost > 0 || after.least <= before.least) throw new Error("the stream got nothing");
    return { idle, live };
  } finally {
    loader?.kill("SIGKILL");
    readers?.stop();
    await service?.stop();
    await database.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

async function use(
  url: string,
  databasePid: number,
  service: ServiceProcess,
  loaderPid: number | undefined,
  seconds: number,
): Promise<Following> {
  const usage = async () => ({
    database: cpuMicrosOf(databasePid),
    service: await service.cpuMicros(),
    loader: loaderPid === undefined ? 0 : cpuMicrosOf(loaderPid),
    ...(await countsOf(url)),
    at: performance.now(),
  });
  const before = await usage();
  await sleep(seconds * 1_000);
  const after = await usage();
  const elapsedMs = after.at - before.at;
  const cores = (name: "database" | "service" | "loader") => (after[name] - before[name]) / elapsedMs / 1_000;
  const [ofDatabase, ofService, ofLoader] = [cores("database"), cores("service"), cores("loader")];
  return {
    database: ofDatabase,
    service: ofService,
    loader: ofLoader,
    all: ofDatabase + ofService + ofLoader,
    statements: ((after.statements - before.statements) / elapsedMs) * 1_000,
    blocks: ((after.blocks - before.blocks) / elapsedMs) * 1_000,
  };
}

async function countsOf(url: string): Promise<{ statements: number; blocks: number }> {
  const database = openDatabase(url, { connectionsMax: 1 });
  try {
    const [row] = await database.query<{ readonly Value: string }>("SHOW GLOBAL STATUS LIKE 'Questions'");
    const [newest] = await database.query<{ readonly height: bigint }>("SELECT height FROM progress");
    return { statements: Number(row?.Value), blocks: Number(newest?.height) };
  } finally {
    await database.close();
  }
}
