import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { killGroup } from "../embedded/processes.js";
import { goEnvironment, partnerProgram } from "../support/partners.js";
import { thorough } from "../support/tries.js";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";

/** How a language's calls are run: from a file, by a program. Undefined: this machine lacks it. */
interface Runner {
  readonly language: string;
  readonly program: string | undefined;
  readonly file: string;
  readonly args: readonly string[];
}

const runners: readonly Runner[] = [
  { language: "curl", program: partnerProgram("curl") && "bash", file: "call.sh", args: [] },
  { language: "grpcurl", program: partnerProgram("grpcurl") && "bash", file: "call.sh", args: [] },
  { language: "TypeScript", program: process.execPath, file: "call.mjs", args: [] },
  { language: "Python", program: partnerProgram("python"), file: "call.py", args: ["-u"] },
  // Each call is compiled.
  { language: "Go", program: thorough ? partnerProgram("go") : undefined, file: "call.go", args: ["run"] },
];

const outputMaxMs = 60_000;

describe.skipIf(chromium === undefined)("the calls that the explorer shows, pasted", () => {
  const world = new ExplorerWorld({ seed: 4, markets: 3, parties: 10, ordersPerBlock: 20, entriesPerBlock: 5 });
  let page: Page;
  let views: readonly string[];

  beforeAll(async () => {
    await world.start(60);
    const { marketsData } = await world.getJson<{ marketsData: { market: string }[] }>("/markets/data");
    const { ledgerEntries } = await world.getJson<{
      ledgerEntries: { edges: { node: { toAccountPartyId: string; assetId: string } }[] };
    }>("/api/v2/ledgerentry/history?filter.toAccountFilter.accountTypes=ACCOUNT_TYPE_GENERAL&pagination.first=1");
    const { toAccountPartyId = "", assetId = "" } = ledgerEntries.edges[0]?.node ?? {};
    const filter = `filter.toAccountFilter.partyIds=${toAccountPartyId}&filter.toAccountFilter.assetId=${assetId}`;
    views = [
      "#/",
      `#/market/${marketsData[0]?.market}`,
      `#/market/${marketsData[0]?.market}?at=2024-01-01T00:00:30Z`,
      `#/ledger?${filter}&filter.transferTypes=TRANSFER_TYPE_DEPOSIT&pagination.newestFirst=false`,
      `#/account?filter.partyIds=${toAccountPartyId}&filter.assetId=${assetId}&dateRange.endTimestamp=2024-01-02`,
      "#/signers",
    ];
    ({ page } = await world.open(""));
  });

  afterAll(() => world.stop());

  /** The first output of a call; a stream is ended then. @throws when there is none, or the program fails */
  function firstOutput({ program = "", args, file }: Runner, text: string): Promise<string> {
    const path = join(world.directory, file);
    writeFileSync(path, text);
    const env = { ...process.env, ...goEnvironment };
    const child = spawn(program, [...args, path], { cwd: world.directory, env, detached: true, timeout: outputMaxMs });
    let printed = "";
    child.stderr.on("data", (chunk) => {
      printed += String(chunk);
    });
    return new Promise((resolve, reject) => {
      child.stdout.once("data", (chunk) => {
        resolve(String(chunk));
        killGroup(child);
      });
      child.once("error", reject);
      child.once("close", () => reject(new Error(`no output, but ${printed}`)));
    });
  }

  test.each(runners.filter(({ program }) => program !== undefined))("$language", async (runner) => {
    let count = 0;
    for (const view of views) {
      await page.evaluate(`location.hash = ${JSON.stringify(view)}`);
      await expect.poll(() => page.locator(".calls").count(), patience).toBe(1);
      await page.locator(`.calls input[value="${runner.language}"]`).check({ force: true });
      const calls = await page.locator(".call pre").allTextContents();
      expect(calls.length).toBeGreaterThan(0);
      for (const call of calls) {
        // A file that curl saves by the name that the service gives it is printed instead.
        const output = await firstOutput(runner, call.replace("curl -sOJ", "curl -s"));
        expect(output.trim(), call).not.toBe("");
        expect(output, call).not.toMatch(/"code": ?[0-9]|ERROR/);
        count += 1;
      }
    }
    expect(count).toBeGreaterThanOrEqual(9);
  });
});
