// What stands between a fresh clone and a running command: dependencies, build, database server.
// Nothing here may import a dependency; they are what it installs.
//
// Exit codes: 1 the command (or the build) failed, 2 wrong use, 3 this machine lacks something that one line names.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { delimiter, dirname, join, relative, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const exitFailed = 1;
const exitUsage = 2;
const exitLacking = 3;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const inRoot = (...parts) => join(root, ...parts);

/** What is compiled or copied into dist/, or says how. */
const buildInputs = [
  "src",
  "gen",
  "clients/typescript/src",
  "examples/venues",
  "web",
  "scripts/bundle.mjs",
  "scripts/bundle-explorer.mjs",
  "scripts/keep-licenses.mjs",
  "tsconfig.json",
  "tsconfig.build.json",
  "package-lock.json",
];

/** What benches and harnesses are compiled from, beside {@link buildInputs}. */
const toolInputs = ["bench", "harness", "test/support", "tsconfig.tools.json"];

/** Folders of dist/ that hold compiled benches and harnesses. */
const toolFolders = ["bench", "harness", "test"];

/** What the build holds for developers alone, by its path in dist/. The modules of src/ are in bundle/ and connect/, too. */
const forDevelopers = /^(bench|clients|examples|harness|test)(\/|$)|\.js$|\.d\.ts$|\.map$|^\.build-hash$/;

/** What Node is started with, what it loads then (see scripts/bundle.mjs), and the types of `marketd/connect`. */
const needed =
  /^(src\/(main|commands\/worker|embedded\/supervisor)|(bundle|connect|web)\/.*)\.js$|^(src\/connect\/open-marketd|gen\/(datanode|google|marketd\/history|vega)\/.*)\.d\.ts$/;

/** Builds that are kept beside the newest, for processes that were started from them. */
const oldBuildsKept = 2;

/** Benches that take another checkout's service into their own rounds. Others run whole, in turn with the other's. */
const benchesWithAgainst = ["pages", "stream", "unary"];

/** Digits of its hash that name a build; longer than a process id, which names one that is being made. */
const buildNameLength = 16;

/** npm's own retries wait for minutes where there is no network. */
const npmCi = [
  "ci",
  "--include=dev",
  "--no-audit",
  "--no-fund",
  "--fetch-retry-mintimeout=1000",
  "--fetch-retry-maxtimeout=5000",
];

export async function demo(args) {
  await prepare();
  await become(inRoot("bin", "marketd"), ["demo", ...args]);
}

export async function test(given) {
  const args = await chooseDatabase(given);
  await prepare();
  if (!process.env.MARKETD_TEST_SERVER_URL) await ensureDatabaseServer();
  process.chdir(root);
  const isWatching = args[0] === "--watch";
  const vitestArgs = isWatching ? ["watch", ...args.slice(1)] : ["run", ...args];
  await become(inRoot("node_modules", "vitest", "vitest.mjs"), vitestArgs);
}

export async function bench([name, ...args]) {
  const names = readdirSync(inRoot("bench"))
    .filter((file) => file.endsWith(".ts"))
    .map((file) => file.slice(0, -".ts".length));
  if (!names.includes(name)) {
    const known = names.length === 0 ? "there are none yet" : `NAME is one of ${names.join(", ")}`;
    stop(exitUsage, `npm run bench -- NAME; ${known}`);
  }
  await prepare();
  await ensureTools();
  if (args.some((arg) => /^--against(=|$)/.test(arg)) && !benchesWithAgainst.includes(name)) {
    await become(inRoot("dist", "bench", "support", "in-turn.js"), [name, ...args]);
  } else await become(inRoot("dist", "bench", `${name}.js`), args);
}

/** Runs harness/NAME.ts, which tries the service as a whole and ends with `N passed, N failed`. */
export async function harness([name, ...given]) {
  // What only MySQL has; the machine's own server is mostly MariaDB.
  const usual = given.some((arg) => arg.endsWith("group-replication")) ? "mysql-9.7" : undefined;
  const args = await chooseDatabase(given, usual);
  await prepare();
  await ensureTools();
  if (!process.env.MARKETD_TEST_SERVER_URL) await ensureDatabaseServer();
  await become(inRoot("dist", "harness", `${name}.js`), args);
}

