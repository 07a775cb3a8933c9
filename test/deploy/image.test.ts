import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type Command, run } from "../clients/languages.js";
import { DatabaseProxy } from "../e2e/database-proxy.js";
import { processesOf } from "../embedded/processes.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { isOffline } from "../support/partners.js";

/*
 * The Dockerfile, built by Buildah and run. Without a registry the base image is made here: a clean Debian from Debian's
 * own mirror, with this machine's Node, npm and certificates in it. The package is tried in that Debian, too.
 */

const root = fileURLToPath(new URL("../../", import.meta.url));
const buildMaxMs = 600_000;
const startMaxMs = 20_000;
const installMaxMs = 240_000;
const certificates = "/etc/ssl/certs/ca-certificates.crt";

/** What `buildah inspect` tells of an image. */
interface ImageConfig {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly Healthcheck: { readonly Test: readonly string[] };
}

/**
 * Runs `$3…` as the user `$2` in the root `$1`, of which nothing but /tmp can be written: mounts and processes are its own
 * and end with it.
 */
const confined = `
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount -t tmpfs tmpfs "$1/tmp"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
place=$1 user=$2; shift 2
exec chroot --userspec="$user" "$place" "$@"`;

/** Why there is no image here; it takes minutes and a gigabyte, so it is made where that is asked for. */
function reasonToSkip(): string | undefined {
  if (process.env["MARKETD_TEST_IMAGE"] !== "true") return "MARKETD_TEST_IMAGE is not true";
  if (process.getuid?.() !== 0) return "only root can make a Debian of its own";
  const missing = ["buildah", "debootstrap"].find((name) => spawnSync(name, ["--version"]).status !== 0);
  return missing === undefined ? undefined : `${missing} is not on this machine`;
}

const reason = reasonToSkip();
if (reason !== undefined) process.stderr.write(`skipped: the image, built from its Dockerfile (${reason})\n`);

