import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { workerFlags } from "../../src/runtime/tuning/worker-flags.js";
import { WorkersProcess } from "../e2e/workers-process.js";
import { MarketFixture } from "../live/market-fixture.js";
import { nodeOf, ownVersion, supportedVersions } from "../support/node-versions.js";
import { RawConnection, rawGet } from "../support/raw-http.js";

/* What the command adjusts below the documented interfaces of Node and V8, and whether it works on this Node and others. */

const request = rawGet("/api/v2/market/depth/a/latest");

/** More than a connection needs until its requests are taken for repetitions. */
const repetitions = 20;

const openings: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

/**
 * Starts the command and asks it for one thing over and over, at last behind a request whose body is the same bytes. Gives
 * what its metrics say, and the different responses.
 */
async function askRepeatedly(node: string, environment: Readonly<Record<string, string>>) {
  const fixture = await MarketFixture.create();
  openings.push(() => fixture.drop());
  await fixture.add({ announce: ["a"], levels: [{ marketId: "a", side: 1, price: "1", volume: 1n }] });
  const args = ["--database-url", fixture.url, "--listen", "127.0.0.1:0", "--workers", "1"];
  const service = new WorkersProcess(args, environment, { node });
  openings.push(() => service.destroy());
  const url = await service.ready();
  const connection = await RawConnection.open(Number(new URL(url).port));
  openings.push(() => connection.close());
  const responses = new Set<string>();
  const ask = async (): Promise<void> => {
    const { head, body } = await connection.ask(request);
    responses.add(head.replace(/^marketd-staleness.*\r\n/im, "") + body);
  };
  for (let i = 0; i < repetitions; i++) await ask();
  await connection.send(
    `POST /api/v2/market/a HTTP/1.1\r\nHost: x\r\nContent-Length: ${request.length}\r\n\r\n`,
    request,
  );
  expect((await connection.response()).status).toBe(405);
  await ask();
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const [, labels = ""] = /^marketd_tuning_info\{(.*)\} 1$/m.exec(metrics) ?? [];
  const info = Object.fromEntries([...labels.matchAll(/(\w+)="(\w+)"/g)].map(([, name, state]) => [name, state]));
  const repeated = Number(/^marketd_requests_repeated_total (\d+)$/m.exec(metrics)?.[1]);
  return { info, repeated, responses: [...responses] };
}

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

/* On versions that are not supported, the test only reports whether the adjustments work. */
describe.each([...new Set([...supportedVersions, ownVersion])])("on Node %i", (version) => {
  test("all adjustments are in effect", { timeout: 180_000 }, async (context) => {
    const node = await nodeOf(version);
    if (node === undefined) {
      process.stderr.write(`skipped: adjustments on Node ${version} (not on this machine, and not to be had)\n`);
      return context.skip();
    }
    const { info, repeated, responses } = await askRepeatedly(node, { MARKETD_TUNING: "on" });
    if (!supportedVersions.includes(version)) {
      process.stderr.write(`adjustments on Node ${version}: ${JSON.stringify(info)}, ${repeated} GETs repeated\n`);
      return;
    }
    expect(info).toEqual({ repeated_gets: "on", worker_flags: "on" });
    expect(repeated).toBeGreaterThan(0);
    expect(responses).toHaveLength(1);
    const [plain, flagged] = [await collections(node, []), await collections(node, workerFlags)];
    expect(flagged.old).toBeGreaterThan(1.3 * plain.old);
    // The others limit the young generation as the flag does.
    if (version === 24) expect(flagged.young).toBeGreaterThan(1.5 * plain.young);
  });
});

test("none is in effect with --tuning off, and the responses are the same", async () => {
  const { info, repeated, responses } = await askRepeatedly(process.execPath, { MARKETD_TUNING: "off" });
  expect(info).toEqual({ repeated_gets: "off", worker_flags: "off" });
  expect(repeated).toBe(0);
  expect(responses).toHaveLength(1);
});