/** `--tools` builds benches and harnesses too, for a checkout that another one's benches run against. */
export async function build(args) {
  await prepare();
  if (args.includes("--tools")) await ensureTools();
}

/** npm packs no links, and `dist` is one: the package has the command in lib/. */
export async function prepack() {
  await prepare();
  const dist = realpathSync(inRoot("dist"));
  const isNeeded = (path) => !forDevelopers.test(path) || needed.test(path);
  rmSync(inRoot("lib"), { recursive: true, force: true });
  cpSync(dist, inRoot("lib"), {
    recursive: true,
    filter: (source) => isNeeded(relative(dist, source).split(sep).join("/")),
  });
}

/** Takes `--database NAME` out of the arguments: that server's programs then come first in PATH. Default: `usual`. */
async function chooseDatabase(args, usual) {
  const index = args.findIndex((arg) => /^--database(=|$)/.test(arg));
  if (index < 0) return usual === undefined ? args : chooseDatabase(["--database", usual, ...args]);
  const [, inline] = args[index].split("=");
  const name = inline ?? args[index + 1];
  const { ownServer, serverFolder } = await import("./database-servers.mjs");
  try {
    if (name !== ownServer) process.env.PATH = `${serverFolder(name, say)}${delimiter}${process.env.PATH}`;
  } catch (error) {
    stop(exitLacking, error.message);
  }
  process.env.MARKETD_TEST_DATABASE = name;
  return args.toSpliced(index, inline === undefined ? 2 : 1);
}

async function prepare() {
  await ensureDependencies();
  await ensureBuild();
}

/**
 * The command takes this process over, so signals, terminal and exit code are its own.
 * It sees the arguments as if node had been started with it.
 */
async function become(script, args) {
  process.argv = [process.execPath, script, ...args];
  await import(pathToFileURL(script).href);
}

async function ensureDependencies() {
  const lockfile = readFileSync(inRoot("package-lock.json"));
  const machine = thisMachine();
  const { os, cpu, libc } = machine;
  // Without a suffix it is glibc, as it was before markers had the C library.
  const wanted = `${hashOf([lockfile])} ${os}-${cpu}${libc === "musl" ? "-musl" : ""}\n`;
  const marker = inRoot("node_modules", ".marketd-lock-hash");
  const installed = readIfThere(marker);
  if (installed === wanted) return;
  // Without our marker it may still be the work of a plain `npm ci`, which npm's own record tells.
  if (installed !== undefined || !matchesNpmRecord(JSON.parse(lockfile), machine)) {
    const result = await step("installing dependencies (npm ci)", () => runNpm(npmCi));
    if (result.code !== 0) stop(exitLacking, npmFailure(result));
  }
  writeOrStop(marker, wanted);
}

/** What packages are made for, in the words of a lockfile. */
function thisMachine() {
  const { platform: os, arch: cpu } = process;
  if (os !== "linux") return { os, cpu, libc: undefined };
  // It would look up the names of network addresses.
  process.report.excludeNetwork = true;
  const { glibcVersionRuntime } = process.report.getReport().header;
  return { os, cpu, libc: glibcVersionRuntime === undefined ? "musl" : "glibc" };
}

/** Whether a package names what it is made for, and that is this machine. */
function isMadeFor(machine, wanted) {
  const named = Object.entries(machine).filter(([name]) => wanted[name] !== undefined);
  return named.length > 0 && named.every(([name, value]) => allows(wanted[name], value));
}

/** A list names what is allowed, or, with exclamation marks, what is not. */
function allows(list, value) {
  return list.includes(value) || list.every((name) => name.startsWith("!") && name !== `!${value}`);
}

/**
 * Whether node_modules holds every package of the lockfile, in its version. npm leaves out optional packages of other
 * machines, and what those alone need, which names no machine.
 */
