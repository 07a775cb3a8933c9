import { once } from "node:events";
import { closeSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../config.js";
import type { ListenAddress } from "../domain/listen-address.js";
import { OperatorError } from "../domain/operator-error.js";
import { embeddedPlaces } from "../embedded/embedded-places.js";
import { takeExclusiveLock } from "../embedded/exclusive-lock.js";
import { load } from "../loader/load.js";
import { streamSource } from "../loader/source.js";
import { listenError } from "../runtime/listen-error.js";
import type { Primary } from "../runtime/primary.js";
import { untilStopped } from "../runtime/stop-signal.js";
import { Network, networkDefaults } from "../simulator/network.js";
import { openDatabase } from "../store/database.js";
import { dropDatabase, migrate } from "../store/migrate.js";
import { readProgress } from "../store/progress-table.js";
import { createLog, type Log } from "../telemetry/log.js";
import { type ChosenDatabase, forOperator, openChoice } from "./database-choice.js";
import { demoCalls } from "./demo-calls.js";
import { startServing } from "./serve.js";

/** Blocks of the network before the demo starts, so that there is data to show. */
export const demoHistoryBlocks = 600;

/** Time between blocks of the live network. */
export const demoBlockIntervalMs = 1_000;

/** Familiar markets, and no ledger entries other than those of trading. */
const demoNetwork = { ...networkDefaults, profile: "realistic", ordersPerBlock: 40, entriesPerBlock: 0 } as const;

const nsPerMs = 1_000_000n;

/** The chain ids of demos. */
const demoChain = /^demo-[0-9]+-[0-9]+$/;

/** Demos with `--listen HOST:0` that may run on one private server. */
const anyPortDemosMax = 100;

/** Characters of the host in the name of a demo's database; a name has at most 64. */
const hostLengthMax = 40;

/**
 * A private database, a simulated network that makes a block a second, and the service, in one process, until SIGINT or
 * SIGTERM. On a private server the demo's database is made anew each time. One that was named must be empty or hold an
 * earlier demo, which is dropped.
 * @throws OperatorError when it cannot start, or the network's blocks can no longer be written; nothing runs any more then
 */
export async function demo(config: Config<"demo">, argv: readonly string[]): Promise<void> {
  const log = createLog(config.logLevel);
  const stop = untilStopped();
  await requireFreePort(config);
  const database = await openDemoDatabase(config, log);
  const stopping = new AbortController();
  let primary: Primary | undefined;
  let following: Promise<void> | undefined;
  try {
    say("preparing a simulated network");
    if (config.database.kind === "embedded") await dropDatabase(database.url);
    await migrate(database.url, log);
    if (await holdsDemo(database.url)) {
      await dropDatabase(database.url);
      await migrate(database.url, log);
    }
    const network = new Demo(config.seed);
    await loadBlocks(database.url, network.history(), false, log, stopping.signal);
    following = loadBlocks(database.url, network.live(stopping.signal), true, log, stopping.signal);
    // It may fail before anything waits for it.
    following.catch(() => {});
    const serving = await startServing(config, { argv, databaseUrl: database.url, log }, stop);
    primary = serving?.primary;
    const calls = serving && sayCalls(serving.urls.url, config.basePath);
    await Promise.race([calls?.then(() => stop) ?? stop, following.then(() => stop)]);
    say("stopping");
    stopping.abort();
    await following;
  } catch (error) {
    throw forOperator(error);
  } finally {
    stopping.abort();
    await Promise.allSettled([primary?.drain(), following]);
    await database.close();
  }
}

async function sayCalls(origin: string, basePath: string): Promise<void> {
  process.stdout.write(await demoCalls(origin + basePath, origin));
}

/** On a private server, no other demo uses the database until it is closed. */
async function openDemoDatabase({ database: choice, listen }: Config<"demo">, log: Log): Promise<ChosenDatabase> {
  if (choice.kind !== "embedded") return openChoice(choice, log);
  const { name, lock } = await lockDatabaseName(choice.dataDir, listen);
  try {
    const database = await openChoice(choice, log, name);
    return { url: database.url, close: () => database.close().finally(() => closeSync(lock)) };
  } catch (error) {
    closeSync(lock);
    throw error;
  }
}

/**
 * The demo's database is named by its address, so that few are left behind. For any free port there are numbered ones.
 * @returns the descriptor of an exclusive lock, too
 * @throws OperatorError if another demo has the lock
 */
async function lockDatabaseName(dataDir: string, { host, port }: ListenAddress) {
  const places = embeddedPlaces(dataDir);
  const named = `marketd_demo_${host
    .toLowerCase()
    .replace(/[^a-z0-9]/g, "_")
    .slice(0, hostLengthMax)}_${port}`;
  const names = port === 0 ? Array.from({ length: anyPortDemosMax }, (_, n) => `${named}_${n}`) : [named];
  for (const name of names) {
    const lock = await takeExclusiveLock(join(places.dataDir, `${name}.lock`), 0);
    if (lock !== undefined) return { name, lock };
  }
  throw new OperatorError(
    `another demo uses the database ${named} in ${places.dataDir}; stop it, or choose another address with --listen`,
  );
}

/** Whether an earlier demo filled the database. Nobody can go on with its chain, because no network is kept. */
async function holdsDemo(url: string): Promise<boolean> {
  const database = openDatabase(url, { connectionsMax: 1 });
  try {
    const progress = await database.withConnection(readProgress);
    return progress !== undefined && demoChain.test(progress.chainId);
  } finally {
    await database.close();
  }
}

function say(text: string): void {
  process.stderr.write(`marketd: ${text}\n`);
}

/** Reports a port in use before the database is started. */
async function requireFreePort(config: Config<"demo">): Promise<void> {
  const { host, port } = config.listen;
  const probe = createServer();
  try {
    await once(probe.listen(port, host), "listening");
  } catch (error) {
    throw listenError(error, `${host}:${port}`);
  }
  probe.close();
  await once(probe, "close");
}

async function loadBlocks(
  url: string,
  blocks: AsyncIterable<Uint8Array>,
  blockByBlock: boolean,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  const sources = [streamSource(blocks, "the simulated network")];
  await load({ database: url, sources, blockByBlock, log, signal });
}

/** The demo's network: past blocks first, then blocks in real time. */
class Demo {
  readonly #network: Network;

  constructor(seed: number) {
    const startTimeNs = nowNs() - BigInt(demoHistoryBlocks * demoBlockIntervalMs) * nsPerMs;
    const blockIntervalNs = BigInt(demoBlockIntervalMs) * nsPerMs;
    const chainId = `demo-${seed}-${startTimeNs}`;
    this.#network = new Network({ ...demoNetwork, seed, chainId, startTimeNs, blockIntervalNs });
  }

  async *history(): AsyncGenerator<Uint8Array> {
    const spacing = BigInt(demoBlockIntervalMs) * nsPerMs;
    const end = nowNs();
    for (let left = demoHistoryBlocks; left > 0; left--) yield this.#network.nextBlock(end - BigInt(left) * spacing);
  }

  async *live(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    while (!signal.aborted) {
      yield this.#network.nextBlock(nowNs());
      await sleep(demoBlockIntervalMs, undefined, { signal }).catch(() => {});
    }
  }
}

function nowNs(): bigint {
  return BigInt(Date.now()) * nsPerMs;
}
