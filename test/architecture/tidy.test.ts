import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { readSource, root, trackedFiles } from "./sources.js";

const files = trackedFiles();
const texts = files.filter((path) => !/\.(binpb|gz|png|ico|woff2)$/.test(path));
const code = texts.filter((path) => /^(src|test|bench|web|scripts|clients|examples)\/.*\.(tsx?|mjs|js)$/.test(path));
const written = texts.filter((path) => path.endsWith(".md"));

/** `path:line: text` of each line that matches. */
function linesWith(paths: readonly string[], pattern: RegExp): string[] {
  return paths.flatMap((path) =>
    readSource(path)
      .split("\n")
      .flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
  );
}

describe("the sources are tidy", () => {
  test("style, names of files, length and complexity of functions", () => {
    const biome = join("node_modules", "@biomejs", "biome", "bin", "biome");
    const result = spawnSync(process.execPath, [biome, "ci", "--colors=off", "--error-on-warnings", "."], {
      cwd: root,
      encoding: "utf8",
    });
    const findings = `${result.stdout}${result.stderr}`.split("\n").filter((line) => line.includes("━━"));
    expect({ status: result.status, findings }).toEqual({ status: 0, findings: [] });
  });

  test("types of the explorer, which knows a browser and not Node", () => {
    const tsc = join("node_modules", "typescript", "bin", "tsc");
    const result = spawnSync(process.execPath, [tsc, "-p", "web", "--noEmit"], { cwd: root, encoding: "utf8" });
    expect(result.stdout).toBe("");
    expect(result.status).toBe(0);
  });

  test("nothing is suppressed", () => {
    const words = ["@ts-ignore", "@ts-expect-error", "@ts-nocheck", "biome-ignore", "eslint-disable"];
    const pattern = new RegExp(words.join("|"));
    expect(
      linesWith(
        code.filter((path) => path !== "test/architecture/tidy.test.ts"),
        pattern,
      ),
    ).toEqual([]);
  });

  test("no file names a machine of ours or the host of a registry", () => {
    const pattern = /\/(work|farm)\/|\/root\/|registry\.npmjs|deb\.debian|"resolved"\s*:/;
    expect(linesWith(texts, pattern)).toEqual([]);
  });

  test("every file ends with a line end, and no line with a space", () => {
    const sources = texts.filter((path) => !path.startsWith("gen/"));
    const endless = sources.filter((path) => !/(^|\n)$/.test(readSource(path)));
    expect(endless).toEqual([]);
    expect(linesWith(sources, /[ \t]$/)).toEqual([]);
  });

  test("every dependency has its reason in docs/architecture.md", () => {
    const manifest: Record<string, Record<string, string> | undefined> = JSON.parse(readSource("package.json"));
    const names = [manifest["dependencies"], manifest["devDependencies"]].flatMap((table) => Object.keys(table ?? {}));
    const reasons = readSource("docs/architecture.md").split("\n");
    const unexplained = names.filter(
      (name) => !reasons.some((line) => line.includes(`\`${name}\``) && line.length > 30),
    );
    expect(unexplained).toEqual([]);
  });

  test("every link of the documents leads somewhere", () => {
    const broken = written.flatMap((path) =>
      [...readSource(path).matchAll(/\]\((?![a-z]+:|#)([^)#\s]+)/g)]
        .map(([, target = ""]) => target)
        .filter((target) => !existsSync(join(root, dirname(path), target)))
        .map((target) => `${path}: ${target}`),
    );
    expect(broken).toEqual([]);
  });
});
