import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { embeddedPlaces } from "../../src/embedded/embedded-places.js";
import { openEmbedded } from "../../src/embedded/open-embedded.js";
import { createLog } from "../../src/telemetry/log.js";
import { makeDataDirectory } from "../support/database.js";
import { processesOf } from "./processes.js";

/* What other users of the machine may have put where the private database's own files and sockets are expected. */

const nobody = 65_534;
const asNobody = ["setpriv", `--reuid=${nobody}`, `--regid=${nobody}`, "--clear-groups"];
const hasNobody = process.getuid?.() === 0 && spawnSync("setpriv", ["--version"]).status === 0;
if (!hasNobody) process.stderr.write("skipped: another user in the way of a private database (needs root, setpriv)\n");

let folder: string;
let dataDir: string;
/** A file of ours that somebody else would have us write to. */
let precious: string;
let socketDir: string;
let children: ChildProcess[];

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "marketd-private-")));
  dataDir = join(folder, "data");
  mkdirSync(dataDir, { mode: 0o700 });
  precious = join(folder, "precious");
  writeFileSync(precious, "precious");
  ({ socketDir } = embeddedPlaces(dataDir));
  children = [];
});

afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(socketDir, { recursive: true, force: true });
  rmSync(folder, { recursive: true, force: true });
});

/** Opening is refused with this message; nothing was started, and the precious file is as it was. */
async function expectRefusal(message: string | RegExp): Promise<void> {
  const opening = openEmbedded({ dataDir, log: createLog("silent"), onProgress: () => {} });
  await expect(opening).rejects.toThrow(message);
  await expect(opening).rejects.toMatchObject({ exitCode: 1 });
  expect(readFileSync(precious, "utf8")).toBe("precious");
  expect(processesOf(dataDir, "server")).toEqual([]);
}

/** Someone who poses as the supervisor: says that the database is ready, and notes each one who connects. */
const impostor = `
const { createServer } = require("node:net");
const { mkdirSync } = require("node:fs");
mkdirSync(process.argv[1], { mode: 0o755 });
createServer((user) => {
  console.log("connected");
  user.write(JSON.stringify({ type: "ready", supervisor: 1 }) + "\\n");
}).listen(process.argv[1] + "/users.sock", () => {
  require("node:fs").chmodSync(process.argv[1] + "/users.sock", 0o777);
  console.log("listening");
});`;

describe.runIf(hasNobody)("another user", () => {
  it("who made the directory of the sockets is not connected to", async () => {
    const [command = "", ...words] = [...asNobody, process.execPath, "-e", impostor, socketDir];
    const child = spawn(command, words, { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    let said = "";
    child.stdout.on("data", (text) => {
      said += String(text);
    });
    while (!said.includes("listening")) await once(child.stdout, "data");
    await expectRefusal(`${socketDir} belongs to user ${nobody} and this is user 0`);
    expect(said).not.toContain("connected");
  });

  it.each(["supervisor.log", "server.log", "lock"])(
    "who owns the data directory does not have us write to a file of ours by way of %s",
    async (name) => {
      symlinkSync(precious, join(dataDir, name));
      chownSync(dataDir, nobody, nobody);
      await expectRefusal(`${dataDir} belongs to user ${nobody} and this is user 0`);
    },
  );

  it("whose file is in the data directory does not have us use it", async () => {
    writeFileSync(join(dataDir, "supervisor.log"), "theirs");
    chownSync(join(dataDir, "supervisor.log"), nobody, nobody);
    await expectRefusal(`${dataDir}/supervisor.log is not a file of this user alone; remove it`);
    expect(readFileSync(join(dataDir, "supervisor.log"), "utf8")).toBe("theirs");
  });
});

describe("what is in the way", () => {
  it.each(["supervisor.log", "lock"])("%s that leads elsewhere is not followed", async (name) => {
    symlinkSync(precious, join(dataDir, name));
    await expectRefusal(`${dataDir}/${name} cannot be opened as a file of this user; remove it`);
  });

  it("a server's log that leads elsewhere is moved aside", async () => {
    makeDataDirectory(dataDir);
    symlinkSync(precious, join(dataDir, "server.log"));
    const opened = await openEmbedded({ dataDir, log: createLog("silent"), onProgress: () => {} });
    await opened.close();
    expect(readFileSync(precious, "utf8")).toBe("precious");
    expect(readFileSync(join(dataDir, "server.log"), "utf8")).toContain("ready for connections");
  });

  it("a log that has another name too is not emptied", async () => {
    linkSync(precious, join(dataDir, "supervisor.log"));
    await expectRefusal(`${dataDir}/supervisor.log is not a file of this user alone; remove it`);
  });

  it.each([
    ["database", "is not a directory"],
    ["tmp", "is not a directory"],
  ])("a directory %s that leads elsewhere is not used", async (name, message) => {
    mkdirSync(join(folder, "elsewhere"));
    symlinkSync(join(folder, "elsewhere"), join(dataDir, name));
    await expectRefusal(`${join(dataDir, name)} ${message}`);
  });

  it("a data directory that others may write to", async () => {
    chmodSync(dataDir, 0o777);
    await expectRefusal(`${dataDir} may be written to by other users; run: chmod go-w ${dataDir}`);
  });

  it("a data directory in one where everybody may rename it", async () => {
    chmodSync(folder, 0o777);
    await expectRefusal(`${dataDir} is not safe: everybody may rename what is in ${folder}; choose another place`);
  });

  it("a directory of the sockets that others may enter", async () => {
    mkdirSync(socketDir);
    chmodSync(socketDir, 0o755);
    await expectRefusal(`${socketDir} may be entered by other users; run: chmod go-rwx ${socketDir}`);
  });

  it("a directory of the sockets that leads elsewhere", async () => {
    mkdirSync(join(folder, "elsewhere"), { mode: 0o700 });
    symlinkSync(join(folder, "elsewhere"), socketDir);
    await expectRefusal(`${socketDir} is not a private directory of this user; remove it`);
    expect(existsSync(join(folder, "elsewhere", "users.sock"))).toBe(false);
  });
});
