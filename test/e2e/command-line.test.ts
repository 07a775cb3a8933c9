import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, openSync, readSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { marketdProgram } from "../support/run-marketd.js";
import { ending, notThere, run, runMaxMs } from "./command-runs.js";
import { smallNetwork } from "./small-network.js";

/* The command line: what each mistake is answered with, in one line, and with which exit code; and outputs that are lost. */

const noDatabase =
  "no database: name one with --database-url (MARKETD_DATABASE_URL), or use a private one with --embedded (MARKETD_EMBEDDED=true)";
const seeHelp = "\n(see --help)";

let folder = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "marketd-command-line-"));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe("wrong use ends with 2", () => {
  it.each<[args: string[], message: string]>([
    [["serv"], `unknown command 'serv'\n(Did you mean serve?)${seeHelp}`],
    [["serve"], noDatabase],
    [["load", "file"], noDatabase],
    [["migrate"], noDatabase],
    [["verify"], noDatabase],
    [["retain", "--database-url", notThere], `required option '--keep <time>' not specified${seeHelp}`],
    [
      ["retain", "--database-url", notThere, "--keep", "90"],
      `option '--keep <time>' argument '90' is invalid. It takes a whole number of days, hours or minutes, such as 90d, 36h or 30m.${seeHelp}`,
    ],
    [
      ["serve", "--database-url", notThere, "--embedded"],
      "both --database-url and --embedded are given; give one of them",
    ],
    [
      ["serve", "--database-url", "nonsense"],
      "the database URL is not a URL; it looks like mysql://user:password@host:3306/marketd",
    ],
    [
      ["load", "--database-url", "postgres://a/b", "-"],
      "the database URL begins with postgres://; it takes mysql:// or mariadb://",
    ],
    [
      ["migrate", "--database-url", "mysql://a"],
      "the database URL names no database; it looks like mysql://user:password@host:3306/marketd",
    ],
    [
      ["migrate", "--database-url", "mysql://a%zz@h/d"],
      "the database URL has a malformed percent escape; write %25 for a percent sign",
    ],
    [
      ["load", "--database-url", notThere, "--keep-trades", "off", "file"],
      `option '--keep-trades <time>' argument 'off' is invalid. It takes all, or a whole number of days, hours or minutes, such as 90d, 36h or 30m.${seeHelp}`,
    ],
    [
      ["load", "--database-url", notThere, "--keep-trades", "6d", "file"],
      "--keep-trades is shorter than --keep-books, and a past book has its last trade; give --keep-books a time that is not longer, or off",
    ],
    [["load", "--database-url", notThere], `missing required argument 'source'${seeHelp}`],
    [["serve", "--nope"], `unknown option '--nope'${seeHelp}`],
    [
      ["serve", "--listen", "8080"],
      `option '--listen <host:port>' argument '8080' is invalid. It looks like 127.0.0.1:8080 or [::1]:8080; port 0 takes any free port.${seeHelp}`,
    ],
    [
      ["serve", "--workers", "-1"],
      `option '--workers <n>' argument '-1' is invalid. It takes a whole number from 0 to 256.${seeHelp}`,
    ],
    ...["prefix/", "/../prefix", "/a/."].map((path): [string[], string] => [
      ["serve", "--base-path", path],
      `option '--base-path <path>' argument '${path}' is invalid. It looks like /prefix, without a slash at its end.${seeHelp}`,
    ]),
    [
      ["serve", "--cors-origins", "https://a.example,https://b.example/"],
      `option '--cors-origins <origins>' argument 'https://a.example,https://b.example/' is invalid. "https://b.example/" is not an origin; one looks like https://example.org, or * for all.${seeHelp}`,
    ],
    ...["10.0.0.0/33", "fd00::/129", "proxy.example", "10.0.0.0/8,,::1", "10.0.0", "fe80::1%eth0", "10.0.0.0/-1"].map(
      (text) =>
        [
          ["serve", "--trusted-proxies", text],
          `option '--trusted-proxies <networks>' argument '${text}' is invalid. "${text === "10.0.0.0/8,,::1" ? "" : text}" is not an address or network; they look like 10.0.0.0/8, 192.0.2.1 or fd00::/8.${seeHelp}`,
        ] as [string[], string],
    ),
    [["serve", "--database-url", notThere, "--tls-key", "file"], "TLS takes both --tls-certificate and --tls-key"],
    [
      ["load", "--pace", "0", "file"],
      `option '--pace <blocks-per-second>' argument '0' is invalid. It takes blocks per second, above 0 and at most 1000000.${seeHelp}`,
    ],
    [
      ["simulate", "--blocks", "many"],
      `option '--blocks <n>' argument 'many' is invalid. It takes a whole number from 1 to 1000000000.${seeHelp}`,
    ],
  ])("%j", async (args, message) => {
    expect(await run(args)).toEqual({ code: 2, out: "", error: `marketd: ${message}\n` });
  });

  it("in the environment too, where a flag goes before it", async () => {
    const environment = { MARKETD_WORKERS: "many", MARKETD_DATABASE_URL: notThere };
    expect(await run(["serve"], environment)).toMatchObject({
      code: 2,
      error: expect.stringContaining("value 'many' from env 'MARKETD_WORKERS' is invalid"),
    });
    const maybe = { MARKETD_EMBEDDED: "maybe" };
    expect(await run(["serve"], maybe)).toMatchObject({
      code: 2,
      error: 'marketd: MARKETD_EMBEDDED is "maybe"; it takes true or false\n',
    });
  });

  it("as if it were not set where it is empty", async () => {
    const empty = { MARKETD_WORKERS: "", MARKETD_EMBEDDED: "", MARKETD_DATABASE_URL: "", MARKETD_LOG_LEVEL: "" };
    expect(await run(["serve"], empty)).toMatchObject({ code: 2, error: `marketd: ${noDatabase}\n` });
    expect(await run(["verify"], { ...empty, MARKETD_DATABASE_URL: notThere })).toMatchObject({ code: 4 });
  });
});

