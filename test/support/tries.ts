/** Whether this run tries as often as it can, and builds what takes minutes, as `.ci/run` does. */
export const thorough = process.env["MARKETD_TESTS_THOROUGH"] === "true";

/** Why a test that takes minutes is skipped otherwise. */
export const notThorough = "it takes minutes; MARKETD_TESTS_THOROUGH=true runs it";

/** How often a test of random or repeated cases tries: as often as it can, or a quarter of that. */
export function tries(most: number): number {
  return thorough ? most : Math.ceil(most / 4);
}
