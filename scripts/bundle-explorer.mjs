// node scripts/bundle-explorer.mjs DIST: makes the pages of web/, explorer and API reference, into few files in DIST/web.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { keepLicenses } from "./keep-licenses.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const web = join(root, "web");
const [dist] = process.argv.slice(2);
const target = join(dist, "web");

/** Makes a program of a page into one file. */
async function bundleProgram(input, dir) {
  const bundle = await rolldown({
    input,
    platform: "browser",
    plugins: [keepLicenses],
    resolve: { extensionAlias: { ".js": [".tsx", ".ts", ".js"] } },
    transform: { jsx: { runtime: "automatic", importSource: "preact" } },
  });
  await bundle.write({ dir, format: "esm", entryFileNames: "[name].js", codeSplitting: false, minify: true });
  await bundle.close();
}

await bundleProgram({ explorer: join(web, "main.tsx") }, target);
mkdirSync(target, { recursive: true });
for (const name of ["index.html", "icon.svg"]) cpSync(join(web, name), join(target, name));
const styles = [join(root, "node_modules", "uplot", "dist", "uPlot.min.css"), join(web, "explorer.css")];
writeFileSync(join(target, "explorer.css"), styles.map((file) => readFileSync(file, "utf8")).join("\n"));

const docs = join(target, "docs");
await bundleProgram({ docs: join(web, "docs", "docs.ts") }, docs);
mkdirSync(docs, { recursive: true });
for (const name of ["index.html", "docs.css", "openapi.json"]) cpSync(join(web, "docs", name), join(docs, name));
const viewer = join(root, "node_modules", "swagger-ui-dist");
for (const name of ["swagger-ui-bundle.js", "LICENSE", "NOTICE"]) cpSync(join(viewer, name), join(docs, name));
// The policy of the page forbids images inside of a style sheet: they become files of their own.
const images = new Map();
const inlineSvg = /url\("data:image\/svg\+xml;charset=utf-8,((?:[^"\\]|\\.)*)"\)/g;
const css = readFileSync(join(viewer, "swagger-ui.css"), "utf8").replaceAll(inlineSvg, (_, text) => {
  const name = images.get(text) ?? `image-${images.size + 1}.svg`;
  images.set(text, name);
  return `url(${name})`;
});
writeFileSync(join(docs, "swagger-ui.css"), css);
for (const [text, name] of images) {
  writeFileSync(join(docs, name), decodeURIComponent(text.replaceAll(/\\(.)/g, "$1")));
}
