import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname } from "node:path";
import type { StaticFile } from "../transport/http/static-files.js";

const contentTypes = new Map([
  [".css", "text/css; charset=utf-8"],
  [".html", "text/html; charset=utf-8"],
  [".js", "text/javascript; charset=utf-8"],
  [".json", "application/json"],
  [".svg", "image/svg+xml"],
]);

type Files = ReadonlyMap<string, StaticFile>;

/** The explorer page by the paths under which the service offers it: `/`, and `/explorer/…` for what it needs. */
export function explorerFiles(): Files {
  return offered("", (name) => (name === "index.html" ? "/" : `/explorer/${name}`));
}

/** The API reference: `/openapi.json`, and the page `/docs` with `/docs/…` for what it needs. */
export function referenceFiles(basePath: string): Files {
  const special = new Map([
    ["index.html", "/docs"],
    ["openapi.json", "/openapi.json"],
  ]);
  const files = new Map(offered("docs/", (name) => special.get(name) ?? `/docs/${name}`));
  const document = files.get("/openapi.json");
  if (document !== undefined) {
    const content: object = JSON.parse(Buffer.from(document.bytes).toString());
    const text = JSON.stringify({ ...content, servers: [{ url: basePath === "" ? "/" : basePath }] });
    files.set("/openapi.json", { ...document, bytes: Buffer.from(text) });
  }
  return files;
}

/** The folder with the built pages: `web` beside the compiled `src`, or that of the newest build for `src` itself. */
function webFolder(): URL | undefined {
  return ["../../web/", "../../dist/web/"]
    .map((path) => new URL(path, import.meta.url))
    .find((folder) => existsSync(new URL("explorer.js", folder)));
}

/** The files of a folder of the built pages, by the paths that their names are offered under. */
function offered(folder: string, pathOf: (name: string) => string): Files {
  const files = new Map<string, StaticFile>();
  const pages = webFolder();
  if (pages === undefined) return files;
  const location = new URL(folder, pages);
  for (const name of readdirSync(location)) {
    const contentType = contentTypes.get(extname(name));
    if (contentType !== undefined)
      files.set(pathOf(name), { contentType, bytes: readFileSync(new URL(name, location)) });
  }
  return files;
}
