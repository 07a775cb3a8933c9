import { createHash } from "node:crypto";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { MarketHistoryService } from "../../gen/marketd/history/v1/market_history_pb.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { operationsOn, outcomesOf } from "../support/operations.js";
import { partnerProgram } from "../support/partners.js";
import { GrpcProtocolClient, type Outcome } from "../support/protocol-clients.js";
import type { ExportFacts } from "./browser-caller.js";
import { launchChromium, type ScriptPage, serveScript } from "./browser-launch.js";
import { ServiceProcess } from "./service-process.js";
import { smallNetwork } from "./small-network.js";

/*
 * All operations in a real browser, from a page of another origin: Connect's library in all its modes, and
 * Google's gRPC-Web runtime. Each must give what gRPC gives in Node.
 */

const clientNames = [
  "gRPC-Web",
  "Connect POST, JSON",
  "Connect POST, binary",
  "Connect GET",
  "Connect GET, binary",
  "grpc-web",
];

const operations = operationsOn({ market: "busy", other: "a/b +%", party: "alice", asset: "usd" });

describe.skipIf(partnerProgram("browser") === undefined)("in a real browser", () => {
  let service: ServiceProcess;
  let browser: Browser;
  let script: ScriptPage;
  let page: Page;
  let expected: Outcome[][] = [];

  beforeAll(async () => {
    const { url: databaseUrl } = newDatabaseUrl();
    await loadRecording(databaseUrl, smallNetwork().bytes());
    service = new ServiceProcess(databaseUrl, await freePort());
    [browser, script] = await Promise.all([
      launchChromium(partnerProgram("browser") ?? ""),
      serveScript("test/e2e/browser-caller.ts"),
      service.start(),
    ]);
    const grpc = new GrpcProtocolClient(service.url);
    expected = await Promise.all(operations.map((operation) => outcomesOf(grpc, operation)));
    grpc.close();
    page = await browser.newPage();
    await page.goto(script.url);
  });

  afterAll(async () => {
    await browser?.close();
    script?.close();
    await service?.kill();
  });

  test("no operation is left out", () => {
    const methods = [...TradingDataService.methods, ...MarketHistoryService.methods];
    expect(new Set(operations.map(({ method }) => method)).size).toBe(methods.length);
  });

  test.each(clientNames)("%s", async (name) => {
    const call = `callAll(${JSON.stringify([name, service.url, operations]).slice(1, -1)})`;
    const outcomes = await page.evaluate<Outcome[][]>(call);
    expect(outcomes).toEqual(expected.map((each) => each.map((outcome) => asSeenBy(name, outcome))));
  });

  test("an export over Connect in JSON has its facts in headers and trailers, for its client knows no Struct", async () => {
    const facts = await page.evaluate<ExportFacts>(`exportFacts(${JSON.stringify(service.url)}, "alice", "usd")`);
    const csv = await fetch(`${service.url}/api/v2/ledgerentry/export?partyId=alice&assetId=usd&alt=media`);
    const sha256 = createHash("sha256")
      .update(await csv.text())
      .digest("hex");
    expect(facts).toEqual({ extensions: 0, party: "alice", sha256 });
  });
});

/** An outcome without what a client cannot read: Google's runtime no details of errors, Connect's JSON no extensions. */
function asSeenBy(name: string, outcome: Outcome): Outcome {
  if ("error" in outcome) {
    const { code, message, reason } = outcome.error;
    return { error: { code, message, reason: name === "grpc-web" ? undefined : reason } };
  }
  const isJson = name === "Connect POST, JSON" || name === "Connect GET";
  if (!isJson || !Object.hasOwn(outcome.reply as object, "extensions")) return outcome;
  return { reply: { ...(outcome.reply as object), extensions: [] } };
}
