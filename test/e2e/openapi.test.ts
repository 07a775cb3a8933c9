import { Validator } from "@seriousme/openapi-schema-validator";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { MarketHistoryService } from "../../gen/marketd/history/v1/market_history_pb.js";
import { contentSecurityPolicy } from "../../src/transport/http/static-files.js";
import { ApiDocument, type ApiOperation, type ApiParameter, type ValueSchema } from "./api-document.js";
import { firstMessage, renewExamples } from "./openapi-examples.js";
import { basePath, OpenApiWorld } from "./openapi-world.js";

const services = [TradingDataService, MarketHistoryService];

describe("openapi.json", () => {
  const world = new OpenApiWorld();
  let api: ApiDocument;

  beforeAll(async () => {
    await world.start();
    if (process.env["MARKETD_RENEW_GOLDEN"] === "1") await renewExamples(world.url, basePath);
    api = new ApiDocument(await world.document());
  });

  afterAll(() => world.stop());

  /** Asks for an operation with its examples and other parameters. */
  function ask(operation: ApiOperation, given: Readonly<Record<string, readonly unknown[]>> = {}): Promise<Response> {
    const query = new URLSearchParams();
    let { path } = operation;
    for (const { name, in: place, required, example } of operation.parameters) {
      // Of the fields that name a place, one is required.
      const isNeeded = required === true || (operation.id.startsWith("GetMarketDepthAt") && name === "blockHeight");
      const values = given[name] ?? (isNeeded ? [example] : []);
      if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(String(values[0])));
      else for (const value of values) query.append(name, String(value));
    }
    return fetch(`${world.origin}${api.document.servers[0]?.url}${path}?${query}`);
  }

  async function problemsOf(operation: ApiOperation, response: Response): Promise<string[]> {
    return api.problems(
      operation,
      response.status,
      response.headers.get("content-type") ?? "",
      await firstMessage(response),
    );
  }

  test("is valid", async () => {
    expect(await new Validator().validate({ ...api.document })).toEqual({ valid: true });
  });

  test("is served with an ETag and under the policy of the page, and names the base path", async () => {
    const { status, headers } = await fetch(`${world.url}/openapi.json`);
    expect([status, headers.get("content-type")]).toEqual([200, "application/json"]);
    expect(headers.get("content-security-policy")).toBe(contentSecurityPolicy);
    const known = { "if-none-match": headers.get("etag") ?? "" };
    expect((await fetch(`${world.url}/openapi.json`, { headers: known })).status).toBe(304);
    expect((await fetch(`${world.origin}/openapi.json`)).status).toBe(404);
    expect(api.document.servers).toEqual([{ url: basePath }]);
  });

  test("has examples that are as its schemas say", () => {
    const { bodyExamples } = api;
    expect(bodyExamples.length).toBeGreaterThan(api.operations.length);
    expect(bodyExamples.flatMap(({ pointer, body }) => api.problemsAt(pointer, body))).toEqual([]);
  });

  test("describes the response of every operation", async () => {
    for (const operation of api.operations) {
      const response = await ask(operation);
      expect([operation.id, response.status]).toEqual([operation.id, 200]);
      expect(await problemsOf(operation, response)).toEqual([]);
    }
    // A second path of a method has a number behind its name.
    const methods = api.operations.map(({ id }) => id.replace(/[0-9]+$/, ""));
    expect(new Set(methods)).toEqual(new Set(services.flatMap(({ methods }) => methods.map(({ name }) => name))));
  });

  test("describes every line of an export", async () => {
    const operation = api.operations.find(({ id }) => id === "ExportLedgerEntries");
    if (operation === undefined) throw new Error("there is no export");
    const lines = (await (await ask(operation)).text()).trim().split("\n");
    expect(lines.length).toBeGreaterThan(2);
    const problems = lines.map((line) => api.problems(operation, 200, "application/x-ndjson", JSON.parse(line)));
    expect(problems.flat()).toEqual([]);
  });

  test("has the service's limits: what is beyond one is refused by the name of its parameter", async () => {
    let tried = 0;
    for (const operation of api.operations) {
      for (const parameter of operation.parameters.filter(({ in: place }) => place !== "header")) {
        for (const values of beyond(parameter.schema)) {
          const response = await ask(operation, { [parameter.name]: values });
          const what = `${operation.id} ${parameter.name}=${values[0]} (${values.length})`;
          expect([what, response.status]).toEqual([what, 400]);
          const body = (await response.clone().json()) as { message: string };
          expect(body.message).toContain(parameter.name);
          expect(await problemsOf(operation, response)).toEqual([]);
          tried++;
        }
      }
    }
    expect(tried).toBeGreaterThan(50);
  });

  test("takes identifiers that are as long as it says", async () => {
    for (const operation of api.operations) {
      for (const { name } of operation.parameters.filter(isIdentifier)) {
        const response = await ask(operation, { [name]: ["~".repeat(128)] });
        expect([operation.id, name, response.status === 200 || response.status === 404]).toEqual([
          operation.id,
          name,
          true,
        ]);
        expect(await problemsOf(operation, response)).toEqual([]);
      }
    }
  });
});

function isIdentifier({ schema }: ApiParameter): boolean {
  return (schema.items ?? schema).minLength === 1;
}

/** Values that a schema does not allow, by one step where it has a bound. */
function beyond(schema: ValueSchema): (readonly unknown[])[] {
  const { type, maxLength, pattern, minimum, maxItems, items } = schema;
  if (items !== undefined) {
    const tooMany = maxItems === undefined ? [] : [Array.from({ length: maxItems + 1 }, (_, i) => `id${i}`)];
    return [...beyond(items), ...tooMany];
  }
  return [
    ...(maxLength === undefined ? [] : [["a".repeat(maxLength + 1)]]),
    ...(pattern === undefined ? [] : [["\u00e9"]]),
    ...(minimum === undefined ? [] : [[minimum - 1]]),
    ...(schema.enum === undefined && type === "string" ? [] : [["other"]]),
  ];
}
