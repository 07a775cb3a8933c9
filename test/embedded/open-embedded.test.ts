import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { test as base, describe } from "vitest";
import { OperatorError } from "../../src/domain/operator-error.js";
import { openEmbedded } from "../../src/embedded/open-embedded.js";
import { openDatabase } from "../../src/store/database.js";
import { createLog } from "../../src/telemetry/log.js";
import { makeDataDirectory } from "../support/database.js";
import { canMount } from "../support/mounts.js";
import { tries } from "../support/tries.js";
import { processesOf, processOf, until } from "./processes.js";
import { compiledDir, startUser, type UserProcess, type UserProcessOptions } from "./user-process.js";

/** "Gone within seconds": a machine that is busy with other tests included. */
const goneMs = 10_000;
const backMs = 20_000;
const log = createLog("silent");

/** What one test makes; gone when it has finished. */
interface Place {
  readonly newDirectory: () => string;
  /** One with a database that was made before. */
  readonly newDataDirectory: () => string;
  readonly newUser: (dataDir: string, options?: Omit<UserProcessOptions, "dataDir">) => Promise<UserProcess>;
}

const test = base.extend<{ place: Place }>({
  place: async ({ task: _ }, use) => {
    const directories: string[] = [];
    const users: UserProcess[] = [];
    const newDirectory = () => {
      const directory = realpathSync(mkdtempSync(join(tmpdir(), "marketd-embedded-")));
      directories.push(directory);
      return directory;
    };
    await use({
      newDirectory,
      newDataDirectory: () => {
        const directory = newDirectory();
        makeDataDirectory(directory);
        return directory;
      },
      newUser: async (dataDir, options = {}) => {
        const user = await startUser({ ...options, dataDir });
        users.push(user);
        return user;
      },
    });
    for (const user of users) user.kill("SIGKILL");
    for (const directory of directories) {
      await untilGone(directory);
      rmSync(directory, { recursive: true, force: true });
    }
  },
});

async function ask(url: string, ...statements: string[]): Promise<unknown[]> {
  const address = new URL(url);
  address.pathname = "/mysql";
  const database = openDatabase(address.href);
  try {
    let rows: unknown[] = [];
    for (const statement of statements) rows = await database.query(statement);
    return rows;
  } finally {
    await database.close();
  }
}

function untilGone(dataDir: string): Promise<number> {
  return until(`everything of ${dataDir} has gone`, goneMs, () => processesOf(dataDir, "any").length === 0);
}

function untilResponding(url: string): Promise<number> {
  return until("the database answers", backMs, () =>
    ask(url, "SELECT 1").then(
      () => true,
      () => false,
    ),
  );
}

/** Words that run a program as a user who has no rights; undefined where that is not possible, or he could not read us. */
function plainUserPrefix(): readonly string[] | undefined {
  const prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
  const [program = "", ...rest] = [
    ...prefix,
    process.execPath,
    "-e",
    `require("fs").readdirSync(${JSON.stringify(compiledDir)})`,
  ];
  const works = process.getuid?.() === 0 && spawnSync(program, rest).status === 0;
  return works ? prefix : undefined;
}

const asPlainUser = plainUserPrefix();
if (asPlainUser === undefined) {
  process.stderr.write(
    "skipped: a private database of another user (needs root, setpriv, and files that all may read)\n",
  );
}

if (!canMount) process.stderr.write("skipped: a data directory on a read-only disk (needs a user who may mount one)\n");

