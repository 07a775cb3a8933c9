import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { WorkersProcess } from "../e2e/workers-process.js";
import { until } from "../embedded/processes.js";
import { MarketFixture } from "../live/market-fixture.js";
import { partnerProgram } from "../support/partners.js";

/* The wall clock of the command alone is stepped; the machine's is left alone. */

const faketime = partnerProgram("faketime");
const openings: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

describe.skipIf(faketime === undefined)("when the wall clock steps", () => {
  it.each(["-2h", "+2h"])("by %s, a dead worker is replaced as always", async (step) => {
    const fixture = await MarketFixture.create();
    openings.push(() => fixture.drop());
    await fixture.add({ announce: ["a"] });
    const folder = mkdtempSync(join(tmpdir(), "marketd-clock-"));
    openings.push(() => rmSync(folder, { recursive: true, force: true }));
    const clock = join(folder, "clock");
    writeFileSync(clock, "+0\n");
    const library = execFileSync(faketime ?? "", ["-f", "+0", "printenv", "LD_PRELOAD"], { encoding: "utf8" }).trim();
    const args = ["--database-url", fixture.url, "--listen", "127.0.0.1:0", "--workers", "2", "--drain-ms", "500"];
    const service = new WorkersProcess(args, {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: clock,
      FAKETIME_NO_CACHE: "1",
      DONT_FAKE_MONOTONIC: "1",
    });
    openings.push(() => service.destroy());
    await service.ready();
    writeFileSync(clock, `${step}\n`);
    await delay(1_500);
    const [victim = 0] = service.workers();
    process.kill(victim, "SIGKILL");
    await until("another worker", 30_000, () => service.workers().filter((pid) => pid !== victim).length === 2);
    // The step reached the command: its log lines tell the time of its clock.
    const span = () => {
      const times = [...service.printed.matchAll(/"time":"([^"]+)"/g)].map(([, time = ""]) => Date.parse(time));
      return Math.max(...times) - Math.min(...times);
    };
    await expect.poll(span).toBeGreaterThan(7_000_000);
    expect((await service.stop("SIGTERM")).code).toBe(0);
  });
});
