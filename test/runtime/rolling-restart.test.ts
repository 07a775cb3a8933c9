import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { openDatabase } from "../../src/store/database.js";
import { statusOf, WorkersProcess } from "../e2e/workers-process.js";
import { until } from "../embedded/processes.js";
import { MarketFixture } from "../live/market-fixture.js";
import { startRollingClients } from "../support/rolling-clients.js";
import { thorough } from "../support/tries.js";
import { InstalledProgram, named } from "./installed-program.js";

/* SIGHUP: real processes are replaced by those of another build, under real clients. */

const rollMaxMs = 25_000;
const openings: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

interface Installed {
  readonly service: WorkersProcess;
  readonly installed: InstalledProgram;
  readonly url: string;
  readonly fixture: MarketFixture;
}

function serve(workers: number, ...more: string[]): Promise<Installed> {
  return serveOn((url) => ["--database-url", url], workers, ...more);
}

async function serveOn(database: (url: string) => string[], workers: number, ...more: string[]): Promise<Installed> {
  const fixture = await MarketFixture.create();
  openings.push(() => fixture.drop());
  await fixture.add({ announce: ["a"], levels: [{ marketId: "a", side: 1, price: "7", volume: 3n }] });
  const installed = await InstalledProgram.of();
  openings.push(() => installed.remove());
  const args = [...database(fixture.url), "--listen", "127.0.0.1:0", "--workers", String(workers), ...more];
  const service = new WorkersProcess([...args, "--drain-ms", "3000"], {}, { program: installed.program });
  openings.push(() => service.destroy());
  const url = await service.url();
  if (url.startsWith("http:")) await service.ready();
  return { service, installed, url, fixture };
}

function hangUp(service: WorkersProcess): void {
  process.kill(service.pid, "SIGHUP");
}

async function rolled(service: WorkersProcess, times = 1): Promise<void> {
  const done = () => service.printed.split("all workers were replaced").length - 1;
  await until("all workers were replaced", rollMaxMs, () => done() >= times);
}

/** What each of some new connections is told by `/healthz`. */
async function names(url: string): Promise<string[]> {
  const told = new Set<string>();
  for (let n = 0; n < 8; n++) {
    const response = await fetch(`${url}/healthz`, { headers: { connection: "close" } });
    told.add(((await response.json()) as { status: string }).status);
  }
  return [...told].sort();
}

describe.each(thorough ? [1, 2] : [2])("a rolling restart of %i workers", (workers) => {
  it("brings the new program while every call of every client is answered", async () => {
    const { service, installed, url } = await serve(workers);
    const before = service.workers();
    const clients = startRollingClients(url, "a");
    await delay(500);
    for (const [n, name] of ["second", "third"].entries()) {
      await installed.replaceBuild(named(name));
      hangUp(service);
      await rolled(service, n + 1);
      expect(await names(url)).toEqual([name]);
    }
    await delay(500);
    await Promise.all(clients.map((client) => client.stop()));
    for (const { name, calls, failures } of clients) {
      expect([name, failures]).toEqual([name, []]);
      expect(calls).toBeGreaterThan(50);
    }
    const after = service.workers();
    expect(after).toHaveLength(workers);
    for (const pid of before) expect(after).not.toContain(pid);
    // The primary, whose own build is gone, still replaces the dead, tells metrics, and ends.
    process.kill(after[0] ?? 0, "SIGKILL");
    await until("another worker", 30_000, async () => (await statusOf(`${url}/metrics`)) === 200);
    expect((await service.stop("SIGTERM")).code).toBe(0);
  });
});

