import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { root } from "./sources.js";

/** A stand-in for npm: counts its calls, and "installs" a compiler and a vitest of a few lines. */
const npm = `
const fs = require("node:fs");
fs.appendFileSync("npm-calls", process.argv.slice(2).join(" ") + "\\n");
if (process.env.NPM_SAYS) { console.error(process.env.NPM_SAYS); process.exit(1); }
const put = (file, text) => { fs.mkdirSync(require("node:path").dirname(file), { recursive: true }); fs.writeFileSync(file, text); };
put("node_modules/typescript/bin/tsc", \`
  const fs = require("node:fs");
  fs.appendFileSync("tsc-calls", "call\\\\n");
  if (process.env.TSC_SAYS) { console.log(process.env.TSC_SAYS); process.exit(2); }
  const after = (flag) => process.argv[process.argv.indexOf(flag) + 1];
  const dist = after("--outDir");
  if (after("-p").endsWith("tsconfig.tools.json")) {
    fs.mkdirSync(dist + "/bench/support", { recursive: true });
    fs.writeFileSync(dist + "/bench/unary.js", "console.log('bench', process.argv.slice(2).join(' '))");
    fs.writeFileSync(dist + "/bench/support/in-turn.js", "console.log('in turn', process.argv.slice(2).join(' '))");
    process.exit();
  }
  for (const module of ["commands", "connect", "embedded"]) fs.mkdirSync(dist + "/src/" + module, { recursive: true });
  fs.writeFileSync(dist + "/src/commands/worker.js", "");
  fs.writeFileSync(dist + "/src/connect/open-marketd.js", "");
  fs.writeFileSync(dist + "/src/embedded/supervisor.js", "");
  fs.writeFileSync(dist + "/src/main.js", "console.log('main', process.argv.slice(2).join(' '))");
\`);
put("node_modules/rolldown/package.json", '{ "name": "rolldown", "type": "module", "exports": "./index.js" }');
put("node_modules/rolldown/index.js", \`
  import fs from "node:fs";
  if (process.env.ROLLDOWN_SAYS) throw new Error(process.env.ROLLDOWN_SAYS);
  export const rolldown = ({ input }) => ({
    write({ dir }) {
      fs.mkdirSync(dir);
      for (const [name, file] of Object.entries(input)) fs.copyFileSync(file, dir + "/" + name + ".js");
    },
    close() {},
  });
\`);
put("node_modules/uplot/dist/uPlot.min.css", "");
for (const name of ["swagger-ui-bundle.js", "swagger-ui.css", "LICENSE", "NOTICE"]) put("node_modules/swagger-ui-dist/" + name, "");
put("node_modules/vitest/vitest.mjs", \`
  if (process.argv.includes("wait")) {
    process.on("SIGTERM", () => process.exit(9));
    setInterval(() => {}, 1000);
  } else process.exitCode = 7;
  console.log("vitest", process.argv.slice(2).join(" "));
\`);
`;

const installing = "marketd: installing dependencies (npm ci)\n";

let clone: string;
let child: ChildProcess | undefined;

beforeEach(() => {
  clone = mkdtempSync(join(tmpdir(), "marketd-clone-"));
  const configs = ["tsconfig.json", "tsconfig.build.json", "tsconfig.tools.json"];
  for (const path of ["package.json", "package-lock.json", ...configs, "scripts", "bin"]) {
    cpSync(join(root, path), join(clone, path), { recursive: true });
  }
  put("src/main.ts", "export {};\n");
  put("src/store/migrations/001.do.initial.sql", "SELECT 1;\n");
  put("bench/unary.ts", "export {};\n");
  const pages = ["main.tsx", "index.html", "icon.svg", "explorer.css"];
  const docs = ["docs.ts", "index.html", "docs.css", "openapi.json"].map((name) => `docs/${name}`);
  for (const name of [...pages, ...docs]) put(`web/${name}`, "");
  put("npm.cjs", npm);
});

afterEach(() => {
  child?.kill("SIGKILL");
  rmSync(clone, { recursive: true, force: true });
});

