import { basename } from "node:path";
import { OperatorError } from "../domain/operator-error.js";
import { run } from "./run-program.js";

/** The programs of a MySQL-compatible server on this machine; absolute paths. */
export interface ServerPrograms {
  readonly kind: "mariadb" | "mysql";
  readonly version: string;
  readonly server: string;
  /** `mariadb-install-db`; MySQL's server initialises itself. */
  readonly initializer: string | undefined;
}

/**
 * Where servers are installed besides PATH: the PATH of ordinary users lacks sbin, and may lack Homebrew's directories.
 */
const furtherDirectories = [
  "/usr/local/sbin",
  "/usr/sbin",
  "/sbin",
  "/usr/libexec",
  "/usr/local/bin",
  "/usr/bin",
  "/bin",
  "/usr/local/mysql/bin",
  "/opt/homebrew/bin",
  "/opt/homebrew/opt/mariadb/bin",
];

/** The oldest versions that may work. Those that are tested are in docs/operations.md. */
const oldestVersion = { mariadb: [10, 11], mysql: [8, 0] } as const;

/**
 * Finds a server that can be started and initialised; undefined if there is none. Of several, the first in PATH.
 * @param searchPath directories separated by colons, instead of PATH and the usual ones
 * @throws OperatorError if the server is too old
 */
export async function findServerPrograms(searchPath?: string): Promise<ServerPrograms | undefined> {
  // Where both are in one directory, `mysqld` is MariaDB's older name.
  const [server] = (await findPrograms(["mariadbd", "mysqld"], searchPath)).values();
  if (server === undefined) return undefined;
  const version = await readVersion(server);
  if (version === undefined) return undefined;
  const found = await findPrograms(["mariadb-install-db", "mysql_install_db", "my_print_defaults"], searchPath);
  const initializer = found.get("mariadb-install-db") ?? found.get("mysql_install_db");
  // mariadb-install-db is a script that calls my_print_defaults, which Debian has in another package.
  const complete = initializer !== undefined && found.has("my_print_defaults");
  if (version.kind === "mariadb" && !complete) return undefined;
  refuseOld(server, version);
  return { ...version, server, initializer: version.kind === "mariadb" ? initializer : undefined };
}

/**
 * The absolute paths of those of these programs that exist and may be executed, by their names. They come in the order of
 * the search path, and those of one directory in that of the list.
 */
export async function findPrograms(
  names: readonly string[],
  searchPath?: string,
): Promise<ReadonlyMap<string, string>> {
  // A shell knows PATH; this module reads no environment.
  const directories = `dirs="\${1:-$PATH:${furtherDirectories.join(":")}}"; shift; IFS=:`;
  const list = 'for d in $dirs; do for n; do [ -f "$d/$n" ] && [ -x "$d/$n" ] && echo "$d/$n"; done; done';
  const { output } = await run("/bin/sh", ["-c", `${directories}; ${list}`, "sh", searchPath ?? "", ...names]);
  const found = new Map<string, string>();
  for (const line of output.split("\n")) {
    const name = basename(line);
    if (line.startsWith("/") && !found.has(name)) found.set(name, line);
  }
  return found;
}

type ServerVersion = Pick<ServerPrograms, "kind" | "version">;

async function readVersion(server: string): Promise<ServerVersion | undefined> {
  const result = await run(server, ["--no-defaults", "--version"]);
  const version = /\bVer\s+(\d+\.\d+[.\d]*)/.exec(result.output)?.[1];
  if (version === undefined) return undefined;
  return { kind: /mariadb/i.test(result.output) ? "mariadb" : "mysql", version };
}

function refuseOld(server: string, { kind, version }: ServerVersion): void {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [oldestMajor, oldestMinor] = oldestVersion[kind];
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return;
  throw new OperatorError(`${server} is version ${version}; install MariaDB 10.11, MariaDB 11.8 or MySQL 9.7`);
}
