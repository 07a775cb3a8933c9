import { readdirSync } from "node:fs";
import { join } from "node:path";
import { importsOf, readSource, root } from "./sources.js";

/** What serves: a server in the test's own process, or the command in one of its own. */
const servers = ["src/transport/server.ts", "bin/marketd"];

/** Paths, from the repository's folder, of the test files that start a service or import what starts one. */
export function serviceTests(): string[] {
  const sources = ["src", "test"].flatMap(typescriptUnder);
  const uses = sources.flatMap((from) => usedBy(from).map((to) => ({ from, to })));
  const serving = new Set(servers);
  for (let before = 0; before < serving.size; ) {
    before = serving.size;
    for (const { from, to } of uses) if (serving.has(to)) serving.add(from);
  }
  return [...serving].filter((path) => path.endsWith(".test.ts")).sort();
}

function usedBy(path: string): string[] {
  const imported = importsOf(path).filter(({ ours }) => ours);
  const started = /new URL\("[./]*(bin\/marketd)"/.exec(readSource(path))?.slice(1) ?? [];
  return [...imported.map(({ to }) => to), ...started];
}

function typescriptUnder(folder: string): string[] {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  return files.filter((file) => file.endsWith(".ts")).map((file) => `${folder}/${file}`);
}