describe.skipIf(reason !== undefined)("the image", () => {
  let folder = "";
  let mounted = "";
  let config: ImageConfig;
  let unreachable = false;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "marketd-image-"));
    try {
      await build();
    } catch (error) {
      // debootstrap says it on standard output.
      const { stdout } = error as { stdout?: string };
      unreachable = isOffline(error) || /Failed getting release file/.test(stdout ?? "");
      if (!unreachable) throw error;
      process.stderr.write("skipped: the image (Debian's mirror or npm's registry cannot be reached)\n");
    }
  }, buildMaxMs);

  beforeEach((context) => context.skip(unreachable, "Debian's mirror or npm's registry cannot be reached"));

  async function build(): Promise<void> {
    await makeBase(join(folder, "base"));
    await image([
      "build",
      "--isolation=chroot",
      "--format=docker",
      "--build-arg=BASE_IMAGE=localhost/base",
      "-t",
      "marketd",
      root,
    ]);
    const container = (await image(["from", "localhost/marketd"])).trim();
    mounted = (await image(["mount", container])).trim();
    const inspected = JSON.parse(await image(["inspect", "--type=image", "localhost/marketd"]));
    config = inspected.Docker.config as ImageConfig;
  }

  afterAll(async () => {
    await image(["umount", "--all"]).catch(() => {});
    rmSync(folder, { recursive: true, force: true });
  }, buildMaxMs);

  /** Buildah with a storage of its own. */
  function image(args: readonly string[]): Promise<string> {
    return run(["buildah", ...storage(), ...args], folder);
  }

  function storage(): string[] {
    return [`--root=${join(folder, "storage")}`, `--runroot=${join(folder, "run")}`];
  }

  async function makeBase(base: string): Promise<void> {
    const [, release = ""] = /^VERSION_CODENAME=(.*)$/m.exec(readFileSync("/etc/os-release", "utf8")) ?? [];
    await run(["debootstrap", "--variant=minbase", "--include=ca-certificates,libstdc++6", release, base], folder);
    const npm = dirname(dirname(realpathSync((await run(["sh", "-c", "command -v npm"], folder)).trim())));
    cpSync(process.execPath, join(base, "usr/local/bin/node"));
    cpSync(npm, join(base, "usr/local/lib/npm"), { recursive: true });
    symlinkSync("../lib/npm/bin/npm-cli.js", join(base, "usr/local/bin/npm"));
    if (existsSync(certificates)) cpSync(certificates, join(base, certificates));
    await run(["tar", "-C", base, "-cf", join(folder, "base.tar"), "."], folder);
    rmSync(base, { recursive: true });
    const container = (await image(["from", "scratch"])).trim();
    await image(["add", container, join(folder, "base.tar"), "/"]);
    await image(["config", `--env=NODE_EXTRA_CA_CERTS=${certificates}`, container]);
    await image(["commit", "--rm", container, "localhost/base"]);
  }

  /** A command as a container of the image would run it, read-only and on this machine's network. */
  function contained(command: readonly string[], environment: readonly string[] = []): Command {
    const words = ["env", "-i", ...config.Env, ...environment, ...command];
    return [
      "unshare",
      "--mount",
      "--pid",
      "--fork",
      "--kill-child",
      "sh",
      "-ec",
      confined,
      "sh",
      mounted,
      config.User,
      ...words,
    ];
  }

  test("runs as a user without rights, and can write to /tmp alone", async () => {
    expect(await run(contained(["id", "-u"]), folder)).toBe("1000\n");
    await expect(run(contained(["touch", "/opt/marketd/file"]), folder)).rejects.toThrow("Read-only file system");
    expect(await run(contained(["touch", "/tmp/file"]), folder)).toBe("");
  });

  test("holds the package, and neither sources nor what built it", async () => {
    expect(await run(contained(["marketd", "--version"]), folder)).toMatch(/^[0-9]+\.[0-9]+\.[0-9]+\n$/);
    for (const path of ["build", "opt/marketd/lib/node_modules/marketd/src", "root/.npm"]) {
      expect(existsSync(join(mounted, path)), path).toBe(false);
    }
  });

  test("serves, tells its health, and ends when it is asked to", async () => {
    const { url } = newDatabaseUrl();
    const database = await DatabaseProxy.before(url);
    const [port, adminPort] = [await freePort(), await freePort()];
    const own = [`MARKETD_LISTEN=127.0.0.1:${port}`, `MARKETD_ADMIN_LISTEN=127.0.0.1:${adminPort}`];
    const environment = [`MARKETD_DATABASE_URL=${database.url}`, ...own];
    const [program, ...args] = contained([...config.Entrypoint, ...config.Cmd], environment);
    const [, ...healthCheck] = config.Healthcheck.Test.map((word) => word.replace(":9090/", `:${adminPort}/`));
    await expect(run(contained(healthCheck), folder)).rejects.toThrow();
    const service = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
    try {
      await run(contained([...config.Entrypoint, "migrate"], environment), folder);
      await vi.waitFor(
        async () => expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200),
        startMaxMs,
      );
      expect(await run(contained(healthCheck), folder)).toBe("");
      expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toContain("explorer/explorer.js");
      expect((await fetch(`http://127.0.0.1:${port}/metrics`)).status).toBe(404);
      expect(await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()).toContain("\nmarketd_workers ");
    } finally {
      expect(await stop(service)).toBe(0);
      await database.close();
    }
  });

  test(
    "its package installs a database server where there is none, says so, and runs the demo",
    async () => {
      const container = (await image(["from", "localhost/base"])).trim();
      await image(["copy", "--from=localhost/marketd", container, "/opt/marketd", "/opt/marketd"]);
      const port = await freePort();
      const dataFolder = `/srv/demo-${port}`;
      // The end of the input ends the demo.
      const script = `mkdir ${dataFolder}; cd ${dataFolder}; marketd demo --listen 127.0.0.1:${port} & cat; kill -TERM $!; wait $!`;
      const args = [
        "run",
        "--isolation=chroot",
        "--env=PATH=/opt/marketd/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      ];
      const demo = spawn("buildah", [...storage(), ...args, container, "--", "sh", "-c", script]);
      let printed = "";
      for (const stream of [demo.stdout, demo.stderr]) {
        stream.on("data", (text) => {
          printed += String(text);
        });
      }
      const closed = once(demo, "close");
      try {
        await vi.waitFor(() => expect(printed).toContain("marketd serves a simulated network"), installMaxMs);
        expect(printed).toContain("installing mariadb-server-core and mariadb-client-core with apt");
        const data = (await (await fetch(`http://127.0.0.1:${port}/markets/data`)).json()) as {
          marketsData: unknown[];
        };
        expect(data.marketsData).toHaveLength(12);
      } finally {
        demo.stdin.end();
        await closed;
      }
      expect(demo.exitCode).toBe(0);
      await vi.waitFor(() => expect(processesOf(dataFolder, "any")).toEqual([]), startMaxMs);
    },
    buildMaxMs,
  );

  /** SIGTERM, and how the service then ends. */
  async function stop(service: ChildProcess): Promise<number | null> {
    if (service.exitCode !== null) return service.exitCode;
    // unshare itself takes no signals; the service is its child.
    const child = readFileSync(`/proc/${service.pid}/task/${service.pid}/children`, "utf8").trim();
    process.kill(Number(child), "SIGTERM");
    await once(service, "close");
    return service.exitCode;
  }
});
