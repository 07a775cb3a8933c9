// Database servers of other releases than the machine's own, for tests and harnesses: each in a folder of its own, with
// its own libraries. Nothing is installed, so ordinary users can do it too; it needs Debian's apt and dpkg.
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** Servers by the name that `--database` takes, with Debian's suite and packages that have them. */
const servers = {
  "mariadb-11.8": { suite: "trixie", packages: ["mariadb-server-core", "mariadb-client-core"] },
  "mysql-9.7": { suite: "sid", packages: ["mysql-server-core", "mysql-client-core"] },
};

/** The version that the machine's own packages give; it needs no folder. */
export const ownServer = "mariadb-10.11";

export const serverNames = [ownServer, ...Object.keys(servers)];

/** Part of the folder's name: changes when what is in it does. */
const layout = 1;

/** Programs that are started by name; all else in the packages stays unused. */
const programs = /^(mysql|mariadb|my_print_defaults|resolveip)/;

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";

/**
 * The folder with the programs of a server, to be put first in PATH. The first call unpacks it, in half a minute.
 * @throws Error in one line: what is missing
 */
export function serverFolder(name, say) {
  const server = servers[name];
  if (server === undefined) throw new Error(`--database is one of ${serverNames.join(", ")}; not ${name}`);
  const parent = join(homedir(), ".cache", "marketd", "servers");
  const folder = join(parent, `${name}-${layout}`);
  if (!existsSync(folder)) {
    say(`unpacking ${server.packages.join(" and ")} of Debian ${server.suite}, once`);
    mkdirSync(parent, { recursive: true });
    const fresh = mkdtempSync(join(parent, "fresh-"));
    try {
      unpack(server, fresh, folder);
      // Another run may have done the same meanwhile.
      if (!existsSync(folder)) renameSync(fresh, folder);
    } finally {
      rmSync(fresh, { recursive: true, force: true });
    }
  }
  return join(folder, "bin");
}

function unpack({ suite, packages }, fresh, folder) {
  const apt = aptOptions(suite, join(fresh, "apt"));
  run("apt-get", [...apt, "-qq", "update"]);
  run("apt-get", [...apt, "-qq", "-y", "--no-install-recommends", "--download-only", "install", ...packages]);
  const archives = join(fresh, "apt", "cache", "archives");
  for (const file of readdirSync(archives).filter((found) => found.endsWith(".deb"))) {
    run("dpkg-deb", ["-x", join(archives, file), fresh]);
  }
  rmSync(join(fresh, "apt"), { recursive: true });
  wrapPrograms(fresh, folder);
}

/** An apt of its own: nothing counts as installed, so it fetches all libraries, down to the C library. */
function aptOptions(suite, directory) {
  for (const name of ["state/lists/partial", "cache/archives/partial"]) {
    mkdirSync(join(directory, name), { recursive: true });
  }
  const sources = join(directory, "sources.list");
  writeFileSync(sources, `deb [signed-by=${keyring}] ${mirror()} ${suite} main\n`);
  writeFileSync(join(directory, "status"), "");
  const options = {
    "Dir::State": join(directory, "state"),
    "Dir::State::status": join(directory, "status"),
    "Dir::Cache": join(directory, "cache"),
    "Dir::Etc::sourcelist": sources,
    "Dir::Etc::sourceparts": "-",
    // The folder may be one that apt's own user cannot enter.
    "APT::Sandbox::User": "",
  };
  return Object.entries(options).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
}

/** Where this machine gets its packages from; it has the other suites too. */
function mirror() {
  const sites = run("apt-get", ["indextargets", "--format", "$(SITE) $(ORIGIN) $(COMPONENT)"]).split("\n");
  const found = sites.map((line) => line.split(" ")).find(([, origin, part]) => origin === "Debian" && part === "main");
  if (found === undefined) throw new Error("apt knows no mirror of Debian; run apt-get update as root first");
  return found[0];
}

/** Programs run with the C library and loader of their folder, and a server looks there for its messages and plugins. */
function wrapPrograms(fresh, folder) {
  const real = join(fresh, "usr", "real");
  const bin = join(fresh, "bin");
  for (const directory of [real, bin]) mkdirSync(directory);
  const at = (path) => join(folder, path);
  const libraries = `${at("usr/lib/x86_64-linux-gnu")}:${at("usr/lib/aarch64-linux-gnu")}:${at("usr/lib/mysql/private")}`;
  const loader = readdirSync(join(fresh, "usr"))
    .filter((name) => name.startsWith("lib"))
    .flatMap((name) => readdirSync(join(fresh, "usr", name)).map((file) => `usr/${name}/${file}`))
    .find((path) => /\/ld-linux-[^/]+$/.test(path));
  if (loader === undefined) throw new Error("the packages hold no C library for this machine's architecture");
  for (const directory of ["sbin", "bin"]) {
    const entries = readdirSync(join(fresh, "usr", directory), { withFileTypes: true });
    // Links are older names of the same programs.
    for (const { name } of entries.filter((entry) => entry.isFile() && programs.test(entry.name))) {
      const original = join(fresh, "usr", directory, name);
      const isScript = readFileSync(original).subarray(0, 2).toString() === "#!";
      renameSync(original, join(real, name));
      const start = isScript
        ? `exec "${at(`usr/real/${name}`)}"`
        : `exec "${at(loader)}" --library-path "${libraries}" "${at(`usr/real/${name}`)}"`;
      const takesFolder = /^(mysqld|mariadbd|mariadb-install-db)$/.test(name);
      const script = `#!/bin/sh\n${start} "$@"${takesFolder ? ` --basedir="${at("usr")}"` : ""}\n`;
      for (const path of [original, join(bin, name)]) {
        writeFileSync(path, script);
        chmodSync(path, 0o755);
      }
    }
  }
}

function run(program, args) {
  const result = spawnSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  if (result.error !== undefined)
    throw new Error(`${program} cannot be started (${result.error.code}); it is Debian's`);
  if (result.status !== 0) throw new Error(`${program} failed: ${result.stderr.trim().split("\n").at(-1)}`);
  return result.stdout;
}
