import { execFile } from "node:child_process";
import { chmod, cp, mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { goEnvironment, type PartnerName, partnerProgram } from "../support/partners.js";

/** The examples, by their names in shell and TypeScript. */
export type Example =
  | "keep-a-book"
  | "best-prices"
  | "live-order-book"
  | "ledger-history"
  | "verified-export"
  | "backtest"
  | "trades"
  | "candles"
  | "balances";

/** A program and its arguments. */
export type Command = readonly [string, ...string[]];

/** What is installed into a folder of its own. */
export interface Installed {
  readonly name: string;
  /** Without these programs its tests are skipped. */
  readonly needs: readonly PartnerName[];
  /** Installs everything into an empty folder. @throws when a step fails */
  install(folder: string): Promise<void>;
  /** A program that makes the calls of a file by gRPC's own library, with code generated from the definitions. */
  readonly calls?: (folder: string) => Command;
}

/** A client library as its users get it, packed or built, and its examples. */
export interface Language extends Installed {
  example(folder: string, example: Example): Command;
  /** The client's own tests of its rules, where vitest does not run them. */
  readonly rules?: (folder: string) => Command;
  /** Checks the types of examples, and of a file: fails where a call has a wrong type. Installs what it needs. */
  readonly checkTypes?: (folder: string, files: readonly string[]) => Promise<void>;
  /** Whether docs/depth-stream.md shows how to keep a book in it. */
  readonly hasBookFile?: boolean;
  /** A page whose code blocks, of order books and of trades, are to be pasted and run, and how. */
  readonly readme?: string;
  readonly paste?: (folder: string, code: string) => Promise<Command>;
}

/** The folder of the repository. */
export const root = fileURLToPath(new URL("../../", import.meta.url));

/** The program that generates code from the definitions. */
export const bufPath = join(root, "node_modules/@bufbuild/buf/bin/buf");

/** The table of cases that the rules of each language are tried with. */
export const casesPath = join(root, "test/clients/cases.json");

const stepMaxMs = 240_000;

/** Runs a program to its end and gives what it printed. @throws with its standard error when it fails */
export async function run(
  command: Command,
  folder: string,
  env: Record<string, string> = {},
  timeout = stepMaxMs,
): Promise<string> {
  const [program, ...args] = command;
  const options = { cwd: folder, env: { ...process.env, ...goEnvironment, ...env }, timeout };
  return (await promisify(execFile)(program, args, options)).stdout;
}

function program(name: PartnerName): string {
  return partnerProgram(name) ?? name;
}

const compilerOptions = {
  target: "es2023",
  module: "nodenext",
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noPropertyAccessFromIndexSignature: true,
  typeRoots: [join(root, "node_modules/@types")],
  types: ["node"],
};

const typescript: Language = {
  name: "TypeScript",
  needs: [],
  async install(folder) {
    await run(["npm", "pack", join(root, "clients/typescript"), "--pack-destination", folder], folder);
    const [archive = ""] = (await readdir(folder)).filter((name) => name.endsWith(".tgz"));
    await writeFile(join(folder, "package.json"), '{ "type": "module" }');
    // npm's own retries wait for minutes where there is no network.
    const retries = ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000"];
    await run(["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", ...retries, `./${archive}`], folder);
    await cp(join(root, "examples/typescript"), folder, { recursive: true });
    await compile(folder);
  },
  example: (folder, example) => [process.execPath, join(folder, `${example}.js`)],
  hasBookFile: true,
  readme: "clients/typescript/README.md",
  async paste(folder, code) {
    await writeFile(join(folder, "first.mjs"), code);
    return [process.execPath, join(folder, "first.mjs")];
  },
};

/** As an editor with strict settings would see the sources of a folder. */
async function compile(folder: string): Promise<void> {
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions }));
  await run([process.execPath, join(root, "node_modules/typescript/bin/tsc"), "-p", "."], folder);
}

