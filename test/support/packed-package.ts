import { execFile } from "node:child_process";
import { closeSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { takeExclusiveLock } from "../../src/embedded/exclusive-lock.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
const packMaxMs = 240_000;

/** Packages that users of `marketd/connect` install beside it. */
const callersPackages = [
  "@bufbuild/protobuf",
  "@connectrpc/connect",
  "@connectrpc/connect-fastify",
  "@connectrpc/connect-node",
  "@types/node",
  "fastify",
];

/** Packs the npm package into a folder, and returns the archive's path. Test files that run beside each other take turns. */
export async function packPackage(folder: string): Promise<string> {
  const lock = await takeExclusiveLock(join(root, "node_modules", ".marketd-pack-lock"), packMaxMs);
  if (lock === undefined) throw new Error("another test has been packing the package all the time");
  try {
    await promisify(execFile)("npm", ["pack", "--pack-destination", folder], { cwd: root, timeout: packMaxMs });
  } finally {
    closeSync(lock);
  }
  return join(folder, readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "");
}

/** A project in a folder that has the packed package, and the packages of its users, which are links to ours. */
export async function installPackage(folder: string): Promise<void> {
  const archive = await packPackage(folder);
  const own = join(folder, "node_modules", "marketd");
  mkdirSync(own, { recursive: true });
  await promisify(execFile)("tar", ["-xzf", archive, "-C", own, "--strip-components=1"]);
  for (const name of callersPackages) {
    mkdirSync(join(folder, "node_modules", name, ".."), { recursive: true });
    symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
  }
}
