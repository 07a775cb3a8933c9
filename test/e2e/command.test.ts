import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  writeFileSync,
} from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { openDatabase } from "../../src/store/database.js";
import { findingsListedMax } from "../../src/verify/findings.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { withoutLog } from "../support/log-lines.js";
import { RecordingBuilder } from "../support/recording.js";
import { smallNetwork } from "./small-network.js";

/* The command line: what each mistake is answered with, in one line, and with which exit code. */

const program = fileURLToPath(new URL("../../bin/marketd", import.meta.url));
const notThere = "mysql://root@127.0.0.1:1/marketd";
/** On MySQL the transaction of a loader that was stopped holds up the next one for 30 s, by its limit for idle connections. */
const runMaxMs = 60_000;

interface Ending {
  readonly code: number | null;
  readonly out: string;
  readonly error: string;
}

function start(args: readonly string[], environment: Record<string, string> = {}): ChildProcess {
  return spawn(process.execPath, [program, ...args], { env: { ...process.env, ...environment } });
}

/** How a command ended; it is killed when it does not. Log lines are left out. */
async function ending(child: ChildProcess): Promise<Ending> {
  const killer = setTimeout(() => child.kill("SIGKILL"), runMaxMs);
  let out = "";
  let error = "";
  child.stdout?.on("data", (text) => {
    out += String(text);
  });
  child.stderr?.on("data", (text) => {
    error += String(text);
  });
  await once(child, "close");
  clearTimeout(killer);
  return { code: child.exitCode, out, error: withoutLog(error) };
}

async function run(args: readonly string[], environment?: Record<string, string>, input?: Uint8Array): Promise<Ending> {
  const child = start(args, environment);
  child.stdin?.on("error", () => {}).end(input);
  return await ending(child);
}

async function change(databaseUrl: string, sql: string): Promise<void> {
  const database = openDatabase(databaseUrl);
  try {
    await database.withConnection((connection) => connection.run(sql));
  } finally {
    await database.close();
  }
}

async function query(databaseUrl: string, sql: string): Promise<unknown[]> {
  const database = openDatabase(databaseUrl);
  try {
    return await database.query(sql);
  } finally {
    await database.close();
  }
}

const noDatabase =
  "no database: name one with --database-url (MARKETD_DATABASE_URL), or use a private one with --embedded (MARKETD_EMBEDDED=true)";
const seeHelp = "\n(see --help)";

let folder = "";
let taken: Server;
let takenPort = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "marketd-command-"));
  takenPort = await freePort();
  taken = createServer().listen(takenPort, "127.0.0.1");
  await once(taken, "listening");
});

afterAll(async () => {
  taken.close();
  await rm(folder, { recursive: true, force: true });
});

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

