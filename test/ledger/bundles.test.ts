import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  ListERC20MultiSigSignerRemovedBundlesRequestSchema,
  type ListERC20MultiSigSignerRemovedBundlesResponse,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { listErc20MultiSigSignerRemovedBundles } from "../../src/api/list-erc20-multi-sig-signer-removed-bundles.js";
import { bundleRows, readBundles, signatureRows } from "../../src/store/bundle-table.js";
import type { Database } from "../../src/store/database.js";
import { writeRows } from "../../src/store/table-rows.js";
import { LedgerFixture } from "./ledger-fixture.js";

let fixture: LedgerFixture;
const call = { signal: new AbortController().signal, clientAddress: "test", requestHeaders: {} };

async function ask(request: MessageInitShape<typeof ListERC20MultiSigSignerRemovedBundlesRequestSchema>) {
  const method = listErc20MultiSigSignerRemovedBundles({ database: fixture.database });
  if (method.kind !== "unary") throw new Error("a list is unary");
  const response = await method.invoke(create(ListERC20MultiSigSignerRemovedBundlesRequestSchema, request), call);
  const { bundles } = response.message() as unknown as ListERC20MultiSigSignerRemovedBundlesResponse;
  if (bundles === undefined) throw new Error("no connection");
  return {
    nodes: bundles.edges.map(({ node }) => node),
    cursors: bundles.edges.map(({ cursor }) => cursor),
    info: bundles.pageInfo,
  };
}

beforeAll(async () => {
  fixture = await LedgerFixture.create();
  await fixture.database.withTransaction(async (connection) => {
    const add = (signatureId: string, nodeId: string, submitter: string, timeNs: bigint, epochSeq: string) =>
      writeRows(connection, bundleRows, [
        { signatureId, nodeId, submitter, oldSigner: "0xold", nonce: "42", timeNs, epochSeq },
      ]);
    await add("s1", "n1", "0xaa", 10n, "7");
    await add("s3", "n1", "0xbb", 10n, "007");
    await add("s2", "n2", "0xaa", 10n, "0");
    await add("s4", "n2", "0xbb", 9n, "18446744073709551615");
    for (const [id, bytes] of [
      ["s1", "ff01"],
      ["s1", "0aff"],
      ["s3", "2b"],
      ["other", "cc"],
    ] as const) {
      await connection.run("INSERT INTO node_signature VALUES (?, ?, 1)", [id, Buffer.from(bytes, "hex")]);
    }
  });
});
afterAll(() => fixture.drop());

