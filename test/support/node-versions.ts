import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** The versions of Node on which everything must work. */
export const supportedVersions: readonly number[] = [20, 22, 24];

/** The version that runs the tests. */
export const ownVersion = Number(process.versions.node.split(".")[0]);

/** Path of a Node of that version; undefined: another than this one's, which the registry does not give. */
export async function nodeOf(version: number): Promise<string | undefined> {
  if (version === ownVersion) return process.execPath;
  const args = ["--yes", "--prefer-offline", "-p", `node@${version}`, "node", "-p", "process.execPath"];
  const env = { ...process.env, npm_config_fetch_retries: "0", npm_config_loglevel: "silent" };
  try {
    return (await promisify(execFile)("npx", args, { env, timeout: 60_000 })).stdout.trim();
  } catch {
    return undefined;
  }
}
