import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { workerFlags } from "../../src/runtime/worker-flags.js";
import { WorkersProcess } from "../e2e/workers-process.js";
import { until } from "../embedded/processes.js";
import { MarketFixture } from "../live/market-fixture.js";
import { nodeOf, ownVersion, supportedVersions } from "../support/node-versions.js";

/* The flags with which workers start, and whether V8 knows them. */

const openings: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

async function serve(
  workers: number,
  more: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<WorkersProcess> {
  const fixture = await MarketFixture.create();
  openings.push(() => fixture.drop());
  await fixture.add({ announce: ["a"] });
  const args = ["--database-url", fixture.url, "--listen", "127.0.0.1:0", "--workers", String(workers)];
  const service = new WorkersProcess([...args, ...more], environment);
  openings.push(() => service.destroy());
  await service.ready();
  return service;
}

/** The arguments of each worker's Node. */
function argumentsOfWorkers(service: WorkersProcess): string[][] {
  return service.workers().map((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0"));
}

test("workers start with the flags", async () => {
  const service = await serve(2, [], {});
  for (const args of argumentsOfWorkers(service)) expect(args).toEqual(expect.arrayContaining([...workerFlags]));
  expect(service.printed).not.toContain("--tuning");
});

test.each<[string, string[], Record<string, string>]>([
  ["the flag --tuning off", ["--tuning", "off"], {}],
  ["MARKETD_TUNING", [], { MARKETD_TUNING: "off" }],
])("%s has no effect, and one line says so, also when workers are replaced", async (_name, more, environment) => {
  const service = await serve(1, more, environment);
  process.kill(service.pid, "SIGHUP");
  await until("all workers were replaced", 60_000, () => service.printed.includes("all workers were replaced"));
  for (const args of argumentsOfWorkers(service)) expect(args).toEqual(expect.arrayContaining([...workerFlags]));
  expect(service.printed.split("--tuning and MARKETD_TUNING have no effect")).toHaveLength(2);
});

/** Allocates `rounds` times as many objects as it keeps, and prints how often V8 collected both generations. */
const collectGarbage = `
const { PerformanceObserver, constants } = require("node:perf_hooks");
const [kept, rounds] = process.argv.slice(1).map(Number);
const kinds = [];
new PerformanceObserver((list) => kinds.push(...list.getEntries().map(({ detail }) => detail.kind))).observe({ type: "gc" });
const count = (kind) => kinds.filter((other) => other === kind).length;
(async () => {
  const objects = new Array(kept).fill();
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < kept; i++) objects[i] = { round, inner: { i, numbers: new Array(20).fill(i) } };
    await new Promise(setImmediate);
  }
  const [old, young] = [constants.NODE_PERFORMANCE_GC_MAJOR, constants.NODE_PERFORMANCE_GC_MINOR].map(count);
  console.log(JSON.stringify({ old, young }));
})();
`;

interface Collections {
  readonly old: number;
  readonly young: number;
}

/** How often a Node collects its generations. Of 60,000 objects most reach the old one, of 20,000 few. */
async function collections(node: string, flags: readonly string[], { kept, rounds }: Load): Promise<Collections> {
  const { stdout } = await promisify(execFile)(node, [...flags, "-e", collectGarbage, String(kept), String(rounds)]);
  return JSON.parse(stdout) as Collections;
}

/** What changes in the counts of a load without a flag. */
interface Load {
  readonly kept: number;
  readonly rounds: number;
  readonly effects: readonly { readonly flag: string; readonly count: keyof Collections; readonly timesMin: number }[];
  /** The only version with an effect: the others do the same by themselves. */
  readonly version?: number;
}

const loads: readonly Load[] = [
  {
    kept: 60_000,
    rounds: 60,
    effects: [
      { flag: "--incremental-marking-soft-trigger", count: "old", timesMin: 1.3 },
      { flag: "--no-allocation-site-pretenuring", count: "young", timesMin: 3 },
    ],
  },
  {
    kept: 20_000,
    rounds: 120,
    effects: [{ flag: "--max-semi-space-size", count: "young", timesMin: 1.5 }],
    version: 24,
  },
];

/** The flags without one of them. */
function allBut(flag: string): string[] {
  const others = workerFlags.filter((other) => !other.startsWith(flag));
  expect(others).toHaveLength(workerFlags.length - 1);
  return others;
}

async function threads(node: string, flags: readonly string[]): Promise<number> {
  const count = 'console.log(require("node:fs").readdirSync("/proc/self/task").length)';
  return Number((await promisify(execFile)(node, [...flags, "-e", count])).stdout);
}

/* On versions that are not supported, the test only reports whether the flags have an effect. */
describe.each([...new Set([...supportedVersions, ownVersion])])("on Node %i", (version) => {
  test("each flag has an effect", { timeout: 180_000 }, async (context) => {
    const node = await nodeOf(version);
    if (node === undefined) {
      process.stderr.write(`skipped: flags of workers on Node ${version} (not on this machine, and not to be had)\n`);
      return context.skip();
    }
    const isSupported = supportedVersions.includes(version);
    for (const load of loads) {
      if (isSupported && version !== (load.version ?? version)) continue;
      const all = await collections(node, workerFlags, load);
      for (const { flag, count, timesMin } of load.effects) {
        const without = await collections(node, allBut(flag), load);
        if (isSupported) expect(all[count], flag).toBeGreaterThan(timesMin * without[count]);
        else process.stderr.write(`collections on Node ${version}, ${flag}: ${JSON.stringify({ without, all })}\n`);
      }
    }
    if (!isSupported) return;
    // V8 has four threads of its own by default.
    expect(await threads(node, workerFlags)).toBe((await threads(node, allBut("--v8-pool-size"))) - 3);
  });
});
