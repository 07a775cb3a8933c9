import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../config.js";
import { load } from "../loader/load.js";
import { streamSource } from "../loader/source.js";
import { listenError } from "../runtime/listen-error.js";
import { untilStopped } from "../runtime/stop-signal.js";
import { Network, networkDefaults } from "../simulator/network.js";
import { openDatabase } from "../store/database.js";
import { dropDatabase, migrate } from "../store/migrate.js";
import { readProgress } from "../store/progress-table.js";
import { createLog, type Log } from "../telemetry/log.js";
import { forOperator, openChoice } from "./database-choice.js";
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

/**
 * A private database, a simulated network that makes a block a second, and the service, in one process, until SIGINT or
 * SIGTERM. On a private server the demo's database is made anew each time. One that was named must be empty or hold an
 * earlier demo, which is dropped.
 */
export async function demo(config: Config<"demo">, argv: readonly string[]): Promise<void> {
  const log = createLog(config.logLevel);
  const stop = untilStopped();
  await requireFreePort(config);
  const database = await openChoice(config.database, log, `marketd_demo_${config.listen.port}`);
  const stopping = new AbortController();
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
    const following = loadBlocks(database.url, network.live(stopping.signal), true, log, stopping.signal);
    const { primary, urls } = await startServing(config, { argv, databaseUrl: database.url, log });
    process.stdout.write(await demoCalls(urls.url + config.basePath, urls.url));
    await Promise.race([stop, following.then(() => stop)]);
    say("stopping");
    stopping.abort();
    await Promise.all([primary.drain(), following]);
  } catch (error) {
    throw forOperator(error);
  } finally {
    stopping.abort();
    await database.close();
  }
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
