import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { findServerPrograms } from "../../src/embedded/server-programs.js";
import { run } from "../clients/languages.js";
import { processesOf } from "../embedded/processes.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { packPackage } from "../support/packed-package.js";

/* The npm package as its users get it: packed, installed into an empty folder, and run there. */

const root = fileURLToPath(new URL("../../", import.meta.url));
const packMaxMs = 240_000;
const demoMaxMs = 90_000;
const stopMaxMs = 30_000;

/** Packed; what is downloaded. */
const packageBytesMax = 2.25 * 1024 * 1024;

let folder = "";
let archive = "";
let files: string[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "marketd-package-"));
  archive = await packPackage(folder);
  const list = await run(["tar", "-tzf", archive], folder);
  files = list
    .trim()
    .split("\n")
    .map((path) => path.replace(/^package\//, ""));
}, packMaxMs);

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe("the package", () => {
  test("holds what its users need, and nothing else", () => {
    const needed = [
      "LICENSE",
      "README.md",
      "bin/marketd",
      "deploy/alerts.yml",
      "deploy/marketd-serve.service",
      "docs/api.md",
      "lib/bundle/licenses.txt",
      "lib/bundle/main.js",
      "lib/bundle/worker.js",
      "lib/connect/connect.js",
      "lib/connect/licenses.txt",
      "lib/gen/datanode/api/v2/trading_data_pb.d.ts",
      "lib/src/connect/open-marketd.d.ts",
      "lib/src/main.js",
      "lib/src/store/migrations/001.do.initial.sql",
      "lib/web/explorer.js",
      "lib/web/licenses.txt",
      "package.json",
    ];
    expect(files).toEqual(expect.arrayContaining(needed));
    const places =
      /^(bin|lib\/(bundle|connect|gen|src|web)|docs|deploy)\/|^(LICENSE|(README|CHANGELOG|SECURITY)\.md|package\.json|scripts\/check-node\.mjs)$/;
    expect(files.filter((path) => !places.test(path))).toEqual([]);
    expect(files.filter((path) => /(?<!\.d)\.ts$|\.(tsx|map|tgz)$|\.test\.|node_modules/.test(path))).toEqual([]);
    const types = files.filter((path) => path.startsWith("lib/src/") && path.endsWith(".d.ts"));
    expect(types).toEqual(["lib/src/connect/open-marketd.d.ts"]);
    const modules = files.filter((path) => /^lib\/src\/.*\.js$/.test(path));
    expect(modules.sort()).toEqual(["lib/src/commands/worker.js", "lib/src/embedded/supervisor.js", "lib/src/main.js"]);
    expect(statSync(archive).size).toBeLessThan(packageBytesMax);
  });

  test("has every file that its README links to; the READMEs of clients link to none", async () => {
    const links = (text: string) => [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, path]) => path ?? "");
    const readme = await run(["tar", "-xzOf", archive, "package/README.md"], folder);
    expect(links(readme).length).toBeGreaterThan(5);
    expect(links(readme).filter((path) => !files.includes(path))).toEqual([]);
    for (const client of ["typescript", "python", "go"]) {
      expect(links(readFileSync(join(root, "clients", client, "README.md"), "utf8"))).toEqual([]);
    }
  });

  test("names the license of every package in it", async () => {
    const text = await run(["tar", "-xzOf", archive, "package/lib/bundle/licenses.txt"], folder);
    for (const name of ["@bufbuild/protobuf", "commander", "mysql2", "pino", "prom-client", "ws"]) {
      expect(text).toMatch(new RegExp(`^== ${name} [0-9.]+: [A-Z(]`, "m"));
    }
  });

  test("installs into an empty folder without a registry, and its demo runs there", {
    timeout: packMaxMs,
  }, async (context) => {
    const project = join(folder, "empty");
    await mkdir(project);
    await run(["npm", "install", "--offline", "--no-audit", "--no-fund", archive], project);
    const installed = readdirSync(join(project, "node_modules")).filter((name) => !name.startsWith("."));
    expect(installed).toEqual(["marketd"]);
    const list = JSON.parse(await run(["npm", "ls", "--all", "--json"], project));
    expect(Object.entries(list.dependencies)).toEqual([["marketd", expect.not.objectContaining({ dependencies: {} })]]);
    const address = "kafka://127.0.0.1:1/topic";
    const load = run(["npx", "--offline", "marketd", "load", "--database-url", newDatabaseUrl().url, address], project);
    await expect(load).rejects.toThrow("install it beside marketd: npm install @platformatic/kafka@1.22");
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    expect(await run(["npx", "--offline", "marketd", "--version"], project)).toBe(`${version}\n`);

    const server = await findServerPrograms();
    context.skip(server === undefined, "there is no database server on this machine");
    const demo = startDemo(project, await freePort());
    try {
      await vi.waitFor(() => expect(demo.printed()).toContain("marketd serves a simulated network"), demoMaxMs);
      const data = (await (await fetch(`${demo.url}/markets/data`)).json()) as { marketsData: unknown[] };
      expect(data.marketsData).toHaveLength(12);
      expect(await (await fetch(demo.url)).text()).toContain("explorer/explorer.js");
      expect((await fetch(`${demo.url}/explorer/explorer.js`)).status).toBe(200);
    } finally {
      await demo.stop();
    }
    await vi.waitFor(() => expect(processesOf(project, "any")).toEqual([]), stopMaxMs);
  });
});

/** `npx marketd demo` in a process group of its own, as a terminal would start it. */
function startDemo(project: string, port: number) {
  const args = ["--offline", "marketd", "demo", "--listen", `127.0.0.1:${port}`];
  const child = spawn("npx", args, { cwd: project, stdio: ["ignore", "pipe", "pipe"], detached: true });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (printed += String(text)));
  const closed = once(child, "close");
  const signal = (name: NodeJS.Signals) => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, name);
  };
  const stop = async () => {
    signal("SIGINT");
    const force = setTimeout(() => signal("SIGKILL"), stopMaxMs);
    await closed;
    clearTimeout(force);
  };
  return { url: `http://127.0.0.1:${port}`, printed: () => printed, stop };
}
