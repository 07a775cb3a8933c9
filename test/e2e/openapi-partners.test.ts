import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { type Command, run } from "../clients/languages.js";
import { isOffline, type PartnerName, partnerProgram } from "../support/partners.js";
import { notThorough, thorough, tries } from "../support/tries.js";
import { firstMessage } from "./openapi-examples.js";
import { cutStreams, OpenApiWorld } from "./openapi-world.js";

/*
 * Programs of others that read openapi.json and know nothing else of the service: what they make of it has to work.
 */

const clientScript = fileURLToPath(new URL("openapi_client.py", import.meta.url));
const toolMaxMs = 480_000;

/** What the client's script prints. */
interface Printed {
  readonly responses: Readonly<Record<string, unknown>>;
  readonly problem: unknown;
}

describe("openapi.json, read by others", { timeout: toolMaxMs }, () => {
  const world = new OpenApiWorld();
  let document = "";

  beforeAll(async () => {
    await world.start();
    document = join(world.folder, "openapi.json");
    writeFileSync(document, JSON.stringify(await world.document()));
  });

  afterAll(() => world.stop());

  function programOf(name: PartnerName, context: TestContext): string {
    const program = partnerProgram(name);
    context.skip(program === undefined, `${name} is not on this machine`);
    return program ?? "";
  }

  test("a fuzzer finds no status and no body that it does not describe", async (context) => {
    const schemathesis = programOf("schemathesis", context);
    const proxy = await cutStreams(world.origin);
    try {
      const failed = (error: { readonly stdout?: string }) => error.stdout ?? String(error);
      const printed = await run(fuzz(schemathesis, document, proxy.url), world.folder, {}, toolMaxMs).catch(failed);
      expect(printed).toMatch(/No issues found/);
    } finally {
      proxy.close();
    }
  });

  test("a client that openapi-generator makes runs every operation", async (context) => {
    context.skip(!thorough, notThorough);
    const generator = programOf("openapiGenerator", context);
    const python = programOf("python", context);
    const [source, venv] = ["generated", "venv"].map((name) => join(world.folder, name));
    await run(
      [generator, "generate", "-i", document, "-g", "python", "-o", source ?? "", "--package-name", "marketd_http"],
      world.folder,
    );
    try {
      await run([python, "-m", "venv", venv ?? ""], world.folder);
      await run([`${venv}/bin/pip`, "install", "--quiet", "--no-compile", source ?? ""], world.folder);
    } catch (error) {
      context.skip(isOffline(error), "its packages cannot be reached");
      throw error;
    }
    const examples = await world.examples();
    const ids = ["marketId", "partyId", "assetId"].map((name) => String(examples.get(name)));
    const { responses, problem } = JSON.parse(
      await run([`${venv}/bin/python`, clientScript, world.url, ...ids], world.folder),
    ) as Printed;
    expect(responses).toEqual(await plainResponses(ids));
    expect(problem).toEqual(await world.getJson("api/v2/market/unknown"));
  });

  /** What the client should have got, by plain HTTP. */
  async function plainResponses([market, party, asset]: readonly string[]): Promise<Record<string, unknown>> {
    const received = `filter.toAccountFilter.partyIds=${party}&filter.transferTypes=TRANSFER_TYPE_DEPOSIT`;
    const paths = {
      GetMarket: `api/v2/market/${market}`,
      GetLatestMarketDepth: `api/v2/market/depth/${market}/latest?maxDepth=3`,
      GetLatestMarketData: `api/v2/market/data/${market}/latest`,
      ListLatestMarketData: "markets/data",
      ListLatestMarketData2: `api/v2/markets/data?market=${market}`,
      ListLedgerEntries: `api/v2/ledgerentry/history?pagination.first=3&${received}`,
      ListERC20MultiSigSignerRemovedBundles: "api/v2/erc20/multisigcontrol/signer/removed/bundles?pagination.first=2",
      ObserveMarketsDepthUpdates: `api/v2/stream/markets/depth/updates?marketIds=${market}`,
      ExportLedgerEntries: `api/v2/ledgerentry/export?partyId=${party}&assetId=${asset}`,
    };
    const responses = Object.entries(paths).map(async ([name, path]) => [
      name,
      await firstMessage(await fetch(`${world.url}/${path}`)),
    ]);
    return Object.fromEntries(await Promise.all(responses));
  }
});

function fuzz(program: string, document: string, origin: string): Command {
  return [
    program,
    "run",
    document,
    "--origin",
    origin,
    "--checks",
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,unsupported_method",
    "--max-examples",
    String(tries(50)),
    "--header",
    // Lines of JSON by the name that says so: as application/json the fuzzer would take them for one value.
    "Accept: application/x-ndjson, application/json",
    "--warnings",
    "off",
    "--seed",
    "1",
    "--no-color",
  ];
}
