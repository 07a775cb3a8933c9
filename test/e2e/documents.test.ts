import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { groupChecks } from "../../harness/cluster/group-node.js";
import { checkLines } from "../../harness/cluster/haproxy.js";
import { findServerPrograms } from "../../src/embedded/server-programs.js";
import { networkDefaults, simulate } from "../../src/simulator/network.js";
import { processesOf } from "../embedded/processes.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { partnerProgram } from "../support/partners.js";
import { ServiceProcess } from "./service-process.js";

/*
 * The examples of the documents, as a reader would paste them: the `sh` blocks of one document are one shell session.
 * Each must succeed and print something; where a line ends with a comment like `# 304`, that must be in what is printed.
 */

const root = fileURLToPath(new URL("../../", import.meta.url));
const documents = ["README.md", "docs/api.md", "docs/history.md", "examples/README.md"];
const exampleMaxMs = 20_000;
/** docs/feeding.md starts seven processes one after the other. */
const feedingMaxMs = 90_000;
/** README starts a private database, too. */
const readmeMaxMs = 90_000;
const stopMaxMs = 30_000;
const separator = "=====";

function examples(document: string): string[] {
  const text = readFileSync(join(root, document), "utf8");
  return [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
}

/** What each block printed; what a block leaves running is ended. @throws when a block fails */
async function run(
  blocks: readonly string[],
  env: Readonly<Record<string, string>>,
  { cwd, timeout }: { readonly cwd: string; readonly timeout: number },
): Promise<string[]> {
  const script = blocks.map((block) => `${block}\nprintf '\\n${separator}\\n'\n`).join("");
  const endAll = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n";
  const { stdout } = await promisify(execFile)("bash", ["-eu", "-c", endAll + script], {
    env: { ...process.env, ...env },
    cwd,
    timeout,
  });
  return stdout.split(`\n${separator}\n`).slice(0, -1);
}

describe.skipIf(partnerProgram("curl") === undefined)("the examples of the documents", () => {
  let service: ServiceProcess;
  let folder = "";

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "marketd-documents-"));
    symlinkSync(join(root, "bin"), join(folder, "bin"));
    const database = newDatabaseUrl();
    await loadRecording(database.url, Buffer.concat([...simulate({ ...networkDefaults, blocks: 200 })]));
    // An idle stream notices that its reader has gone when it next writes.
    service = new ServiceProcess(database.url, await freePort(), "--heartbeat-ms", "500");
    await service.start();
  });

  afterAll(async () => {
    await service.kill();
    await rm(folder, { recursive: true, force: true });
  });

  it.each(documents)("%s", { timeout: readmeMaxMs + stopMaxMs }, async (document) => {
    const port = await freePort();
    const hasServer = (await findServerPrograms()) !== undefined;
    const isRun = (block: string) => hasServer || !block.includes("--embedded");
    const blocks = examples(document).filter(isRun);
    expect(blocks.length).toBeGreaterThan(0);
    const ownPort = blocks.map((block) => block.replaceAll("127.0.0.1:8081", `127.0.0.1:${port}`));
    const timeout = document === "README.md" ? readmeMaxMs : exampleMaxMs;
    const printed = await run(ownPort, { MARKETD: service.url }, { cwd: folder, timeout });
    await vi.waitFor(() => expect(processesOf(folder, "any")).toEqual([]), stopMaxMs);
    for (const [index, block] of blocks.entries()) {
      const output = printed[index] ?? "";
      const promised = /# ([0-9]{3})$/m.exec(block)?.[1];
      if (promised !== undefined) expect(output).toContain(promised);
      const defines = !/curl/.test(block);
      expect(defines || output.trim() !== "", `block ${index + 1} prints nothing:\n${block}`).toBe(true);
    }
  });

  it("docs/feeding.md, from a feed's messages to a live book and back from a gap", {
    timeout: feedingMaxMs,
  }, async () => {
    const clone = join(folder, "clone");
    mkdirSync(clone);
    for (const part of ["bin", "dist", "node_modules"]) symlinkSync(join(root, part), join(clone, part));
    const listen = `127.0.0.1:${await freePort()}`;
    const env = {
      ...{ MARKETD_EMBEDDED: "false", MARKETD_DATABASE_URL: newDatabaseUrl().url },
      ...{ MARKETD_LISTEN: listen, MARKETD: `http://${listen}` },
    };
    const printed = await run(examples("docs/feeding.md"), env, { cwd: clone, timeout: feedingMaxMs });
    const [, , live, followed, broken, refused] = printed;
    const level = (price: string, volume: string) => ({ price, volume, numberOfOrders: "0" });
    expect(JSON.parse(live?.slice(live.indexOf('{"')) ?? "")).toMatchObject({
      marketId: "GOLD-EUR",
      buy: [level("5405", "1000")],
      sell: [level("5415", "2600"), level("5420", "750")],
      lastTrade: { id: "7001", price: "5415", size: "400", aggressor: "SIDE_BUY" },
    });
    expect(followed).toContain('"5406"');
    expect(broken).toMatch(/MARKET_STALE[\s\S]*"5407"/);
    // A line of the log, because no terminal reads it.
    expect(refused).toContain('has book_delta.bids.price \\"54.075\\"; it takes a decimal number');
    const log = readFileSync(join(clone, "feed", "load.log"), "utf8");
    expect(log).toContain("market GOLD-EUR is stale");
  });
});

it.each(["readerSql", "writerSql"] as const)(
  "HAProxy's check in operations.md is what the harness tries (%s)",
  (sql) => {
    const document = readFileSync(join(root, "docs/operations.md"), "utf8");
    // The harness explains them by comments of its own.
    expect(document).toContain(checkLines(groupChecks[sql], groupChecks.authenticationPlugin).join("\n"));
  },
);
