import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";

/* Who can see the password of the database. */

const program = fileURLToPath(new URL("../../bin/marketd", import.meta.url));
const password = "pass-1b0c7f";
const user = "marketd_password_test";

let folder: string;
let url: string;
const children: ChildProcess[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "marketd-password-"));
  const admin = newDatabaseUrl().url;
  await migrate(admin, createLog("silent"));
  const database = openDatabase(admin, { connectionsMax: 1 });
  for (const host of ["%", "localhost"]) {
    await database.withConnection(async (connection) => {
      await connection.run(`DROP USER IF EXISTS ${user}@'${host}'`);
      await connection.run(`CREATE USER ${user}@'${host}' IDENTIFIED BY '${password}'`);
      await connection.run(`GRANT ALL ON *.* TO ${user}@'${host}'`);
    });
  }
  await database.close();
  const named = new URL(admin);
  named.username = user;
  named.password = password;
  url = named.href;
});

afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

interface Ending {
  readonly code: number | null;
  readonly error: string;
}

async function run(args: readonly string[], environment: Record<string, string> = {}): Promise<Ending> {
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let error = "";
  child.stderr.on("data", (text) => {
    error += String(text);
  });
  await once(child, "close");
  return { code: child.exitCode, error };
}

describe("a file with the URL", () => {
  it("is read: its first line, without spaces around it, as a flag or in the environment", async () => {
    const file = join(folder, "url");
    writeFileSync(file, `  ${url} \r\nsecond line\n`, { mode: 0o600 });
    expect(await run(["migrate", "--database-url-file", file])).toEqual({ code: 0, error: "" });
    expect(await run(["migrate"], { MARKETD_DATABASE_URL_FILE: file })).toEqual({ code: 0, error: "" });
    const other = { MARKETD_DATABASE_URL: "mysql://root@127.0.0.1:1/none", MARKETD_EMBEDDED: "true" };
    expect(await run(["migrate", "--database-url-file", file], other)).toEqual({ code: 0, error: "" });
  });

  it("that others may read is complained of, and used", async () => {
    const file = join(folder, "open");
    writeFileSync(file, url);
    chmodSync(file, 0o644);
    const { code, error } = await run(["migrate", "--database-url-file", file]);
    expect([code, error]).toEqual([0, expect.stringContaining("other users may read the file of the database URL")]);
    expect(error).not.toContain(password);
  });

  it.each<[name: string, content: string | undefined, message: string]>([
    ["none", undefined, "is not there"],
    ["empty", "\nmysql://root@localhost/x\n", "has an empty first line"],
  ])("that is %s: one line, 2", async (name, content, message) => {
    const file = join(folder, name);
    if (content !== undefined) writeFileSync(file, content);
    expect(await run(["serve", "--database-url-file", file])).toEqual({
      code: 2,
      error: `marketd: the file of the database URL, ${file}, ${message}\n`,
    });
  });

  it("that holds no URL: its content is not shown", async () => {
    const file = join(folder, "nonsense");
    writeFileSync(file, `${password} mysql:/x`, { mode: 0o600 });
    const { code, error } = await run(["load", "--database-url-file", file, "-"]);
    expect([code, error]).toEqual([2, expect.stringMatching(/^marketd: the database URL .*\n$/)]);
    expect(error).not.toContain(password);
  });

  it.each([
    [["--database-url-file", "f", "--database-url", "u"], {}, "--database-url and --database-url-file"],
    [["--database-url-file", "f", "--embedded"], {}, "--database-url-file and --embedded"],
    [[], { MARKETD_DATABASE_URL: "u", MARKETD_DATABASE_URL_FILE: "f" }, "--database-url and --database-url-file"],
  ])("beside another way to name a database: %j %j", async (args, environment, pair) => {
    const message = `marketd: both ${pair} are given; give one of them\n`;
    expect(await run(["migrate", ...args], environment as Record<string, string>)).toEqual({ code: 2, error: message });
  });
});

/** The command lines of a process and all that came of it. */
function commandLines(root: number): string[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
    } catch {
      // It has ended.
    }
  }
  const isOurs = (pid: number): boolean => pid === root || (parents.has(pid) && isOurs(parents.get(pid) ?? 0));
  return [...parents.keys()].filter(isOurs).map((pid) => {
    return existsSync(`/proc/${pid}/cmdline`) ? readFileSync(`/proc/${pid}/cmdline`, "utf8") : "";
  });
}

describe.runIf(existsSync("/proc/self/cmdline"))("the process list", () => {
  it.each([
    ["one process", "1", (given: string) => ["--database-url", given]],
    ["workers", "2", (given: string) => [`--database-url=${given}`]],
  ])("does not show a password that was given as a flag: %s", async (_name, workers, flags) => {
    const listen = `127.0.0.1:${await freePort()}`;
    const args = [program, "serve", ...flags(url), "--listen", listen, "--workers", workers];
    const child = spawn(process.execPath, args, { stdio: "ignore" });
    children.push(child);
    const ready = () =>
      fetch(`http://${listen}/readyz`).then(
        ({ status }) => status,
        () => 0,
      );
    // Nothing is loaded, so 503 is the response of one that runs.
    while (![200, 503].includes(await ready())) await sleep(50);
    const lines = commandLines(child.pid ?? 0);
    expect(lines.length).toBeGreaterThanOrEqual(Number(workers));
    for (const line of lines) expect(line).not.toContain(password);
    const own = readFileSync(`/proc/${child.pid}/cmdline`, "utf8");
    expect(own).toContain(`--listen ${listen}`);
    expect(own).toMatch(/--database-url[ =]\*\*\*/);
    child.kill("SIGTERM");
    await once(child, "close");
  });

  it("is left as it is where there is no password to hide", async () => {
    const child = spawn(process.execPath, [program, "load", "--database-url", "mysql://root@127.0.0.1:1/none", "-"], {
      stdio: ["pipe", "ignore", "ignore"],
    });
    children.push(child);
    const line = () => readFileSync(`/proc/${child.pid}/cmdline`, "utf8");
    await sleep(100);
    if (child.exitCode === null) expect(line()).toContain("--database-url\0mysql://root@127.0.0.1:1/none");
    child.kill("SIGKILL");
  });
});
