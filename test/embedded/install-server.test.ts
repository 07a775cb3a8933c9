import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { requireServerPrograms } from "../../src/embedded/install-server.js";
import { findServerPrograms } from "../../src/embedded/server-programs.js";

const packages = "mariadb-server-core and mariadb-client-core";
const byHand = "sudo apt-get update && sudo apt-get install -y mariadb-server-core mariadb-client-core";
const mariadb = 'echo "mariadbd  Ver 10.11.6-MariaDB for Linux"';
const isRoot = process.getuid?.() === 0;

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "marketd-programs-"));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** A program for this test's search path. */
function program(name: string, script: string): void {
  const file = join(folder, name);
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
}

/** An apt-get that writes down its calls and does as told at `install`; where we are not root, a sudo that allows it. */
function apt(onInstall: string, onUpdate = ":"): void {
  program("env", 'exec /usr/bin/env "$@"');
  program("sudo", 'shift; [ "$1" = true ] && exit 0; exec "$@"');
  program(
    "apt-get",
    `echo "$DEBIAN_FRONTEND $*" >> ${folder}/calls\ncase "$*" in *update*) ${onUpdate};; *) ${onInstall};; esac`,
  );
}

function require(said: string[] = []) {
  return requireServerPrograms((text) => said.push(text), folder);
}

describe("finding a server", () => {
  test("MariaDB needs its initialiser and what that calls", async () => {
    program("mariadbd", mariadb);
    expect(await findServerPrograms(folder)).toBeUndefined();
    program("mariadb-install-db", "exit 0");
    expect(await findServerPrograms(folder)).toBeUndefined();
    program("my_print_defaults", "exit 0");
    expect(await findServerPrograms(folder)).toEqual({
      kind: "mariadb",
      version: "10.11.6",
      server: join(folder, "mariadbd"),
      initializer: join(folder, "mariadb-install-db"),
    });
  });

  test("MySQL 8 alone is enough", async () => {
    program("mysqld", 'echo "/usr/sbin/mysqld  Ver 8.0.36 for Linux on x86_64 (MySQL Community Server - GPL)"');
    expect(await findServerPrograms(folder)).toEqual({
      kind: "mysql",
      version: "8.0.36",
      server: join(folder, "mysqld"),
      initializer: undefined,
    });
  });

  test.each([
    ["mariadbd", "mariadbd  Ver 10.5.23-MariaDB-0+deb11u1 for debian-linux-gnu", "10.5.23"],
    ["mysqld", "/usr/sbin/mysqld  Ver 5.7.44 for Linux on x86_64", "5.7.44"],
  ])("an old %s is named with its version", async (name, says, version) => {
    program(name, `echo "${says}"`);
    program("mariadb-install-db", "exit 0");
    program("my_print_defaults", "exit 0");
    await expect(findServerPrograms(folder)).rejects.toThrow(
      `${join(folder, name)} is version ${version}; install MariaDB 10.11, MariaDB 11.8 or MySQL 9.7`,
    );
  });

  test("a file that is no program is not a server", async () => {
    writeFileSync(join(folder, "mariadbd"), "");
    expect(await findServerPrograms(folder)).toBeUndefined();
  });
});

describe("installing a server", () => {
  test("refreshes the lists first, asks nothing, and says what it does", async () => {
    const create = (name: string) =>
      `printf '#!/bin/sh\\n${mariadb.replaceAll('"', '\\"')}\\n' > ${folder}/${name}; chmod +x ${folder}/${name}`;
    apt(["mariadbd", "mariadb-install-db", "my_print_defaults"].map(create).join("; "));
    const said: string[] = [];
    expect(await require(said)).toMatchObject({ kind: "mariadb", version: "10.11.6" });
    expect(readFileSync(join(folder, "calls"), "utf8").trim().split("\n")).toEqual([
      "noninteractive -o DPkg::Lock::Timeout=120 update",
      "noninteractive -o DPkg::Lock::Timeout=120 install -y --no-install-recommends mariadb-server-core mariadb-client-core",
    ]);
    expect(said).toEqual([
      "no database server on this machine: refreshing apt's lists",
      `installing ${packages} with apt`,
    ]);
  });

  test("without a network the reason is what apt said when it refreshed its lists", async () => {
    apt(
      "echo 'E: Unable to locate package mariadb-server-core'; exit 100",
      "echo 'Err:1 mirror stable InRelease'; exit 0",
    );
    await expect(require()).rejects.toThrow(
      `apt could not install ${packages} (Err:1 mirror stable InRelease); check the network, then run: ${byHand}`,
    );
  });

  test.runIf(!isRoot)("without rights it says what to run", async () => {
    apt("exit 0");
    program("sudo", "exit 1");
    await expect(require()).rejects.toThrow(`there is no MariaDB or MySQL server on this machine; run: ${byHand}`);
  });

  test.each([
    ["dnf", "sudo dnf install -y mariadb-server"],
    ["apk", "apk add mariadb mariadb-client"],
    ["brew", "brew install mariadb"],
  ])("where there is %s, it says what to run", async (name, command) => {
    program(name, "exit 1");
    await expect(require()).rejects.toThrow(`there is no MariaDB or MySQL server on this machine; run: ${command}`);
  });

  test("where there is nothing we know, it says what is missing", async () => {
    await expect(require()).rejects.toThrow(
      "there is no MariaDB or MySQL server on this machine; install MariaDB 10.11 or later",
    );
  });
});