describe("what cannot be done ends with 1", () => {
  it("a database that cannot be reached, or refuses its user", async () => {
    const refused = {
      code: 1,
      out: "",
      error: "marketd: the database cannot be reached: connect ECONNREFUSED 127.0.0.1:1\n",
    };
    expect(await run(["migrate", "--database-url", notThere])).toEqual(refused);
    expect(await run(["load", "--database-url", notThere, "-"])).toEqual(refused);
    const stranger = new URL(newDatabaseUrl().url);
    stranger.username = "stranger";
    stranger.password = "wrong";
    for (const command of [["migrate"], ["load", "-"], ["serve", "--workers", "1", "--listen", "127.0.0.1:0"]]) {
      const { code, error } = await run([...command, "--database-url", stranger.href]);
      expect([code, error]).toEqual([1, expect.stringMatching(/^marketd: the database .* refuses .*\n$/)]);
    }
  });

  it.each(["1", "2"])("%s workers: a port in use, a certificate that is none, another schema", async (workers) => {
    const { url } = newDatabaseUrl();
    await run(["migrate", "--database-url", url]);
    const common = ["serve", "--database-url", url, "--workers", workers];
    const inUse = `cannot listen on 127.0.0.1:${takenPort}: something else listens there; stop it, or choose another with --listen`;
    expect(await run([...common, "--listen", `127.0.0.1:${takenPort}`])).toMatchObject({
      code: 1,
      error: `marketd: ${inUse}\n`,
    });
    const noPem = join(folder, "no.pem");
    writeFileSync(noPem, "no certificate");
    const tls = ["--listen", "127.0.0.1:0", "--tls-certificate", noPem, "--tls-key", noPem];
    expect(await run([...common, ...tls])).toMatchObject({
      code: 1,
      error: expect.stringMatching(/^marketd: the TLS certificate or key cannot be used: .*\n$/),
    });
    const database = openDatabase(url);
    await database.withConnection((connection) =>
      connection.run("INSERT INTO migration VALUES (99, 'later', '', 1, 1)"),
    );
    await database.close();
    const message =
      /^marketd: the database has schema version 99, newer than this program's \d+: use a newer program\n$/;
    for (const args of [
      [...common, "--listen", "127.0.0.1:0"],
      ["load", "--database-url", url, "-"],
    ]) {
      expect(await run(args)).toMatchObject({ code: 1, error: expect.stringMatching(message) });
    }
  });

  it("a source that cannot be read", async () => {
    const { url } = newDatabaseUrl();
    const load = (path: string) => run(["load", "--database-url", url, path]);
    expect(await load(join(folder, "none"))).toMatchObject({
      code: 1,
      error: `marketd: ${folder}/none: no such file\n`,
    });
    mkdirSync(join(folder, "folder"));
    expect(await load(join(folder, "folder"))).toMatchObject({
      code: 1,
      error: `marketd: ${folder}/folder: is a directory, not a recording\n`,
    });
    const damaged = join(folder, "damaged.gz");
    writeFileSync(damaged, gzipSync(smallNetwork().bytes()).fill(0, 20, 40));
    expect(await load(damaged)).toMatchObject({
      code: 1,
      error: `marketd: ${damaged}: the compressed file is damaged; nothing of it was loaded\n`,
    });
    expect(await run(["simulate", "--out", join(folder, "none", "file")])).toMatchObject({
      code: 1,
      error: expect.stringMatching(/^marketd: cannot write .*none\/file: ENOENT: .*\n$/),
    });
  });

  it("a recording that ends within a frame: its offset is named, and what came before it is kept", async () => {
    const { url } = newDatabaseUrl();
    const whole = smallNetwork().bytes();
    const next = new RecordingBuilder();
    next.sequence = BigInt(smallNetwork().frames.length + 1);
    const half = next.begin(9, 9_000_000_000_000_000_000n).bytes().subarray(0, 20);
    const file = join(folder, "half");
    writeFileSync(file, Buffer.concat([whole, half]));
    const { code, error } = await run(["load", "--database-url", url, file]);
    expect(code).toBe(1);
    expect(error).toMatch(new RegExp(`^marketd: ${file}: .*byte ${whole.length}\\b.*\\n$`));
    expect(await query(url, "SELECT height FROM progress")).toEqual([{ height: 4n }]);
  });
});

