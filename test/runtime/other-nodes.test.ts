import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { nodeOf, ownVersion, supportedVersions } from "../support/node-versions.js";
import { notThorough, thorough } from "../support/tries.js";

/* The transport depends on how Node's HTTP servers behave, in which versions differ. */

const root = fileURLToPath(new URL("../../", import.meta.url));
const vitest = fileURLToPath(new URL("../../node_modules/vitest/vitest.mjs", import.meta.url));

const others = supportedVersions.filter((version) => version !== ownVersion);

describe.each(others)("on Node %i", (version) => {
  test("the tests of the transport pass", { timeout: 600_000 }, async (context) => {
    context.skip(!thorough, notThorough);
    const node = await nodeOf(version);
    if (node === undefined) {
      process.stderr.write(`skipped: the transport on Node ${version} (not on this machine, and not to be had)\n`);
      return context.skip();
    }
    const args = [vitest, "run", "test/transport", "--reporter", "json", "--silent"];
    const run = promisify(execFile)(node, args, { cwd: root, maxBuffer: 64 * 1024 * 1024 });
    const { stdout } = await run.catch((error: { readonly stdout?: string }) => ({ stdout: error.stdout ?? "" }));
    const report = JSON.parse(stdout.slice(stdout.indexOf('{"numTotalTestSuites"'))) as {
      readonly numPassedTests: number;
      readonly testResults: readonly {
        readonly message: string;
        readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
      }[];
    };
    const tests = report.testResults.flatMap(({ assertionResults }) => assertionResults);
    expect(tests.filter(({ status }) => status === "failed").map(({ fullName }) => fullName)).toEqual([]);
    expect(report.testResults.map(({ message }) => message).filter((message) => message !== "")).toEqual([]);
    expect(report.numPassedTests).toBeGreaterThan(1_000);
  });
});
