import { describe, expect, test } from "vitest";
import { readSource, trackedFiles } from "./sources.js";

/*
 * How large each part of src may be, in lines, comments and blank lines included. A change that needs more raises the
 * number here, and its commit says why. A part that shrank far below its budget lowers it.
 */
const budgets: Readonly<Record<string, number>> = {
  ".": 670,
  api: 1_110,
  client: 1_000,
  commands: 1_390,
  connect: 180,
  domain: 2_280,
  embedded: 1_180,
  encoding: 690,
  history: 1_740,
  ledger: 1_810,
  live: 2_340,
  loader: 4_800,
  runtime: 1_460,
  simulator: 2_870,
  store: 4_700,
  telemetry: 80,
  terminal: 430,
  "transport/": 1_070,
  "transport/call": 1_220,
  "transport/connections": 1_880,
  "transport/http": 1_730,
  "transport/protocols": 1_030,
  "transport/services": 380,
  verify: 1_630,
};

/** Files of transport: a protocol needs one or two, not a folder. */
const transportFilesMax = 40;

/** A budget that is this much larger than its part is stale. */
const slackMax = 1.25;

const files = trackedFiles().filter((path) => /^src\/.*\.(ts|sql)$/.test(path));

/** The row of the table that a file of src counts for. */
function partOf(path: string): string {
  const [, module = "", folder = "", ...rest] = path.split("/");
  if (folder === "") return ".";
  if (module !== "transport") return module;
  return rest.length === 0 ? "transport/" : `transport/${folder}`;
}

const lines = new Map<string, number>();
for (const path of files) {
  const part = partOf(path);
  lines.set(part, (lines.get(part) ?? 0) + readSource(path).split("\n").length - 1);
}

describe("src is within its budget of lines", () => {
  test("every part has a budget", () => {
    expect([...lines.keys()].sort()).toEqual(Object.keys(budgets).sort());
  });

  test.each(Object.entries(budgets))("%s: at most %i", (part, max) => {
    expect(lines.get(part)).toBeLessThanOrEqual(max);
    expect(max, "lower the budget to what the part needs").toBeLessThanOrEqual((lines.get(part) ?? 0) * slackMax + 50);
  });

  test("transport has few files", () => {
    expect(files.filter((path) => path.startsWith("src/transport/")).length).toBeLessThanOrEqual(transportFilesMax);
  });
});