describe.concurrent("a private database", () => {
  test("is shared, private to the user, and ends with the last who closes it", async ({ place, expect }) => {
    const dataDir = place.newDirectory();
    const first = await place.newUser(dataDir);
    const second = await place.newUser(dataDir);
    expect(second.url).toBe(first.url);
    expect(await ask(first.url, "SELECT @@character_set_server AS c, @@local_infile AS l")).toEqual([
      { c: "utf8mb4", l: 1n },
    ]);
    const socket = new URL(first.url).searchParams.get("socket") ?? "";
    expect(execFileSync("ls", ["-ld", dirname(socket)], { encoding: "utf8" })).toMatch(/^drwx------/);
    const server = processOf(dataDir, "server");

    await first.close();
    expect(processOf(dataDir, "server")).toEqual(server);
    await second.close();
    expect(processesOf(dataDir, "server")).toEqual([]);
    expect(existsSync(dirname(socket))).toBe(false);
    await untilGone(dataDir);
  });

  test("is made once when many come at the same instant", async ({ place, expect }) => {
    const dataDir = place.newDirectory();
    const opened = await Promise.all([1, 2, 3, 4].map(() => place.newUser(dataDir)));
    expect(new Set(opened.map((user) => user.url)).size).toBe(1);
    expect(processesOf(dataDir, "server")).toHaveLength(1);
    await Promise.all(opened.map((user) => user.close()));
    await untilGone(dataDir);
  });

  test("serves one who comes while the last one leaves, again and again", async ({ place, expect }) => {
    const dataDir = place.newDataDirectory();
    let leaving = await place.newUser(dataDir);
    await ask(leaving.url, "CREATE DATABASE kept", "CREATE TABLE kept.turns (turn INT PRIMARY KEY)");
    const turns = tries(12);
    for (let turn = 0; turn < turns; turn++) {
      const closed = leaving.close();
      const [next] = await Promise.all([place.newUser(dataDir), closed]);
      await ask(next.url, `INSERT INTO kept.turns VALUES (${turn})`);
      leaving = next;
    }
    expect(await ask(leaving.url, "SELECT COUNT(*) AS n FROM kept.turns")).toEqual([{ n: BigInt(turns) }]);
    await leaving.close();
  });

  test.for(["SIGKILL", "SIGTERM", "SIGINT"] as const)(
    "is gone when all its users got %s",
    async (signal, { place }) => {
      const dataDir = place.newDataDirectory();
      const opened = [await place.newUser(dataDir), await place.newUser(dataDir)];
      for (const user of opened) user.kill(signal);
      await untilGone(dataDir);
    },
  );

  test("is not reached by an interrupt of its first user's process group", async ({ place, expect }) => {
    const dataDir = place.newDataDirectory();
    const first = await place.newUser(dataDir, { ownGroup: true });
    const second = await place.newUser(dataDir, { ownGroup: true });
    const server = processOf(dataDir, "server");
    process.kill(-first.pid, "SIGINT");
    expect(await ask(second.url, "SELECT 'yes' AS reply")).toEqual([{ reply: "yes" }]);
    expect(processOf(dataDir, "server")).toEqual(server);
    process.kill(-second.pid, "SIGINT");
    await untilGone(dataDir);
  });

  test("loses nothing when its server is killed, and comes back at the same URL", async ({ place, expect }) => {
    const dataDir = place.newDataDirectory();
    const user = await place.newUser(dataDir);
    await ask(
      user.url,
      "CREATE DATABASE kept",
      "CREATE TABLE kept.t (n INT PRIMARY KEY)",
      "INSERT INTO kept.t VALUES (1)",
    );
    const { pid } = processOf(dataDir, "server");
    process.kill(pid, "SIGKILL");
    await until("another server", backMs, () => processesOf(dataDir, "server").some((server) => server.pid !== pid));
    await untilResponding(user.url);
    expect(await ask(user.url, "SELECT n FROM kept.t")).toEqual([{ n: 1 }]);
  });

  test("tells each time that its server is killed", async ({ place, expect }) => {
    const dataDir = place.newDataDirectory();
    const told: string[] = [];
    const database = await openEmbedded({ dataDir, log, onProgress: (text) => told.push(text) });
    const ends = () => told.filter((text) => text.startsWith("the database ended (SIGKILL)"));
    for (const times of [1, 2]) {
      const { pid } = processOf(dataDir, "server");
      process.kill(pid, "SIGKILL");
      await until("it is told", backMs, () => ends().length === times);
      await untilResponding(database.url);
      // The supervisor says every second that the server is ready.
      await delay(1_500);
    }
    expect(ends()).toHaveLength(2);
    await database.close();
  });

  test("leaves no server behind when its supervisor is killed, and comes back for its users", async ({
    place,
    expect,
  }) => {
    const dataDir = place.newDataDirectory();
    const user = await place.newUser(dataDir);
    await ask(user.url, "CREATE DATABASE kept");
    const server = processOf(dataDir, "server");
    process.kill(processOf(dataDir, "supervisor").pid, "SIGKILL");
    await until(
      "the old server has gone",
      goneMs,
      () => !processesOf(dataDir, "server").some((p) => p.pid === server.pid),
    );
    await until("a new server", backMs, () => processesOf(dataDir, "server").length === 1);
    await untilResponding(user.url);
    expect(await ask(user.url, "SHOW DATABASES LIKE 'kept'")).toHaveLength(1);
  });

  test("comes back from the newest build when its own build was removed", async ({ place, expect }) => {
    const [dataDir, folder] = [place.newDataDirectory(), place.newDirectory()];
    const [own, newest] = [join(folder, "dist.1"), join(folder, "dist.2")];
    const sources = realpathSync(join(compiledDir, ".."));
    for (const build of [own, newest]) cpSync(sources, build, { recursive: true });
    // A clone's or a package's own says that its files are modules.
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    symlinkSync("dist.2", join(folder, "dist"));
    const user = await place.newUser(dataDir, { build: own });
    rmSync(own, { recursive: true });
    process.kill(processOf(dataDir, "supervisor").pid, "SIGKILL");
    // Told by its path: a process that was killed can be seen for a moment yet.
    await until("a supervisor of the newest build", backMs, () =>
      processesOf(dataDir, "supervisor").some(({ command }) => command.includes(join(folder, "dist", "src"))),
    );
    await untilResponding(user.url);
    expect(processesOf(dataDir, "supervisor")).toHaveLength(1);
  });

  test("leaves nothing behind when supervisor, server and users are killed together; the next start recovers", async ({
    place,
    expect,
  }) => {
    const dataDir = place.newDataDirectory();
    const user = await place.newUser(dataDir);
    await ask(
      user.url,
      "CREATE DATABASE kept",
      "CREATE TABLE kept.t (n INT PRIMARY KEY)",
      "INSERT INTO kept.t VALUES (7)",
    );
    process.kill(processOf(dataDir, "supervisor").pid, "SIGKILL");
    process.kill(processOf(dataDir, "server").pid, "SIGKILL");
    user.kill("SIGKILL");
    await untilGone(dataDir);
    const next = await place.newUser(dataDir);
    expect(await ask(next.url, "SELECT n FROM kept.t")).toEqual([{ n: 7 }]);
  });

  test("leaves no server behind when its supervisor is killed while that starts", async ({ place, expect }) => {
    const dataDir = place.newDataDirectory();
    await (await place.newUser(dataDir)).close();
    const coming = place.newUser(dataDir);
    await until("a server that starts", backMs, () => processesOf(dataDir, "server").length === 1);
    const server = processOf(dataDir, "server");
    process.kill(processOf(dataDir, "supervisor").pid, "SIGKILL");
    await until("it has gone", goneMs, () => !processesOf(dataDir, "server").some((p) => p.pid === server.pid));
    const user = await coming;
    await untilResponding(user.url);
    expect(processesOf(dataDir, "server")).toHaveLength(1);
  });

  test("is made anew when its making was cut short", async ({ place, expect }) => {
    const dataDir = place.newDirectory();
    mkdirSync(join(dataDir, "database.unfinished", "mysql"), { recursive: true });
    const user = await place.newUser(dataDir);
    expect(await ask(user.url, "SELECT IF(COUNT(*) > 0, 'some', 'none') AS users FROM mysql.user")).toEqual([
      { users: "some" },
    ]);
    expect(existsSync(join(dataDir, "database.unfinished"))).toBe(false);
  });

  test("works under a path that is too long for a socket", async ({ place, expect }) => {
    const dataDir = join(place.newDirectory(), "a-long-name-".repeat(10), "another-long-name-".repeat(10));
    const user = await place.newUser(dataDir);
    expect(await ask(user.url, "SELECT 'yes' AS reply")).toEqual([{ reply: "yes" }]);
    await user.close();
  });

  test("is one database for every name of its directory, and another for another directory", async ({
    place,
    expect,
  }) => {
    const dataDir = place.newDataDirectory();
    const alias = join(place.newDirectory(), "alias");
    execFileSync("ln", ["-s", dataDir, alias]);
    const [first, second, other] = [
      await place.newUser(dataDir),
      await place.newUser(`${alias}/.`),
      await place.newUser(place.newDataDirectory()),
    ];
    expect(second.url).toBe(first.url);
    expect(other.url).not.toBe(first.url);
  });

  test("comes with the end of its server's log when that does not start", async ({ place, expect }) => {
    const dataDir = place.newDataDirectory();
    await (await place.newUser(dataDir)).close();
    writeFileSync(join(dataDir, "database", "ibdata1"), "not a tablespace");
    const opening = openEmbedded({ dataDir, log, onProgress: () => {} });
    await expect(opening).rejects.toThrow(
      /^the private database in .*: the database did not start: .*InnoDB.*server\.log\)$/,
    );
    await untilGone(dataDir);
    expect(readFileSync(join(dataDir, "server.log"), "utf8")).toContain("[ERROR]");
  });

  test("is refused where the user cannot write", async ({ place, expect }) => {
    const file = join(place.newDirectory(), "file");
    writeFileSync(file, "");
    const opening = openEmbedded({ dataDir: join(file, "data"), log });
    await expect(opening).rejects.toThrow(OperatorError);
    await expect(opening).rejects.toThrow(/^cannot use the data directory .*: ENOTDIR/);
  });

  test.runIf(existsSync("/proc/self"))("is refused in a folder that takes none", async ({ expect }) => {
    const opening = openEmbedded({ dataDir: "/proc/marketd/data", log });
    await expect(opening).rejects.toThrow(/^cannot use the data directory .*: ENOENT/);
  });

  test.runIf(canMount)("says why on a read-only file system", async ({ place, expect }) => {
    const disk = place.newDirectory();
    execFileSync("mount", ["-t", "tmpfs", "-o", "ro", "tmpfs", disk]);
    try {
      for (const path of ["data", "not/there/data"]) {
        const opening = openEmbedded({ dataDir: join(disk, path), log });
        await expect(opening).rejects.toThrow(/^cannot use the data directory .*: EROFS: read-only file system/);
      }
    } finally {
      execFileSync("umount", [disk]);
    }
  });

  test.runIf(asPlainUser !== undefined)(
    "works for a plain user, and is not root's to open",
    async ({ place, expect }) => {
      const dataDir = place.newDirectory();
      // As /tmp is: without the sticky bit everybody could put something else in the place of `own`.
      chmodSync(dataDir, 0o1777);
      const own = join(dataDir, "own");
      const user = await place.newUser(own, { prefix: asPlainUser ?? [] });
      expect(await untilGreeting(user.url)).toBe(true);
      await expect(openEmbedded({ dataDir: own, log })).rejects.toThrow(
        `the database in ${own}/database belongs to user 65534 and this is user 0; choose another data directory`,
      );
      await user.close();
    },
  );
});

/** A plain user's root@localhost is reached from here as well, because root may open any socket. */
function untilGreeting(url: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(new URL(url).searchParams.get("socket") ?? "");
    socket.once("error", reject);
    socket.once("data", () => {
      resolve(true);
      socket.destroy();
    });
  });
}