function matchesNpmRecord(lockfile, machine) {
  const record = readIfThere(inRoot("node_modules", ".package-lock.json"));
  if (record === undefined) return false;
  const installed = JSON.parse(record).packages;
  return Object.entries(lockfile.packages).every(([path, wanted]) => {
    if (path === "") return true;
    const found = installed[path];
    return found === undefined
      ? wanted.optional === true && !isMadeFor(machine, wanted)
      : found.integrity === wanted.integrity;
  });
}

function runNpm(args) {
  const npm = process.env.npm_execpath;
  // Under `npm run`, npm says where it is; it may be a script for node or a program of its own.
  const command = npm === undefined ? ["npm"] : /\.[cm]?js$/.test(npm) ? [process.execPath, npm] : [npm];
  return run([...command, ...args]);
}

function npmFailure({ output }) {
  const code = /npm (?:ERR!|error) code (\S+)/.exec(output)?.[1] ?? "";
  if (/^(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ERR_SOCKET_TIMEOUT)$/.test(code)) {
    return `npm ci could not reach the package registry (${code}); check the network, then run this again`;
  }
  if (/^(EACCES|EPERM|EROFS)$/.test(code)) {
    return `npm ci may not write ${inRoot("node_modules")} (${code}); run this as the owner of this folder`;
  }
  const lines = output.split("\n").filter((line) => line.trim() !== "" && !/debug-\d+\.log|complete log/.test(line));
  return `npm ci failed: ${lines.slice(-8).join("\n")}`;
}

async function ensureBuild() {
  const wanted = hashOfFiles(buildInputs);
  const marker = inRoot("dist", ".build-hash");
  if (readIfThere(marker) === wanted) return;
  const bundles = ["bundle.mjs", "bundle-explorer.mjs"];
  const commands = (fresh) => [
    compile("tsconfig.build.json", fresh),
    ...bundles.map((name) => [process.execPath, inRoot("scripts", name), fresh]),
  ];
  await makeFolder("building", commands, (fresh) => {
    copyOthers(fresh);
    writeOrStop(join(fresh, ".build-hash"), wanted);
    replaceBuild(fresh, wanted);
  });
}

/** Puts compiled benches and harnesses beside the newest build, which does without them. */
async function ensureTools() {
  const wanted = hashOfFiles(toolInputs);
  const dist = realpathSync(inRoot("dist"));
  const marker = join(dist, ".tools-hash");
  if (readIfThere(marker) === wanted) return;
  const commands = (fresh) => [compile("tsconfig.tools.json", fresh)];
  await makeFolder("building benches and harnesses", commands, (fresh) => {
    for (const name of toolFolders) {
      rmSync(join(dist, name), { recursive: true, force: true });
      if (existsSync(join(fresh, name))) renameSync(join(fresh, name), join(dist, name));
    }
    writeOrStop(marker, wanted);
  });
}

function compile(config, target) {
  const tsc = inRoot("node_modules", "typescript", "bin", "tsc");
  return [process.execPath, tsc, "-p", inRoot(config), "--outDir", target];
}

