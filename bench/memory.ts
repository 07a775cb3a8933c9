// npm run bench -- memory [--requests N] [--rounds-of N]
// Resident memory of a serving process after a tenth of the requests, and after all of them. Each portion of requests
// comes over connections of its own, so that what connections leave behind would show too.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, promisify } from "node:util";
import { missingPrograms } from "./unary/load.js";
import { withMarketStore } from "./unary/market-store.js";
import { pinnedTo } from "./unary/pinned.js";
import { depthPath, depthRequestFrame, depthRpcPath, takeSample } from "./unary/sample.js";
import { ServiceProcess } from "./unary/service-process.js";

const connections = 50;
const readings = 15;
const readingPauseMs = 200;

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "1000000" },
    portion: { type: "string", default: "10000" },
  },
});
const total = Number(values.requests);
const portion = Number(values.portion);

/** What h2load is told, beside how much. */
type Kind = (service: ServiceProcess, marketId: string, folder: string) => string[];

const kinds: Record<string, Kind> = {
  json: (service, marketId) => ["--h1", service.url + depthPath(marketId)],
  grpc: (service, marketId, folder) => {
    const body = join(folder, "request");
    writeFileSync(body, depthRequestFrame(marketId));
    const headers = ["-H", "content-type: application/grpc+proto", "-H", "te: trailers"];
    return ["-m", "10", "-d", body, ...headers, service.url + depthRpcPath];
  },
};

async function ask(args: readonly string[], requests: number): Promise<void> {
  const all = ["-n", String(requests), "-c", String(connections), "-t", "1", ...args];
  const { stdout } = await promisify(execFile)(...pinnedTo(1, "h2load", all));
  if (!stdout.includes(`${requests} succeeded, 0 failed`)) throw new Error(`h2load met errors:\n${stdout}`);
}

/** In MiB; the median over some seconds, in which the garbage of the load may go. */
async function residentMemory(service: ServiceProcess): Promise<number> {
  const found: number[] = [];
  for (let n = 0; n < readings; n++) {
    found.push(service.residentMib()[0] ?? Number.NaN);
    await sleep(readingPauseMs);
  }
  return found.sort((a, b) => a - b)[Math.floor(readings / 2)] ?? Number.NaN;
}

async function measure(name: string, kind: Kind, databaseUrl: string, folder: string): Promise<number> {
  const service = await ServiceProcess.start("ours", databaseUrl, 1);
  try {
    const { marketId } = await takeSample(service.url);
    const args = kind(service, marketId, folder);
    const places = [0, total / 10, total / 4, total / 2, total];
    const sizes: number[] = [];
    let asked = 0;
    for (const place of places) {
      for (; asked < place; asked += portion) await ask(args, portion);
      sizes.push(await residentMemory(service));
    }
    const columns = sizes.map((size) => size.toFixed(0).padStart(12)).join("");
    console.log(`  ${name.padEnd(6)}${columns}`);
    return Math.round(((sizes[1] ?? Number.NaN) / (sizes.at(-1) ?? Number.NaN)) * 1000) / 1000;
  } finally {
    await service.stop();
  }
}

async function run(databaseUrl: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "bench-memory-"));
  try {
    const heads = [0, total / 10, total / 4, total / 2, total].map((n) => n.toLocaleString("en").padStart(12)).join("");
    console.log(`MiB resident after so many depth responses, over ${connections} new connections every ${portion}`);
    console.log(`        ${heads}`);
    const ratios: Record<string, number> = {};
    for (const [name, kind] of Object.entries(kinds)) {
      ratios[`${name}_memory_early_vs_late`] = await measure(name, kind, databaseUrl, folder);
    }
    console.log(JSON.stringify({ name: "memory", ratios }));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (missingPrograms().length > 0) {
  console.error("bench memory needs h2load (Debian: apt-get install nghttp2-client wrk)");
  process.exitCode = 1;
} else {
  await withMarketStore(run);
}
