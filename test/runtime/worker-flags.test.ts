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

async function serve(more: readonly string[], environment: Readonly<Record<string, string>>): Promise<WorkersProcess> {
  const fixture = await MarketFixture.create();
  openings.push(() => fixture.drop());
  await fixture.add({ announce: ["a"] });
  const args = ["--database-url", fixture.url, "--listen", "127.0.0.1:0", "--workers", "2"];
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
  const service = await serve([], {});
  for (const args of argumentsOfWorkers(service)) expect(args).toEqual(expect.arrayContaining([...workerFlags]));
  expect(service.printed).not.toContain("--tuning");
});

test.each<[string, string[], Record<string, string>]>([
  ["the flag --tuning off", ["--tuning", "off"], {}],
  ["MARKETD_TUNING", [], { MARKETD_TUNING: "off" }],
])("%s has no effect, and one line says so, also when workers are replaced", async (_name, more, environment) => {
  const service = await serve(more, environment);
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

/** How often a Node with these flags collects its generations, with so many objects that reach the old one, or do not. */
async function collections(node: string, flags: readonly string[]): Promise<{ old: number; young: number }> {
  const count = async (kept: number): Promise<{ old: number; young: number }> => {
    const { stdout } = await promisify(execFile)(node, [...flags, "-e", collectGarbage, String(kept), "60"]);
    return JSON.parse(stdout) as { old: number; young: number };
  };
  return { old: (await count(60_000)).old, young: (await count(20_000)).young };
}

/* On versions that are not supported, the test only reports whether the flags have an effect. */
describe.each([...new Set([...supportedVersions, ownVersion])])("on Node %i", (version) => {
  test("the flags have an effect", { timeout: 180_000 }, async (context) => {
    const node = await nodeOf(version);
    if (node === undefined) {
      process.stderr.write(`skipped: flags of workers on Node ${version} (not on this machine, and not to be had)\n`);
      return context.skip();
    }
    const [plain, flagged] = [await collections(node, []), await collections(node, workerFlags)];
    if (!supportedVersions.includes(version)) {
      process.stderr.write(`collections on Node ${version}: ${JSON.stringify({ plain, flagged })}\n`);
      return;
    }
    expect(flagged.old).toBeGreaterThan(1.3 * plain.old);
    // The others limit the young generation as the flag does.
    if (version === 24) expect(flagged.young).toBeGreaterThan(1.5 * plain.young);
  });
});
