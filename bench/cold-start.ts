// npm run bench -- cold-start [--rounds N] [--entries N] [--markets N] [--database-url URL]
// From starting `marketd serve` to its being ready, with the database running, over many ledger entries and markets.
// Without --database-url it fills a private database first, which takes minutes.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openEmbedded } from "../src/embedded/open-embedded.js";
import { openDatabase } from "../src/store/database.js";
import { createLog } from "../src/telemetry/log.js";
import { fillForColdStart } from "./cold-start/fill.js";

const aimMs = 1_000;
const pollMs = 2;
const bufferPoolBytes = 1024 ** 3;

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "11" },
    entries: { type: "string", default: "20000000" },
    markets: { type: "string", default: "1000" },
    "database-url": { type: "string" },
  },
});

const main = fileURLToPath(new URL("../src/main.js", import.meta.url));

/** Milliseconds until a program says something on standard error, or ends, and what it said. */
function started(args: readonly string[]): { stop(): Promise<void>; url: Promise<string> } {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const url = new Promise<string>((resolve, reject) => {
    let said = "";
    child.stderr.on("data", (text) => {
      said += String(text);
      const match = /serving on ([^\s";]+)/.exec(said)?.[1];
      if (match !== undefined) resolve(match);
    });
    child.once("exit", (code) => reject(new Error(`it ended with ${code}: ${said}`)));
  });
  url.catch(() => {});
  const stop = (): Promise<void> => {
    child.kill();
    return ended;
  };
  return { stop, url };
}

function status(url: string): Promise<number> {
  return new Promise((resolve) => {
    request(url, { agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    })
      .on("error", () => resolve(0))
      .end();
  });
}

async function timeToReady(databaseUrl: string, workers: number): Promise<number> {
  const startedAt = performance.now();
  const flags = ["--database-url", databaseUrl, "--listen", "127.0.0.1:0", "--log-level", "info"];
  const service = started([main, "serve", ...flags, "--workers", String(workers)]);
  try {
    const url = await service.url;
    while ((await status(`${url}/readyz`)) !== 200) await sleep(pollMs);
    return performance.now() - startedAt;
  } finally {
    await service.stop();
  }
}

/** What Node itself takes to start and to end. */
async function timeOfNode(): Promise<number> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, ["-e", "0"], { stdio: "ignore" });
  await new Promise((resolve) => child.once("exit", resolve));
  return performance.now() - startedAt;
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

function print(name: string, numbers: readonly number[]): void {
  const range = `${Math.min(...numbers).toFixed(0)} to ${Math.max(...numbers).toFixed(0)}`;
  console.log(`  ${name.padEnd(22)}${median(numbers).toFixed(0).padStart(6)} ms (${range})`);
}

async function measure(databaseUrl: string): Promise<void> {
  const database = openDatabase(databaseUrl);
  const count = async (table: string): Promise<string> => {
    const [row] = await database.query<{ n: bigint }>(`SELECT COUNT(*) AS n FROM ${table}`);
    return Number(row?.n ?? 0).toLocaleString("en");
  };
  const held = [`${await count("ledger_entry")} ledger entries`, `${await count("market")} markets`];
  console.log(`from start to ready over ${held.join(", ")}, ${await count("price_level")} price levels`);
  await database.close();
  const node: number[] = [];
  const one: number[] = [];
  const two: number[] = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    node.push(await timeOfNode());
    one.push(await timeToReady(databaseUrl, 1));
    two.push(await timeToReady(databaseUrl, 2));
  }
  print("node -e 0", node);
  print("serve, 1 process", one);
  print("serve, 2 workers", two);
  const ratio = (ms: number): number => Math.round((aimMs / ms) * 1000) / 1000;
  const ratios = { second_vs_one_process: ratio(median(one)), second_vs_two_workers: ratio(median(two)) };
  console.log(JSON.stringify({ name: "cold-start", ratios }));
}

const given = values["database-url"];
if (given === undefined) {
  const directory = mkdtempSync(join(tmpdir(), "marketd-bench-"));
  const log = createLog("warn");
  const database = await openEmbedded({ dataDir: join(directory, "database"), log, bufferPoolBytes });
  try {
    await fillForColdStart(database.url, Number(values.entries), Number(values.markets));
    await measure(database.url);
  } finally {
    await database.close();
    rmSync(directory, { recursive: true, force: true });
  }
} else {
  await measure(given);
}
