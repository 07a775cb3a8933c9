import { describe, expect, test } from "vitest";
import { type Import, importsOf, readSource, trackedFiles, withoutComments } from "./sources.js";

const sources = trackedFiles().filter((path) => /^src\/.*\.ts$/.test(path));
const imports = sources.flatMap(importsOf);

const library = "clients/typescript/src/";

/** The module of a source file; files in src/ itself are modules of their own, and so is the client library. */
function moduleOf(path: string): string {
  if (path.startsWith(library)) return "clients";
  const [top = "", module = ""] = path.split("/");
  return top === "gen" ? "gen" : module;
}

/** The table in docs/architecture.md: what each module may import, beside itself and `gen`. */
function allowedImports(): ReadonlyMap<string, ReadonlySet<string> | "all"> {
  const rows = readSource("docs/architecture.md").matchAll(/^\| `([a-z]+)` \|.*\| ([a-z, ]+) \|$/gm);
  const allowed = new Map<string, ReadonlySet<string> | "all">();
  for (const [, module = "", list = ""] of rows) {
    allowed.set(module, list === "all" ? "all" : new Set(list === "nothing" ? [] : list.split(", ")));
  }
  return allowed;
}

/** The table of the folders of transport: what each may import, beside itself and the files of transport itself. */
function allowedFolders(): ReadonlyMap<string, ReadonlySet<string>> {
  const rows = readSource("docs/architecture.md").matchAll(/^\| `([a-z]+)\/` \|.*\| ([a-z, ]+) \|$/gm);
  return new Map([...rows].map(([, folder = "", list = ""]) => [folder, new Set(list.split(", "))]));
}

/** The folder of transport that a file is in; empty: transport itself, undefined: not transport. */
function transportFolderOf(path: string): string | undefined {
  return /^src\/transport\/(?:([a-z]+)\/)?[a-z0-9-]+\.ts$/
    .exec(path)
    ?.slice(1)
    .map((folder) => folder ?? "")[0];
}

/** A path of files, each of which imports the next and the last the first; undefined when there is none. */
function findCycle(edges: readonly Import[]): string[] | undefined {
  const next = new Map<string, string[]>();
  for (const { from, to } of edges) next.set(from, [...(next.get(from) ?? []), to]);
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (file: string): string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return undefined;
    done.add(file);
    path.push(file);
    for (const to of next.get(file) ?? []) {
      const cycle = visit(to);
      if (cycle !== undefined) return cycle;
    }
    path.pop();
    return undefined;
  };
  for (const file of next.keys()) {
    const cycle = visit(file);
    if (cycle !== undefined) return cycle;
  }
  return undefined;
}