/** Replaces a certificate and its key; gives the certificate's own name. */
function makeCertificate(folder: string, name: string): void {
  const openssl = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=${name}`;
  execFileSync("openssl", [...openssl.split(" "), "-keyout", "key", "-out", "certificate"], {
    cwd: folder,
    stdio: "ignore",
  });
}

async function certificateName(url: string): Promise<string> {
  const { port, hostname } = new URL(url);
  const socket = connect({ port: Number(port), host: hostname, rejectUnauthorized: false });
  const name = await new Promise<string>((resolve, reject) => {
    socket.once("secureConnect", () => resolve(String(socket.getPeerCertificate().subject.CN)));
    socket.once("error", reject);
  });
  socket.destroy();
  return name;
}

describe("files", () => {
  it("are read anew; a certificate that is none stops it, and the old worker stays", async () => {
    const folder = mkdtempSync(join(tmpdir(), "marketd-certificate-"));
    openings.push(() => rmSync(folder, { recursive: true, force: true }));
    makeCertificate(folder, "first");
    const files = ["--tls-certificate", join(folder, "certificate"), "--tls-key", join(folder, "key")];
    const { service, url } = await serve(1, ...files);
    expect(await certificateName(url)).toBe("first");
    makeCertificate(folder, "second");
    hangUp(service);
    await rolled(service);
    expect(await certificateName(url)).toBe("second");
    const before = service.workers();
    writeFileSync(join(folder, "certificate"), "none");
    expect(await refusal(service)).toContain("the TLS certificate or key cannot be used");
    expect(await certificateName(url)).toBe("second");
    expect(service.workers()).toEqual(before);
  });
});

describe("the file of the database URL", () => {
  it("is read anew; one that holds no URL stops it, and the line says so", async () => {
    const folder = mkdtempSync(join(tmpdir(), "marketd-url-"));
    openings.push(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, "url");
    const writeUrl = (text: string) => writeFileSync(file, `${text}\n`, { mode: 0o600 });
    const { service, fixture } = await serveOn((url) => {
      writeUrl(url);
      return ["--database-url-file", file];
    }, 1);
    writeUrl("secret, and no URL");
    expect(await refusal(service)).toContain("the database URL is not a URL");
    expect(service.printed).not.toContain("secret");
    writeUrl(fixture.url);
    hangUp(service);
    await rolled(service);
  });
});

/** Asks for a restart that cannot be; gives the one line that says so. */
async function refusal(service: WorkersProcess): Promise<string> {
  const from = service.printed.length;
  hangUp(service);
  const lines = () =>
    service.printed
      .slice(from)
      .split("\n")
      .filter((line) => line.includes("are not replaced"));
  await until("the restart is given up", rollMaxMs, () => lines().length > 0);
  await delay(300);
  expect(lines()).toHaveLength(1);
  expect(service.printed.slice(from)).not.toContain("a worker died");
  return lines()[0] ?? "";
}

describe("a new worker that cannot serve stops the restart, and the old ones stay", () => {
  it("because it crashes, knows other flags, or finds another schema", async () => {
    const { service, installed, url, fixture } = await serve(2);
    const before = service.workers();
    await installed.replaceBuild((text, file) => (file === "worker.js" ? "process.exit(3);\n" : text));
    expect(await refusal(service)).toContain("a worker ended with code 3 before it could serve");
    await installed.replaceBuild((text) => text.replace("drainMs: wholeNumber", "drainForMs: wholeNumber"));
    expect(await refusal(service)).toContain("unknown option '--drain-ms'");
    await installed.replaceBuild((text) => text.replace("order.protocol !== 1", "order.protocol !== 2"));
    expect(await refusal(service)).toContain("stop the command and start it again");
    await installed.replaceBuild((text) => text);
    const database = openDatabase(fixture.url);
    openings.push(() => database.close());
    const run = (sql: string) => database.withConnection((connection) => connection.run(sql));
    await run("INSERT INTO migration VALUES (99, 'later', '', 1, 1)");
    expect(await refusal(service)).toContain("schema version 99");
    expect(service.workers().sort()).toEqual(before.sort());
    for (let n = 0; n < 4; n++) expect(await statusOf(`${url}/api/v2/market/a`)).toBe(200);
    await run("DELETE FROM migration WHERE version = 99");
    hangUp(service);
    await rolled(service);
    expect(await statusOf(`${url}/readyz`)).toBe(200);
  });
});

describe("after a restart that was refused, a worker that dies is replaced by one of what last became ready", () => {
  it("of the build before", async () => {
    const { service, installed, url } = await serve(2);
    await installed.replaceBuild(named("second"), { keep: true });
    hangUp(service);
    await rolled(service);
    await installed.replaceBuild((text, file) => (file === "worker.js" ? "process.exit(3);\n" : text), { keep: true });
    expect(await refusal(service)).toContain("a worker ended with code 3 before it could serve");
    for (let died = 0; died < 2; died++) {
      const before = service.workers();
      process.kill(before[0] ?? 0, "SIGKILL");
      const isNew = () => service.workers().some((pid) => !before.includes(pid));
      await until("another worker", rollMaxMs, () => isNew() && service.workers().length === 2);
      await until("ready", rollMaxMs, async () => (await names(url)).join() === "second");
    }
    await until("the workers serve", rollMaxMs, async () => (await workersServing(url)) === 2);
    // The next build that works is taken.
    await installed.replaceBuild(named("fourth"));
    hangUp(service);
    await rolled(service, 2);
    expect(await names(url)).toEqual(["fourth"]);
  });

  it("with the certificate before", async () => {
    const folder = mkdtempSync(join(tmpdir(), "marketd-certificate-"));
    openings.push(() => rmSync(folder, { recursive: true, force: true }));
    makeCertificate(folder, "first");
    const files = ["--tls-certificate", join(folder, "certificate"), "--tls-key", join(folder, "key")];
    const { service, url } = await serve(1, ...files);
    makeCertificate(folder, "second");
    hangUp(service);
    await rolled(service);
    writeFileSync(join(folder, "certificate"), "none");
    expect(await refusal(service)).toContain("the TLS certificate or key cannot be used");
    const before = service.workers();
    process.kill(before[0] ?? 0, "SIGKILL");
    await until("another worker", rollMaxMs, () => service.workers().some((pid) => !before.includes(pid)));
    await until("it serves", rollMaxMs, async () => (await certificateName(url).catch(() => "")) === "second");
  });
});

/** Workers that take connections. */
async function workersServing(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`, { headers: { connection: "close" } })).text();
  return Number(/^marketd_workers (\d+)$/m.exec(text)?.[1]);
}

