// A plugin of rolldown: licenses.txt beside a bundle holds the licenses of all packages in it, which most of them demand.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The folder of the package that a module is in. */
const packageFolder = /^\0?(.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+)[\\/]/;

export const keepLicenses = {
  name: "keep-licenses",
  generateBundle(_, bundle) {
    const modules = Object.values(bundle).flatMap((part) => part.moduleIds ?? []);
    const folders = new Set(modules.map((id) => packageFolder.exec(id)?.[1]).filter((folder) => folder !== undefined));
    const source = [...folders].map(licenseOf).sort().join("\n");
    this.emitFile({ type: "asset", fileName: "licenses.txt", source });
  },
};

function licenseOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file === undefined ? "" : `\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  return `== ${name} ${version}: ${license}\n${text}`;
}
