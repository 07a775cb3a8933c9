/** Whether this run tries as often as it can, and builds what takes minutes, as `.ci/run` does. */
export const thorough = process.env["MARKETD_TESTS_THOROUGH"] === "true";

/** Why a test that takes minutes is skipped otherwise. */
export const notThorough = "it takes minutes; MARKETD_TESTS_THOROUGH=true runs it";

/** How often a test of random or repeated cases tries: as often as it can, or a quarter of that. */
export function tries(most: number): number {
  return thorough ? most : Math.ceil(most / 4);
}

/** Files that take longest, most of them with programs of others. They run where all is tried, or when they are named. */
const longFiles = [
  "test/clients/gateway.test.ts",
  "test/e2e/clock-steps.test.ts",
  "test/e2e/explorer-load.test.ts",
  "test/e2e/openapi-partners.test.ts",
  "test/e2e/proxies.test.ts",
  "test/live/scale.test.ts",
  "test/loader/kafka-kills.test.ts",
];

/** Why files that take longest are skipped otherwise. */
export const runsLong = "they take longest; MARKETD_TESTS_THOROUGH=true runs them, and naming one runs that one";

/** Those of them that a run leaves out, by the arguments of its command line: a path, or a part of one, names a file. */
export function leftOutFiles(args: readonly string[] = process.argv.slice(3)): readonly string[] {
  return thorough ? [] : longFiles.filter((file) => !args.some((arg) => file.includes(arg)));
}
