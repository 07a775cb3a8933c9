/** Whether this run takes the time to try as often as it can, as `.ci/run` does. */
const thorough = process.env["MARKETD_TESTS_THOROUGH"] === "true";

/** How often a test of random or repeated cases tries: as often as it can, or a quarter of that. */
export function tries(most: number): number {
  return thorough ? most : Math.ceil(most / 4);
}