describe("the walls of docs/architecture.md", () => {
  const allowed = allowedImports();

  test("every module stands in the table, and every row is a module", () => {
    const modules = new Set(sources.filter((path) => path.split("/").length > 2).map(moduleOf));
    expect([...allowed.keys()].sort()).toEqual([...modules].sort());
  });

  test("src itself holds the configuration and the entry alone", () => {
    expect(sources.filter((path) => path.split("/").length === 2)).toEqual(["src/config.ts", "src/main.ts"]);
  });

  test.each([...allowed.keys()])("%s imports what the table allows", (module) => {
    const may = allowed.get(module);
    const across = imports.filter(({ from, to, ours }) => ours && moduleOf(from) === module && moduleOf(to) !== module);
    const broken = across.filter(
      ({ to }) => moduleOf(to) !== "gen" && may !== "all" && may?.has(moduleOf(to)) !== true,
    );
    expect(broken.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });

  test("every folder of transport stands in its table", () => {
    const folders = new Set(sources.map(transportFolderOf).filter((folder) => folder !== undefined && folder !== ""));
    expect([...allowedFolders().keys()].sort()).toEqual([...folders].sort());
  });

  test.each([...allowedFolders()])("%s of transport imports what the table allows", (folder, may) => {
    const own = imports.filter(({ from, ours }) => ours && transportFolderOf(from) === folder);
    const broken = own.filter(({ to }) => {
      const other = transportFolderOf(to);
      if (other === "") return to === "src/transport/server.ts";
      return other !== undefined && other !== folder && !may.has(other);
    });
    expect(broken.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });

  test("production code imports neither tests nor benches", () => {
    const broken = imports.filter(({ to, ours }) => ours && !/^(src|gen)\//.test(to) && moduleOf(to) !== "clients");
    expect(broken.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });

  test("the client library imports the domain alone", () => {
    const own = trackedFiles().filter((path) => path.startsWith(library));
    const across = own.flatMap(importsOf).filter(({ to, ours }) => ours && moduleOf(to) !== "clients");
    expect(across.length).toBeGreaterThan(0);
    expect(new Set(across.map(({ to }) => moduleOf(to)))).toEqual(new Set(["domain", "gen"]));
  });

  test("there is no cycle", () => {
    expect(findCycle(imports.filter(({ ours }) => ours))).toBeUndefined();
  });

  test("a cycle would be found", () => {
    const edge = (from: string, to: string): Import => ({ from, to, ours: true });
    expect(findCycle([edge("a", "b"), edge("b", "c"), edge("c", "d"), edge("c", "b")])).toEqual(["b", "c", "b"]);
    expect(findCycle([edge("a", "b"), edge("a", "c"), edge("b", "c")])).toBeUndefined();
  });

  test("only the store knows the driver", () => {
    const importers = imports.filter(({ to }) => /^mysql2?(\/|$)/.test(to)).map(({ from }) => moduleOf(from));
    expect(new Set(importers)).toEqual(new Set(["store"]));
  });

  test("connections know no tables", () => {
    const across = imports.filter(({ from, ours }) => ours && from.startsWith("src/store/connection/"));
    const broken = across.filter(({ to }) => !/^src\/(store\/connection|domain|telemetry)\//.test(to));
    expect(broken.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
    expect(across.length).toBeGreaterThan(0);
  });

  test("only the configuration reads the environment", () => {
    const readers = sources.filter((path) => /\bprocess\s*\.\s*env\b/.test(withoutComments(readSource(path))));
    expect(readers).toEqual(["src/config.ts"]);
  });

  test("production code imports what the first table of dependencies names, and uses all of it", () => {
    const packages = imports.filter(({ to, ours }) => !ours && !to.startsWith("node:"));
    const broken = packages.filter(({ to }) => !runtimePackages().has(packageName(to)));
    expect(broken.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
    const imported = new Set(packages.map(({ to }) => packageName(to)));
    expect([...runtimePackages()].filter((name) => !imported.has(name))).toEqual([]);
  });

  test("the package installs nothing but what is optional: the build holds all that it needs", () => {
    const manifest: Record<string, Record<string, string> | undefined> = JSON.parse(readSource("package.json"));
    expect(Object.keys(manifest["dependencies"] ?? {})).toEqual([]);
    const declared = { ...manifest["devDependencies"], ...manifest["optionalDependencies"] };
    expect([...runtimePackages()].filter((name) => !Object.hasOwn(declared, name))).toEqual([]);
  });
});

/** The first table under "Dependencies" in docs/architecture.md: the packages that the command consists of. */
function runtimePackages(): ReadonlySet<string> {
  const [, section = ""] = readSource("docs/architecture.md").split("\n## Dependencies\n");
  const [table = ""] = section.split("\nFor development:\n");
  const rows = [...table.matchAll(/^\| (`.*`) \|/gm)];
  return new Set(
    rows.flatMap(([, packages = ""]) => [...packages.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name)),
  );
}

function packageName(specifier: string): string {
  const parts = specifier.split("/");
  return parts.slice(0, specifier.startsWith("@") ? 2 : 1).join("/");
}