function put(path: string, text: string): void {
  const file = join(clone, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

function linesOf(path: string): string[] {
  return existsSync(join(clone, path)) ? readFileSync(join(clone, path), "utf8").trim().split("\n") : [];
}

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs a script of the clone; `started` sees its output as it comes. */
function run(
  args: readonly string[],
  env: Record<string, string> = {},
  started: (child: ChildProcess) => void = () => {},
): Promise<Ended> {
  const own = { npm_execpath: join(clone, "npm.cjs"), MARKETD_TEST_SERVER_URL: "mysql://root@localhost/", ...env };
  const running = spawn(process.execPath, args, { cwd: clone, env: { ...process.env, ...own } });
  child = running;
  let out = "";
  let err = "";
  running.stderr.on("data", (chunk) => {
    err += String(chunk);
  });
  running.stdout.on("data", (chunk) => {
    out += String(chunk);
    started(running);
  });
  return new Promise((resolve) => running.once("close", (code) => resolve({ code, out, err })));
}

describe("npm test, from a fresh clone", () => {
  test("installs, builds, and is vitest: its arguments, its output, its exit code", async () => {
    expect(await run(["scripts/test.mjs", "test/store", "--bail=1"])).toEqual({
      code: 7,
      out: "vitest run test/store --bail=1\n",
      err: "marketd: installing dependencies (npm ci)\nmarketd: building\n",
    });
    expect(linesOf("npm-calls")).toEqual([expect.stringMatching(/^ci /)]);
    expect(linesOf("dist/src/store/migrations/001.do.initial.sql")).toEqual(["SELECT 1;"]);
  });

  test("does again only what has changed", async () => {
    await run(["scripts/test.mjs"]);
    expect((await run(["scripts/test.mjs"])).err).toBe("");

    put("src/main.ts", "export const changed = true;\n");
    expect((await run(["scripts/test.mjs"])).err).toBe("marketd: building\n");

    put("package-lock.json", `${readFileSync(join(clone, "package-lock.json"), "utf8")} `);
    expect((await run(["scripts/test.mjs"])).err).toMatch(/^marketd: installing dependencies \(npm ci\)\n/);
    expect([linesOf("npm-calls").length, linesOf("tsc-calls").length]).toEqual([2, 3]);
  });

  test("takes what a plain npm ci has installed, unless it lacks what is made for this machine", async () => {
    const record = readFileSync(join(root, "node_modules", ".package-lock.json"), "utf8");
    const { packages } = JSON.parse(record);
    await run(["scripts/test.mjs"]);
    const marker = join(clone, "node_modules", ".marketd-lock-hash");
    rmSync(marker);
    put("node_modules/.package-lock.json", record);
    expect((await run(["scripts/test.mjs"])).err).toBe("");

    const [binding = ""] = Object.keys(packages).filter((path) => path.includes("@rolldown/binding-"));
    expect(packages[binding]).toMatchObject({ os: [process.platform], cpu: [process.arch], optional: true });
    delete packages[binding];
    rmSync(marker);
    put("node_modules/.package-lock.json", JSON.stringify({ packages }));
    expect((await run(["scripts/test.mjs"])).err).toBe(installing);
  });

  test.runIf(process.platform === "linux")("installs again what another C library's machine installed", async () => {
    put("musl.mjs", "Object.defineProperty(process, 'report', { value: { getReport: () => ({ header: {} }) } });");
    const onMusl = ["--import", pathToFileURL(join(clone, "musl.mjs")).href, "scripts/test.mjs"];
    await run(["scripts/test.mjs"]);
    expect((await run(onMusl)).err).toBe(installing);
    expect((await run(onMusl)).err).toBe("");
    expect((await run(["scripts/test.mjs"])).err).toBe(installing);
  });

  test("a signal reaches vitest", async () => {
    const ended = await run(["scripts/test.mjs", "wait"], {}, (running) => running.kill("SIGTERM"));
    expect(ended.code).toBe(9);
  });

  test.each([
    [
      "ENOTFOUND",
      "marketd: npm ci could not reach the package registry (ENOTFOUND); check the network, then run this again",
    ],
    ["EUSAGE", "marketd: npm ci failed: npm error code EUSAGE"],
  ])("npm's %s is one line", async (code, line) => {
    const ended = await run(["scripts/test.mjs"], { NPM_SAYS: `npm error code ${code}` });
    expect(ended).toEqual({ code: 3, out: "", err: `marketd: installing dependencies (npm ci)\n${line}\n` });
    expect(existsSync(join(clone, "node_modules", ".marketd-lock-hash"))).toBe(false);
  });

  test("no right to write is one line", async () => {
    const ended = await run(["scripts/test.mjs"], { NPM_SAYS: "npm error code EACCES" });
    expect(ended.code).toBe(3);
    expect(ended.err).toMatch(
      /npm ci may not write .*node_modules \(EACCES\); run this as the owner of this folder\n$/,
    );
  });

  test("a build that fails says why, and leaves the one before", async () => {
    await run(["scripts/test.mjs"]);
    put("src/main.ts", "broken\n");
    const ended = await run(["scripts/test.mjs"], { TSC_SAYS: "src/main.ts(1,1): error" });
    expect(ended).toEqual({
      code: 1,
      out: "",
      err: "marketd: building\nmarketd: the build failed:\nsrc/main.ts(1,1): error\n",
    });
    expect(existsSync(join(clone, "dist", "src", "main.js"))).toBe(true);
  });

  test("so does one whose modules cannot be bundled", async () => {
    await run(["scripts/test.mjs"]);
    put("src/main.ts", "changed\n");
    const ended = await run(["scripts/test.mjs"], { ROLLDOWN_SAYS: "no such module" });
    expect([ended.code, ended.out]).toEqual([1, ""]);
    expect(ended.err).toMatch(/^marketd: building\nmarketd: the build failed:\n[\s\S]*no such module/);
    expect(linesOf("dist/src/main.js")).toEqual(['import "../bundle/main.js";']);
  });

  test("a build takes the place of the one before in one step, and what runs keeps its files", async () => {
    await run(["scripts/build.mjs"]);
    const built: string[] = [realpathSync(join(clone, "dist"))];
    let missing = 0;
    let over = false;
    const reading = (async () => {
      while (!over) await readFile(join(clone, "dist", "src", "main.js")).catch(() => missing++);
    })();
    for (let n = 0; n < 4; n++) {
      put("src/main.ts", `export const build = ${n};\n`);
      expect((await run(["scripts/build.mjs"])).code).toBe(0);
      built.push(realpathSync(join(clone, "dist")));
    }
    over = true;
    await reading;
    expect(missing).toBe(0);
    expect(new Set(built).size).toBe(5);
    // The newest, and two for what was started before it.
    expect(built.map((path) => existsSync(path))).toEqual([false, false, true, true, true]);
    put("src/main.ts", "export const build = 2;\n");
    await run(["scripts/build.mjs"]);
    expect(realpathSync(join(clone, "dist"))).toBe(built[3]);
  });

  test("a folder that an earlier version built is replaced", async () => {
    put("dist/src/main.js", "old");
    expect((await run(["scripts/build.mjs"])).code).toBe(0);
    expect(linesOf("dist/src/main.js")).toEqual(['import "../bundle/main.js";']);
  });

  test("an old Node is one line", async () => {
    const old = "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.18.3' } })";
    put("old.mjs", old);
    const ended = await run(["--import", pathToFileURL(join(clone, "old.mjs")).href, "scripts/test.mjs"]);
    expect(ended).toEqual({ code: 3, out: "", err: "marketd needs Node 20.19 or later; this is Node 20.18.3\n" });
  });

  test("the oldest Node is that of package.json", () => {
    const { engines } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const [, major, minor] = /\[(\d+), (\d+)\]/.exec(readFileSync(join(root, "scripts/check-node.mjs"), "utf8")) ?? [];
    expect(engines.node).toBe(`>=${major}.${minor}`);
  });
});

describe("npm run demo and npm run bench", () => {
  test("demo is the command's", async () => {
    const ended = await run(["scripts/demo.mjs", "--listen", "127.0.0.1:0"]);
    expect(ended).toMatchObject({ code: 0, out: "main demo --listen 127.0.0.1:0\n" });
  });

  test("bench builds the benches, which a build does without, and runs that of the name", async () => {
    await run(["scripts/build.mjs"]);
    expect(existsSync(join(clone, "dist/bench"))).toBe(false);
    const ended = await run(["scripts/bench.mjs", "unary", "--seconds=1"]);
    expect(ended).toEqual({
      code: 0,
      out: "bench --seconds=1\n",
      err: "marketd: building benches and harnesses\n",
    });
    expect((await run(["scripts/bench.mjs", "unary"])).err).toBe("");
    put("bench/unary.ts", "export const changed = true;\n");
    expect((await run(["scripts/build.mjs"])).err).toBe("");
    expect((await run(["scripts/build.mjs", "--tools"])).err).toBe("marketd: building benches and harnesses\n");
  });

  test("bench --against runs a bench that does not compare services itself whole, in turn with the other's", async () => {
    put("bench/load.ts", "export {};\n");
    const against = ["--against", "../before"];
    expect(await run(["scripts/bench.mjs", "load", ...against])).toMatchObject({
      code: 0,
      out: "in turn load --against ../before\n",
    });
    expect((await run(["scripts/bench.mjs", "unary", ...against])).out).toBe("bench --against ../before\n");
  });

  test("another name is refused with those that are there", async () => {
    const ended = await run(["scripts/bench.mjs", "other"]);
    expect(ended).toEqual({ code: 2, out: "", err: "marketd: npm run bench -- NAME; NAME is one of unary\n" });
  });
});

describe("bin/marketd", () => {
  test("without a build says what to run", async () => {
    chmodSync(join(clone, "bin", "marketd"), 0o755);
    const ended = await run(["bin/marketd", "serve"]);
    expect(ended).toEqual({ code: 1, out: "", err: "marketd: not built yet; run: npm ci && npm run build\n" });
  });

  test("keeps compiled code where no other user may write", async () => {
    put("dist/src/main.js", "console.log(process.env.NODE_COMPILE_CACHE || 'none');");
    const enable = "module.enableCompileCache = (directory = '/tmp/shared') => ({ directory })";
    const owned = join(clone, "owned");
    put("cache.mjs", `import module from "node:module"; ${enable}; process.env.HOME = ${JSON.stringify(owned)};`);
    const program = ["--import", pathToFileURL(join(clone, "cache.mjs")).href, "bin/marketd"];
    const cache = join(owned, ".cache", "marketd", "compile-cache");
    const cacheOf = async (env: Record<string, string>) =>
      (await run(program, { NODE_COMPILE_CACHE: "", ...env })).out.trim();

    expect(await cacheOf({})).toBe("none");
    mkdirSync(owned);
    expect(await cacheOf({})).toBe(cache);
    expect(statSync(cache).mode & 0o777).toBe(0o700);
    expect(await cacheOf({})).toBe(cache);
    chmodSync(cache, 0o770);
    expect(await cacheOf({})).toBe("none");
    expect(await cacheOf({ NODE_COMPILE_CACHE: "/elsewhere" })).toBe("/elsewhere");

    rmSync(cache, { recursive: true });
    mkdirSync(join(clone, "other"));
    symlinkSync(join(clone, "other"), cache);
    expect(await cacheOf({})).toBe("none");
    if (process.getuid?.() === 0) {
      rmSync(cache);
      mkdirSync(cache, { mode: 0o700 });
      chownSync(cache, 65_534, 65_534);
      expect(await cacheOf({})).toBe("none");
      rmSync(cache, { recursive: true });
      chownSync(owned, 65_534, 65_534);
      expect([await cacheOf({}), existsSync(cache)]).toEqual(["none", false]);
    }
  });
});
