import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { buildDefinitions, errorMessages, root, servicesOf } from "./definitions.js";
import { messageReference } from "./message-reference.js";

const file = join(root, "docs/messages.md");

test("docs/messages.md says what the definitions say", () => {
  const definitions = buildDefinitions();
  const reference = messageReference(servicesOf(definitions), errorMessages(definitions));
  if (process.env["MARKETD_RENEW_GOLDEN"] === "1") writeFileSync(file, reference);
  const stale = "docs/messages.md is stale: MARKETD_RENEW_GOLDEN=1 npx vitest run test/golden";
  expect(readFileSync(file, "utf8"), stale).toBe(reference);
});
