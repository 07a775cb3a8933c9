import { describe, expect, test } from "vitest";
import { readSource, trackedFiles } from "./sources.js";

/*
 * How large each part of src may be, in lines, comments and blank lines included. A change that needs more raises the
 * number here, and its commit says why. A part that shrank far below its budget lowers it.
 */
const budgets: Readonly<Record<string, number>> = {
  ".": 650,
  api: 840,
  client: 980,
  commands: 1_370,
  connect: 180,
  domain: 1_700,
  embedded: 1_180,
  encoding: 680,
  ledger: 1_810,
  live: 1_920,
  loader: 4_150,
  runtime: 1_460,
  simulator: 2_870,
  store: 3_910,
  telemetry: 80,
  terminal: 430,
  "transport/": 1_080,
  "transport/call": 1_100,
  "transport/connections": 2_120,
  "transport/http": 1_480,
  "transport/protocols": 735,
  "transport/services": 380,
  verify: 1_220,
};

/** Files of transport: a protocol needs one or two, not a folder. */
const transportFilesMax = 39;

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
