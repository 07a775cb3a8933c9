import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { buildDefinitions, root, servicesOf } from "./definitions.js";
import { openApiDocument } from "./openapi-document.js";

const file = join(root, "web/docs/openapi.json");
const examplesFile = join(root, "test/golden/openapi-examples.json");

test("web/docs/openapi.json says what the definitions say", () => {
  const definitions = buildDefinitions();
  const services = servicesOf(definitions);
  const examples = JSON.parse(readFileSync(examplesFile, "utf8"));
  const methods = services.flatMap((service) => service.methods);
  const without = methods.filter(({ name }) => !(name in examples.responses));
  expect(without, "add a call to test/e2e/openapi-examples.ts, and renew them").toEqual([]);
  const document = openApiDocument(definitions, services, examples);
  const text = `${JSON.stringify(document, undefined, 2)}\n`;
  if (process.env["MARKETD_RENEW_GOLDEN"] === "1") writeFileSync(file, text);
  const stale = "web/docs/openapi.json is stale: MARKETD_RENEW_GOLDEN=1 npx vitest run test/golden";
  expect(readFileSync(file, "utf8"), stale).toBe(text);
});
