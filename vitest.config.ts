import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { databaseTests, isOtherServer } from "./test/support/database-tests.js";
import { leftOutFiles } from "./test/support/tries.js";

/**
 * Files run beside each other for each core, and beyond: most tests wait for time limits, dead connections or other
 * processes. More would take the time of tests that measure it, as on two cores with six.
 */
const waitingFiles = 2;

/** Files that take longest, longest first. Started last, each would hold up the end of the run. */
const longest = [
  "runtime/other-nodes",
  "store/dead-connections",
  "clients/clients",
  "e2e/export",
  "e2e/load-faults",
  "e2e/openapi-partners",
  "runtime/rolling-restart",
  "e2e/clock-steps",
  "e2e/explorer",
  "e2e/explorer-load",
  "loader/kafka",
  "loader/kafka-kills",
  "loader/standby",
  "venues/recorded",
  "verify/verify",
  "e2e/workers",
  "e2e/command",
  "e2e/command-line",
  "live/scale",
  "live/large-books",
  "live/real-recording",
  "loader/real-recording",
  "store/lagging-replica",
  "store/same-responses",
  "e2e/documents",
  "e2e/package",
  "e2e/demo-database",
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const index = longest.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return index < 0 ? longest.length : index;
    };
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => place(a) - place(b));
  }
}

/** When a test is given up, for machines much slower than this one. What must be quick, a test asserts by itself. */
const patience = { testTimeout: 240_000, hookTimeout: 240_000, expect: { poll: { timeout: 20_000 } } } as const;

/** Each worker loads a module once, for all files that it runs. */
const processes = { pool: "forks", isolate: false } as const;

const include = isOtherServer ? databaseTests() : ["test/**/*.test.ts"];

export default defineConfig({
  test: {
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/generated-sizes.ts"],
    maxWorkers: availableParallelism() + waitingFiles,
    sequence: { sequencer: LongestFirst },
    ...patience,
    ...processes,
    include,
    exclude: [...leftOutFiles()],
  },
});