it("SIGHUP while it starts, before its modules are read, does not end serve", async () => {
  const hangUp = `import module from "node:module";
    module.enableCompileCache = () => { process.kill(process.pid, "SIGHUP"); return {}; };`;
  const environment = {
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hangUp)}`,
    NODE_COMPILE_CACHE: join(folder, "compile-cache"),
  };
  expect(await run(["serve"], environment)).toMatchObject({ code: 2, error: `marketd: ${noDatabase}\n` });
  expect(await run(["verify"], environment)).toMatchObject({ code: null });
});

describe("help and version end with 0", () => {
  it("each command says every flag, its variable and its default", async () => {
    for (const command of ["serve", "load", "migrate", "verify", "retain", "simulate", "demo"]) {
      const { code, out } = await run([command, "--help"]);
      expect(code).toBe(0);
      const flags = out.match(/^ {2}--[a-z-]+/gm) ?? [];
      expect(flags.length).toBeGreaterThan(3);
      const flat = out.replaceAll(/\s+/g, "");
      for (const flag of flags)
        expect(flat).toContain(`env:MARKETD_${flag.trim().slice(2).replaceAll("-", "_").toUpperCase()}`);
      expect(out).toContain("Exit codes: 0 done; 1 failed; 2 wrong use; 130 interrupted.");
    }
    expect((await run(["--version"])).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

it.each([
  ["simulate --blocks 100000", "head -c 1000"],
  ["serve --help", "true"],
])("a reader that stops reading `%s` does not make it print an error", async (command, reader) => {
  const script = `"${process.execPath}" "${marketdProgram}" ${command} | ${reader} >/dev/null; echo "\${PIPESTATUS[0]}"`;
  const child = execFile("bash", ["-c", script], { timeout: runMaxMs });
  expect(await ending(child)).toMatchObject({ out: "0\n", error: "" });
});

describe("a full disk behind standard error or output", () => {
  const full = openSync("/dev/full", "w");

  it("ends no command that writes its log there", async () => {
    const { url } = newDatabaseUrl();
    const file = join(folder, "followed-with-full-log");
    writeFileSync(file, smallNetwork().bytes());
    const port = await freePort();
    const commands = [
      ["load", "--database-url", url, "--follow", file, "--log-level", "debug"],
      ["serve", "--database-url", url, "--listen", `127.0.0.1:${port}`, "--workers", "1", "--log-level", "debug"],
    ].map((args) => spawn(process.execPath, [marketdProgram, ...args], { stdio: ["ignore", "ignore", full] }));
    const ready = () => fetch(`http://127.0.0.1:${port}/readyz`).then(({ status }) => status);
    const endings = () => commands.map(({ exitCode, signalCode }) => signalCode ?? exitCode);
    await expect.poll(() => ready().catch(endings), { timeout: runMaxMs }).toBe(200);
    const ends = commands.map((child) => once(child, "close"));
    for (const child of commands) child.kill("SIGTERM");
    expect((await Promise.all(ends)).map(([code]) => code)).toEqual([0, 0]);
  });

  it("fails a command whose output is lost", async () => {
    const child = spawn(process.execPath, [marketdProgram, "--help"], { stdio: ["ignore", full, "pipe"] });
    const error = expect.stringMatching(/^marketd: cannot write standard output: ENOSPC.*\n$/);
    expect(await ending(child)).toMatchObject({ code: 1, error });
  });
});

