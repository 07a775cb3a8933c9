import { execFile, execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ledgerFileName } from "../../src/client/ledger-download.js";
import { networkDefaults, simulate } from "../../src/simulator/network.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { marketdProgram, type RunningCommand, runToEnd, startMarketd } from "../support/run-marketd.js";
import { TcpBalancer } from "../support/tcp-balancer.js";
import { tries } from "../support/tries.js";
import { runMarketd, ServiceProcess } from "./service-process.js";
import { blockIntervalNs, firstBlockNs, smallNetwork } from "./small-network.js";

/*
 * The export command against a real service, through connections that break, servers that die, commands that are killed
 * and networks that grow: the file is always, byte for byte, what one undisturbed export gives.
 */

const network = { ...networkDefaults, parties: 2, entriesPerBlock: 500 };
const firstBlocks = 100;
const allBlocks = 130;
const poll = { timeout: 30_000, interval: 5 };

let folder: string;
/** Where a test's command runs and writes. */
let cwd: string;
let service: ServiceProcess;
let port: number;
let balancer: TcpBalancer;
let databaseUrl: string;
let subject: { readonly party: string; readonly asset: string };
let tests = 0;

const recording = [...simulate({ ...network, blocks: allBlocks })];

async function load(url: string, blocks: readonly Uint8Array[]): Promise<void> {
  const file = join(folder, "recording");
  writeFileSync(file, Buffer.concat(blocks));
  await runMarketd("load", "--database-url", url, file);
}

/** A party and an asset with most of the entries. */
async function busiest(): Promise<{ party: string; asset: string }> {
  const response = await fetch(`${service.url}/api/v2/ledgerentry/history?pagination.first=5000`);
  interface Entry {
    readonly toAccountPartyId?: string;
    readonly assetId?: string;
  }
  const { ledgerEntries } = (await response.json()) as { ledgerEntries: { edges: { node: Entry }[] } };
  const counts = new Map<string, number>();
  for (const { node } of ledgerEntries.edges) {
    if (node.toAccountPartyId === "network") continue;
    const key = `${node.toAccountPartyId} ${node.assetId}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const [key = ""] = [...counts].sort(([, a], [, b]) => b - a)[0] ?? [];
  const [party = "", asset = ""] = key.split(" ");
  return { party, asset };
}

/** One undisturbed export of now, read by plain HTTP. */
async function undisturbed({ party, asset } = subject, query = "", url = service.url): Promise<Buffer> {
  const response = await fetch(`${url}/api/v2/ledgerentry/export?partyId=${party}&assetId=${asset}&alt=media${query}`);
  expect(response.status).toBe(200);
  return Buffer.from(await response.arrayBuffer());
}

function argsOf(url: string, { party, asset } = subject): string[] {
  return ["export", "--server", url, "--party", party, "--asset", asset, "--give-up-ms", "20000"];
}

const throughBalancer = () => argsOf(`http://127.0.0.1:${balancer.port}`);
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
const rowsOf = (csv: Buffer) => csv.toString().split("\r\n").length - 2;
const partOf = (file: string) => join(cwd, `${file}.part`);

/** The command once it has reached the server: a server that cannot be reached at the start ends it. */
async function started(out: string): Promise<RunningCommand> {
  const before = balancer.handed;
  const command = startMarketd([...throughBalancer(), "--out", out], { cwd });
  await vi.waitFor(() => expect(balancer.handed).toBeGreaterThan(before + 1), poll);
  return command;
}

/** The command with a few slices verified, and no connection any more. */
async function halfDone(file: string, out = file): Promise<RunningCommand> {
  const command = startMarketd([...throughBalancer(), "--out", out], { cwd });
  await vi.waitFor(() => expect(existsSync(`${partOf(file)}.json`)).toBe(true), poll);
  balancer.silence();
  return command;
}

/** What ends with the whole file, and leaves nothing else behind. */
function expectComplete(ending: { code: number | null; error: string }, file: string, expected: Buffer): void {
  expect(ending.code, ending.error).toBe(0);
  expect(sha256(readFileSync(join(cwd, file)))).toBe(sha256(expected));
  expect(readdirSync(cwd)).toEqual([file]);
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "marketd-export-"));
  databaseUrl = newDatabaseUrl().url;
  port = await freePort();
  service = new ServiceProcess(databaseUrl, port);
  balancer = await TcpBalancer.before(port);
  await load(databaseUrl, recording.slice(0, firstBlocks));
  await service.start();
  subject = await busiest();
});