const python: Language = {
  name: "Python",
  needs: ["python"],
  async install(folder) {
    // A build leaves files beside its sources.
    for (const source of ["clients/python", "proto"]) {
      await cp(join(root, source), join(folder, "source", source), { recursive: true });
    }
    await run([program("python"), "-m", "venv", "venv"], folder);
    const pip = join(folder, "venv/bin/pip");
    const quick = { PIP_NO_COMPILE: "1", PIP_DISABLE_PIP_VERSION_CHECK: "1" };
    await run([pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, "source/clients/python"], folder, quick);
    const [wheel = ""] = (await readdir(folder)).filter((name) => name.endsWith(".whl"));
    await run([pip, "install", "--quiet", wheel], folder, quick);
  },
  example: (folder, example) => [
    join(folder, "venv/bin/python"),
    join(root, "examples/python", `${example.replaceAll("-", "_")}.py`),
  ],
  calls: (folder) => [join(folder, "venv/bin/python"), join(root, "test/clients/calls/calls.py")],
  rules: (folder) => [join(folder, "venv/bin/python"), join(folder, "source/clients/python/tests/test_rules.py")],
  async checkTypes(folder, files) {
    const [pip, mypy] = [join(folder, "venv/bin/pip"), join(folder, "venv/bin/mypy")];
    await run([pip, "install", "--quiet", "mypy"], folder, { PIP_DISABLE_PIP_VERSION_CHECK: "1" });
    await run([mypy, "--strict", "--cache-dir", join(folder, "mypy"), ...files], folder);
  },
  hasBookFile: true,
  readme: "clients/python/README.md",
  async paste(folder, code) {
    await writeFile(join(folder, "first.py"), code);
    return [join(folder, "venv/bin/python"), join(folder, "first.py")];
  },
};

const go: Language = {
  name: "Go",
  needs: ["go"],
  async install(folder) {
    const module = "marketd.example/marketd";
    const replace = `-replace=${module}=${join(root, "clients/go")}`;
    await cp(join(root, "examples/go"), folder, { recursive: true });
    await run([program("go"), "mod", "edit", replace], folder);
    await goBuild(folder);
    const calls = join(folder, "calls");
    await cp(join(root, "test/clients/calls/go"), calls, { recursive: true });
    await run([program("go"), "mod", "edit", replace], calls);
    await goBuild(calls);
  },
  calls: (folder) => [join(folder, "calls/bin/calls")],
  example: (folder, example) => [join(folder, "bin", example)],
  rules: () => [program("go"), "test", "-C", join(root, "clients/go"), "-count=1", "."],
  readme: "clients/go/README.md",
  async paste(folder, code) {
    await mkdir(join(folder, "first"), { recursive: true });
    await writeFile(join(folder, "first/main.go"), code);
    await goBuild(folder);
    return [join(folder, "bin/first")];
  },
};

async function goBuild(folder: string): Promise<void> {
  await mkdir(join(folder, "bin"), { recursive: true });
  await run([program("go"), "build", "-o", "bin", "./..."], folder);
}

const shell: Language = {
  name: "shell",
  needs: ["curl", "grpcurl", "jq", "bc"],
  async install() {},
  example: (_, example) => ["bash", join(root, "examples/shell", `${example}.sh`)],
};

/** The platform of this machine, as the artifacts of protoc name it. */
const platform = `linux-${process.arch === "arm64" ? "aarch_64" : "x86_64"}`;

/** No client of ours: the code that users generate. */
export const java: Installed = {
  name: "Java",
  needs: ["maven", "javac"],
  async install(folder) {
    await cp(join(root, "test/clients/calls/java"), folder, { recursive: true });
    const options = ["-q", "-B", `-Dplatform=${platform}`, "-DoutputDirectory=lib", "-Dmdep.stripClassifier=true"];
    await run([program("maven"), ...options, "dependency:copy-dependencies", "-Dmdep.stripVersion=true"], folder);
    for (const compiler of ["protoc", "protoc-gen-grpc-java"]) {
      await rename(join(folder, `lib/${compiler}.exe`), join(folder, "lib", compiler));
      await chmod(join(folder, "lib", compiler), 0o755);
    }
    await run([process.execPath, bufPath, "generate", join(root, "proto")], folder);
    const sources = (await readdir(join(folder, "src"), { recursive: true })).filter((name) => name.endsWith(".java"));
    await writeFile(join(folder, "sources"), ["Calls.java", ...sources.map((name) => `src/${name}`)].join("\n"));
    await run([program("javac"), "-nowarn", "-cp", "lib/*", "-d", "classes", "@sources"], folder);
  },
  calls: (folder) => ["java", "-cp", `${folder}/classes:${folder}/lib/*`, "Calls"],
};

/** Every language that has a client or examples; the one that takes longest to install comes last. */
export const languages: readonly Language[] = [typescript, shell, go, python];

/** Those that a compiler takes minutes for, where nothing is kept from the last time. */
export const compiled: readonly Installed[] = [go, java];

/** The code blocks of a page that are in its language. */
export async function examplesOf(page: string): Promise<string[]> {
  const text = await readFile(join(root, page), "utf8");
  return [...text.matchAll(/^```(?:ts|python|go)\n([\s\S]*?)^```$/gm)].map(([, code = ""]) => code);
}