describe("while it goes on", () => {
  it("workers that die are replaced once each, whether the new build works or not", async () => {
    const { service, installed, url } = await serve(2);
    // Each of them lives long enough to be killed.
    const slow = (text: string, file: string) =>
      file === "worker.js" ? `await new Promise((done) => setTimeout(done, 1_500));\n${text}` : text;
    for (const change of [slow, (text: string, file: string) => `${slow("", file)}process.exit(3);\n${text}`]) {
      const [first = 0, second = 0] = service.workers();
      await installed.replaceBuild(change, { keep: true });
      const from = service.printed.length;
      hangUp(service);
      await until("one is on trial", rollMaxMs, () => service.workers().length === 3);
      process.kill(first, "SIGKILL");
      process.kill(second, "SIGKILL");
      const isOver = () => /all workers were replaced|are not replaced/.test(service.printed.slice(from));
      await until("the restart is over", rollMaxMs, isOver);
      await until("two serve", rollMaxMs, async () => (await workersServing(url).catch(() => 0)) === 2);
      await delay(2_500);
      expect(service.workers()).toHaveLength(2);
      expect(await workersServing(url)).toBe(2);
    }
  }, 90_000);

  it("a build whose workers die as soon as they serve is started again after pauses that grow", async () => {
    const { service, installed, url } = await serve(1);
    const dying = `process.on("message", ({ kind }) => {
      if (kind === "readiness") setTimeout(() => process.exit(3), 50);
    });\n`;
    await installed.replaceBuild((text, file) => (file === "worker.js" ? dying + text : text), { keep: true });
    hangUp(service);
    const deaths = () => service.printed.split("a worker died").length - 1;
    await until("one died", rollMaxMs, () => deaths() > 0);
    // A second later, and then two and four.
    await delay(5_000);
    expect(deaths()).toBeLessThanOrEqual(4);
    await installed.replaceBuild(named("next"));
    hangUp(service);
    await until("the next one serves", rollMaxMs, async () => (await names(url).catch(() => [])).join() === "next");
  });

  it("another SIGHUP is not lost: in the end all are of the last build", async () => {
    const { service, installed, url } = await serve(2);
    await installed.replaceBuild(named("second"));
    hangUp(service);
    await until("the first new one", rollMaxMs, async () => (await names(url)).includes("second"));
    await installed.replaceBuild(named("third"));
    hangUp(service);
    // The first restart may be over by now, or go on.
    await until("all are of the last build", rollMaxMs, async () => (await names(url)).join() === "third");
    await until("the old ones have ended", rollMaxMs, () => service.workers().length === 2);
    expect(await names(url)).toEqual(["third"]);
  });

  it("workers may be killed, old and new", async () => {
    const { service, installed, url } = await serve(2);
    const [first = 0, second = 0] = service.workers();
    await installed.replaceBuild(named("second"));
    hangUp(service);
    process.kill(second, "SIGKILL");
    await until("a new one", rollMaxMs, () => service.workers().some((pid) => pid !== first && pid !== second));
    for (const pid of service.workers()) if (pid !== first) process.kill(pid, "SIGKILL");
    await until(
      "two that serve",
      rollMaxMs,
      async () => service.workers().length === 2 && (await statusOf(`${url}/readyz`)) === 200,
    );
    hangUp(service);
    await until("only new ones", rollMaxMs, async () => (await names(url).catch(() => [])).join() === "second");
    expect(await statusOf(`${url}/readyz`)).toBe(200);
  });

  it.each([0, 150, 600])("SIGTERM after %i ms ends all of them", async (ms) => {
    const { service } = await serve(2);
    hangUp(service);
    await delay(ms);
    const ending = await service.stop("SIGTERM");
    expect([ending.code, ending.signal]).toEqual([0, null]);
    expect(ending.printed).not.toContain("are not replaced");
    expect(() => process.kill(-service.pid, 0)).toThrow("ESRCH");
  });
});
