import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../support/free-port.js";
import { partnerProgram } from "../support/partners.js";
import { root } from "./languages.js";

/* What the examples in shell do when a request fails; clients.test.ts runs them against a real server. */

const needs = ["curl", "jq", "bc"] as const;
const hasAll = needs.every((name) => partnerProgram(name) !== undefined);

interface Ending {
  readonly code: number;
  readonly out: string;
}

function ledgerHistory(url: string): Promise<Ending> {
  const script = join(root, "examples/shell/ledger-history.sh");
  const env = { ...process.env, MARKETD: url };
  return new Promise((resolve) => {
    execFile("bash", [script, "party"], { env }, (error, out) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), out }),
    );
  });
}

const node = { timestamp: "1700000000000000000", quantity: "5", transferType: "T", toAccountType: "A", assetId: "a" };
const firstPage = { ledgerEntries: { edges: [{ node }], pageInfo: { hasNextPage: true, endCursor: "next" } } };

describe.skipIf(!hasAll)("the ledger history in shell", () => {
  /** Has a first page, and fails after it. */
  let server: Server;

  beforeAll(async () => {
    server = createServer((request, response) => {
      const isFirst = request.url?.includes("pagination.after") === false;
      response.writeHead(isFirst ? 200 : 404).end(isFirst ? JSON.stringify(firstPage) : "{}");
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
  });

  afterAll(() => server.close());

  test("fails without totals where nothing listens", async () => {
    const { code, out } = await ledgerHistory(`http://127.0.0.1:${await freePort()}`);
    expect([code === 0, out]).toEqual([false, ""]);
  });

  test("fails without totals when a later page does", async () => {
    const { code, out } = await ledgerHistory(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    expect([code === 0, out]).toEqual([false, ""]);
  });
});
