import { OperatorError } from "../domain/operator-error.js";
import { run } from "./run-program.js";
import { findPrograms, findServerPrograms, type ServerPrograms } from "./server-programs.js";

/** Debian's packages: the server, and the program that its initialiser calls. */
const aptPackages = ["mariadb-server-core", "mariadb-client-core"];
const aptLockWaitSeconds = 120;
const aptByHand = `sudo apt-get update && sudo apt-get install -y ${aptPackages.join(" ")}`;

/** The command to install a server if marketd cannot, by package manager. */
const installByHand: readonly (readonly [program: string, command: string])[] = [
  ["apt-get", aptByHand],
  ["dnf", "sudo dnf install -y mariadb-server"],
  ["apk", "apk add mariadb mariadb-client"],
  ["pacman", "sudo pacman -S mariadb"],
  ["zypper", "sudo zypper install mariadb"],
  ["brew", "brew install mariadb"],
];

/**
 * Finds the server's programs, and installs them if no question is needed: with apt, as root or with password-less
 * sudo.
 * @param onProgress receives one line before each step that takes more than a second
 * @param searchPath directories separated by colons, instead of PATH and the usual ones
 * @throws OperatorError with one line that says what to run
 */
export async function requireServerPrograms(
  onProgress: (text: string) => void,
  searchPath?: string,
): Promise<ServerPrograms> {
  const found = await findServerPrograms(searchPath);
  if (found !== undefined) return found;
  await install(onProgress, searchPath);
  const installed = await findServerPrograms(searchPath);
  if (installed !== undefined) return installed;
  throw new OperatorError(`apt installed ${aptPackages.join(" and ")}, and there is still no server`);
}

async function install(onProgress: (text: string) => void, searchPath?: string): Promise<void> {
  const names = installByHand.map(([program]) => program);
  const programs = await findPrograms([...names, "sudo", "env"], searchPath);
  const apt = programs.get("apt-get");
  const env = programs.get("env");
  const prefix = await rootPrefix(programs.get("sudo"));
  if (apt === undefined || env === undefined || prefix === undefined) throw missing(programs);
  const runApt = (args: readonly string[]) => {
    const [program = "", ...rest] = [...prefix, env, "DEBIAN_FRONTEND=noninteractive", apt, ...args];
    return run(program, rest);
  };
  const wait = ["-o", `DPkg::Lock::Timeout=${aptLockWaitSeconds}`];
  onProgress("no database server on this machine: refreshing apt's lists");
  const update = await runApt([...wait, "update"]);
  onProgress(`installing ${aptPackages.join(" and ")} with apt`);
  const result = await runApt([...wait, "install", "-y", "--no-install-recommends", ...aptPackages]);
  if (result.code === 0) return;
  // `apt-get update` succeeds without a network; its output has the real reason.
  const reason = firstComplaint(update.output) ?? firstComplaint(result.output) ?? "no reason given";
  throw new OperatorError(
    `apt could not install ${aptPackages.join(" and ")} (${reason}); check the network, then run: ${aptByHand}`,
  );
}

/** The prefix that runs a command as root: none for root, sudo if it needs no password; undefined without rights. */
async function rootPrefix(sudo: string | undefined): Promise<readonly string[] | undefined> {
  if (process.getuid?.() === 0) return [];
  if (sudo === undefined) return undefined;
  const result = await run(sudo, ["-n", "true"]);
  return result.code === 0 ? [sudo, "-n"] : undefined;
}

function missing(programs: ReadonlyMap<string, string>): OperatorError {
  const command = installByHand.find(([program]) => programs.has(program))?.[1];
  const advice = command === undefined ? "install MariaDB 10.11 or later" : `run: ${command}`;
  return new OperatorError(`there is no MariaDB or MySQL server on this machine; ${advice}`);
}

function firstComplaint(output: string): string | undefined {
  const lines = output.split("\n").map((line) => line.trim());
  return lines.find((line) => /^(E:|W: Failed|Err:)/.test(line));
}
