import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";

const compiled = new URL("../../dist/src/", import.meta.url);

/** A process of its own that holds the private database of a directory open. */
export interface UserProcess {
  readonly pid: number;
  readonly url: string;
  /** Its standard error so far. */
  readonly complaints: () => string;
  kill(signal: NodeJS.Signals): void;
  /** Closes in order and ends. */
  close(): Promise<void>;
}

/** How to start a {@link UserProcess}. */
export interface UserProcessOptions {
  readonly dataDir: string;
  /** A process group of its own, as a shell gives each job. */
  readonly ownGroup?: boolean;
  /** The folder of the build that it runs; by default the newest. */
  readonly build?: string;
  /** Words that run a command as someone else. */
  readonly prefix?: readonly string[];
}

/** What each process runs: the compiled module, as the commands do. Any input, or its end, makes it close. */
const program = (build: string | undefined) => `
import { openEmbedded } from ${JSON.stringify(new URL("embedded/open-embedded.js", sourcesOf(build)).href)};
const [dataDir] = process.argv.slice(1);
const database = await openEmbedded({ dataDir, log: console, onProgress: () => {}, bufferPoolBytes: 33554432 });
process.stdin.once("data", async () => {
  await database.close();
  process.exit(0);
});
console.log(database.url);
`;

function sourcesOf(build: string | undefined): URL {
  return build === undefined ? compiled : pathToFileURL(join(build, "src/"));
}

/** Starts one and waits until it has the database. */
export function startUser(options: UserProcessOptions): Promise<UserProcess> {
  const [command = "", ...args] = [...(options.prefix ?? []), process.execPath];
  const child = spawn(command, [...args, "--input-type=module", "-e", program(options.build), options.dataDir], {
    cwd: "/",
    detached: options.ownGroup === true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  let complaints = "";
  child.stderr.on("data", (chunk) => {
    complaints += String(chunk);
  });
  child.stdin.on("error", () => {});
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => reject(new Error(`ended with ${signal ?? code}: ${complaints}`)));
    createInterface({ input: child.stdout }).once("line", (url) => {
      resolve({
        pid: child.pid ?? 0,
        url,
        complaints: () => complaints,
        kill: (signal) => void child.kill(signal),
        close: () => closeUser(child),
      });
    });
  });
}

/** Where the compiled sources are, for tests that only make sense with a build. */
export const compiledDir = fileURLToPath(compiled);

function closeUser(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once("close", () => resolve());
    child.stdin?.write("close\n");
  });
}
