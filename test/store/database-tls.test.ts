import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { findServerPrograms, type ServerPrograms } from "../../src/embedded/server-programs.js";
import { parseDatabaseUrl } from "../../src/store/connection/database-url.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { copyMadeDatabase } from "../support/database.js";
import { serverOptions } from "../support/database-server.js";
import { freePort } from "../support/free-port.js";
import { partnerProgram } from "../support/partners.js";

describe("what a URL says of TLS", () => {
  const parse = (parameters: string, host = "db") => parseDatabaseUrl(`mysql://root@${host}/m${parameters}`).tls;

  test("is nothing, or how far to check", () => {
    expect(parse("")).toBeUndefined();
    expect(parse("?ssl-mode=disabled")).toBeUndefined();
    expect(parse("?ssl-mode=required")).toEqual({
      authorities: undefined,
      verifiesCertificate: false,
      verifiesName: false,
    });
    expect(parse("?ssl-mode=verify-ca")).toMatchObject({ verifiesCertificate: true, verifiesName: false });
    expect(parse("?ssl-mode=verify-identity")).toMatchObject({ verifiesCertificate: true, verifiesName: true });
  });

  test.each([
    ["?ssl-mode=prefered", "ssl-mode=prefered; it takes disabled, required, verify-ca, verify-identity"],
    ["?ssl-mode=toString", "ssl-mode=toString; it takes disabled, required, verify-ca, verify-identity"],
    ["?sslmode=required", 'the parameter "sslmode"; it takes socket, ssl-mode, ssl-ca'],
    ["?ssl-ca=/a", "ssl-ca, which ssl-mode=disabled does not use; take verify-ca or verify-identity"],
    ["?ssl-mode=required&ssl-ca=/a", "ssl-ca, which ssl-mode=required does not use; take verify-ca or verify-identity"],
    ["?ssl-mode=verify-ca&ssl-ca=/no/file", "ssl-ca=/no/file, which cannot be read (ENOENT)"],
    ["?ssl-mode=required&socket=/s", "socket and ssl-mode; a socket needs no TLS, leave it out"],
  ])("is refused by name: %s", (parameters, message) => {
    expect(() => parse(parameters)).toThrow(`the database URL has ${message}`);
  });

  test.each(["127.0.0.1", "[::1]"])("is refused where a name cannot be checked: %s", (host) => {
    const message = `the database URL has ssl-mode=verify-identity, which needs the name of a host, not its address ${host}`;
    expect(() => parse("?ssl-mode=verify-identity", host)).toThrow(message);
  });
});

const openssl = partnerProgram("openssl");

describe.skipIf(openssl === undefined)("a server that takes TLS only", () => {
  let folder: string;
  let server: ChildProcess;
  let port: number;
  let programs: ServerPrograms;
  const databases: Database[] = [];

  /** A certificate of `name`, signed by itself or by an authority of this folder. */
  function certify(name: string, authority?: string): void {
    const key = ["-newkey", "rsa:2048", "-nodes", "-keyout", `${name}.key`];
    const names = ["-days", "2", "-subj", `/CN=${name}`, "-addext", `subjectAltName=DNS:${name}`];
    const signed = authority === undefined ? [] : ["-CA", `${authority}.pem`, "-CAkey", `${authority}.key`];
    const args = ["req", "-x509", ...key, ...names, ...signed, "-out", `${name}.pem`];
    execFileSync(openssl ?? "", args, { cwd: folder, stdio: "ignore" });
  }

  function url(parameters: string, host = "localhost"): string {
    return `mysql://root@${host}:${port}/secured${parameters}`;
  }

  /** What a connection says of itself, or why there is none. */
  async function cipher(parameters: string, host?: string): Promise<string> {
    const database = openDatabase(url(parameters, host));
    databases.push(database);
    const [row] = await database.query<{ Value: string }>("SHOW STATUS LIKE 'Ssl_cipher'");
    return row?.Value ?? "";
  }

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "marketd-tls-"));
    for (const authority of ["authority", "stranger"]) certify(authority);
    certify("localhost", "authority");
    const found = await findServerPrograms();
    if (found === undefined) throw new Error("there is no database server to start");
    programs = found;
    const data = join(folder, "data");
    const common = ["--no-defaults", `--datadir=${data}`, ...(process.getuid?.() === 0 ? ["--user=root"] : [])];
    copyMadeDatabase(data);
    port = await freePort();
    const files = ["ca=authority.pem", "cert=localhost.pem", "key=localhost.key"];
    const tls = files.map((file) => `--ssl-${file.replace("=", `=${folder}/`)}`);
    const listen = ["--bind-address=127.0.0.1", `--port=${port}`, `--socket=${join(folder, "s")}`];
    server = spawn(
      programs.server,
      [...common, ...serverOptions[programs.kind], ...listen, ...tls, "--require-secure-transport=ON"],
      {
        stdio: "ignore",
      },
    );
    const listening = () => cipher("?ssl-mode=required").catch((error) => error.code !== "unavailable");
    await vi.waitUntil(listening, { timeout: 20_000 });
    await migrate(url("?ssl-mode=required"), createLog("silent"), []);
  });

  afterAll(async () => {
    for (const database of databases) await database.close().catch(() => {});
    const ended = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGKILL");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  });

  test("is spoken to, unchecked or checked", async () => {
    expect(await cipher("?ssl-mode=required")).toMatch(/^TLS_/);
    expect(await cipher(`?ssl-mode=verify-ca&ssl-ca=${folder}/authority.pem`, "127.0.0.1")).toMatch(/^TLS_/);
    expect(await cipher(`?ssl-mode=verify-identity&ssl-ca=${folder}/authority.pem`)).toMatch(/^TLS_/);
  });

  test("is refused where its certificate has the wrong issuer", async () => {
    await expect(cipher("?ssl-mode=verify-ca")).rejects.toMatchObject({ code: "unavailable" });
    await expect(cipher(`?ssl-mode=verify-ca&ssl-ca=${folder}/stranger.pem`)).rejects.toMatchObject({
      code: "unavailable",
      cause: { message: expect.stringMatching(/certificate/) },
    });
  });

  test("says what to do to who speaks plainly", async () => {
    // MariaDB 10 does not tell it from a wrong password.
    const told = /^10\./.test(programs.version)
      ? `the database server of secured at localhost:${port} refuses user root`
      : "the database takes connections with TLS only: add ?ssl-mode=verify-identity to its URL (docs/operations.md)";
    await expect(migrate(url(""), createLog("silent"), [])).rejects.toThrow(told);
  });

  test("is refused where its certificate is made out to another name", async () => {
    certify("elsewhere", "authority");
    for (const kind of ["pem", "key"])
      copyFileSync(join(folder, `elsewhere.${kind}`), join(folder, `localhost.${kind}`));
    const [open] = databases;
    await open?.withConnection((c) => c.run(programs.kind === "mariadb" ? "FLUSH SSL" : "ALTER INSTANCE RELOAD TLS"));
    expect(await cipher(`?ssl-mode=verify-ca&ssl-ca=${folder}/authority.pem`)).toMatch(/^TLS_/);
    await expect(cipher(`?ssl-mode=verify-identity&ssl-ca=${folder}/authority.pem`)).rejects.toMatchObject({
      code: "unavailable",
      cause: { message: expect.stringMatching(/altnames/) },
    });
  });
});
