// node scripts/bundle.mjs DIST: bundles the compiled command and its dependencies into few files.
// Finding and reading hundreds of them takes Node longer than all else at a start, and each worker does it.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { rolldown } from "rolldown";
import { keepLicenses } from "./keep-licenses.mjs";

/** What Node is started with, in DIST/src, by the names that they get in the bundle. */
const entries = { main: "main.js", worker: "commands/worker.js", supervisor: "embedded/supervisor.js" };

const [dist] = process.argv.slice(2);
const sources = join(dist, "src");
const target = join(dist, "bundle");

/** A path as a module names it. */
const specifier = (from, to) => JSON.stringify(relative(from, to).split(sep).join("/"));

/** A module that looks for files around itself finds those around the place where it was compiled to. */
const keepPlaces = {
  name: "keep-places",
  transform(code, id) {
    if (!id.startsWith(sources + sep) || !code.includes("import.meta.url")) return null;
    return code.replaceAll("import.meta.url", `new URL(${specifier(target, id)}, import.meta.url).href`);
  },
};

/** Maps lead from the bundle to the TypeScript, over what the compiler says of its own output. */
const keepMaps = {
  name: "keep-maps",
  load(id) {
    if (!id.startsWith(sources + sep) || !existsSync(`${id}.map`)) return null;
    return { code: readFileSync(id, "utf8"), map: readFileSync(`${id}.map`, "utf8") };
  },
};

const bundle = await rolldown({
  input: Object.fromEntries(Object.entries(entries).map(([name, path]) => [name, join(sources, path)])),
  platform: "node",
  // Optional: it is looked for when it is needed.
  external: ["@platformatic/kafka"],
  plugins: [keepMaps, keepPlaces, keepLicenses],
});
await bundle.write({
  dir: target,
  format: "esm",
  sourcemap: true,
  entryFileNames: "[name].js",
  chunkFileNames: "[name]-[hash].js",
});
await bundle.close();
// Each keeps its place: who starts it, or waits for it there, need not know of the bundle.
for (const [name, path] of Object.entries(entries)) {
  const entry = join(sources, path);
  writeFileSync(entry, `import ${specifier(dirname(entry), join(target, `${name}.js`))};\n`);
}