describe("bundles", () => {
  test("are in the order of (time, signature id), each with all its signatures", async () => {
    const { nodes, info } = await ask({});
    expect(nodes).toMatchObject([
      { signatures: "0x2b", timestamp: 10n, submitter: "0xbb", epochSeq: "007", oldSigner: "0xold", nonce: "42" },
      { signatures: "", timestamp: 10n, submitter: "0xaa", epochSeq: "0" },
      { signatures: "0x0affff01", timestamp: 10n, submitter: "0xaa", epochSeq: "7" },
      { signatures: "", timestamp: 9n, submitter: "0xbb", epochSeq: "18446744073709551615" },
    ]);
    expect(info).toMatchObject({ hasNextPage: false, hasPreviousPage: false });
  });

  test.each([
    [{ nodeId: "n1" }, ["007", "7"]],
    [{ submitter: "0xAA" }, ["0", "7"]],
    [{ epochSeq: "07" }, ["007", "7"]],
    [{ epochSeq: "00" }, ["0"]],
    [{ epochSeq: "18446744073709551615", nodeId: "n2", submitter: "0xBb" }, ["18446744073709551615"]],
    [{ nodeId: "n1", submitter: "0xbb" }, ["007"]],
    [{ nodeId: "n1", epochSeq: "7" }, ["007", "7"]],
    [{ submitter: "0xaa", epochSeq: "0" }, ["0"]],
    [{ nodeId: "N1" }, []],
    [{ epochSeq: "8" }, []],
  ])("%j selects epochs %j", async (request, epochs) => {
    expect((await ask(request)).nodes.map((node) => node?.epochSeq)).toEqual(epochs);
  });

  test.each([{}, { nodeId: "n1" }, { submitter: "0xaa" }, { epochSeq: "7" }, { nodeId: "n1", epochSeq: "7" }])(
    "with %j: pages of one, both ways",
    async (filter) => {
      for (const newestFirst of [true, false]) {
        const all = (await ask({ ...filter, pagination: { newestFirst } })).cursors;
        const forwards: string[] = [];
        for (let after = ""; ; ) {
          const { cursors, info } = await ask({ ...filter, pagination: { first: 1, after, newestFirst } });
          expect(info?.hasPreviousPage).toBe(forwards.length > 0);
          forwards.push(...cursors);
          if (!info?.hasNextPage) break;
          after = info.endCursor;
        }
        expect(forwards).toEqual(all);
        const backwards: string[] = [];
        for (let before = ""; ; ) {
          const { cursors, info } = await ask({ ...filter, pagination: { last: 1, before, newestFirst } });
          expect(info?.hasNextPage).toBe(backwards.length > 0);
          backwards.unshift(...cursors);
          if (!info?.hasPreviousPage) break;
          before = info.startCursor;
        }
        expect(backwards).toEqual(all);
      }
    },
  );

  test.each([true, false])("of one time, pages of two have each bundle once; newest first: %s", async (newestFirst) => {
    const submitter = "0xtied";
    const ids = ["t1", "t2", "t3", "t4", "t5"];
    const rows = ids.map((signatureId, index) => {
      return {
        signatureId,
        nodeId: "n4",
        submitter,
        oldSigner: "0xold",
        nonce: String(index),
        timeNs: 3n,
        epochSeq: "5",
      };
    });
    await fixture.database.withTransaction((connection) => writeRows(connection, bundleRows, rows));
    const expected = newestFirst ? ["4", "3", "2", "1", "0"] : ["0", "1", "2", "3", "4"];
    const nonces = async (pagination: { first?: number; last?: number; after?: string; before?: string }) => {
      const { nodes, info } = await ask({ submitter, pagination: { ...pagination, newestFirst } });
      return { nonces: nodes.map((node) => node?.nonce), info };
    };
    const forwards = [await nonces({ first: 2 })];
    const backwards = [await nonces({ last: 2 })];
    for (let page = 1; page < 3; page++) {
      forwards.push(await nonces({ first: 2, after: forwards.at(-1)?.info?.endCursor ?? "" }));
      backwards.unshift(await nonces({ last: 2, before: backwards[0]?.info?.startCursor ?? "" }));
    }
    expect(forwards.flatMap((page) => page.nonces)).toEqual(expected);
    expect(backwards.flatMap((page) => page.nonces)).toEqual(expected);
  });

  test.each([["-1"], ["1.5"], ["18446744073709551616"], ["0x1"], ["9".repeat(41)]])(
    "epoch %s is refused",
    async (epochSeq) => {
      await expect(ask({ epochSeq })).rejects.toThrow(
        `epoch_seq: is "${epochSeq}"; it takes a decimal number from 0 to 18446744073709551615`,
      );
    },
  );

  test("signatures are whole, however long their text is", async () => {
    const signatures = Array.from({ length: 600 }, (_, index) => {
      const bytes = Buffer.alloc(1024, 0xab);
      bytes.writeUInt16BE(index);
      return bytes;
    });
    const whole = signatures.map((bytes) => bytes.toString("hex")).sort();
    const submitter = "0xmany";
    await fixture.database.withTransaction(async (connection) => {
      const event = { oldSigner: "0xold", nonce: "1", timeNs: 5n, epochSeq: "9" };
      await writeRows(connection, bundleRows, [{ signatureId: "many", nodeId: "n3", submitter, ...event }]);
      await writeRows(
        connection,
        signatureRows,
        signatures.map((signature) => ({ signatureId: "many", signature, kind: 1 })),
      );
    });
    const { nodes } = await ask({ submitter });
    expect(nodes[0]?.signatures === `0x${whole.join("")}`, "the text of 600 signatures of 1,024 bytes").toBe(true);
  });

  test("signatures are those of the page's block, also when a block arrives while they are read", async () => {
    const commitBlock = async () => {
      await fixture.database.withTransaction((connection) =>
        connection.run("INSERT INTO node_signature VALUES ('s2', x'77', 1)"),
      );
      await fixture.addBlock([]);
    };
    await fixture.addBlock([]);
    let statements = 0;
    const lease: Database["lease"] = (given, use) =>
      fixture.database.lease(given, (reader) => {
        const query = reader.query.bind(reader);
        reader.query = async (...statement) => {
          const rows = await query<never>(...statement);
          statements++;
          if (statements === 1) await commitBlock();
          return rows;
        };
        return use(reader);
      });
    const filter = { nodeId: "n2", submitter: "0xaa", epochSeq: undefined };
    const request = { newestFirst: true, size: 10, backwards: false, cursor: undefined };
    const { rows, newestBlock } = await readBundles({ lease }, filter, request);
    expect({ signatures: rows[0]?.signatures, height: newestBlock?.height }).toEqual({
      signatures: ["77"],
      height: 2n,
    });
    // The page and its signatures, twice.
    expect(statements).toBe(4);
    statements = 1;
    const nothing = await readBundles({ lease }, { ...filter, nodeId: "none" }, request);
    expect([nothing.rows, statements]).toEqual([[], 2]);
  });

  test("identifiers are checked", async () => {
    await expect(ask({ nodeId: "a\n" })).rejects.toThrow("node_id: has an unprintable character at position 2");
    await expect(ask({ submitter: "x".repeat(129) })).rejects.toThrow("submitter: has 129 characters");
  });
});
