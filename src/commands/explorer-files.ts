import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname } from "node:path";
import type { StaticFile } from "../transport/http/static-files.js";

const contentTypes = new Map([
  [".css", "text/css; charset=utf-8"],
  [".html", "text/html; charset=utf-8"],
  [".js", "text/javascript; charset=utf-8"],
  [".svg", "image/svg+xml"],
]);

/** The folder with the built page: `web` beside the compiled `src`, or that of the newest build for `src` itself. */
function webFolder(): URL | undefined {
  return ["../../web/", "../../dist/web/"]
    .map((path) => new URL(path, import.meta.url))
    .find((folder) => existsSync(new URL("explorer.js", folder)));
}

/** The explorer page by the paths under which the service offers it: `/`, and `/explorer/…` for what it needs. */
export function explorerFiles(): ReadonlyMap<string, StaticFile> {
  const files = new Map<string, StaticFile>();
  const folder = webFolder();
  for (const name of folder === undefined ? [] : readdirSync(folder)) {
    const contentType = contentTypes.get(extname(name));
    if (contentType === undefined) continue;
    const bytes = readFileSync(new URL(name, folder));
    files.set(name === "index.html" ? "/" : `/explorer/${name}`, { contentType, bytes });
  }
  return files;
}