describe("standard error that nobody reads", () => {
  const pipe = (): { readonly fd: number; read(): Buffer } => {
    const path = join(folder, "unread");
    execFileSync("mkfifo", [path]);
    const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
    onTestFinished(() => closeSync(fd));
    const bytes = Buffer.alloc(1 << 20);
    const read = () => {
      try {
        return Buffer.from(bytes.subarray(0, readSync(fd, bytes)));
      } catch {
        return Buffer.alloc(0);
      }
    };
    return { fd, read };
  };

  it.each(["a pipe", "a socket"])("stops no service: %s", async (kind) => {
    const unread = kind === "a pipe" ? pipe() : undefined;
    const { url } = newDatabaseUrl();
    const file = join(folder, "unread-network");
    writeFileSync(file, smallNetwork().bytes());
    expect(await run(["load", "--database-url", url, file])).toMatchObject({ code: 0 });
    const port = await freePort();
    const address = ["--database-url", url, "--listen", `127.0.0.1:${port}`];
    const args = ["serve", ...address, "--workers", "1", "--log-level", "debug"];
    const service = spawn(process.execPath, [marketdProgram, ...args], {
      stdio: ["ignore", "ignore", unread?.fd ?? "pipe"],
    });
    onTestFinished(() => void service.kill("SIGKILL"));
    const status = (path: string) =>
      fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(5_000) }).then(({ status }) => status);
    await expect.poll(() => status("/readyz").catch(() => 0), { timeout: runMaxMs }).toBe(200);
    // Each makes a line. What is not read fills the pipe, and what waits for that, several times.
    for (let n = 0; n < 1_500; n++) expect(await status("/api/v2/ledgerentry/history?pagination.first=1")).toBe(200);
    let text = "";
    service.stderr?.on("data", (chunk) => {
      text += String(chunk);
    });
    const lines = () => {
      text += String(unread?.read() ?? "");
      return text.split("\n").slice(0, -1);
    };
    await expect.poll(lines, { timeout: runMaxMs }).toContainEqual(expect.stringContaining('"dropped":'));
    for (const line of lines()) expect(JSON.parse(line)).toMatchObject({ time: expect.any(String) });
    const ended = once(service, "close");
    service.kill("SIGTERM");
    expect((await ended)[0]).toBe(0);
  });
});
