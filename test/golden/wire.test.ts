import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { DescFile } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { root } from "./definitions.js";
import { wireTable } from "./wire-table.js";

const goldenFile = join(root, "test/golden/wire.txt");

test("the generated code has the names, numbers and types of the checked-in table", async () => {
  const built = wireTable(await generatedFiles());
  if (process.env["MARKETD_RENEW_GOLDEN"] === "1") writeFileSync(goldenFile, built);
  const difference = describeDifference(readFileSync(goldenFile, "utf8"), built);
  expect(difference, difference).toBe("");
});

test("a difference names what is gone, what is new, and what that means", () => {
  const before = "message a.B\n  1 c: singular string, json c\n\nenum a.E\n  0 E_UNSPECIFIED\n";
  const after = "message a.B\n  2 c: singular string, json c\n\nenum a.E\n  0 E_UNSPECIFIED\n";
  expect(describeDifference(before, before)).toBe("");
  expect(describeDifference(before, after)).toBe(
    [
      "What clients depend on is not what test/golden/wire.txt says.",
      "",
      "- message a.B: 1 c: singular string, json c",
      "+ message a.B: 2 c: singular string, json c",
      "",
      "- a fact of the table that is gone: existing clients break. Take the change back.",
      "+ a fact that is new: alone it is harmless; beside a - of the same name it is that fact, changed.",
      "If every difference is meant: MARKETD_RENEW_GOLDEN=1 npx vitest run test/golden, and commit the table.",
    ].join("\n"),
  );
});

/** The files of every module in gen/. */
async function generatedFiles(): Promise<DescFile[]> {
  const directory = join(root, "gen");
  const names = readdirSync(directory, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const modules = await Promise.all(names.map((name) => import(pathToFileURL(join(directory, name)).href)));
  const files = modules.flatMap((module: object) => Object.values(module)).filter(isDescFile);
  expect(files, "every generated module exports its file").toHaveLength(names.length);
  return files;
}

function isDescFile(value: unknown): value is DescFile {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === "file";
}

/** Empty if both tables hold the same facts. */
function describeDifference(before: string, after: string): string {
  const [old, now] = [facts(before), facts(after)];
  const gone = [...old].filter((fact) => !now.has(fact)).map((fact) => `- ${fact}`);
  const added = [...now].filter((fact) => !old.has(fact)).map((fact) => `+ ${fact}`);
  if (gone.length + added.length === 0) return "";
  return [
    "What clients depend on is not what test/golden/wire.txt says.",
    "",
    ...gone,
    ...added,
    "",
    "- a fact of the table that is gone: existing clients break. Take the change back.",
    "+ a fact that is new: alone it is harmless; beside a - of the same name it is that fact, changed.",
    "If every difference is meant: MARKETD_RENEW_GOLDEN=1 npx vitest run test/golden, and commit the table.",
  ].join("\n");
}

/** The lines of a table, each with the name of its block before it. */
function facts(table: string): Set<string> {
  const found = new Set<string>();
  let block = "";
  for (const line of table.split("\n")) {
    if (line === "") continue;
    if (!line.startsWith("  ")) block = line;
    found.add(line.startsWith("  ") ? `${block}: ${line.trim()}` : line);
  }
  return found;
}
