import { type ChildProcess, spawn } from "node:child_process";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { ServiceProcess } from "../e2e/service-process.js";
import { smallNetwork } from "../e2e/small-network.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { isOffline, partnerProgram } from "../support/partners.js";
import { bufPath, root, run } from "./languages.js";

/* A REST gateway in Go over our gRPC, made by grpc-gateway from the definitions: docs/proxies.md says what it needs. */

const buildMaxMs = 300_000;
const go = partnerProgram("go");

describe.skipIf(go === undefined)("a gateway made with grpc-gateway", () => {
  let folder = "";
  let service: ServiceProcess;
  let offline = false;
  const running: ChildProcess[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "marketd-gateway-"));
    try {
      await build();
    } catch (error) {
      if (!isOffline(error)) throw error;
      offline = true;
      process.stderr.write("skipped: a gateway made with grpc-gateway (its modules cannot be reached)\n");
    }
    const { url } = newDatabaseUrl();
    await loadRecording(url, smallNetwork().bytes());
    service = new ServiceProcess(url, await freePort());
    await service.start();
  }, buildMaxMs);

  afterAll(async () => {
    for (const child of running) child.kill("SIGKILL");
    await service?.kill();
    await rm(folder, { recursive: true, force: true });
  });

  async function build(): Promise<void> {
    await cp(join(root, "test/clients/gateway"), folder, { recursive: true });
    const paths = ["datanode", "vega"].flatMap((name) => ["--path", join(root, "proto", name)]);
    await run([process.execPath, bufPath, "generate", join(root, "proto"), ...paths], folder);
    await run([go ?? "", "build", "-o", "without-details", "."], folder);
    await run([go ?? "", "build", "-tags", "details", "-o", "with-details", "."], folder);
  }

  /** Starts a gateway; gives its URL. */
  async function start(program: string): Promise<string> {
    const address = `127.0.0.1:${await freePort()}`;
    running.push(spawn(join(folder, program), [new URL(service.url).host, address], { stdio: "ignore" }));
    await vi.waitFor(() => fetch(`http://${address}/`), { timeout: 10_000 });
    return `http://${address}`;
  }

  test("replies, streams, and tells errors with their details", async (context) => {
    context.skip(offline);
    const url = await start("with-details");
    const market = await (await fetch(`${url}/api/v2/market/busy`)).json();
    expect(market).toMatchObject({ market: { id: "busy" } });
    const refused = await fetch(`${url}/api/v2/ledgerentry/history?pagination.first=0`);
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { code: 3, details: [{ fieldViolations: [{ field: "pagination.first" }] }, { reason: "INVALID_PAGINATION" }] },
    ]);
    const stream = await fetch(`${url}/api/v2/stream/markets/depth/updates?marketIds=busy`);
    for await (const chunk of stream.body as unknown as AsyncIterable<Uint8Array>) {
      expect(JSON.parse(Buffer.from(chunk).toString())).toMatchObject({ result: { update: [{ marketId: "busy" }] } });
      break;
    }
    const csv = await fetch(`${url}/api/v2/ledgerentry/export?partyId=alice&assetId=usd`);
    expect(await csv.text()).toMatch(/^vega_time,/);
  });

  test("cannot tell errors whose details it does not know", async (context) => {
    context.skip(offline);
    const url = await start("without-details");
    const refused = await fetch(`${url}/api/v2/market/nowhere`);
    expect([refused.status, await refused.json()]).toEqual([
      500,
      { code: 13, message: "failed to marshal error message" },
    ]);
  });
});
