import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "./definitions.js";

test.each([
  ["gen", []],
  ["harness/conformance/gen", ["harness/conformance/proto", "--template", "harness/conformance/buf.gen.yaml"]],
])("%s/ is, byte for byte, what the definitions generate", (generated, inputs) => {
  const directory = mkdtempSync(join(tmpdir(), "marketd-gen-"));
  try {
    execFileSync(join(root, "node_modules/.bin/buf"), ["generate", ...inputs, "-o", directory], { cwd: root });
    const fresh = filesBelow(join(directory, generated));
    const committed = filesBelow(join(root, generated));
    const names = new Set([...fresh.keys(), ...committed.keys()]);
    const stale = [...names].filter((name) => fresh.get(name) !== committed.get(name)).sort();
    expect(stale, `${generated}/ is stale: npm run generate`).toEqual([]);
    expect(names.size).toBeGreaterThan(0);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

/** Content by path. */
function filesBelow(directory: string): Map<string, string> {
  const names = readdirSync(directory, { recursive: true, encoding: "utf8" });
  const files = names.filter((name) => statSync(join(directory, name)).isFile());
  return new Map(files.map((name) => [name, readFileSync(join(directory, name), "utf8")]));
}