describe("loading", () => {
  it("takes what simulate writes, through a pipe, and says what it did", async () => {
    const { url } = newDatabaseUrl();
    const simulate = start(["simulate", "--blocks", "30"]);
    const load = start(["load", "--database-url", url, "-"]);
    if (load.stdin === null) throw new Error("no pipe");
    simulate.stdout?.pipe(load.stdin);
    const [simulated, loaded] = await Promise.all([ending(simulate), ending(load)]);
    expect([simulated.code, simulated.error]).toEqual([0, ""]);
    expect([loaded.code, loaded.error]).toEqual([0, ""]);
    expect(loaded.out).toMatch(/^30 blocks and \d+ events in /);
    expect(loaded.out).toMatch(/^best bid and offer: compared with the network's own \d+ times, 0 differences$/m);
    expect(await query(url, "SELECT COUNT(*) AS blocks FROM block")).toEqual([{ blocks: 30n }]);
  });

  it("keeps an open block at the end back, and loads the rest in a later piece", async () => {
    const { url } = newDatabaseUrl();
    const recording = smallNetwork();
    const cut = recording.frames.length - 3;
    const [first, second] = [join(folder, "first"), join(folder, "second.gz")];
    writeFileSync(first, Buffer.concat(recording.frames.slice(0, cut)));
    writeFileSync(second, gzipSync(recording.bytes()));
    expect((await run(["load", "--database-url", url, first])).code).toBe(0);
    expect(await query(url, "SELECT height FROM progress")).toEqual([{ height: 3n }]);
    expect((await run(["load", "--database-url", url, second])).code).toBe(0);
    expect(await query(url, "SELECT height FROM progress")).toEqual([{ height: 4n }]);
    const again = await run(["load", "--database-url", url, first, second]);
    expect(again.out).toMatch(/^0 blocks/);
  });

  it("follows a file until it is told to stop: SIGTERM ends with 0, SIGINT with 130", async () => {
    for (const [signal, code] of [
      ["SIGTERM", 0],
      ["SIGINT", 130],
    ] as const) {
      const { url } = newDatabaseUrl();
      const file = join(folder, `growing-${signal}`);
      const recording = smallNetwork();
      writeFileSync(file, recording.bytes());
      const child = start(["load", "--database-url", url, "--follow", file]);
      const end = ending(child);
      const heights = () => query(url, "SELECT height FROM progress").catch(() => []);
      await expect.poll(heights, { timeout: 10_000 }).toEqual([{ height: 4n }]);
      appendFileSync(file, recording.block(5, 1_700_000_000_000_000_000n).bytes().subarray(readFileSync(file).length));
      await expect.poll(heights, { timeout: 10_000 }).toEqual([{ height: 5n }]);
      child.kill(signal);
      expect((await end).code).toBe(code);
    }
  });

  it("goes at the pace it is told", async () => {
    const { url } = newDatabaseUrl();
    const started = performance.now();
    const file = join(folder, "paced");
    writeFileSync(file, smallNetwork().bytes());
    expect((await run(["load", "--database-url", url, "--pace", "4", file])).code).toBe(0);
    expect(performance.now() - started).toBeGreaterThan(700);
  });

  it("lets one at a time write: the other ends with 1, and nothing is mixed", async () => {
    const { url } = newDatabaseUrl();
    const file = join(folder, "shared");
    writeFileSync(file, smallNetwork().bytes());
    const slow = start(["load", "--database-url", url, "--pace", "0.5", file]);
    const end = ending(slow);
    const heights = () => query(url, "SELECT height FROM progress").catch(() => []);
    await expect.poll(heights, { timeout: runMaxMs, interval: 20 }).toHaveLength(1);
    slow.kill("SIGSTOP");
    expect(await run(["load", "--database-url", url, file])).toMatchObject({ code: 0, error: "" });
    slow.kill("SIGCONT");
    expect(await end).toMatchObject({
      code: 1,
      error:
        "marketd: another process is loading into this database: only one may at a time; nothing of this block was written\n",
    });
    expect(await query(url, "SELECT COUNT(*) AS entries FROM ledger_entry")).toEqual([{ entries: 5n }]);
  });
});

describe("verify", () => {
  it("says whether the source or the database is wrong", async () => {
    const { url } = newDatabaseUrl();
    const file = join(folder, "without-balances");
    const none = { amount: "5", fromBalance: "", toBalance: "" };
    writeFileSync(file, new RecordingBuilder().block(1, 10n, (r) => r.transfer(none, none)).bytes());
    expect((await run(["load", "--database-url", url, file])).code).toBe(0);
    const what = "the database is what was loaded, but its source is wrong";
    const said = { code: 1, error: expect.stringMatching(new RegExp(`^marketd: \\d+ findings?: ${what}: .*\n$`)) };
    expect(await run(["verify", "--database-url", url])).toMatchObject(said);
    const unsigned = newDatabaseUrl().url;
    const signatureSubmitters = [{ signatureId: "s1", submitter: "0x1" }];
    const removed = {
      signatureSubmitters,
      validatorId: "n",
      timestamp: 10n,
      nonce: "1",
      oldSigner: "0x2",
      epochSeq: "1",
    };
    const recording = new RecordingBuilder().block(1, 10n, (r) => r.signerRemoved(removed)).block(2, 10n ** 14n);
    writeFileSync(file, recording.bytes());
    expect((await run(["load", "--database-url", unsigned, file])).code).toBe(0);
    expect(await run(["verify", "--database-url", unsigned])).toMatchObject(said);
  });

  it("ends with 0 when all is right, with 1 and a line for each finding, with 4 when it cannot check", async () => {
    const { url } = newDatabaseUrl();
    const file = join(folder, "verified");
    expect((await run(["simulate", "--blocks", "20", "--out", file])).code).toBe(0);
    const verify = () => run(["verify", "--database-url", url]);
    expect(await verify()).toMatchObject({ code: 4, error: expect.stringMatching(/could not be checked: .*\n$/) });
    expect((await run(["load", "--database-url", url, file])).code).toBe(0);
    expect(await verify()).toEqual({
      code: 0,
      out: expect.stringMatching(
        /^checked chain simulated-1 up to block 20: 20 blocks, \d+ ledger entries, 0 findings\n$/,
      ),
      error: "",
    });
    const noDigest = "account_max = NULL, class_max = NULL, entries_digest = NULL, digest = NULL";
    await change(url, `UPDATE block SET ${noDigest}`);
    await change(url, "DELETE FROM table_digest");
    expect(await verify()).toEqual({
      code: 4,
      out: expect.stringMatching(
        /\nnot checked: chain simulated-1 up to block 20: 20 of 20 blocks and (\d+) of \1 ledger entries have no digest, 0 findings\n$/,
      ),
      error: "marketd: what has no digest was not checked: see docs/operations.md, Digests made anew\n",
    });
    const renewed = {
      code: 0,
      out: expect.stringMatching(
        /^checked .* 0 findings; digests renewed at block 20: earlier changes are not found\n$/,
      ),
      error: "",
    };
    expect(await run(["verify", "--database-url", url, "--renew-digests"])).toEqual(renewed);
    expect(await verify()).toEqual(renewed);
    await change(url, "UPDATE ledger_entry SET quantity = quantity + 1 WHERE id = 7 << 24");
    expect(await verify()).toMatchObject({
      code: 1,
      out: expect.stringMatching(/^block 7, ledger_entry: its entries are not what was written$/m),
      error: expect.stringMatching(/^marketd: \d+ findings: the database is not what was loaded\n$/),
    });
    await change(url, "DELETE FROM account");
    const { out } = await verify();
    expect(out.split("\n").filter((line) => /^(block \d+, )?[a-z_]+: /.test(line))).toHaveLength(findingsListedMax);
    expect(await run(["verify", "--database-url", notThere])).toEqual({
      code: 4,
      out: "",
      error:
        "marketd: the database could not be checked: the database cannot be reached: connect ECONNREFUSED 127.0.0.1:1\n",
    });
  });
});

it("retain drops old ledger entries, and says which are kept", async () => {
  const { url } = newDatabaseUrl();
  const file = join(folder, "retained");
  expect((await run(["simulate", "--blocks", "200", "--out", file])).code).toBe(0);
  expect((await run(["load", "--database-url", url, file])).code).toBe(0);
  const all = { code: 0, out: "0 ledger entries dropped; kept are those from block 0 on\n", error: "" };
  expect(await run(["retain", "--database-url", url, "--keep", "90d"])).toEqual(all);
  const { code, out } = await run(["retain", "--database-url", url, "--keep", "1m"]);
  expect(code).toBe(0);
  const [, entries, block] = /^(\d+) ledger entries dropped; kept are those from block (\d+) on\n$/.exec(out) ?? [];
  expect(Number(entries)).toBeGreaterThan(1_000);
  expect(Number(block)).toBeGreaterThan(120);
  expect(await query(url, "SELECT MIN(id) >> 24 AS block FROM ledger_entry")).toEqual([{ block: BigInt(block ?? 0) }]);
});

it.each([
  ["simulate --blocks 100000", "head -c 1000"],
  ["serve --help", "true"],
])("a reader that stops reading `%s` does not make it print an error", async (command, reader) => {
  const script = `"${process.execPath}" "${program}" ${command} | ${reader} >/dev/null; echo "\${PIPESTATUS[0]}"`;
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
    ].map((args) => spawn(process.execPath, [program, ...args], { stdio: ["ignore", "ignore", full] }));
    const ready = () => fetch(`http://127.0.0.1:${port}/readyz`).then(({ status }) => status);
    const endings = () => commands.map(({ exitCode, signalCode }) => signalCode ?? exitCode);
    await expect.poll(() => ready().catch(endings), { timeout: runMaxMs }).toBe(200);
    const ends = commands.map((child) => once(child, "close"));
    for (const child of commands) child.kill("SIGTERM");
    expect((await Promise.all(ends)).map(([code]) => code)).toEqual([0, 0]);
  });

  it("fails a command whose output is lost", async () => {
    const child = spawn(process.execPath, [program, "--help"], { stdio: ["ignore", full, "pipe"] });
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
    const service = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "ignore", unread?.fd ?? "pipe"] });
    onTestFinished(() => void service.kill("SIGKILL"));
    const status = (path: string) =>
      fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(5_000) }).then(({ status }) => status);
    await expect.poll(() => status("/readyz").catch(() => 0), { timeout: runMaxMs }).toBe(200);
    // Each makes a line. What is not read fills the pipe, and what waits for that, several times.
    for (let n = 0; n < 3_000; n++) expect(await status("/api/v2/ledgerentry/history?pagination.first=1")).toBe(200);
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
