import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { installPackage } from "../support/packed-package.js";
import { GrpcProtocolClient, type ProtocolClient } from "../support/protocol-clients.js";
import { webClients } from "../support/web-clients.js";

const compiler = fileURLToPath(new URL("../../node_modules/typescript/bin/tsc", import.meta.url));
const mounted = fileURLToPath(new URL("mounted.mjs", import.meta.url));

/** A program that uses the packed package, in a project of its own; TypeScript is compiled with the package's types. */
export class MountedProcess {
  readonly #folder: string;
  readonly #child: ChildProcess;
  /** What it printed first. */
  readonly line: string;

  private constructor(folder: string, child: ChildProcess, line: string) {
    this.#folder = folder;
    this.#child = child;
    this.line = line;
  }

  /** Starts a program, and resolves when it has printed a line. @throws Error if it ends before */
  static async start(
    program: string,
    args: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ): Promise<MountedProcess> {
    const folder = await mkdtemp(join(tmpdir(), "marketd-mounted-"));
    await installPackage(folder);
    copyFileSync(program, join(folder, basename(program)));
    const copy = program.endsWith(".ts")
      ? await compile(folder, basename(program, ".ts"))
      : join(folder, basename(program));
    const child = spawn(process.execPath, [copy, ...args], {
      cwd: folder,
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(child, "exit").then(([code]) => {
      throw new Error(`${basename(program)} ended with ${code}`);
    });
    ended.catch(() => {});
    const [line] = await Promise.race([once(createInterface({ input: child.stdout }), "line"), ended]);
    return new MountedProcess(folder, child, line as string);
  }

  async stop(): Promise<void> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) {
      this.#child.kill("SIGKILL");
      await once(this.#child, "exit");
    }
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** Compiles a program as its users would, with the types of the package. @throws Error if a type is wrong */
async function compile(folder: string, name: string): Promise<string> {
  const compilerOptions = { target: "es2023", module: "nodenext", strict: true, types: ["node"] };
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [`${name}.ts`] }));
  const compiling = promisify(execFile)(process.execPath, [compiler, "-p", "."], { cwd: folder });
  await compiling.catch(({ stdout }: { stdout: string }) => {
    throw new Error(`the types of ${name}.ts: ${stdout}`);
  });
  return join(folder, `${name}.js`);
}

/** Handlers of the packed package on plain servers. */
export function startMounted(databaseUrl: string): Promise<MountedProcess> {
  return MountedProcess.start(mounted, [databaseUrl]);
}

/** A client of {@link startMounted} for each protocol and mode. */
export function openMountedClients({ line }: MountedProcess): ProtocolClient[] {
  const [http = "", http2 = ""] = JSON.parse(line) as string[];
  return [new GrpcProtocolClient(http2), ...webClients(http)];
}
