import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { expect, test } from "vitest";
import { isOffline, partnerProgram } from "../support/partners.js";
import { root } from "./definitions.js";

const go = partnerProgram("go");

test.each([
  ["gen", []],
  ["harness/conformance/gen", ["harness/conformance/proto", "--template", "harness/conformance/buf.gen.yaml"]],
])("%s/ is, byte for byte, what the definitions generate", (generated, inputs) => {
  expect(staleFiles(generated, inputs), `${generated}/ is stale: npm run generate`).toEqual([]);
});

test.skipIf(go === undefined)("clients/go/gen/ too", (context) => {
  try {
    const stale = staleFiles("clients/go/gen", ["--template", "clients/go/buf.gen.yaml"]);
    expect(stale, "clients/go/gen/ is stale: npm run generate:go").toEqual([]);
  } catch (error) {
    context.skip(isOffline(error), "the generators for Go cannot be reached");
    throw error;
  }
});

/** Files of a folder that are not what `buf generate` makes now. */
function staleFiles(generated: string, inputs: readonly string[]): string[] {
  const directory = mkdtempSync(join(tmpdir(), "marketd-gen-"));
  const path = [process.env["PATH"], dirname(go ?? "")].join(delimiter);
  try {
    execFileSync(join(root, "node_modules/.bin/buf"), ["generate", ...inputs, "-o", directory], {
      cwd: root,
      env: { ...process.env, PATH: path },
      encoding: "utf8",
    });
    const fresh = filesBelow(join(directory, generated));
    const committed = filesBelow(join(root, generated));
    const names = new Set([...fresh.keys(), ...committed.keys()]);
    expect(names.size).toBeGreaterThan(0);
    return [...names].filter((name) => fresh.get(name) !== committed.get(name)).sort();
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Content by path. */
function filesBelow(directory: string): Map<string, string> {
  const names = readdirSync(directory, { recursive: true, encoding: "utf8" });
  const files = names.filter((name) => statSync(join(directory, name)).isFile());
  return new Map(files.map((name) => [name, readFileSync(join(directory, name), "utf8")]));
}
