import { once } from "node:events";
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDatabase } from "../../src/store/database.js";
import { findingsListedMax } from "../../src/verify/findings.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { RecordingBuilder } from "../support/recording.js";
import { ending, notThere, run, runMaxMs, start } from "./command-runs.js";
import { smallNetwork } from "./small-network.js";

/* Commands and a database: what they do to it, what they say, and with which exit code they end. */

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