/** Runs the commands that fill a new folder, then `use`. A failure or an interruption changes nothing else. */
async function makeFolder(text, commands, use) {
  const fresh = inRoot(`dist.${process.pid}`);
  try {
    const result = await step(text, async () => {
      let last = { code: 0, output: "" };
      for (const command of commands(fresh)) if (last.code === 0) last = await run(command);
      return last;
    });
    if (result.code !== 0) {
      rmSync(fresh, { recursive: true, force: true });
      stop(exitFailed, `the build failed:\n${result.output.trimEnd()}`);
    }
    use(fresh);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/**
 * A build has a folder of its own for good, and `dist` is a link to the newest. So a running process finds its own files
 * as long as they are kept, and one that starts meanwhile gets all of one build: the link is replaced in one step.
 */
function replaceBuild(fresh, wanted) {
  const name = `dist.${wanted.slice(0, buildNameLength)}`;
  try {
    renameSync(fresh, inRoot(name));
  } catch (error) {
    // It was built before, or by another command at the same moment.
    if (readIfThere(inRoot(name, ".build-hash")) !== wanted) throw error;
    utimesSync(inRoot(name), new Date(), new Date());
  }
  const dist = inRoot("dist");
  // Earlier versions of this script made a folder of it.
  if (lstatSync(dist, { throwIfNoEntry: false })?.isDirectory()) rmSync(dist, { recursive: true });
  const link = `${fresh}.link`;
  symlinkSync(name, link);
  renameSync(link, dist);
  removeOldBuilds();
}

/** Processes that were started from the builds before may still run. */
function removeOldBuilds() {
  const builds = readdirSync(root).filter(
    (name) => /^dist\.[0-9a-f]+$/.test(name) && name.length === "dist.".length + buildNameLength,
  );
  const newestFirst = builds
    .map((name) => ({ name, builtAtMs: statSync(inRoot(name)).mtimeMs }))
    .sort((a, b) => b.builtAtMs - a.builtAtMs);
  for (const { name } of newestFirst.slice(1 + oldBuildsKept)) rmSync(inRoot(name), { recursive: true, force: true });
}

/** What src/ holds beside TypeScript, such as migrations, goes along. */
function copyOthers(target) {
  for (const file of filesUnder(inRoot("src"))) {
    if (file.endsWith(".ts")) continue;
    const copy = join(target, relative(root, file));
    mkdirSync(dirname(copy), { recursive: true });
    cpSync(file, copy);
  }
}

function hashOfFiles(inputs) {
  const parts = [process.version];
  for (const input of inputs) {
    for (const file of filesUnder(inRoot(input))) parts.push(relative(root, file), readFileSync(file));
  }
  return hashOf(parts);
}

/** One rule for where a server is found and how it is installed: the compiled src/embedded. */
async function ensureDatabaseServer() {
  const module = pathToFileURL(inRoot("dist", "src", "embedded", "install-server.js")).href;
  const { requireServerPrograms } = await import(module);
  try {
    await requireServerPrograms(say);
  } catch (error) {
    if (error?.name !== "OperatorError") throw error;
    stop(exitLacking, error.message);
  }
}

/** Says what takes a while; on a terminal with the seconds it has taken. */
async function step(text, work) {
  const startedAt = Date.now();
  const seconds = () => Math.floor((Date.now() - startedAt) / 1000);
  say(text);
  if (!process.stderr.isTTY) return work();
  const timer = setInterval(() => process.stderr.write(`\rmarketd: ${text}: ${seconds()} s`), 1000);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    process.stderr.write("\r\u001b[K");
  }
}

function say(text) {
  process.stderr.write(`marketd: ${text}\n`);
}

function stop(code, text) {
  say(text);
  process.exit(code);
}

/** Runs a program in the repository without input, and keeps what it says. */
function run([program, ...args]) {
  return new Promise((resolve) => {
    const chunks = [];
    const child = spawn(program, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.on("data", (chunk) => chunks.push(chunk));
    child.stderr.on("data", (chunk) => chunks.push(chunk));
    child.on("error", (error) => resolve({ code: -1, output: error.message }));
    child.on("close", (code) => resolve({ code, output: Buffer.concat(chunks).toString() }));
  });
}

function hashOf(parts) {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(`${part.length}:`).update(part);
  return hash.digest("hex");
}

/** A file itself, or all files of a folder in a fixed order. */
function filesUnder(path) {
  if (!existsSync(path)) return [];
  let names;
  try {
    names = readdirSync(path, { recursive: true, withFileTypes: true });
  } catch (error) {
    if (error.code === "ENOTDIR") return [path];
    throw error;
  }
  const files = names.filter((entry) => entry.isFile()).map((entry) => `${entry.parentPath}${sep}${entry.name}`);
  return files.sort();
}

function readIfThere(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

function writeOrStop(file, text) {
  try {
    writeFileSync(file, text);
  } catch (error) {
    stop(exitLacking, `cannot write ${file} (${error.code}); run this as the owner of this folder`);
  }
}
