// What an update costs the service, by the kind of stream: 200 readers of each in turn, beside one paced loader.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, type ClientRequest, get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { candleId } from "../../src/domain/candle.js";
import { openEmbedded } from "../../src/embedded/open-embedded.js";
import { createLog } from "../../src/telemetry/log.js";
import { ServiceProcess } from "../unary/service-process.js";

const kinds = ["nothing", "depth", "trades", "candles"] as const;
export type StreamKind = (typeof kinds)[number];

/** What a kind of stream took in each round. */
export interface KindCost {
  readonly kind: StreamKind;
  /** Of the service's CPU time for an update to one reader, without what it takes without readers. */
  readonly cpuMicros: number[];
  readonly updatesPerSecond: number[];
  readonly bytesPerUpdate: number[];
}

const blocksPerSecond = 20;
const historyBlocks = 300;
/** Until streams are open, and the service has compiled what they run. */
const settleMs = 2_000;
const newline = 10;

/** Readers of one stream each, which count lines. */
class LineReaders {
  readonly #agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  readonly #requests: ClientRequest[] = [];
  #lost = 0;
  updates = 0;
  bytes = 0;

  open(url: string, count: number): void {
    for (let n = 0; n < count; n++) {
      const request = get(url, { agent: this.#agent }, (response) => {
        if (response.statusCode !== 200) this.#lost++;
        response.on("data", (piece: Buffer) => {
          this.bytes += piece.length;
          for (let at = piece.indexOf(newline); at >= 0; at = piece.indexOf(newline, at + 1)) this.updates++;
        });
        response.on("error", () => {});
      });
      request.on("error", () => {});
      this.#requests.push(request);
    }
  }

  /** @throws Error if a stream did not begin */
  close(): void {
    for (const request of this.#requests.splice(0)) request.destroy();
    if (this.#lost > 0) throw new Error(`${this.#lost} streams were refused`);
  }
}

/** Measures all kinds in turn, for some seconds each. */
export async function measureKinds(rounds: number, seconds: number, readersEach: number): Promise<KindCost[]> {
  const directory = mkdtempSync(join(tmpdir(), "marketd-bench-"));
  const main = join(fileURLToPath(new URL("../../../", import.meta.url)), "dist", "src", "main.js");
  const file = join(directory, "simulated.events");
  const turnMs = settleMs + seconds * 1_000;
  const blocks = historyBlocks + Math.ceil((blocksPerSecond * turnMs * kinds.length * (rounds + 2)) / 1_000);
  const simulate = ["simulate", "--blocks", String(blocks), "--markets", "1", "--out", file];
  const database = await openEmbedded({ dataDir: join(directory, "database"), log: createLog("silent") });
  let loader: ChildProcess | undefined;
  let service: ServiceProcess | undefined;
  try {
    if (spawnSync(process.execPath, [main, ...simulate], { stdio: "inherit" }).status !== 0) {
      throw new Error("there are no blocks");
    }
    const load = ["load", "--database-url", database.url, "--log-level", "warn", "--pace", String(blocksPerSecond)];
    loader = spawn(process.execPath, [main, ...load, file], { stdio: ["ignore", "ignore", "inherit"] });
    await sleep((historyBlocks / blocksPerSecond) * 1_000);
    service = await ServiceProcess.start("ours", database.url, 1, { everyCore: true });
    const urls = await urlsOf(service.url);
    const costs = kinds.map((kind): KindCost => ({ kind, cpuMicros: [], updatesPerSecond: [], bytesPerUpdate: [] }));
    // The first round only warms up.
    for (let round = 0; round <= rounds; round++) {
      let atRest = 0;
      for (const cost of costs) {
        const turn = await oneTurn(service, urls.get(cost.kind), readersEach, seconds);
        if (cost.kind === "nothing") atRest = turn.cpuMicros;
        if (round === 0 || cost.kind === "nothing") continue;
        cost.cpuMicros.push((turn.cpuMicros - atRest) / turn.updates);
        cost.updatesPerSecond.push(turn.updates / seconds);
        cost.bytesPerUpdate.push(turn.bytes / turn.updates);
      }
    }
    if (loader.exitCode !== null) throw new Error("the loader ended early");
    return costs.filter(({ kind }) => kind !== "nothing");
  } finally {
    loader?.kill("SIGKILL");
    await service?.stop();
    await database.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

async function urlsOf(url: string): Promise<ReadonlyMap<StreamKind, string>> {
  const response = (await (await fetch(`${url}/api/v2/markets`)).json()) as {
    readonly markets: { readonly edges: readonly { readonly node: { readonly id: string } }[] };
  };
  const id = response.markets.edges[0]?.node.id ?? "";
  const stream = `${url}/api/v2/stream`;
  return new Map([
    ["depth", `${stream}/markets/depth/updates?marketIds=${id}`],
    ["trades", `${stream}/trades?marketIds=${id}`],
    ["candles", `${stream}/candle/data?candleId=${candleId("1 minute", id)}`],
  ]);
}

async function oneTurn(service: ServiceProcess, url: string | undefined, count: number, seconds: number) {
  const readers = new LineReaders();
  const counts = async () => ({
    cpuMicros: await service.cpuMicros(),
    updates: readers.updates,
    bytes: readers.bytes,
  });
  if (url !== undefined) readers.open(url, count);
  await sleep(settleMs);
  const before = await counts();
  await sleep(seconds * 1_000);
  const after = await counts();
  readers.close();
  return {
    cpuMicros: after.cpuMicros - before.cpuMicros,
    updates: after.updates - before.updates,
    bytes: after.bytes - before.bytes,
  };
}