beforeEach(() => {
  cwd = join(folder, `test-${++tests}`);
  mkdirSync(cwd);
  balancer.leadTo(port);
  balancer.speak();
});

afterAll(async () => {
  await balancer.close();
  await service.kill();
  await rm(folder, { recursive: true, force: true });
});

describe("a file", () => {
  it("gets a name made of party and asset, and is what one export gives; its summary is printed", async () => {
    const expected = await undisturbed();
    const ending = await runToEnd(argsOf(service.url), { cwd });
    const name = `ledger-${subject.party}-${subject.asset}.csv`;
    expectComplete(ending, name, expected);
    const effects = expected.toString().split("\r\n").slice(1, -1);
    const sum = effects.reduce((total, row) => total + BigInt(row.split(",")[2] ?? ""), 0n);
    expect(effects.length).toBeGreaterThan(10_000);
    expect(String(ending.out)).toBe(
      `${name}: ${effects.length} rows, sum of effects ${sum}, up to block ${firstBlocks}\nSHA-256 ${sha256(expected)}\n`,
    );
    // A slow machine is told every ten seconds how far it is.
    expect(ending.error).toMatch(/^(exporting: .*\n)*$/);
  });

  it.each<[name: string, args: (middleNs: bigint) => string[], query: (middleNs: bigint) => string]>([
    ["until a time", (ns) => ["--end", String(ns)], (ns) => `&dateRange.endTimestamp=${ns}`],
    ["from a time", (ns) => ["--start", instantOf(ns)], (ns) => `&dateRange.startTimestamp=${ns}`],
    [
      "of no time",
      (ns) => ["--start", String(ns), "--end", String(ns)],
      (ns) => `&dateRange.startTimestamp=${ns}&dateRange.endTimestamp=${ns}`,
    ],
    ["of the future", () => ["--start", "2100-01-01"], () => "&dateRange.startTimestamp=4102444800000000000"],
  ])("holds entries %s", async (_, args, query) => {
    const all = (await undisturbed()).toString().split("\r\n");
    const [time = ""] = (all[Math.floor(all.length / 2)] ?? "").split(",");
    const middleNs = BigInt(Date.parse(`${time.slice(0, 19)}Z`)) * 1_000_000n + BigInt(time.slice(20, 29));
    const expected = await undisturbed(subject, query(middleNs));
    const ending = await runToEnd([...argsOf(service.url), "--out", "some.csv", ...args(middleNs)], { cwd });
    expectComplete(ending, "some.csv", expected);
  });

  it("holds blocks that are a nanosecond apart", async () => {
    const url = newDatabaseUrl().url;
    const file = join(folder, "small");
    writeFileSync(file, smallNetwork().bytes());
    await runMarketd("load", "--database-url", url, file);
    const small = new ServiceProcess(url, await freePort());
    await small.start();
    try {
      for (const party of ["alice", "bob", "nobody"]) {
        const args = argsOf(small.url, { party, asset: "usd" });
        const ending = await runToEnd([...args, "--out", `${party}.csv`], { cwd });
        expect(ending.code).toBe(0);
        const expected = await undisturbed({ party, asset: "usd" }, "", small.url);
        expect(readFileSync(join(cwd, `${party}.csv`), "utf8")).toBe(String(expected));
        expect(rowsOf(expected) > 1).toBe(party !== "nobody");
      }
      expect(blockIntervalNs + firstBlockNs).toBe(firstBlockNs + 1n);
    } finally {
      await small.kill();
    }
  });

  it("begins where entries are kept, or says from where on they are", async () => {
    const url = newDatabaseUrl().url;
    await load(url, recording.slice(0, 70));
    await runMarketd("retain", "--database-url", url, "--keep", "1m");
    const retained = new ServiceProcess(url, await freePort());
    await retained.start();
    try {
      const args = [...argsOf(retained.url), "--out", "kept.csv"];
      const refused = await runToEnd(args, { cwd });
      expect([refused.code, readdirSync(cwd)]).toEqual([1, []]);
      const [, start = ""] = /begin at its time, ([0-9]+), or later\n$/.exec(refused.error) ?? [];
      const expected = await undisturbed(subject, `&dateRange.startTimestamp=${start}`, retained.url);
      expect(rowsOf(expected)).toBeGreaterThan(1_000);
      expectComplete(await runToEnd([...args, "--start", start], { cwd }), "kept.csv", expected);
    } finally {
      await retained.kill();
    }
  });

  it("writes the file that a link names, and replaces nothing that is not a file", async () => {
    const expected = await undisturbed();
    writeFileSync(join(cwd, "target.csv"), "old");
    symlinkSync("target.csv", join(cwd, "link.csv"));
    expect(await runToEnd([...argsOf(service.url), "--out", "link.csv"], { cwd })).toMatchObject({ code: 0 });
    expect(readFileSync(join(cwd, "target.csv")).equals(expected)).toBe(true);
    expect(lstatSync(join(cwd, "link.csv")).isSymbolicLink()).toBe(true);
    execFileSync("mkfifo", [join(cwd, "pipe")]);
    for (const path of ["pipe", "/dev/null", "."]) {
      const refused = await runToEnd([...argsOf(service.url), "--out", path], { cwd });
      expect(refused).toMatchObject({ code: 1, error: expect.stringContaining(`${path} is not a file`) });
    }
    expect(lstatSync("/dev/null").isCharacterDevice() && lstatSync(join(cwd, "pipe")).isFIFO()).toBe(true);
  });

  it("says in one line that standard output cannot be written", async () => {
    const full = openSync("/dev/full", "w");
    const args = [marketdProgram, ...argsOf(service.url), "--out", "-"];
    const child = spawn(process.execPath, args, { cwd, stdio: ["ignore", full, "pipe"] });
    let error = "";
    child.stderr?.on("data", (text) => {
      error += String(text);
    });
    const [code] = await once(child, "close");
    closeSync(full);
    expect([code, error]).toEqual([1, expect.stringMatching(/^marketd: cannot write standard output: .*\n$/)]);
  });

  it("has no name of the server's, and replaces another file only with --force", async () => {
    writeFileSync(join(cwd, "Makefile"), "all:\n");
    const proxy = await proxyBefore(
      (headers) => ({ ...headers, "content-disposition": 'attachment; filename="Makefile"' }),
      (chunk) => chunk,
    );
    try {
      const args = argsOf(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
      const name = `ledger-${subject.party}-${subject.asset}.csv`;
      expect((await runToEnd(args, { cwd })).code).toBe(0);
      expect([readFileSync(join(cwd, "Makefile"), "utf8"), readdirSync(cwd)]).toEqual(["all:\n", ["Makefile", name]]);
      writeFileSync(join(cwd, name), "edited");
      const refused = await runToEnd(args, { cwd });
      expect(refused.error).toBe(`marketd: ${name} exists; replace it with --force, or name another file with --out\n`);
      expect([refused.code, readFileSync(join(cwd, name), "utf8"), readdirSync(cwd).length]).toEqual([1, "edited", 2]);
      expect((await runToEnd([...args, "--force"], { cwd })).code).toBe(0);
      expect(sha256(readFileSync(join(cwd, name)))).toBe(sha256(await undisturbed()));
    } finally {
      proxy.close();
      await once(proxy, "close");
    }
  });

  it.each<[party: string, asset: string, name: RegExp]>([
    ["8b3a", "usd", /^ledger-8b3a-usd\.csv$/],
    ["../../etc", "a/b", /^ledger-\.\._\.\._etc-a_b-[0-9a-f]{8}\.csv$/],
    [".. ..", "a_b", /^ledger-\.\._\.\.-a_b-[0-9a-f]{8}\.csv$/],
    ["p".repeat(128), "~".repeat(128), /^ledger-p{90}-_{90}-[0-9a-f]{8}\.csv$/],
  ])("of party %s and asset %s is in this folder", (partyId, assetId, name) => {
    expect(ledgerFileName({ partyId, assetId })).toMatch(name);
    expect(`${ledgerFileName({ partyId, assetId })}.part.json.new`.length).toBeLessThan(255);
  });

  it("replaces the file that was there, and not before it is complete", async () => {
    writeFileSync(join(cwd, "old.csv"), "old");
    const command = await halfDone("old.csv");
    expect(readFileSync(join(cwd, "old.csv"), "utf8")).toBe("old");
    balancer.leadTo(port);
    balancer.speak();
    expectComplete(await command.ending, "old.csv", await undisturbed());
  });
});

describe("what breaks", () => {
  it("a connection, again and again", async () => {
    const expected = await undisturbed();
    const command = await started("cut.csv");
    let ended = false;
    void command.ending.then(() => {
      ended = true;
    });
    for (let cutAfterMs = 15; !ended; cutAfterMs *= 1.3) {
      await sleep(cutAfterMs);
      balancer.leadTo(port);
    }
    const ending = await command.ending;
    // A slow machine has time for lines of progress.
    expect(ending.error).toMatch(/^(exporting: .*\n)*(marketd: .*; trying again\n(exporting: .*\n)*)+$/);
    expectComplete(ending, "cut.csv", expected);
  });

  it("the server, which starts again", async () => {
    const command = await halfDone("restart.csv");
    await service.kill();
    balancer.leadTo(port);
    balancer.speak();
    await vi.waitFor(() => expect(command.error()).toContain("trying again"), poll);
    await service.start();
    expectComplete(await command.ending, "restart.csv", await undisturbed());
  });

  it("the command, killed: the same command goes on, with what the network did meanwhile", async () => {
    const killed = await halfDone("killed.csv");
    killed.child.kill("SIGKILL");
    await killed.ending;
    expect(existsSync(join(cwd, "killed.csv"))).toBe(false);
    const before = await undisturbed();
    await load(databaseUrl, recording);
    await vi.waitFor(async () => expect((await undisturbed()).length).toBeGreaterThan(before.length), poll);
    const ending = await runToEnd([...argsOf(service.url), "--out", "killed.csv"], { cwd });
    const [, rows] = /^marketd: going on after ([0-9]+) rows of killed\.csv\.part\n$/.exec(ending.error) ?? [];
    expect(Number(rows)).toBeGreaterThan(0);
    expect(Number(rows)).toBeLessThan(rowsOf(before));
    expectComplete(ending, "killed.csv", await undisturbed());
    expect(String(ending.out)).toContain(`up to block ${allBlocks}\n`);
  });

  it("the command, interrupted: it says that it can go on", async () => {
    const { child, ending } = await halfDone("interrupted.csv");
    child.kill("SIGINT");
    expect(await ending).toMatchObject({
      code: 130,
      error: expect.stringMatching(/marketd: interrupted; the same command continues from here\n$/),
    });
  });

  it("the part, changed by someone else: it starts again", async () => {
    const killed = await halfDone("changed.csv");
    killed.child.kill("SIGKILL");
    await killed.ending;
    const part = readFileSync(partOf("changed.csv"));
    part[500] = (part[500] ?? 0) ^ 1;
    writeFileSync(partOf("changed.csv"), part);
    const ending = await runToEnd([...argsOf(service.url), "--out", "changed.csv"], { cwd });
    expect(ending.error).toBe("marketd: changed.csv.part is not as it was left: starting again\n");
    expectComplete(ending, "changed.csv", await undisturbed());
  });

  it("a part of another export does not count", async () => {
    const killed = await halfDone("other.csv");
    killed.child.kill("SIGKILL");
    await killed.ending;
    const end = ["--end", "2100-01-01"];
    const ending = await runToEnd([...argsOf(service.url), "--out", "other.csv", ...end], { cwd });
    expect(ending.error).toBe("");
    expectComplete(ending, "other.csv", await undisturbed());
  });

  it("the ledger, replaced by another one: it starts again", async () => {
    const killed = await halfDone("replaced.csv");
    killed.child.kill("SIGKILL");
    await killed.ending;
    const url = newDatabaseUrl().url;
    await load(url, [...simulate({ ...network, entriesPerBlock: 300, blocks: firstBlocks })]);
    const other = new ServiceProcess(url, await freePort());
    await other.start();
    try {
      const ending = await runToEnd([...argsOf(other.url), "--out", "replaced.csv"], { cwd });
      expect(ending.error).toMatch(
        /^marketd: going on after .*\nmarketd: the server has another ledger than before: starting again\n$/,
      );
      expectComplete(ending, "replaced.csv", await undisturbed(subject, "", other.url));
    } finally {
      await other.kill();
    }
  });

  it("the ledger, replaced by another one between two slices, without an error: it starts again", async () => {
    const url = newDatabaseUrl().url;
    await load(url, [...simulate({ ...network, entriesPerBlock: 300, blocks: firstBlocks })]);
    const otherPort = await freePort();
    const other = new ServiceProcess(url, otherPort);
    await other.start();
    try {
      const command = startMarketd([...throughBalancer(), "--out", "swapped.csv"], { cwd });
      await vi.waitFor(() => expect(existsSync(`${partOf("swapped.csv")}.json`)).toBe(true), poll);
      balancer.leadNewTo(otherPort);
      const ending = await command.ending;
      expect(ending.error).toBe("marketd: the server has another ledger than before: starting again\n");
      expectComplete(ending, "swapped.csv", await undisturbed(subject, "", other.url));
    } finally {
      await other.kill();
    }
  });

  it("one of two servers, which is behind the other: its slices count only where they are complete", async () => {
    const url = newDatabaseUrl().url;
    await load(url, recording.slice(0, firstBlocks - 20));
    const behindPort = await freePort();
    const behind = new ServiceProcess(url, behindPort);
    await behind.start();
    balancer.leadTo(behindPort, port);
    try {
      const exact = [await undisturbed(), await undisturbed(subject, "", behind.url)].map((csv) => sha256(csv));
      expect(new Set(exact).size).toBe(2);
      for (let n = 0; n < tries(8); n++) {
        const ending = await runToEnd([...throughBalancer(), "--out", "both.csv"], { cwd });
        expect(ending.code, ending.error).toBe(0);
        expect(exact).toContain(sha256(readFileSync(join(cwd, "both.csv"))));
      }
    } finally {
      await behind.kill();
    }
  });

  it.each([0, 300])("the first connection breaks after %i bytes of the server: it is opened again", async (bytes) => {
    const expected = await undisturbed();
    balancer.breakNext(bytes, bytes);
    const ending = await runToEnd([...throughBalancer(), "--out", "first.csv"], { cwd });
    expect(ending.error).toMatch(/^(marketd: .*; trying again\n){2}$/);
    expectComplete(ending, "first.csv", expected);
  });

  it("a server that never comes back: the part stays", async () => {
    const server = `http://127.0.0.1:${balancer.port}`;
    const args = ["export", "--server", server, "--party", subject.party, "--asset", subject.asset];
    const command = startMarketd([...args, "--out", "away.csv", "--give-up-ms", "3000"], { cwd });
    await vi.waitFor(() => expect(existsSync(`${partOf("away.csv")}.json`)).toBe(true), poll);
    balancer.leadTo(await freePort());
    const ending = await command.ending;
    expect(ending.code).toBe(3);
    expect(ending.error).toMatch(/^(marketd: .*; trying again\n)+marketd: http:\S+: .*\n$/);
    expect(readdirSync(cwd).sort()).toEqual(["away.csv.part", "away.csv.part.json"]);
  });

  it("what arrives, changed on its way: nothing appears under the file's name", async () => {
    const proxy = await falsifyingProxy();
    try {
      const { port } = proxy.address() as AddressInfo;
      const ending = await runToEnd([...argsOf(`http://127.0.0.1:${port}`), "--out", "false.csv"], { cwd });
      expect(ending.code).toBe(4);
      expect(ending.error).toMatch(
        /marketd: not verified: the export arrived not as sent: SHA-256 .*, 3 times in a row\n$/,
      );
      expect(existsSync(join(cwd, "false.csv"))).toBe(false);
    } finally {
      proxy.close();
      await once(proxy, "close");
    }
  });
});

/** Changes an account type in every row that comes through, whose length stays the same. */
function falsifyingProxy(): Promise<Server> {
  return proxyBefore(
    (headers) => headers,
    (chunk) => Buffer.from(chunk.toString("latin1").replaceAll(",MARGIN,", ",GENRAL,"), "latin1"),
  );
}

/** A proxy before the service that changes what comes back. */
async function proxyBefore(
  changeHeaders: (headers: IncomingHttpHeaders) => IncomingHttpHeaders,
  changeBody: (chunk: Buffer) => Buffer,
): Promise<Server> {
  const server = createServer((incoming, outgoing) => {
    const { "connect-accept-encoding": _, ...headers } = incoming.headers;
    const { method = "POST", url: path = "/" } = incoming;
    const forwarded = request({ port, method, path, headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, changeHeaders(response.headers));
      response.on("data", (chunk: Buffer) => outgoing.write(changeBody(chunk)));
      response.on("end", () => outgoing.end());
    });
    incoming.pipe(forwarded);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

describe("standard output", () => {
  it("gets the same bytes, through broken connections too, and standard error the summary", async () => {
    const expected = await undisturbed();
    const command = await started("-");
    balancer.leadTo(port);
    const { code, out, error } = await command.ending;
    expect(code).toBe(0);
    expect(sha256(out)).toBe(sha256(expected));
    expect(error).toContain(`marketd: standard output: ${rowsOf(expected)} rows, sum of effects `);
    expect(error).toMatch(new RegExp(`^marketd: SHA-256 ${sha256(expected)}$`, "m"));
    expect(readdirSync(cwd)).toEqual([]);
  });

  it("ends when nobody reads it any more", async () => {
    const args = [marketdProgram, ...argsOf(service.url), "--out", "-"].map((word) => `"${word}"`).join(" ");
    const script = `"${process.execPath}" ${args} | head -c 1000 | wc -c; echo "\${PIPESTATUS[0]}"`;
    const printed = await new Promise<string>((resolve) => {
      execFile("bash", ["-c", script], (_, stdout) => resolve(stdout));
    });
    expect(printed).toMatch(/^ *1000\n1\n$/);
  });
});

function instantOf(ns: bigint): string {
  const seconds = new Date(Number(ns / 1_000_000n)).toISOString().slice(0, 19);
  return `${seconds}.${String(ns % 1_000_000_000n).padStart(9, "0")}Z`;
}

it.each<[name: string, args: () => string[], code: number, error: RegExp]>([
  ["no party", () => ["--asset", "usd"], 2, /^marketd: required option '--party <id>' not specified\n/],
  [
    "a time that is none",
    () => ["--party", "p", "--asset", "a", "--start", "noon"],
    2,
    /It looks like 2023-01-18, 2023-/,
  ],
  [
    "a time beyond the range",
    () => ["--party", "p", "--asset", "a", "--start", "9999-12-31T23:59:59Z"],
    2,
    /It is from 1970-01-01 up to 2262-04-11T23:47:16\.854775807Z\./,
  ],
  [
    "a start after the end",
    () => ["--party", "p", "--asset", "a", "--start", "2024-01-02", "--end", "2024-01-01"],
    2,
    /^marketd: --start is after --end\n$/,
  ],
  ["a party that is none", () => ["--party", "\u0007", "--asset", "a"], 1, /^marketd: http:\S+: party_?[iI]d: .*\n$/],
  ["no server", () => ["--party", "p", "--asset", "a", "--server", "http://127.0.0.1:1"], 3, /connect ECONNREFUSED/],
  [
    "no right to write",
    () => ["--party", "p", "--asset", "a", "--out", join("none", "a.csv")],
    1,
    /^marketd: cannot write none\/a\.csv\.part: ENOENT: .*\n$/,
  ],
])("%s ends with its exit code", async (_, args, code, error) => {
  const given = args();
  const server = given.includes("--server") ? [] : ["--server", service.url];
  const ending = await runToEnd(["export", ...given, ...server], { cwd });
  expect(ending.error).toMatch(error);
  expect(ending.code).toBe(code);
});
