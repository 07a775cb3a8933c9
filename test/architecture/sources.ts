import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository's folder. */
export const root = fileURLToPath(new URL("../../", import.meta.url));

/** Text of a file of the repository. */
export function readSource(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

/** Paths of all files that git knows or would add, from the repository's folder, in order. */
export function trackedFiles(): string[] {
  const result = spawnSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z"], {
    cwd: root,
    encoding: "utf8",
  });
  if (result.status !== 0) throw new Error(`git ls-files: ${result.stderr}`);
  const files = result.stdout.split("\0").filter((path) => path !== "" && existsSync(join(root, path)));
  return [...new Set(files)].sort();
}

/** One import of a source file. */
export interface Import {
  readonly from: string;
  /** A path of this repository, or the name of a package or of a module of Node. */
  readonly to: string;
  readonly ours: boolean;
}

/** Every import, export-from and dynamic import of a TypeScript file. */
export function importsOf(path: string): Import[] {
  const text = withoutComments(readSource(path));
  // The formatter puts every statement at the start of a line and every name in double quotes.
  const patterns = [
    /^(?:import|export)\s[^;"]*?\bfrom "([^"\n]+)"/gm,
    /^import "([^"\n]+)"/gm,
    /\bimport\("([^"\n]+)"\)/g,
  ];
  const specifiers = patterns.flatMap((pattern) => [...text.matchAll(pattern)]);
  return specifiers.map(([, specifier = ""]) => {
    const ours = specifier.startsWith(".");
    const to = ours ? normalize(join(dirname(path), specifier)).replace(/\.js$/, ".ts") : specifier;
    return { from: path, to, ours };
  });
}

/** Source without its comments, well enough to search it; texts that hold `//` lose their end. */
export function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
}
