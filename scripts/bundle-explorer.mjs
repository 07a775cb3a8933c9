// node scripts/bundle-explorer.mjs DIST: makes the explorer page of web/ into few files in DIST/web.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { keepLicenses } from "./keep-licenses.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const web = join(root, "web");
const [dist] = process.argv.slice(2);
const target = join(dist, "web");

const bundle = await rolldown({
  input: { explorer: join(web, "main.tsx") },
  platform: "browser",
  plugins: [keepLicenses],
  resolve: { extensionAlias: { ".js": [".tsx", ".ts", ".js"] } },
  transform: { jsx: { runtime: "automatic", importSource: "preact" } },
});
await bundle.write({ dir: target, format: "esm", entryFileNames: "[name].js", codeSplitting: false, minify: true });
await bundle.close();

mkdirSync(target, { recursive: true });
for (const name of ["index.html", "icon.svg"]) cpSync(join(web, name), join(target, name));
const styles = [join(root, "node_modules", "uplot", "dist", "uPlot.min.css"), join(web, "explorer.css")];
writeFileSync(join(target, "explorer.css"), styles.map((file) => readFileSync(file, "utf8")).join("\n"));
