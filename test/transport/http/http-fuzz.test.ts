import http from "node:http";
import net from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type ListLedgerEntriesRequest,
  ListLedgerEntriesRequestSchema,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { Failure } from "../../../src/domain/failure.js";
import { QueryParameters } from "../../../src/transport/http/query-parameters.js";
import type { ListeningServer } from "../../support/listening.js";
import { serveFake } from "../serve-fake.js";

let server: ListeningServer;

beforeAll(async () => {
  ({ server } = await serveFake({ limits: { headersTimeoutMs: 200 } }));
});

afterAll(async () => {
  await server.close();
});

const parameters = new QueryParameters(ListLedgerEntriesRequestSchema, []);

function bind(query: string): ListLedgerEntriesRequest {
  return parameters.bind([], query).message as ListLedgerEntriesRequest;
}

const text = fc.string({ unit: "grapheme", minLength: 1 }).filter((s) => Buffer.from(s).toString() === s);

test("any text comes through, however a client escapes it", () => {
  fc.assert(
    fc.property(text, fc.array(text), fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), (after, partyIds, start) => {
      const query = new URLSearchParams([["pagination.after", after]]);
      for (const party of partyIds) query.append("filter.fromAccountFilter.partyIds", party);
      query.append("date_range.start_timestamp", String(start));
      const escaped = [...query].map((pair) => pair.map(encodeURIComponent).join("=")).join("&");
      for (const spelling of [query.toString(), escaped]) {
        const request = bind(spelling);
        expect(request.pagination?.after).toBe(after);
        expect(request.filter?.fromAccountFilter?.partyIds ?? []).toEqual(partyIds);
        expect(request.dateRange?.startTimestamp).toBe(start);
      }
    }),
  );
});

const names = ["pagination.first", "pagination.after", "filter.transferTypes", "alt", "_x", "%", "", "dateRange"];
const anyQuery = fc
  .array(fc.tuple(fc.oneof(fc.constantFrom(...names), fc.string()), fc.string()))
  .map((pairs) => pairs.map(([name, value]) => `${name}=${value}`).join("&"));

test("any query is bound, or refused as an INVALID_ARGUMENT of bounded length", () => {
  fc.assert(
    fc.property(anyQuery, (query) => {
      try {
        bind(query);
      } catch (thrown) {
        if (!(thrown instanceof Failure)) throw thrown;
        expect(thrown.code).toBe("invalid_argument");
        expect(thrown.message.length).toBeLessThan(400);
      }
    }),
  );
});

function ask(path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const request = http.get({ host: "127.0.0.1", port: server.address.port, path }, (response) => {
      let body = "";
      response.on("data", (chunk: Buffer) => {
        body += chunk.toString();
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    request.on("error", reject);
  });
}

const urlCharacters = "abc/.%2F~*{}?&=+;:@-_'\"<>\\^|`[]";

test("any path gets a response that is whole JSON, and never a 500", async () => {
  const tail = fc.string({ unit: fc.constantFrom(...urlCharacters), maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom("/", "/api/v2/market/", "/api/v2/market/depth/", "//"),
      tail,
      async (head, rest) => {
        const { status, body } = await ask(head + rest);
        expect([200, 400, 404]).toContain(status);
        JSON.parse(body);
      },
    ),
    { numRuns: 200 },
  );
});

test("any bytes are answered or cut, and the next client is served", async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), fc.boolean(), async (bytes, preface) => {
      await new Promise<void>((resolve) => {
        const socket = net.connect(server.address.port, "127.0.0.1");
        socket.on("close", () => resolve());
        socket.on("error", () => {});
        socket.resume();
        if (preface) socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        socket.end(bytes);
      });
      expect((await ask("/healthz")).status).toBe(200);
    }),
    // Node's own HTTP/2 keeps this connection for ever: the first frame claims more bytes than it may have.
    { numRuns: 50, examples: [[Buffer.from("e17b410402b5f31703", "hex"), true]] },
  );
});
